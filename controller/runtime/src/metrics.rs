//! Metrics, with controller-runtime's names if possible, so that dashboards for other controllers
//! work.

mod process;

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The controller that a series is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabels {
    controller: &'static str,
}

/// The controller and how a reconcile ended: `success`, `requeue`, `requeue_after` or `error`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

/// The queue or the lease that a series is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NameLabels {
    name: String,
}

/// A kind of object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    kind: &'static str,
}

/// A request to the apiserver.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    code: String,
    method: String,
    resource: String,
}

/// All metrics of the process. Cheap to share in an `Arc`.
pub struct Metrics {
    registry: Registry,
    controllers: Controllers,
    queues: Queues,
    requests: Family<RequestLabels, Counter>,
    leader: Family<NameLabels, Gauge>,
    feeds: Feeds,
    pub(crate) events_dropped: Counter,
}

/// The series of all controllers.
struct Controllers {
    reconciles: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    time: Family<ControllerLabels, Histogram>,
    active: Family<ControllerLabels, Gauge>,
    workers: Family<ControllerLabels, Gauge>,
}

/// The series of all queues.
struct Queues {
    depth: Family<NameLabels, Gauge>,
    adds: Family<NameLabels, Counter>,
    retries: Family<NameLabels, Counter>,
    queue_duration: Family<NameLabels, Histogram>,
    work_duration: Family<NameLabels, Histogram>,
}

/// The series of all feeds.
struct Feeds {
    events: Family<KindLabels, Counter>,
    lists: Family<KindLabels, Counter>,
    missing: Family<KindLabels, Gauge>,
}

/// The series of a driver.
#[derive(Clone)]
pub struct DriverMetrics {
    pub(crate) done: Counter,
    pub(crate) later: Counter,
    pub(crate) again: Counter,
    pub(crate) failed: Counter,
    pub(crate) errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) time: Histogram,
    pub(crate) active: Gauge,
}

/// The series of a queue.
#[derive(Clone)]
pub struct QueueMetrics {
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) retries: Counter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
}

impl QueueMetrics {
    /// Metrics outside of any registry.
    pub fn unread() -> Self {
        Self {
            depth: Gauge::default(),
            adds: Counter::default(),
            retries: Counter::default(),
            queue_duration: latency(),
            work_duration: latency(),
        }
    }
}

/// The series of a feed.
#[derive(Clone, Default)]
pub struct FeedMetrics {
    pub(crate) events: Counter,
    pub(crate) lists: Counter,
    pub(crate) missing: Gauge,
}

fn latency() -> Histogram {
    const BOUNDS: [f64; 13] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
    ];
    Histogram::new(BOUNDS)
}

impl Controllers {
    fn register(r: &mut Registry) -> Self {
        let name = |name: &str| format!("controller_runtime_{name}");
        Self {
            reconciles: family(r, &name("reconcile"), "Reconciles by controller and result"),
            errors: family(r, &name("reconcile_errors"), "Reconciles that failed"),
            panics: family(r, &name("reconcile_panics"), "Reconciles that panicked"),
            time: histogram(r, &name("reconcile_time_seconds"), "Length of a reconcile"),
            active: family(r, &name("active_workers"), "Workers that are reconciling"),
            workers: family(r, &name("max_concurrent_reconciles"), "Workers at most"),
        }
    }
}

impl Queues {
    fn register(r: &mut Registry) -> Self {
        Self {
            depth: family(r, "workqueue_depth", "Keys that wait for a worker"),
            adds: family(r, "workqueue_adds", "Keys added"),
            retries: family(r, "workqueue_retries", "Keys added again after a failure"),
            queue_duration: histogram(
                r,
                "workqueue_queue_duration_seconds",
                "Wait of a key for a worker",
            ),
            work_duration: histogram(
                r,
                "workqueue_work_duration_seconds",
                "Time of a worker for a key",
            ),
        }
    }
}

