//! A path that the apiserver alone is told. Whoever reaches the port may ask whatever a review can ask; where an answer changes
//! something, or tells of other namespaces, whoever asks must know the path, which stands in a configuration that only administrators read.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// How many paths are known: with a new authority comes a new one, and the apiserver goes by the old one for a moment.
const KNOWN: usize = 2;

/// The last part of the path, newest first. The same on every replica, for it is made from the newest authority's key.
#[derive(Debug, Clone, Default)]
pub struct SecretPath(Arc<Mutex<Vec<String>>>);

impl SecretPath {
    /// Goes by this authority's key from now on.
    pub(crate) fn learn(&self, key: &str) {
        if key.is_empty() {
            return;
        }
        let secret = secret(key);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.first() != Some(&secret) {
            known.retain(|old| *old != secret);
            known.insert(0, secret);
            known.truncate(KNOWN);
        }
    }

    /// The one to be told; `None` before a key is known.
    pub(crate) fn newest(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// Whether this is one of those that were told. Takes as long for any that is as long.
    pub(crate) fn is_known(&self, secret: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = |known: &String| known.bytes().zip(secret.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) != 0;
        known.iter().filter(|known| known.len() == secret.len() && !differs(known)).count() > 0
    }
}

fn secret(key: &str) -> String {
    let digest =
        Sha256::new().chain_update("berth: path of the webhook for disruptions\n").chain_update(key).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_of_the_newest_authority_or_of_the_one_before() {
        let paths = SecretPath::default();
        paths.learn("");
        assert!(paths.newest().is_none() && !paths.is_known(""));
        paths.learn("one");
        let one = paths.newest().unwrap();
        assert_eq!(one.len(), 64);
        paths.learn("two");
        let two = paths.newest().unwrap();
        assert!(one != two && paths.is_known(&one) && paths.is_known(&two));
        paths.learn("three");
        assert!(!paths.is_known(&one) && paths.is_known(&two) && !paths.is_known(&two[..63]) && !paths.is_known(""));
        paths.learn("two");
        assert_eq!(paths.newest(), Some(two));
    }
}
