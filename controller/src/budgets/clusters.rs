//! Reads budgets of other clusters that budgets here name, and keeps what may be counted on while
//! those clusters are silent. It writes nothing there.

mod contexts;
pub(crate) mod find;
mod identity;
mod pulse;
mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1alpha1::distributedpoddisruptionbudget::Member;
use berth_runtime::CancellationToken;
use berth_runtime::client::{self, Failed};
use berth_runtime::metrics::Metrics;
use berth_workload::budget::federation::{Brings, Silence};
use berth_workload::budget::floor::Promise;
use berth_workload::budget::sharing::Elsewhere;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout};

use crate::budgets::clusters::find::{Found, LARGEST, MISSING, find};
use contexts::Contexts;
use pulse::{Lease, Pulse};
pub(crate) use seen::Known;
use seen::{Seen, Way};

/// How long until the other clusters are read again.
const PERIOD: Duration = Duration::from_secs(2);
/// How long one read of another cluster may take: the apiserver here waits for the answer.
const READ: Duration = Duration::from_secs(2);
/// How long the budgets of a cluster are read before its Lease is read again.
const ROUND: Duration = Duration::from_secs(4);
/// How many budgets of a cluster are read at once.
const AT_ONCE: usize = 8;
/// The most characters of another server's message that ours repeat.
const LONGEST: usize = 256;

/// How the other clusters are found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Our own name among the clusters; may be empty.
    pub(crate) own: String,
    /// The file that names the others.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The path of the Lease that controllers of this name hold, there as here.
    pub(crate) lease: String,
}

/// How many of the other clusters answer, and count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answering(Family<ClusterLabel, Gauge>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabel {
    cluster: String,
}

impl Answering {
    /// Adds the metric.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Whether another cluster that a DistributedPodDisruptionBudget names answers, and counts: 1 or 0";
        registry.register("berth_other_cluster_answers", help, self.0.clone());
    }
}

type Hook = Box<dyn Fn(&Member) + Send + Sync>;

/// The other clusters.
pub(crate) struct Clusters {
    settings: Settings,
    metrics: Arc<Metrics>,
    answering: Answering,
    contexts: Mutex<Arc<Contexts>>,
    seen: Mutex<Seen>,
    hooks: Mutex<Vec<Hook>>,
}

impl Clusters {
    pub(crate) fn new(
        settings: Settings,
        metrics: Arc<Metrics>,
        answering: Answering,
    ) -> Arc<Self> {
        let (contexts, seen) = (Mutex::new(Arc::new(Contexts::none())), Mutex::default());
        Arc::new(Self {
            settings,
            metrics,
            answering,
            contexts,
            seen,
            hooks: Mutex::default(),
        })
    }

    /// Whether a budget is in another cluster.
    pub(crate) fn has(&self, member: &Member) -> bool {
        !member.cluster.is_empty() && member.cluster != self.settings.own
    }

    /// Registers what is called with a budget of which another thing is known than before.
    pub(crate) fn on_change(&self, hook: Hook) {
        self.hooks.lock().push(hook);
    }

