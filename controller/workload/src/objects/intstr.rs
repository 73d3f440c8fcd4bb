//! Numbers and percentages.

use berth_api::IntOrString;

/// The rounding of a fraction of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// 20% of 3 is 1.
    Up,
    /// 20% of 3 is 0.
    Down,
    /// 20% of 3 is 1, 20% of 2 is 0.
    HalfUp,
}

/// The absolute number of `value` out of `total`.
///
/// # Errors
/// The fault of the value, as a sentence: a negative number, or a string that is not a percentage.
pub fn resolve(value: &IntOrString, total: usize, round: Round) -> Result<usize, String> {
    match value {
        IntOrString::Int(number) => usize::try_from(*number)
            .map_err(|_| format!("{number} is negative; use 0 or more, or a percentage")),
        IntOrString::String(text) => {
            let (number, of) = percent(text)?;
            Ok(match round {
                Round::Up => (total * number).div_ceil(of),
                Round::Down => total * number / of,
                Round::HalfUp => (total * number + of / 2) / of,
            })
        }
    }
}

/// Pods that stay at the old revision. A percentage rounds up, but below 100% at least one of
/// several pods is updated.
///
/// # Errors
/// As [`resolve`].
pub fn partition(value: Option<&IntOrString>, replicas: usize) -> Result<usize, String> {
    let Some(value) = value else { return Ok(0) };
    let pods = resolve(value, replicas, Round::Up)?.min(replicas);
    let all = match value {
        IntOrString::Int(_) => true,
        IntOrString::String(text) => percent(text).map(|(number, of)| number >= of)?,
    };
    Ok(if pods == replicas && replicas > 1 && !all {
        replicas - 1
    } else {
        pods
    })
}

/// Whether a partition keeps pods at the old revision, of as many replicas as there may ever be.
///
/// # Errors
/// As [`resolve`].
pub fn keeps_any(partition: Option<&IntOrString>) -> Result<bool, String> {
    partition.map_or(Ok(false), |partition| {
        resolve(partition, 1, Round::Up).map(|pods| pods > 0)
    })
}

/// A percentage as a fraction. The CRD's rule allows the same digits: three before the point and
/// four after it. More digits could overflow when they are multiplied by the replicas.
fn percent(text: &str) -> Result<(usize, usize), String> {
    let fraction = |text: &str| {
        let digits = text.strip_suffix('%')?;
        let (whole, decimals) = digits
            .split_once('.')
            .map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
        let lengths = (1..=3).contains(&whole.len())
            && decimals.is_none_or(|rest| (1..=4).contains(&rest.len()));
        let digits = [whole, decimals.unwrap_or_default()].concat();
        let sound = lengths && digits.bytes().all(|b| b.is_ascii_digit());
        let of = 10_usize.pow(u32::try_from(digits.len() - whole.len()).ok()?) * 100;
        Some((digits.parse().ok().filter(|_| sound)?, of))
    };
    // Before the power is taken, so that it cannot overflow.
    let fraction = Some(text).filter(|text| text.len() <= 9).and_then(fraction);
    fraction.ok_or_else(|| {
        format!(
            "{text:?} is not a percentage; write a number such as 2, or a string such as \"20%\""
        )
    })
}

#[cfg(test)]
mod tests;
