//! The metric of what pods have of SidecarSets: what the statuses say, read when it is asked for.

use std::fmt;
use std::sync::{Arc, OnceLock};

use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetInjection};
use berth_runtime::{Object, Store};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::watched::Watched;

/// `berth_sidecarset_pods`. A series for each state of each SidecarSet that there is, so what is deleted has none.
#[derive(Clone, Default)]
pub(crate) struct SidecarSetPods(Arc<OnceLock<Arc<Store<Watched<SidecarSet>>>>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    sidecarset: String,
    state: &'static str,
}

impl SidecarSetPods {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// By this store; the first one counts.
    pub(crate) fn follow(&self, sets: &Arc<Store<Watched<SidecarSet>>>) {
        self.0.get_or_init(|| sets.clone());
    }
}

impl Collector for SidecarSetPods {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(sets) = self.0.get() else {
            return Ok(());
        };
        let (name, help) = (
            "berth_sidecarset_pods",
            "Pods that a SidecarSet selects, by what they have of it",
        );
        let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for set in sets.all() {
            let Some(injection) = set
                .0
                .status
                .as_ref()
                .and_then(|status| status.injection.as_ref())
            else {
                continue;
            };
            for (state, count) in states(injection) {
                let labels = Labels {
                    sidecarset: set.name().to_owned(),
                    state,
                };
                ConstGauge::<i64>::new(count.into()).encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn states(injection: &SidecarSetInjection) -> [(&'static str, i32); 8] {
    let SidecarSetInjection {
        selected,
        injected,
        missed,
        older,
        refused,
        drifted,
        replaced,
        not_upgradable,
        selector_hash: _,
        since: _,
    } = *injection;
    [
        ("selected", selected),
        ("injected", injected),
        ("missed", missed),
        ("older", older),
        ("refused", refused),
        ("drifted", drifted),
        ("replaced", replaced),
        ("not_upgradable", not_upgradable),
    ]
}

impl fmt::Debug for SidecarSetPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SidecarSetPods")
    }
}

#[cfg(test)]
mod tests {
    use berth_runtime::metrics::Metrics;
    use serde_json::json;

    use super::*;

    #[test]
    fn there_is_a_series_for_each_state_of_each_sidecar_set_until_it_is_deleted() {
        let pods = SidecarSetPods::default();
        let metrics = Metrics::new(|registry| pods.register(registry));
        assert!(
            !metrics.encode().contains("sidecarset"),
            "nobody follows SidecarSets"
        );
        let sets = Store::new(&[]);
        pods.follow(&sets);
        let set = |name: &str, missed: i32| {
            let set = json!({
                "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"containers": []},
                "status": {"injection": {"selected": 3, "injected": 2, "missed": missed}},
            });
            serde_json::from_value(set).unwrap()
        };
        sets.apply(set("log", 1));
        sets.apply(set("mesh", 0));
        let text = metrics.encode();
        assert!(
            text.contains("berth_sidecarset_pods{sidecarset=\"log\",state=\"missed\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("berth_sidecarset_pods{sidecarset=\"mesh\",state=\"not_upgradable\"} 0"),
            "{text}"
        );
        sets.remove("", "log", None);
        let series = |text: String| {
            text.lines()
                .filter(|line| line.starts_with("berth_sidecarset_pods{"))
                .count()
        };
        assert_eq!((series(text), series(metrics.encode())), (16, 8));
    }
}