    /// Reads the other clusters periodically, as long as budgets name some there. `here` reads the
    /// Lease of this cluster, if there is one. That Lease tells this cluster from the others.
    pub(crate) async fn follow(
        &self,
        here: Option<Client>,
        named: impl Fn() -> BTreeSet<Member>,
        stop: CancellationToken,
    ) {
        loop {
            self.reload().await;
            let mut by_cluster = BTreeMap::<String, Vec<Member>>::new();
            for member in named().into_iter().filter(|member| self.has(member)) {
                by_cluster
                    .entry(member.cluster.clone())
                    .or_default()
                    .push(member);
            }
            self.forget_all_but(&by_cluster);
            let here = here.as_ref().filter(|_| !by_cluster.is_empty());
            // All Leases first: two clusters are known to differ once each was read after the other
            // became known.
            tokio::join!(
                self.feel_here(here),
                join_all(by_cluster.keys().map(|cluster| self.feel(cluster)))
            );
            join_all(
                by_cluster
                    .iter()
                    .map(|(cluster, members)| self.look(cluster, members)),
            )
            .await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }

    async fn reload(&self) {
        let Some(file) = &self.settings.kubeconfig else {
            return;
        };
        let before = self.contexts();
        if let Some(read) = Contexts::read(file, &before, &self.metrics).await {
            let mut seen = self.seen();
            seen.pulses.values_mut().for_each(Pulse::reconnect);
            *self.contexts.lock() = Arc::new(read);
        }
    }

    fn contexts(&self) -> Arc<Contexts> {
        self.contexts.lock().clone()
    }

    fn seen(&self) -> parking_lot::MutexGuard<'_, Seen> {
        self.seen.lock()
    }

    fn forget_all_but(&self, named: &BTreeMap<String, Vec<Member>>) {
        let mut seen = self.seen();
        seen.pulses.retain(|cluster, _| {
            let is_named = named.contains_key(cluster);
            if !is_named {
                self.answering.0.remove(&ClusterLabel {
                    cluster: cluster.clone(),
                });
            }
            is_named
        });
        let is_named = |member: &Member| {
            named
                .get(&member.cluster)
                .is_some_and(|members| members.contains(member))
        };
        seen.members.retain(|member, _| is_named(member));
    }

    /// Reads one cluster: does it count, and what do these budgets have?
    async fn look(&self, cluster: &str, members: &[Member]) {
        let (answers, label) = (
            self.way(cluster).is_ok(),
            ClusterLabel {
                cluster: cluster.to_owned(),
            },
        );
        self.answering.0.get_or_create(&label).set(answers.into());
        // The round ends in time for the next read of the Lease, however many budgets are named.
        // The random order gives each budget its chance to be read.
        let mut members: Vec<_> = members.iter().collect();
        fastrand::shuffle(&mut members);
        let _ = timeout(ROUND, self.read_all(&members)).await;
    }

    async fn read_all(&self, members: &[&Member]) {
        stream::iter(members)
            .for_each_concurrent(AT_ONCE, async |member| {
                let known = self.read(member).await;
                let is_new = {
                    let mut seen = self.seen();
                    let of_member = seen.members.entry((*member).clone()).or_default();
                    of_member.last.replace(known.clone()).as_ref() != Some(&known)
                };
                if is_new {
                    self.hooks.lock().iter().for_each(|hook| hook(member));
                }
            })
            .await;
    }

    /// Reads the Lease of a cluster.
    async fn feel(&self, cluster: &str) {
        let Ok(client) = self.contexts().client(cluster) else {
            return;
        };
        let (read, sent) = self.lease(&client).await;
        self.seen().note(cluster, read, sent, Instant::now());
    }

    /// Reads the Lease of this cluster.
    async fn feel_here(&self, client: Option<&Client>) {
        let Some(client) = client else { return };
        let (read, sent) = self.lease(client).await;
        self.seen().note_here(read, sent, Instant::now());
    }

    /// The Lease of a cluster, and when its read was sent.
    async fn lease(&self, client: &Client) -> (Result<Lease, String>, Instant) {
        let sent = Instant::now();
        let read = match timeout(
            READ,
            client::get_within::<Lease>(client, &self.settings.lease, LARGEST),
        )
        .await
        {
            Ok(read) => read.map_err(|failed| words(&failed)),
            Err(_) => Err(late()),
        };
        (read, sent)
    }

