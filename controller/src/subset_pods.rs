//! The metric of the pods of subsets: the numbers of the statuses, read at each scrape.

use std::fmt;
use std::sync::{Arc, OnceLock};

use berth_api::v1beta1::uniteddeployment::{SubsetStatus, UnitedDeployment};
use berth_runtime::{Object, Store};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::watched::Watched;

/// The most subsets with series, because a tenant chooses how many subsets there are.
const MOST_SUBSETS: usize = 5_000;

/// `berth_uniteddeployment_pods`, a series for each state of each subset that there is.
#[derive(Clone, Default)]
pub(crate) struct SubsetPods(Arc<OnceLock<Arc<Store<Watched<UnitedDeployment>>>>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    uniteddeployment: String,
    subset: String,
    state: &'static str,
}

impl SubsetPods {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// Reads the statuses of this store; the first store counts.
    pub(crate) fn follow(&self, united: &Arc<Store<Watched<UnitedDeployment>>>) {
        self.0.get_or_init(|| united.clone());
    }
}

impl Collector for SubsetPods {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(united) = self.0.get() else {
            return Ok(());
        };
        let (name, help) = (
            "berth_uniteddeployment_pods",
            "Pods of the subsets of a UnitedDeployment, by their state",
        );
        let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let all = united.all();
        let subsets = all.iter().flat_map(|united| {
            let subsets = united
                .0
                .status
                .as_ref()
                .map(|status| &*status.subset_statuses)
                .unwrap_or_default();
            subsets.iter().map(move |subset| (united, subset))
        });
        for (united, subset) in subsets.take(MOST_SUBSETS) {
            for (state, count) in states(subset) {
                let labels = Labels {
                    namespace: united.namespace().to_owned(),
                    uniteddeployment: united.name().to_owned(),
                    subset: subset.name.clone(),
                    state,
                };
                ConstGauge::<i64>::new(count.into()).encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn states(subset: &SubsetStatus) -> [(&'static str, i32); 3] {
    [
        ("wanted", subset.replicas),
        ("ready", subset.ready_replicas),
        ("reserved", subset.reserved_pods),
    ]
}

impl fmt::Debug for SubsetPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubsetPods")
    }
}

#[cfg(test)]
mod tests {
    use berth_runtime::metrics::Metrics;
    use serde_json::json;

    use super::*;

    fn united(name: &str, subsets: usize) -> Watched<UnitedDeployment> {
        let subset =
            |at: usize| json!({"name": format!("zone-{at}"), "replicas": 3, "readyReplicas": 2});
        let united = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
            "spec": {"selector": {}, "template": {}, "topology": {"subsets": []}},
            "status": {"subsetStatuses": (0..subsets).map(subset).collect::<Vec<_>>()},
        });
        serde_json::from_value(united).unwrap()
    }

    #[test]
    fn subset_pods_follow_the_statuses() {
        let pods = SubsetPods::default();
        let metrics = Metrics::new(|registry| pods.register(registry));
        assert!(
            !metrics.encode().contains("uniteddeployment"),
            "no store yet"
        );
        let store = Store::new(&[]);
        pods.follow(&store);
        store.apply(united("web", 2));
        let text = metrics.encode();
        let of = |state: &str| {
            format!(
                "{{namespace=\"default\",uniteddeployment=\"web\",subset=\"zone-1\",state=\"{state}\"}}"
            )
        };
        for (state, count) in [("wanted", 3), ("ready", 2), ("reserved", 0)] {
            assert!(
                text.contains(&format!("berth_uniteddeployment_pods{} {count}", of(state))),
                "{text}"
            );
        }
        store.remove("default", "web", None);
        assert!(
            !metrics.encode().contains("zone-1"),
            "a deleted one has no series"
        );
    }

    #[test]
    fn series_of_tenants_are_bounded() {
        let pods = SubsetPods::default();
        let metrics = Metrics::new(|registry| pods.register(registry));
        let store = Store::new(&[]);
        pods.follow(&store);
        store.apply(united("web", MOST_SUBSETS + 1));
        let count = metrics
            .encode()
            .lines()
            .filter(|line| line.starts_with("berth_uniteddeployment_pods{"))
            .count();
        assert_eq!(count, 3 * MOST_SUBSETS);
    }
}
