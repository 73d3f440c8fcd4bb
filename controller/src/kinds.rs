//! Which kinds are enabled: those that the environment names, or all.

use std::collections::BTreeSet;

/// The names in `CUSTOM_RESOURCE_ENABLE`: `CloneSet,ImagePullJob`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kinds {
    named: BTreeSet<String>,
    known: BTreeSet<&'static str>,
}

impl Kinds {
    /// Reads the list. An empty list enables all kinds.
    pub(crate) fn parse(text: &str) -> Self {
        let named = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned);
        Self {
            named: named.collect(),
            known: BTreeSet::new(),
        }
    }

    /// Is this kind, which has a controller, enabled?
    pub(crate) fn has(&mut self, kind: &'static str) -> bool {
        self.known.insert(kind);
        self.is_enabled(kind)
    }

    /// Whether a kind is enabled, without the claim that it has a controller.
    pub(crate) fn is_enabled(&self, kind: &str) -> bool {
        self.named.is_empty() || self.named.contains(kind)
    }

    /// Logs the names that match no kind of Berth. A kind of OpenKruise that Berth does not have is
    /// accepted.
    pub(crate) fn tell_of_unknown(&self) {
        for name in self.unknown() {
            tracing::warn!(
                "CUSTOM_RESOURCE_ENABLE names {name}, which Berth has no controller for"
            );
        }
    }

    fn unknown(&self) -> impl Iterator<Item = &String> {
        self.named
            .iter()
            .filter(|name| !self.known.contains(name.as_str()))
    }
}

#[cfg(test)]
mod tests;