impl Feeds {
    fn register(r: &mut Registry) -> Self {
        Self {
            events: family(r, "berth_feed_events", "Watch events received"),
            lists: family(r, "berth_feed_lists", "Full lists read"),
            missing: family(
                r,
                "berth_feed_missing",
                "1 while the kind is not served, and waited for",
            ),
        }
    }
}

impl Metrics {
    /// Registers everything; `extend` adds the caller's own series, e.g. the progress of rollouts.
    pub fn new(extend: impl FnOnce(&mut Registry)) -> Arc<Self> {
        let mut registry = Registry::default();
        let r = &mut registry;
        let controllers = Controllers::register(r);
        let queues = Queues::register(r);
        let requests = family(
            r,
            "rest_client_requests",
            "Requests to the apiserver by code, method and resource",
        );
        let leader = family(
            r,
            "leader_election_master_status",
            "1 while this process leads",
        );
        let feeds = Feeds::register(r);
        let events_dropped = Counter::default();
        r.register(
            "berth_events_dropped",
            "Events not sent for lack of room or rate",
            events_dropped.clone(),
        );
        r.register_collector(Box::new(process::Process));
        extend(r);
        Arc::new(Self {
            registry,
            controllers,
            queues,
            requests,
            leader,
            feeds,
            events_dropped,
        })
    }

    /// The driver metrics of a controller with this many workers.
    pub fn driver(&self, controller: &'static str, workers: usize) -> DriverMetrics {
        let labels = ControllerLabels { controller };
        let result = |result| {
            self.controllers
                .reconciles
                .get_or_create_owned(&ResultLabels { controller, result })
        };
        self.controllers
            .workers
            .get_or_create_owned(&labels)
            .set(workers as i64);
        DriverMetrics {
            done: result("success"),
            later: result("requeue_after"),
            again: result("requeue"),
            failed: result("error"),
            errors: self.controllers.errors.get_or_create_owned(&labels),
            panics: self.controllers.panics.get_or_create_owned(&labels),
            time: self.controllers.time.get_or_create_owned(&labels),
            active: self.controllers.active.get_or_create_owned(&labels),
        }
    }

    /// The metrics of a queue.
    pub fn queue(&self, name: &'static str) -> QueueMetrics {
        let labels = NameLabels {
            name: name.to_owned(),
        };
        QueueMetrics {
            depth: self.queues.depth.get_or_create_owned(&labels),
            adds: self.queues.adds.get_or_create_owned(&labels),
            retries: self.queues.retries.get_or_create_owned(&labels),
            queue_duration: self.queues.queue_duration.get_or_create_owned(&labels),
            work_duration: self.queues.work_duration.get_or_create_owned(&labels),
        }
    }

    /// The metrics of a feed.
    pub fn feed(&self, kind: &'static str) -> FeedMetrics {
        let labels = KindLabels { kind };
        FeedMetrics {
            events: self.feeds.events.get_or_create_owned(&labels),
            lists: self.feeds.lists.get_or_create_owned(&labels),
            missing: self.feeds.missing.get_or_create_owned(&labels),
        }
    }

    pub(crate) fn leader(&self, lease: &str) -> Gauge {
        self.leader.get_or_create_owned(&NameLabels {
            name: lease.to_owned(),
        })
    }

    pub(crate) fn request(&self, code: &str, method: &str, resource: &str) {
        let labels = RequestLabels {
            code: code.into(),
            method: method.into(),
            resource: resource.into(),
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// Everything in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            tracing::error!(%error, "cannot encode metrics");
        }
        text
    }
}

fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
where
    Family<L, M>: prometheus_client::registry::Metric + Default + Clone,
{
    let family = Family::<L, M>::default();
    registry.register(name, help, family.clone());
    family
}

fn histogram<L>(registry: &mut Registry, name: &str, help: &str) -> Family<L, Histogram>
where
    L: EncodeLabelSet + Clone + std::hash::Hash + Eq + Send + Sync + std::fmt::Debug + 'static,
{
    let family = Family::<L, Histogram>::new_with_constructor(latency);
    registry.register(name, help, family.clone());
    family
}

#[cfg(test)]
mod tests;
