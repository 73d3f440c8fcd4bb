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
mod tests {
    use super::*;

    #[test]
    fn a_match_is_anywhere_and_of_ascii() {
        let table = [
            (".*", "", true),
            ("app", "my-app-1", true),
            ("^app$", "my-app-1", false),
            ("^app-\\d+$", "app-12", true),
            ("^app-\\d+$", "app-١", false),
            ("(?i)^APP", "app", true),
            ("^(a|b)$", "b", true),
            ("[[:alpha:]]", "1a", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(
                Pattern::new(pattern).unwrap().is_in(text),
                expected,
                "{pattern} in {text}"
            );
        }
    }

    #[test]
    fn what_is_no_expression_is_named() {
        for (text, expected) in [
            ("(", "\"(\" is no regular expression: unclosed group"),
            ("^(?!x)", "is no regular expression: look-around"),
            ("(a{1000}){1000}", "is no regular expression"),
            (
                &"a".repeat(1025),
                "it has 1025 characters, and 1024 are the most",
            ),
        ] {
            let error = Pattern::new(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
