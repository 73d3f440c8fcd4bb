//! The canonical form in which Kubernetes writes a quantity: `1000m` is `1`, `0.5` is `500m`,
//! `1024Mi` is `1Gi`.

use std::cmp::Ordering;

use serde_json::Value;

/// A quantity in canonical form. Text that is no quantity stays as it is.
pub fn canonical(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return other.clone(),
    };
    Value::String(parse(&text).map_or(text, |quantity| quantity.written()))
}

/// A quantity in canonical form, rounded up to thousandths, as the server rounds amounts of
/// resources.
pub fn rounded(value: &Value) -> Value {
    match canonical(value) {
        Value::String(text) => {
            Value::String(parse(&text).map_or(text, |quantity| quantity.rounded().written()))
        }
        other => other,
    }
}

/// A quantity in thousandths, rounded up. `None` for text that is no quantity, and on overflow.
pub fn thousandths(text: &str) -> Option<i128> {
    parse(text)?.thousandths()
}

/// Whether one quantity is at least the other. False if one of them is no quantity.
pub fn is_at_least(one: &str, other: &str) -> bool {
    thousandths(one)
        .zip(thousandths(other))
        .is_some_and(|(one, other)| one >= other)
}

/// `mantissa * 10^exponent`, or `mantissa * 10^exponent * 1024^power` with a binary suffix.
struct Quantity {
    mantissa: i128,
    exponent: i32,
    style: Style,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// `k`, `M`, `m`, … or none.
    Decimal,
    /// `e3`.
    Exponent,
    /// `Ki`, `Mi`, …: this power of 1024.
    Binary(u32),
}

const DECIMAL: [(i32, &str); 10] = [
    (-9, "n"),
    (-6, "u"),
    (-3, "m"),
    (0, ""),
    (3, "k"),
    (6, "M"),
    (9, "G"),
    (12, "T"),
    (15, "P"),
    (18, "E"),
];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The most digits of a mantissa. A longer number stays as it is written.
const MOST_DIGITS: usize = 20;

fn parse(text: &str) -> Option<Quantity> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() > MOST_DIGITS || whole.len() + fraction.len() == 0 {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let exponent = -i32::try_from(fraction.len()).ok()?;
    let quantity = |exponent, style| {
        Some(Quantity {
            mantissa,
            exponent,
            style,
        })
    };
    if let Some((own, _)) = DECIMAL.iter().find(|(_, name)| *name == suffix) {
        return quantity(exponent + own, Style::Decimal);
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        return quantity(exponent, Style::Binary(u32::try_from(power).ok()?));
    }
    let own: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    if (-18..=18).contains(&own) {
        quantity(exponent + own, Style::Exponent)
    } else {
        None
    }
}

impl Quantity {
    /// Its value in thousandths. No caller needs a finer unit.
    fn thousandths(&self) -> Option<i128> {
        let factor = if let Style::Binary(power) = self.style {
            1024_i128.pow(power)
        } else {
            1
        };
        shifted_up(self.mantissa.checked_mul(factor)?, self.exponent + 3)
    }

    fn rounded(self) -> Self {
        let factor = if let Style::Binary(power) = self.style {
            1024_i128.pow(power)
        } else {
            1
        };
        let exact = self.exponent >= -3;
        match self.thousandths() {
            Some(mantissa) if !exact && factor == 1 => Self {
                mantissa,
                exponent: -3,
                style: self.style,
            },
            Some(mantissa) if !exact => Self {
                mantissa,
                exponent: -3,
                style: Style::Binary(0),
            },
            _ => self,
        }
    }

    fn written(&self) -> String {
        if let Style::Binary(power) = self.style
            && let Some(text) = self.written_binary(power)
        {
            return text;
        }
        let factor = if let Style::Binary(power) = self.style {
            1024_i128.pow(power)
        } else {
            1
        };
        self.written_decimal(self.mantissa.saturating_mul(factor))
    }

    /// The text with a binary suffix. `None` below 1024 and for fractions, which have no binary
    /// suffix.
    fn written_binary(&self, power: u32) -> Option<String> {
        let whole = self.mantissa.checked_mul(1024_i128.pow(power))?;
        let mut value = shifted_up(whole, self.exponent)?;
        if value.abs() < 1024
            || (self.exponent < 0 && shifted_up(value, -self.exponent) != Some(whole))
        {
            return None;
        }
        let mut suffix = 0;
        while value % 1024 == 0 && suffix + 1 < BINARY.len() {
            value /= 1024;
            suffix += 1;
        }
        Some(format!("{value}{}", BINARY[suffix]))
    }

    fn written_decimal(&self, mut mantissa: i128) -> String {
        if mantissa == 0 {
            return "0".to_owned();
        }
        let mut exponent = self.exponent;
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        // The smallest unit is a billionth; smaller parts are rounded up.
        if exponent < -9 {
            mantissa = shifted_up(mantissa, exponent + 9).unwrap_or(mantissa);
            exponent = -9;
        }
        while exponent.rem_euclid(3) != 0 {
            mantissa = mantissa.saturating_mul(10);
            exponent -= 1;
        }
        if self.style == Style::Exponent {
            return if exponent == 0 {
                mantissa.to_string()
            } else {
                format!("{mantissa}e{exponent}")
            };
        }
        match DECIMAL.iter().find(|(own, _)| *own == exponent) {
            Some((_, suffix)) => format!("{mantissa}{suffix}"),
            None => format!("{mantissa}e{exponent}"),
        }
    }
}

/// `value * 10^exponent`, away from zero where it is no whole number.
fn shifted_up(value: i128, exponent: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
    match exponent.cmp(&0) {
        Ordering::Less => Some(value / factor + value.signum() * i128::from(value % factor != 0)),
        _ => value.checked_mul(factor),
    }
}

#[cfg(test)]
mod tests;
