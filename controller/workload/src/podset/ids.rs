//! The last part of the names of pods that have no place in an order.

use std::collections::BTreeSet;

/// Letters and digits that cannot spell a word, as Kubernetes uses for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of an id.
const ID_LENGTH: usize = 5;

/// Ids that are not taken, in an order that the seed gives.
pub fn fresh_ids(seed: u64, mut taken: BTreeSet<String>) -> impl Iterator<Item = String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut letter = move || char::from(ALPHABET[random.usize(..ALPHABET.len())]);
    std::iter::repeat_with(move || (0..ID_LENGTH).map(|_| letter()).collect::<String>())
        .filter(move |id| taken.insert(id.clone()))
}

#[cfg(test)]
mod tests;
