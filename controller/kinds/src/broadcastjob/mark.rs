//! The mark of a node in names of pods and in the status: a short hash of its uid.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// Letters and digits that a name may have, five bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Sixty bits: two of ten thousand nodes have the same mark once in twenty billion clusters.
const LENGTH: usize = 12;

/// How the pod of a node has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodResult {
    Succeeded,
    Failed,
    /// It has failed, and a user has resumed the job since.
    Accepted,
}

/// The hash of a node's uid.
pub(super) fn hash(uid: &str) -> String {
    let digest = Sha256::digest(uid.as_bytes());
    let bits = digest
        .iter()
        .take(8)
        .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let letter = |at: usize| {
        char::from(ALPHABET[usize::try_from(bits >> (5 * at) & 31).unwrap_or_default()])
    };
    (0..LENGTH).map(letter).collect()
}

/// The name of the pod on the node with this hash.
pub(super) fn pod_name(job: &str, hash: &str) -> String {
    format!("{job}-{hash}")
}

/// The hash in a pod's name, if the pod was created for a job of this name.
pub(super) fn in_name<'a>(job: &str, pod: &'a str) -> Option<&'a str> {
    let hash = pod.strip_prefix(job)?.strip_prefix('-')?;
    is_hash(hash).then_some(hash)
}

fn is_hash(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// The entries of a status, by hash. Texts that are no entries are skipped.
pub(super) fn read(entries: &[String]) -> BTreeMap<&str, PodResult> {
    entries.iter().filter_map(|text| entry(text)).collect()
}

/// Whether a status has an entry with this hash.
pub(super) fn has(entries: &[String], hash: &str) -> bool {
    entries
        .iter()
        .any(|text| text.get(1..) == Some(hash) && entry(text).is_some())
}

fn entry(text: &str) -> Option<(&str, PodResult)> {
    let result = match text.as_bytes().first()? {
        b'+' => PodResult::Succeeded,
        b'-' => PodResult::Failed,
        b'!' => PodResult::Accepted,
        _ => return None,
    };
    text.get(1..)
        .filter(|hash| is_hash(hash))
        .map(|hash| (hash, result))
}

/// An entry of the status.
pub(super) fn write(hash: &str, result: PodResult) -> String {
    let sign = match result {
        PodResult::Succeeded => '+',
        PodResult::Failed => '-',
        PodResult::Accepted => '!',
    };
    format!("{sign}{hash}")
}

#[cfg(test)]
mod tests;
