//! Which kinds are worked on: those that the environment names, or all.

use berth_workload::gates::{Gate, Gates};

/// A kind with a controller of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    CloneSet,
    NodeImage,
    ImagePullJob,
    ImageListPullJob,
}

const KNOWN: [(&str, Kind); 4] = [
    ("CloneSet", Kind::CloneSet),
    ("NodeImage", Kind::NodeImage),
    ("ImagePullJob", Kind::ImagePullJob),
    ("ImageListPullJob", Kind::ImageListPullJob),
];

/// The kinds whose controllers run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    /// Reads `CloneSet,ImagePullJob`; all of them where nothing is said. A kind of OpenKruise that Berth does not have is
    /// accepted, and a line in the log says so. Without daemons there is nothing to do for NodeImages.
    pub(crate) fn parse(text: &str, gates: Gates) -> Self {
        let names: Vec<_> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        for name in names.iter().filter(|name| !KNOWN.iter().any(|(known, _)| known == *name)) {
            tracing::warn!("CUSTOM_RESOURCE_ENABLE names {name}, which Berth has no controller for");
        }
        let named = |name: &str| names.is_empty() || names.contains(&name);
        let possible = |kind: Kind| kind != Kind::NodeImage || gates.has(Gate::KruiseDaemon);
        let kinds = KNOWN.iter().filter(|(name, kind)| named(name) && possible(*kind)).map(|(_, kind)| *kind);
        Self(kinds.collect())
    }

    /// Is this kind worked on?
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.0.contains(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_or_those_that_are_named() {
        let gates = Gates::default();
        let all = Kinds::parse("", gates);
        assert!(KNOWN.iter().all(|(_, kind)| all.has(*kind)));
        let some = Kinds::parse("CloneSet, SidecarSet,ImagePullJob", gates);
        assert_eq!(some, Kinds(vec![Kind::CloneSet, Kind::ImagePullJob]));
        let without_daemons = Kinds::parse("", gates.with(Gate::KruiseDaemon, false));
        assert!(!without_daemons.has(Kind::NodeImage) && without_daemons.has(Kind::CloneSet));
    }
}
