//! Events of pods that had to stay or went against a budget, and the metric of the former. The
//! metric has OpenKruise's name, so that its dashboards and alerts keep working.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The most series, because any author chooses names and users.
const MOST_SERIES: usize = 1_000;
/// The label of all series beyond the limit.
const OTHER: &str = "other";
/// The most bytes of a kind, a namespace, a name or a user in a label: a tenant chooses them, and a
/// series stays as long as the process.
const LONGEST: [usize; 4] = [63, 63, 253, 256];

/// How often which user was refused to take which workload's pods out of service. Cheap to clone:
/// the counts are shared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    /// A counter in the form of a gauge: counters get a suffix here that OpenKruise's metric does
    /// not have.
    counts: Family<Labels, Gauge>,
    known: Arc<Mutex<BTreeSet<(String, String)>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// The pod's workload, or a pod that has none.
    kind_namespace_name: String,
    username: String,
}

impl Refusals {
    /// Adds the series to the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "How often pods of a workload had to stay because of a budget";
        registry.register("pod_unavailable_budget", help, self.counts.clone());
    }

    /// Counts one.
    pub(in crate::budgets) fn count(&self, pod: &Pod, user: &str) {
        let namespace = &pod.metadata.namespace;
        let (kind, name) = match pod.metadata.controller() {
            Some(owner) => (&*owner.kind, &*owner.name),
            None => ("Pod", &*pod.metadata.name),
        };
        let [kind, namespace, name, user] = cut([kind, namespace, name, user]);
        let mut known = self.known.lock();
        let mut series = (format!("{kind}_{namespace}_{name}"), user.to_owned());
        if !known.contains(&series) && known.len() >= MOST_SERIES {
            series = (OTHER.to_owned(), OTHER.to_owned());
        } else {
            known.insert(series.clone());
        }
        drop(known);
        let (kind_namespace_name, username) = series;
        self.counts
            .get_or_create(&Labels {
                kind_namespace_name,
                username,
            })
            .inc();
    }
}

/// Each text, cut to the bytes that a label may have.
fn cut(texts: [&str; 4]) -> [&str; 4] {
    let mut longest = LONGEST.into_iter();
    texts.map(|text| &text[..text.floor_char_boundary(longest.next().unwrap_or_default())])
}

#[cfg(test)]
mod tests;
