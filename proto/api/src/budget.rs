//! What the texts of a PodUnavailableBudget mean.

use crate::v1beta1::podunavailablebudget::ProtectedOperation;

/// The most pods that a budget may have granted at once and not seen the end of.
pub const MOST_ENTRIES: usize = 2_000;

/// The most pods of a budget that wait at once for another to come in their place.
pub const MOST_REPLACEMENTS: usize = 100;

/// The most containers of one pod that an entry of a ledger names.
pub const MOST_CONTAINERS: usize = 32;

/// The operations that a text lists, such as `DELETE,EVICT`. Blanks do not count.
///
/// # Errors
/// One of them is none, with the remedy.
pub fn operations(text: &str) -> Result<Vec<ProtectedOperation>, &'static str> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let mut found = Vec::new();
    for word in words {
        let operation = ProtectedOperation::named(word);
        let operation =
            operation.ok_or("lists something else than DELETE, UPDATE, EVICT and RESIZE: correct or remove it")?;
        if !found.contains(&operation) {
            found.push(operation);
        }
    }
    Ok(found)
}

/// How many pods a text expects.
///
/// # Errors
/// It is no number from 1, with the remedy.
pub fn total_replicas(text: &str) -> Result<i32, &'static str> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_plain && *number >= 1);
    number.ok_or("is no number from 1: correct or remove it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_listed_with_or_without_blanks() {
        use ProtectedOperation::{Delete, Evict, Resize, Update};
        for (text, expected) in [
            ("", Some(vec![])),
            (" , ", Some(vec![])),
            ("DELETE", Some(vec![Delete])),
            (" DELETE , EVICT,DELETE", Some(vec![Delete, Evict])),
            ("UPDATE,RESIZE", Some(vec![Update, Resize])),
            ("delete", None),
            ("DELETE;EVICT", None),
        ] {
            assert_eq!(operations(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_total_is_a_number_from_one() {
        for (text, expected) in [
            ("1", Some(1)),
            ("2147483647", Some(i32::MAX)),
            ("0", None),
            ("-1", None),
            ("+1", None),
            ("2147483648", None),
            ("", None),
        ] {
            assert_eq!(total_replicas(text).ok(), expected, "{text:?}");
        }
    }
}
