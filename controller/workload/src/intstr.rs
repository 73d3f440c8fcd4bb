//! Numbers and percentages.

use berth_api::IntOrString;

/// What to do with a fraction of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// 20% of 3 is 1.
    Up,
    /// 20% of 3 is 0.
    Down,
}

/// The absolute number that `value` means out of `total`.
///
/// # Errors
/// The sentence says what is wrong with the value: a negative number, or a string that is not a percentage.
pub fn resolve(value: &IntOrString, total: usize, round: Round) -> Result<usize, String> {
    match value {
        IntOrString::Int(number) => {
            usize::try_from(*number).map_err(|_| format!("{number} is negative; use 0 or more, or a percentage"))
        }
        IntOrString::String(text) => {
            let percent = percent(text)?;
            let hundredths = total * percent;
            Ok(match round {
                Round::Up => hundredths.div_ceil(100),
                Round::Down => hundredths / 100,
            })
        }
    }
}

/// Pods that stay at the old revision. A percentage rounds up, but one under 100% lets at least one of several pods go.
///
/// # Errors
/// As [`resolve`].
pub fn partition(value: Option<&IntOrString>, replicas: usize) -> Result<usize, String> {
    let Some(value) = value else { return Ok(0) };
    let pods = resolve(value, replicas, Round::Up)?.min(replicas);
    let all =
        matches!(value, IntOrString::Int(_)) || matches!(value, IntOrString::String(text) if percent(text)? >= 100);
    Ok(if pods == replicas && replicas > 1 && !all { replicas - 1 } else { pods })
}

fn percent(text: &str) -> Result<usize, String> {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    // Three digits are ample; more could overflow when multiplied by the replicas.
    let number = digits.filter(|digits| digits.len() <= 3).and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("{text:?} is not a percentage; write a number such as 2, or a string such as \"20%\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> IntOrString {
        IntOrString::String(value.to_owned())
    }

    #[test]
    fn numbers_and_percentages() {
        let table = [
            (IntOrString::Int(3), 10, Round::Up, Ok(3)),
            (text("20%"), 3, Round::Up, Ok(1)),
            (text("20%"), 3, Round::Down, Ok(0)),
            (text("100%"), 7, Round::Down, Ok(7)),
            (text("0%"), 7, Round::Up, Ok(0)),
        ];
        for (value, total, round, expected) in table {
            assert_eq!(resolve(&value, total, round), expected, "{value:?} of {total}");
        }
        for bad in [IntOrString::Int(-1), text("20"), text("%"), text("-5%"), text("a%"), text("99999%")] {
            assert!(resolve(&bad, 10, Round::Up).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_partition_under_100_percent_lets_one_pod_go() {
        let table = [
            (None, 5, 0),
            (Some(text("99%")), 5, 4),
            (Some(text("99%")), 1, 1),
            (Some(text("100%")), 5, 5),
            (Some(text("1%")), 5, 1),
            (Some(IntOrString::Int(9)), 5, 5),
        ];
        for (value, replicas, expected) in table {
            assert_eq!(partition(value.as_ref(), replicas), Ok(expected), "{value:?} of {replicas}");
        }
    }
}
