//! Expressions that make an amount of a resource from that of other containers, such as `max(cpu*50%, 50m)`.
//!
//! There are plain numbers (`2`, `50%`) and amounts (`100m`, `1Gi`, the variable). An amount can be multiplied with a
//! number and divided by one; beside an amount, a number is one, too: `cpu + 1` is one CPU more. Numbers are fractions,
//! so nothing is lost before the end, where CPUs are cut to thousandths and memory to whole bytes.

mod parse;
mod ratio;
#[cfg(test)]
mod tests;
mod tree;

use tree::Node;

pub use tree::Variable;

/// An expression that can be calculated, but for results below zero and results that are too large.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    variable: Variable,
    root: Node,
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
