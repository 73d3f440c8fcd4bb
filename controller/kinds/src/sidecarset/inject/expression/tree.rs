//! The tree of an expression, and its value.

use berth_workload::objects::quantity;
use serde_json::{Value, json};

use super::ratio::{self, Ratio};

/// The resource of an expression. Its name is the expression's variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// CPUs.
    Cpu,
    /// Bytes of memory.
    Memory,
}

impl Variable {
    /// The name of the variable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// An amount of the resource as Kubernetes writes it.
    pub fn written(self, thousandths: i128) -> String {
        let decimal = canonical(format!("{thousandths}m"));
        let binary = canonical(format!("{}Ki", thousandths / 1_024_000));
        let is_binary = self == Self::Memory && thousandths != 0 && thousandths % 1_024_000 == 0;
        if is_binary && binary.len() <= decimal.len() {
            binary
        } else {
            decimal
        }
    }
}

fn canonical(text: String) -> String {
    match quantity::canonical(&json!(text)) {
        Value::String(text) => text,
        _ => text,
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Number(Ratio),
    /// In thousandths.
    Amount(Ratio),
    Variable,
    Negative(Box<Node>),
    Two(Operation, Box<Node>, Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
    Min,
}

/// The value of a part of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Worth {
    Number(Ratio),
    Amount(Ratio),
}

impl Worth {
    pub(super) fn ratio(self) -> Ratio {
        match self {
            Self::Number(ratio) | Self::Amount(ratio) => ratio,
        }
    }

    /// In thousandths.
    pub(super) fn into_amount(self) -> Option<Ratio> {
        match self {
            Self::Number(number) => number.times(Ratio::whole(1000)),
            Self::Amount(amount) => Some(amount),
        }
    }
}

impl Node {
    pub(super) fn has_variable(&self) -> bool {
        match self {
            Self::Number(_) | Self::Amount(_) => false,
            Self::Variable => true,
            Self::Negative(of) => of.has_variable(),
            Self::Two(_, left, right) => left.has_variable() || right.has_variable(),
        }
    }

    pub(super) fn value(&self, variable: i128) -> Result<Worth, String> {
        Ok(match self {
            Self::Number(number) => Worth::Number(*number),
            Self::Amount(amount) => Worth::Amount(*amount),
            Self::Variable => Worth::Amount(Ratio::whole(variable)),
            Self::Negative(of) => match of.value(variable)? {
                Worth::Number(number) => Worth::Number(number.negative()),
                Worth::Amount(amount) => Worth::Amount(amount.negative()),
            },
            Self::Two(operation, left, right) => {
                operation.of(left.value(variable)?, right.value(variable)?)?
            }
        })
    }
}

impl Operation {
    pub(super) fn of(self, left: Worth, right: Worth) -> Result<Worth, String> {
        use Worth::{Amount, Number};
        match self {
            Self::Multiply => {
                let product = || left.ratio().times(right.ratio()).ok_or(ratio::TOO_LONG);
                match (left, right) {
                    (Amount(_), Amount(_)) => Err(
                        "two amounts cannot be multiplied; make one of them a number, such as \
                         2 or 50%"
                            .to_owned(),
                    ),
                    (Number(_), Number(_)) => Ok(Number(product()?)),
                    _ => Ok(Amount(product()?)),
                }
            }
            Self::Divide => {
                let Number(divisor) = right else {
                    return Err(
                        "nothing can be divided by an amount; divide by a number, such as 2"
                            .to_owned(),
                    );
                };
                let divisor = divisor.inverse().ok_or("nothing can be divided by zero")?;
                let quotient = left.ratio().times(divisor).ok_or(ratio::TOO_LONG)?;
                Ok(if matches!(left, Number(_)) {
                    Number(quotient)
                } else {
                    Amount(quotient)
                })
            }
            _ => match (left, right) {
                (Number(left), Number(right)) => {
                    Ok(Number(self.of_alike(left, right).ok_or(ratio::TOO_LONG)?))
                }
                _ => {
                    let both = left.into_amount().zip(right.into_amount());
                    let result = both.and_then(|(left, right)| self.of_alike(left, right));
                    Ok(Amount(result.ok_or(ratio::TOO_LONG)?))
                }
            },
        }
    }

    pub(super) fn of_alike(self, left: Ratio, right: Ratio) -> Option<Ratio> {
        let difference = left.plus(right.negative())?;
        Some(match self {
            Self::Subtract => difference,
            Self::Max if difference.is_negative() => right,
            Self::Min if difference.is_negative() => left,
            Self::Max => left,
            Self::Min => right,
            _ => left.plus(right)?,
        })
    }
}
