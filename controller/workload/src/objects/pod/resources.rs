//! Requests and limits of cpu and memory, as numbers.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The requests and limits of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// The requests.
    #[serde(deserialize_with = "or_none")]
    pub requests: Amounts,
    /// The limits.
    #[serde(deserialize_with = "or_none")]
    pub limits: Amounts,
}

/// Amounts in thousandths: of a core, of a byte. 0 if none is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// Processors.
    #[serde(deserialize_with = "amount")]
    pub cpu: i64,
    /// Memory.
    #[serde(deserialize_with = "amount")]
    pub memory: i64,
}

impl Resources {
    /// The amount at `limits` or `requests`, `cpu` or `memory`; 0 if none is given.
    pub fn amount(&self, kind: &str, resource: &str) -> i64 {
        let amounts = if kind == "limits" {
            &self.limits
        } else {
            &self.requests
        };
        if resource == "memory" {
            amounts.memory
        } else {
            amounts.cpu
        }
    }

    /// Whether `other` has every amount that is given here.
    pub fn are_in(&self, other: &Resources) -> bool {
        let of = |resources: &Resources| {
            let Resources { requests, limits } = resources;
            [requests.cpu, requests.memory, limits.cpu, limits.memory]
        };
        of(self)
            .iter()
            .zip(of(other))
            .all(|(wanted, given)| *wanted == 0 || *wanted == given)
    }
}

/// `None` for a container with neither cpu nor memory, to save memory.
pub(super) fn where_given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<Resources>>, D::Error> {
    let resources = Option::<Resources>::deserialize(deserializer)?.unwrap_or_default();
    Ok((resources != Resources::default()).then(|| Box::new(resources)))
}

fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amounts, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    struct Quantity;

    impl Visitor<'_> for Quantity {
        type Value = i64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a quantity such as 500m, 2 or 1Gi")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<i64, E> {
            Ok(thousandths(text).unwrap_or_default())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<i64, E> {
            Ok(i64::try_from(number)
                .unwrap_or(i64::MAX)
                .saturating_mul(1000))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<i64, E> {
            Ok(number.saturating_mul(1000))
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<i64, E> {
            Ok(thousandths(&number.to_string()).unwrap_or_default())
        }

        fn visit_unit<E: Error>(self) -> Result<i64, E> {
            Ok(0)
        }
    }

    deserializer.deserialize_any(Quantity)
}

/// A quantity in thousandths, rounded up: `1.5` is 1500, `250m` is 250, `1Ki` is 1 024 000. `None`
/// if it is no quantity.
pub fn thousandths(quantity: &str) -> Option<i64> {
    let number_ends = quantity
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(number_ends);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    // The value is digits · numerator / denominator thousandths.
    let (mut numerator, mut denominator) = (1000_i128, ten_to(fraction.len())?);
    match suffix {
        "" => {}
        "n" => denominator = denominator.checked_mul(ten_to(9)?)?,
        "u" => denominator = denominator.checked_mul(ten_to(6)?)?,
        "m" => denominator = denominator.checked_mul(ten_to(3)?)?,
        "k" | "M" | "G" | "T" | "P" | "E" => numerator = 1000 * ten_to(3 * power(suffix)?)?,
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => numerator = 1000 * (1 << (10 * power(suffix)?)),
        _ => match suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()? {
            exponent @ 0.. => {
                numerator = numerator.checked_mul(ten_to(usize::try_from(exponent).ok()?)?)?
            }
            exponent => {
                denominator = denominator
                    .checked_mul(ten_to(usize::try_from(exponent.unsigned_abs()).ok()?)?)?;
            }
        },
    }
    let scaled = digits.checked_mul(numerator)?;
    let up = i128::from(scaled.rem_euclid(denominator) != 0);
    Some(i64::try_from(scaled.div_euclid(denominator) + up).unwrap_or(i64::MAX))
}

/// 10 to the power of `n`; `None` on overflow.
fn ten_to(n: usize) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(n).ok()?)
}

/// `k` and `Ki` are the first power, `M` and `Mi` the second, and so on.
fn power(suffix: &str) -> Option<usize> {
    let first = suffix.chars().next()?.to_ascii_uppercase();
    "KMGTPE".find(first).map(|at| at + 1)
}

#[cfg(test)]
mod tests;
