//! Maps as sorted slices of pairs. For the few entries of an object they take a third of a tree's
//! memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use berth_api::names::annotation::{
    CHANGE_CAUSE, CONVERSION, DAEMONSET_TEMPLATE_GENERATION, INPLACE_UPDATE_GRACE_OLD,
    INPLACE_UPDATE_STATE_OLD, MIRROR_POD, RUNTIME_CONTAINERS_META,
};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::Word;

type Pairs<V> = Box<[(Word, V)]>;

pub(super) fn get<'a, V: Deref<Target = str>>(
    pairs: &'a [(Word, V)],
    key: &str,
) -> Option<&'a str> {
    // Texts of different length compare fast, so that a linear search of a few entries is faster
    // than a binary search.
    pairs
        .iter()
        .find(|(k, _)| **k == *key)
        .map(|(_, value)| &**value)
}

pub(super) fn all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<Word>, D::Error> {
    deserializer.deserialize_option(Keep(|_| true, PhantomData))
}

pub(super) fn known_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Pairs<Box<str>>, D::Error> {
    deserializer.deserialize_option(Keep(is_known, PhantomData))
}

/// Kept annotations outside of OpenKruise's domain.
const KNOWN_ANNOTATIONS: [&str; 6] = [
    CHANGE_CAUSE,
    "controller.kubernetes.io/pod-deletion-cost",
    INPLACE_UPDATE_STATE_OLD,
    INPLACE_UPDATE_GRACE_OLD,
    MIRROR_POD,
    DAEMONSET_TEMPLATE_GENERATION,
];
/// Long annotations of the domain that no decision reads.
const LEFT_OUT: [&str; 2] = [RUNTIME_CONTAINERS_META, CONVERSION];

pub(super) fn is_known(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_ours = domain == "kruise.io" || domain.ends_with(".kruise.io");
    (is_ours && !LEFT_OUT.contains(&key)) || KNOWN_ANNOTATIONS.contains(&key)
}

struct Keep<V>(fn(&str) -> bool, PhantomData<V>);

impl<'de, V: Deserialize<'de> + Ord> Visitor<'de> for Keep<V> {
    type Value = Pairs<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_none<E>(self) -> Result<Pairs<V>, E> {
        Ok(Box::default())
    }

    fn visit_unit<E>(self) -> Result<Pairs<V>, E> {
        Ok(Box::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Pairs<V>, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
        let mut pairs = Vec::new();
        while let Some((key, value)) = map.next_entry::<Word, V>()? {
            if (self.0)(&key) {
                pairs.push((key, value));
            }
        }
        pairs.sort();
        Ok(pairs.into_boxed_slice())
    }
}
