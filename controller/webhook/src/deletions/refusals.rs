//! The metrics of deletions that were refused, with OpenKruise's names, so that its dashboards and
//! alerts keep working.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The most series of a metric, because any author chooses names and users.
const MOST_SERIES: usize = 1_000;
/// The longest name of a user in a label.
const LONGEST_USER: usize = 256;
/// The label of all series beyond the limit.
const OTHER: &str = "other";

/// How often which user was refused to delete which object. Cheap to clone: the counts are shared.
#[derive(Debug, Clone, Default)]
pub struct RefusedDeletions {
    /// The counts of Namespaces.
    pub(crate) namespaces: Counts,
    /// The counts of CustomResourceDefinitions.
    pub(crate) definitions: Counts,
}

impl RefusedDeletions {
    /// Adds the series to the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let of = |kind: &str| format!("How often a {kind} had to stay because of what is in it");
        registry.register(
            "namespace_deletion_protection",
            of("Namespace"),
            self.namespaces.counts.clone(),
        );
        registry.register(
            "crd_deletion_protection",
            of("CustomResourceDefinition"),
            self.definitions.counts.clone(),
        );
    }
}

/// The counts of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// A counter in the form of a gauge: counters get a suffix here that OpenKruise's metric does
    /// not have.
    counts: Family<Labels, Gauge>,
    known: Arc<Mutex<BTreeSet<Labels>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct Labels {
    name: String,
    username: String,
}

impl Counts {
    /// Counts one.
    pub(crate) fn count(&self, name: &str, user: &str) {
        let user = &user[..user.floor_char_boundary(LONGEST_USER)];
        let mut series = Labels {
            name: name.to_owned(),
            username: user.to_owned(),
        };
        let mut known = self.known.lock();
        if !known.contains(&series) && known.len() >= MOST_SERIES {
            series = Labels {
                name: OTHER.to_owned(),
                username: OTHER.to_owned(),
            };
        } else {
            known.insert(series.clone());
        }
        drop(known);
        self.counts.get_or_create(&series).inc();
    }
}

#[cfg(test)]
mod tests;