    /// The state of a budget of another cluster, by a read that no cache answers; or the number
    /// that may be counted on without one. When a cluster falls silent, only the reads of that
    /// moment wait for it. Later ones fail at once.
    pub(crate) async fn read(&self, member: &Member) -> Known {
        let (client, way) = match self.way(&member.cluster) {
            Ok(way) => way,
            Err(why) => return self.without(member, why),
        };
        let sent = Instant::now();
        match timeout(READ, find(&client, member)).await {
            Ok(Ok(found)) => self.note(member, found, way, sent),
            Ok(Err(failed)) => self.without(member, format!("does not answer: {}", words(&failed))),
            Err(_) => {
                if let Some(pulse) = self.seen().pulses.get_mut(&member.cluster) {
                    pulse.miss(late(), sent);
                }
                self.without(member, format!("does not answer: {}", late()))
            }
        }
    }

    /// The result of the last read of a budget.
    pub(crate) fn last(&self, member: &Member) -> Known {
        let last = self
            .seen()
            .members
            .get(member)
            .and_then(|seen| seen.last.clone());
        last.unwrap_or_else(|| self.without(member, "was not asked yet".to_owned()))
    }

    /// A client of a cluster that is known to answer, to count, and not to be this one; and where
    /// it leads.
    fn way(&self, cluster: &str) -> Result<(Client, Way), String> {
        // Both at one moment: a new context may lead to another cluster than the old one did.
        let seen = self.seen();
        let client = self.contexts().client(cluster)?;
        Ok((client, seen.way(cluster, Instant::now())?))
    }

    fn note(
        &self,
        member: &Member,
        found: Found,
        Way { uid, aliases }: Way,
        sent: Instant,
    ) -> Known {
        let Found {
            kind,
            held,
            brings,
            promise,
            ..
        } = found;
        let promise = promise.map(|Promise { pods, lasts }| (pods, sent + lasts));
        let mut seen = self.seen();
        let mut leads_there = false;
        if let Some(pulse) = seen.pulses.get_mut(&member.cluster) {
            pulse.answer(Instant::now());
            leads_there = pulse.uid() == Some(&*uid);
        }
        let of_member = seen.members.entry(member.clone()).or_default();
        (of_member.kind, of_member.held) = (kind, held.clone());
        (of_member.read, of_member.promise) =
            (Some(Timestamp::now()), promise.filter(|_| leads_there));
        let keeps = promise.map_or(0, |(pods, _)| pods);
        let brings = match (kind, brings) {
            (None, _) => Err(Silence::of(MISSING)),
            (_, brings) => brings
                .map(Brings::without_surplus)
                .map_err(|silence| Silence { keeps, ..silence }),
        };
        Known {
            elsewhere: Elsewhere {
                kind,
                held,
                aliases,
            },
            brings,
            last_read: None,
        }
    }

    /// The number that may be counted on while a budget cannot be read.
    fn without(&self, member: &Member, why: String) -> Known {
        let seen = self.seen();
        let of_member = seen.members.get(member);
        let promise = of_member
            .and_then(|seen| seen.promise)
            .filter(|(_, until)| *until > Instant::now());
        let keeps = promise.map_or(0, |(pods, _)| pods);
        let why = if keeps > 0 {
            format!("{why}; its floor of {keeps} is counted on")
        } else {
            why
        };
        Known {
            elsewhere: Elsewhere {
                kind: of_member.and_then(|seen| seen.kind),
                held: of_member.and_then(|seen| seen.held.clone()),
                aliases: seen.aliases(&member.cluster),
            },
            brings: Err(Silence { why, keeps }),
            last_read: of_member.and_then(|seen| seen.read),
        }
    }
}

fn late() -> String {
    format!("no answer within {} s", READ.as_secs())
}

/// Another server's message, and the remedy if it is known.
fn words(failed: &Failed) -> String {
    let words: String = failed
        .message
        .chars()
        .filter(|one| !one.is_control())
        .take(LONGEST)
        .collect();
    match failed.code {
        401 => format!("{words}: renew what logs in there"),
        403 => format!("{words}: bind its ClusterRole kruise-budget-reader to who reads"),
        _ => words,
    }
}
