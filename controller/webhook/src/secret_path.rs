//! Paths that the apiserver alone is told. Whoever reaches the port may ask whatever a review can ask; where an answer changes
//! something, or tells of other namespaces, whoever asks must know the path, which stands in a configuration that only administrators read.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// By how many seeds paths are known: with a new authority comes a new one, and the apiserver goes by the old one for a moment.
const KNOWN: usize = 2;

/// What a seed is made of besides a key. Not the text that an earlier build made the end of a path of, which was told: whoever learned that
/// end would know all paths.
const PURPOSE: &str = "berth: seed of the paths of the webhooks\n";

/// The seeds that the last parts of the paths are made of, newest first. The same on every replica, for one is made from the newest
/// authority's key.
#[derive(Debug, Clone, Default)]
pub struct SecretPath(Arc<Mutex<Vec<String>>>);

impl SecretPath {
    /// Goes by this authority's key from now on.
    pub(crate) fn learn(&self, key: &str) {
        if key.is_empty() {
            return;
        }
        let seed = hash([PURPOSE, key]);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.first() != Some(&seed) {
            known.retain(|old| *old != seed);
            known.insert(0, seed);
            known.truncate(KNOWN);
        }
    }

    /// The seed of those to be told; `None` before a key is known.
    pub(crate) fn newest(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// Whether this is one of those that were told. Takes as long for any that is as long.
    pub(crate) fn is_known(&self, path: &str) -> bool {
        let Some((below, _)) = path.rsplit_once('/') else { return false };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |seed: &&String| {
            let told = told(below, seed);
            told.len() == path.len() && told.bytes().zip(path.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
        };
        known.iter().filter(is_it).count() > 0
    }
}

/// The path below this one that is told. Each has an end of its own: where nobody answers to an entry with the failure policy Fail, the
/// apiserver tells whoever wrote the object the whole address, and that is to help with no other path.
pub(crate) fn told(below: &str, seed: &str) -> String {
    format!("{below}/{}", hash([seed, "\n", below]))
}

fn hash<const N: usize>(parts: [&str; N]) -> String {
    let digest = parts.iter().fold(Sha256::new(), |digest, part| digest.chain_update(part)).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_of_the_newest_authority_or_of_the_one_before() {
        let paths = SecretPath::default();
        paths.learn("");
        assert!(paths.newest().is_none() && !paths.is_known("") && !paths.is_known("/a/"));
        let newest = || told("/a", &paths.newest().unwrap());
        paths.learn("one");
        let one = newest();
        assert!(one.starts_with("/a/") && one.len() == 3 + 64, "{one}");
        paths.learn("two");
        let two = newest();
        assert!(one != two && paths.is_known(&one) && paths.is_known(&two));
        paths.learn("three");
        assert!(!paths.is_known(&one) && paths.is_known(&two) && !paths.is_known(&two[..66]) && !paths.is_known("/a"));
        paths.learn("two");
        assert_eq!(newest(), two);
    }

    #[test]
    fn whoever_learns_one_path_knows_no_other() {
        let paths = SecretPath::default();
        paths.learn("key");
        let a = told("/a", &paths.newest().unwrap());
        let end = a.strip_prefix("/a").unwrap();
        assert!(paths.is_known(&a) && !paths.is_known(&format!("/b{end}")) && !paths.is_known(end));
        assert!(!paths.is_known(&format!("/a/{}", paths.newest().unwrap())), "the seed is no end");
        let of_earlier_build = hash(["berth: path of the webhook for disruptions\n", "key"]);
        assert!(!paths.is_known(&told("/a", &of_earlier_build)), "its end was told");
    }
}
