//! Exact fractions.

/// A fraction: the second is above zero, and both have no common divisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio(i128, i128);

/// The message if there is no result.
pub(super) const TOO_LONG: &str =
    "it needs numbers of more than 38 digits; write it with shorter ones";

impl Ratio {
    pub(super) const fn whole(number: i128) -> Self {
        Self(number, 1)
    }

    fn of(above: i128, below: i128) -> Option<Self> {
        let divisor = common_divisor(above.checked_abs()?, below.checked_abs()?);
        let sign = below.signum();
        (sign != 0).then_some(Self(above / divisor * sign, below / divisor * sign))
    }

    /// `digits * 10^exponent`.
    pub(super) fn decimal(digits: i128, exponent: i32) -> Option<Self> {
        let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
        if exponent < 0 {
            Self::of(digits, power)
        } else {
            Some(Self(digits.checked_mul(power)?, 1))
        }
    }

    pub(super) fn plus(self, other: Self) -> Option<Self> {
        let above = self
            .0
            .checked_mul(other.1)?
            .checked_add(other.0.checked_mul(self.1)?)?;
        Self::of(above, self.1.checked_mul(other.1)?)
    }

    pub(super) fn times(self, other: Self) -> Option<Self> {
        Self::of(self.0.checked_mul(other.0)?, self.1.checked_mul(other.1)?)
    }

    /// `None` for zero.
    pub(super) fn inverse(self) -> Option<Self> {
        Self::of(self.1, self.0)
    }

    pub(super) const fn negative(self) -> Self {
        Self(self.0.saturating_neg(), self.1)
    }

    pub(super) const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Rounds towards zero.
    pub(super) const fn floor(self) -> i128 {
        self.0 / self.1
    }
}

fn common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
