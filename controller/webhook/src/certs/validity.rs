//! For how long the certificates are still valid, as a metric.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::plan::Stored;

/// When the serving certificate and the newest authority end. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Validity {
    ends: Arc<Mutex<Ends>>,
}

#[derive(Debug, Default)]
struct Ends {
    serving: Option<Timestamp>,
    authority: Option<Timestamp>,
}

impl Validity {
    /// Adds `berth_certificate_remaining_seconds` to the metrics, for `serving` and `authority`
    /// each; below zero is expired.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// Sets the material that the Secret holds.
    pub(crate) fn set(&self, stored: &Stored) {
        let mut ends = self.ends.lock();
        ends.serving = stored.leaf.as_ref().map(|leaf| leaf.span.not_after);
        ends.authority = stored.authorities.first().map(|newest| newest.not_after);
    }
}

impl Collector for Validity {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ends = {
            let ends = self.ends.lock();
            [("serving", ends.serving), ("authority", ends.authority)]
        };
        let help = "Seconds until the webhooks' certificate, or its authority, ends";
        let mut metric = encoder.encode_descriptor(
            "berth_certificate_remaining_seconds",
            help,
            None,
            MetricType::Gauge,
        )?;
        for (certificate, end) in ends {
            let Some(end) = end else { continue };
            let left = ConstGauge::<i64>::new(end.duration_since(Timestamp::now()).as_secs());
            left.encode(metric.encode_family(&[("certificate", certificate)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
