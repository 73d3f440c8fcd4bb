//! How many reviews there are, and how long they take, in controller-runtime's names, so that
//! dashboards and alerts made for other webhooks work.

use std::time::Instant;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// In seconds. Most answers take less than one millisecond, so the first bounds are below that.
const BOUNDS: [f64; 11] = [
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0,
];

/// By path of the webhook. Cheap to clone: the counts are shared.
#[derive(Debug, Clone)]
pub struct ReviewMetrics {
    latency: Family<Of, Histogram>,
    requests: Family<Ended, Counter>,
    in_flight: Family<Of, Gauge>,
}

/// The path that the apiserver calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    webhook: &'static str,
}

/// The same, with the HTTP status of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    webhook: &'static str,
    code: u16,
}

impl Default for ReviewMetrics {
    fn default() -> Self {
        Self {
            latency: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            requests: Family::default(),
            in_flight: Family::default(),
        }
    }
}

impl ReviewMetrics {
    /// Adds the series to the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let of = "controller_runtime_webhook";
        registry.register(
            format!("{of}_latency_seconds"),
            "Time of a review",
            self.latency.clone(),
        );
        registry.register(
            format!("{of}_requests"),
            "ReviewMetrics by HTTP status",
            self.requests.clone(),
        );
        registry.register(
            format!("{of}_requests_in_flight"),
            "ReviewMetrics that are answered now",
            self.in_flight.clone(),
        );
    }

    /// Counts the start of a review.
    pub(crate) fn begin(&self, webhook: &'static str) -> Review<'_> {
        self.in_flight.get_or_create(&Of { webhook }).inc();
        Review {
            reviews: self,
            webhook,
            began: Instant::now(),
        }
    }
}

/// A review that is being answered; it ends with this value.
pub(crate) struct Review<'a> {
    reviews: &'a ReviewMetrics,
    webhook: &'static str,
    began: Instant,
}

impl Review<'_> {
    /// Counts the end of the review.
    pub(crate) fn answered(self, status: StatusCode) {
        let (of, ended) = (
            Of {
                webhook: self.webhook,
            },
            Ended {
                webhook: self.webhook,
                code: status.as_u16(),
            },
        );
        self.reviews
            .latency
            .get_or_create(&of)
            .observe(self.began.elapsed().as_secs_f64());
        self.reviews.requests.get_or_create(&ended).inc();
    }
}

impl Drop for Review<'_> {
    fn drop(&mut self) {
        self.reviews
            .in_flight
            .get_or_create(&Of {
                webhook: self.webhook,
            })
            .dec();
    }
}

#[cfg(test)]
mod tests;
