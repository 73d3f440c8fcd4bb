//! Expressions that make an amount of a resource from that of other containers, such as `max(cpu*50%, 50m)`.
//!
//! There are plain numbers (`2`, `50%`) and amounts (`100m`, `1Gi`, the variable). An amount can be multiplied with a
//! number and divided by one; beside an amount, a number is one, too: `cpu + 1` is one CPU more. Numbers are fractions,
//! so nothing is lost before the end, where CPUs are cut to thousandths and memory to whole bytes.

mod parse;
mod ratio;
#[cfg(test)]
mod tests;

use berth_workload::revision::quantity;
use serde_json::{Value, json};

use ratio::Ratio;

/// What an expression is about. It is the name of its variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// CPUs.
    Cpu,
    /// Bytes of memory.
    Memory,
}

impl Variable {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// An amount of it as Kubernetes writes it.
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

/// An expression that can be calculated, but for results below zero and results that are too large.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    variable: Variable,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(Ratio),
    /// In thousandths.
    Amount(Ratio),
    Variable,
    Negative(Box<Node>),
    Two(Operation, Box<Node>, Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
    Min,
}

/// The most that any resource can be, in thousandths: some 8 Pi.
const MOST: i128 = i64::MAX as i128;

const NEGATIVE: &str = "the result is below zero; enclose it in max(…, 0)";

impl Expression {
    /// Reads an expression about a variable.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str, variable: Variable) -> Result<Self, String> {
        let root = parse::parse(text, variable)?;
        let expression = Self { variable, root };
        // What is no matter of the variable's amount is found out with any, and what is one of size with a large one.
        for amount in [1, MOST / 1000] {
            let result = expression.root.value(amount)?;
            if !expression.root.has_variable() && result.ratio().is_negative() {
                return Err(NEGATIVE.to_owned());
            }
        }
        Ok(expression)
    }

    /// What it makes of an amount, both in thousandths.
    ///
    /// # Errors
    /// A result below zero, or beyond what there can be.
    pub fn evaluate(&self, thousandths: i128) -> Result<i128, String> {
        let result = self
            .root
            .value(thousandths)?
            .into_amount()
            .ok_or(ratio::TOO_LONG)?;
        if result.is_negative() {
            return Err(NEGATIVE.to_owned());
        }
        let unit = if self.variable == Variable::Memory {
            1000
        } else {
            1
        };
        let whole = result.floor() / unit * unit;
        if whole > MOST {
            Err("the result is larger than 8 Pi, which is more than there can be".to_owned())
        } else {
            Ok(whole)
        }
    }
}

/// What a part of an expression comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Worth {
    Number(Ratio),
    Amount(Ratio),
}

impl Worth {
    fn ratio(self) -> Ratio {
        match self {
            Self::Number(ratio) | Self::Amount(ratio) => ratio,
        }
    }

    /// In thousandths.
    fn into_amount(self) -> Option<Ratio> {
        match self {
            Self::Number(number) => number.times(Ratio::whole(1000)),
            Self::Amount(amount) => Some(amount),
        }
    }
}

impl Node {
    fn has_variable(&self) -> bool {
        match self {
            Self::Number(_) | Self::Amount(_) => false,
            Self::Variable => true,
            Self::Negative(of) => of.has_variable(),
            Self::Two(_, left, right) => left.has_variable() || right.has_variable(),
        }
    }

    fn value(&self, variable: i128) -> Result<Worth, String> {
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
    fn of(self, left: Worth, right: Worth) -> Result<Worth, String> {
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

    fn of_alike(self, left: Ratio, right: Ratio) -> Option<Ratio> {
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
