//! Regular expressions that administrators write, with Go's meaning: `\d` and `.` are of ASCII, and a match may be
//! anywhere.

use regex::bytes::{Regex, RegexBuilder};

/// The longest expression, in bytes.
const LONGEST: usize = 1024;
/// The most memory that a compiled one may take.
const LARGEST: usize = 256 << 10;

/// A regular expression that was read.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
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
            // The library draws the place below the expression, and says on its last line what is wrong there.
            let error = error.to_string();
            let line = error.lines().last().unwrap_or_default();
            format!(
                "{text:?} is no regular expression: {}",
                line.trim_start_matches("error: ")
            )
        })
    }

    /// Whether it is found in a text.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

#[cfg(test)]
mod tests;
