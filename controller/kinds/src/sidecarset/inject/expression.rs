//! Expressions that compute an amount of a resource from that of other containers, such as
//! `max(cpu*50%, 50m)`.
//!
//! Values are plain numbers (`2`, `50%`) or amounts (`100m`, `1Gi`, the variable). An amount can be
//! multiplied with a number and divided by one. Beside an amount, a number counts as an amount:
//! `cpu + 1` is one CPU more. Numbers are fractions, so no precision is lost before the end, where
//! CPUs are cut to thousandths and memory to whole bytes.

mod parse;
mod ratio;
#[cfg(test)]
mod tests;
mod tree;

use tree::Node;

pub use tree::Variable;

/// An expression that has a result, unless the result would be below zero or too large.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    variable: Variable,
    root: Node,
}

/// The most that any resource can have, in thousandths: some 8 Pi.
const MOST: i128 = i64::MAX as i128;

const NEGATIVE: &str = "the result is below zero; enclose it in max(…, 0)";

impl Expression {
    /// Reads an expression about a variable.
    ///
    /// # Errors
    /// The problem of the text, and the remedy.
    pub fn parse(text: &str, variable: Variable) -> Result<Self, String> {
        let root = parse::parse(text, variable)?;
        let expression = Self { variable, root };
        // Any amount finds problems that do not depend on the variable's amount, and a large one
        // finds problems of size.
        for amount in [1, MOST / 1000] {
            let result = expression.root.value(amount)?;
            if !expression.root.has_variable() && result.ratio().is_negative() {
                return Err(NEGATIVE.to_owned());
            }
        }
        Ok(expression)
    }

    /// The result for an amount, both in thousandths.
    ///
    /// # Errors
    /// A result below zero, or above the most that a resource can have.
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
