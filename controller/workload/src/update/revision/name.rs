//! Names of revisions: the workload's name and a hash of the template.

use serde_json::Value;

use super::form;

/// Letters and digits that cannot spell a word, as Kubernetes uses for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The longest prefix, so that the hash still fits into an object's name.
const LONGEST_PREFIX: usize = 223;

/// A short hash of a revision's data, safe in names and labels, as Kubernetes and OpenKruise
/// compute it. `collision` is raised if other data has the same hash.
pub fn hash(data: &Value, collision: i32) -> String {
    // serde_json sorts keys, so equal data gives equal text.
    let text = form::text(data) + &collision.to_string();
    safe(&fnv1(text.as_bytes()).to_string())
}

/// A text of digits and letters as letters that cannot spell a word, one for each byte, as
/// Kubernetes writes hashes.
pub fn safe(text: &str) -> String {
    text.bytes()
        .map(|b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()]))
        .collect()
}

/// Five letters and digits that follow from a seed, as Kubernetes ends generated names with five
/// random ones.
pub fn suffix(seed: &str) -> String {
    let mut left = usize::try_from(fnv1(seed.as_bytes())).unwrap_or_default();
    let letter = |_| {
        let letter = ALPHABET[left % ALPHABET.len()];
        left /= ALPHABET.len();
        char::from(letter)
    };
    (0..5).map(letter).collect()
}

/// The name of the revision with this hash.
pub fn revision_name(workload: &str, hash: &str) -> String {
    let cut = workload
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|at| *at <= LONGEST_PREFIX)
        .last()
        .unwrap_or(0);
    let prefix = if workload.len() <= LONGEST_PREFIX {
        workload
    } else {
        &workload[..cut]
    };
    format!("{prefix}-{hash}")
}

/// The hash in a revision's name: the part after the last dash. A hash alone is unchanged.
pub fn short(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(_, hash)| hash)
}

/// FNV-1, 32 bits: stable across versions and machines, which std's hasher does not promise.
fn fnv1(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte)
    })
}

#[cfg(test)]
mod tests;
