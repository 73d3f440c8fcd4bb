//! Regular expressions that administrators write, with Go's meaning: `\d` and `.` match ASCII, and
//! a match may be anywhere.

use regex::bytes::{Regex, RegexBuilder};

/// The longest expression, in bytes.
const LONGEST: usize = 1024;
/// The most memory of a compiled expression, in bytes.
const LARGEST: usize = 256 << 10;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The problem of the expression.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!(
                "it has {} characters, and {LONGEST} are the most",
                text.len()
            ));
        }
        let regex = RegexBuilder::new(text)
            .unicode(false)
            .size_limit(LARGEST)
            .build();
        regex.map(Self).map_err(|error| {
            // The library marks the position below the expression, and its last line has the error.
            let error = error.to_string();
            let line = error.lines().last().unwrap_or_default();
            format!(
                "{text:?} is no regular expression: {}",
                line.trim_start_matches("error: ")
            )
        })
    }

    /// Whether a text has a match.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

#[cfg(test)]
mod tests;
