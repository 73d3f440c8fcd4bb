//! By which a node is known in names of pods and in the status: a short hash of its uid.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// Letters and digits that a name may have, five bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Sixty bits: two of ten thousand nodes share them once in twenty billion clusters.
const LENGTH: usize = 12;

/// How the pod of a node has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Succeeded,
    Failed,
    /// It has failed, and somebody has resumed the job since.
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

/// The hash in a pod's name, where it was made for a job of this name here.
pub(super) fn in_name<'a>(job: &str, pod: &'a str) -> Option<&'a str> {
    let hash = pod.strip_prefix(job)?.strip_prefix('-')?;
    is_hash(hash).then_some(hash)
}

fn is_hash(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// The entries of a status, by hash. What is no entry is passed over.
pub(super) fn read(entries: &[String]) -> BTreeMap<&str, Verdict> {
    entries.iter().filter_map(|text| entry(text)).collect()
}

/// Has a status an entry with this hash?
pub(super) fn has(entries: &[String], hash: &str) -> bool {
    entries
        .iter()
        .any(|text| text.get(1..) == Some(hash) && entry(text).is_some())
}

fn entry(text: &str) -> Option<(&str, Verdict)> {
    let verdict = match text.as_bytes().first()? {
        b'+' => Verdict::Succeeded,
        b'-' => Verdict::Failed,
        b'!' => Verdict::Accepted,
        _ => return None,
    };
    text.get(1..)
        .filter(|hash| is_hash(hash))
        .map(|hash| (hash, verdict))
}

/// An entry of the status.
pub(super) fn write(hash: &str, verdict: Verdict) -> String {
    let sign = match verdict {
        Verdict::Succeeded => '+',
        Verdict::Failed => '-',
        Verdict::Accepted => '!',
    };
    format!("{sign}{hash}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_entry_has_sixteen_bytes_in_a_list_and_is_read_again() {
        let (one, other) = (
            hash("6f0c1d2e-0000-4000-8000-000000000001"),
            hash("6f0c1d2e-0000-4000-8000-000000000002"),
        );
        let entries = [
            write(&one, Verdict::Succeeded),
            write(&other, Verdict::Accepted),
        ];
        let json = serde_json::to_string(&entries).unwrap_or_default();
        assert_eq!(
            json.len(),
            2 * 16 + 1,
            "each with its quotes and comma: {json}"
        );
        let read = read(&entries);
        assert_eq!(read.get(&*one).copied(), Some(Verdict::Succeeded));
        assert_eq!(read.get(&*other).copied(), Some(Verdict::Accepted));
        assert!(has(&entries, &one) && has(&entries, &other) && !has(&entries[..1], &other));
    }

    #[test]
    fn what_is_no_entry_is_passed_over() {
        let odd = [
            "",
            "+",
            "abcdefghijkl",
            "+abc",
            "+ABCDEFGHIJKL",
            "+ab\u{e9}defghijk",
            "\u{e9}abcdefghijkl",
            "?abcdefghijkl",
        ];
        let odd = odd.map(str::to_owned);
        assert_eq!(read(&odd).len(), 0);
        assert!(!has(&odd, "abcdefghijkl") && !has(&odd, ""));
    }

    #[test]
    fn hashes_of_ten_thousand_uids_differ_and_are_found_in_names() {
        let all: BTreeSet<_> = (0..10_000).map(|n| hash(&format!("uid-{n}"))).collect();
        assert_eq!(all.len(), 10_000);
        for hash in all.iter().take(100) {
            assert_eq!(in_name("a-b", &pod_name("a-b", hash)), Some(&**hash));
        }
        for other in [
            "job-x7k2p",
            "job",
            "job-",
            "jobabcdefghijkl",
            "other-abcdefghijkl",
            "job-abcdefghijk1",
        ] {
            assert_eq!(in_name("job", other), None, "{other}");
        }
    }
}
