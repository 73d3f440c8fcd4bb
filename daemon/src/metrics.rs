//! The daemon's metrics.

use std::sync::atomic::AtomicBool;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type ByResult = Family<Vec<(&'static str, &'static str)>, Counter>;

/// The daemon's metrics, and whether it is ready.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pulls: ByResult,
    writes: ByResult,
    /// Pulls under way.
    pub running: Gauge,
    /// 1 while the runtime answers.
    pub runtime_ready: Gauge,
    /// The watch showed at least once that the NodeImage exists, or that it does not.
    pub watching: AtomicBool,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("berth_daemon");
        let (pulls, writes) = (ByResult::default(), ByResult::default());
        let (running, runtime_ready) = (Gauge::default(), Gauge::default());
        registry.register(
            "image_pulls",
            "Tries to pull an image that ended, by result",
            pulls.clone(),
        );
        registry.register(
            "status_writes",
            "Writes of the NodeImage's status, by result",
            writes.clone(),
        );
        registry.register("image_pulls_running", "Pulls under way", running.clone());
        registry.register(
            "runtime_ready",
            "1 while the container runtime answers",
            runtime_ready.clone(),
        );
        Metrics {
            registry,
            pulls,
            writes,
            running,
            runtime_ready,
            watching: AtomicBool::new(false),
        }
    }
}

impl Metrics {
    /// A try to pull ended.
    pub fn pulled(&self, result: &'static str) {
        self.pulls.get_or_create(&vec![("result", result)]).inc();
    }

    /// A status was written, or not.
    pub fn written(&self, result: &'static str) {
        self.writes.get_or_create(&vec![("result", result)]).inc();
    }

    /// The metrics as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
