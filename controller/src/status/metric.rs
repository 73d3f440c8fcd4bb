//! Gauges of pods, read from the statuses of a kind at each scrape. Deleted objects have no series.

use std::fmt;
use std::sync::Arc;

use berth_runtime::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::stores::watched::{Kind, Watched};

/// The most series of a kind, because tenants choose how many objects and subsets there are.
const MOST_SERIES: usize = 15_000;

pub(crate) type Label = (&'static str, String);

/// A kind whose status counts pods.
pub(crate) trait CountsPods: Sized + Send + Sync + 'static {
    /// The metric's name.
    const METRIC: &'static str;
    /// Its help text.
    const HELP: &'static str;

    /// The series of one object: labels and number.
    fn series(&self) -> Vec<(Vec<Label>, i32)>;
}

/// Series of one object, one for each state.
pub(crate) fn by_state(
    labels: &[(&'static str, Option<&str>)],
    states: &[(&str, i32)],
) -> Vec<(Vec<Label>, i32)> {
    let series = states.iter().map(|&(state, count)| {
        let owned = |&(name, value): &(&'static str, Option<&str>)| {
            (name, value.unwrap_or_default().to_owned())
        };
        let mut all: Vec<Label> = labels.iter().map(owned).collect();
        all.push(("state", state.to_owned()));
        (all, count)
    });
    series.collect()
}

/// The metric of one kind.
struct StatusMetric<K>(Arc<Store<Watched<K>>>);

/// Registers the metric of one kind.
pub(crate) fn register<K: Kind + CountsPods>(
    registry: &mut Registry,
    store: &Arc<Store<Watched<K>>>,
) {
    registry.register_collector(Box::new(StatusMetric(store.clone())));
}

impl<K: Kind + CountsPods> Collector for StatusMetric<K> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut encoder = encoder.encode_descriptor(K::METRIC, K::HELP, None, MetricType::Gauge)?;
        let all = self.0.all();
        let series = all.iter().flat_map(|object| object.0.series());
        for (labels, count) in series.take(MOST_SERIES) {
            ConstGauge::<i64>::new(count.into()).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl<K> fmt::Debug for StatusMetric<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusMetric")
    }
}

#[cfg(test)]
mod tests;
