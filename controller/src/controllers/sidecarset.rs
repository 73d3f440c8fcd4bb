//! The SidecarSet controller: which pods concern a SidecarSet, which stores it reads, and its
//! rounds.

mod metric;
mod observe;
mod places;
mod round;
mod turns;
mod wakes;

use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_kinds::sidecarset::{base_of, decide, forget, speaks_of, status};
use berth_runtime::driver::Next;
use berth_runtime::events::Owner as Writer;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store, object};
use berth_workload::objects::namespace::Namespace;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::update::revision::Revision;
use jiff::Timestamp;

use crate::admission::injection::Injection;
use crate::admission::injection::selectors::Selectors;
use crate::admission::webhook_rules::WebhookRules;
use crate::budgets::BudgetStores;
use crate::context::{Context, next};
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::reconcile::controller::Controller;
use crate::reconcile::unreadable;
use crate::status::metric::register;
use crate::status::reported::Reported;
use crate::status::throttle::StatusThrottle;
use crate::stores::reads::Reader;
use crate::stores::triggers::{self, each};
use crate::stores::watched::{Watched, managing_set};
use berth_kinds::sidecarset::InjectionCalls;
use berth_webhook::PodWebhook;
use berth_webhook::pods::Added;
use prometheus_client::registry::Registry;
use serde_json::json;
use turns::KnownTurns;

/// The stores that a decision about a SidecarSet reads.
pub(crate) struct SidecarSetController {
    pub(crate) sets: Arc<Store<Watched<SidecarSet>>>,
    pub(crate) namespaces: Arc<Store<Watched<Namespace>>>,
    pub(crate) revisions: Arc<Store<Watched<Revision>>>,
    pods: Arc<Store<Pod>>,
    nodeimages: Arc<Store<Watched<NodeImage>>>,
    jobs: Arc<Store<Watched<ImagePullJob>>>,
    selectors: Arc<Selectors>,
    reported: Reported,
    status_throttle: StatusThrottle,
    turns: KnownTurns,
}

impl Controller for SidecarSetController {
    const RESOURCE: Resource = object::SIDECAR_SETS;
    const NAME: &'static str = "sidecarset";

    fn new(reader: &mut Reader<'_>) -> Self {
        let sets: Arc<Store<Watched<SidecarSet>>> = reader.read();
        Self {
            selectors: Selectors::of_sets(&sets),
            sets,
            namespaces: reader.read(),
            revisions: reader.read(),
            pods: reader.read(),
            nodeimages: reader.read(),
            jobs: reader.read(),
            reported: Reported::default(),
            status_throttle: StatusThrottle::default(),
            turns: KnownTurns::default(),
        }
    }

    fn register(registry: &mut Registry, reader: &mut Reader<'_>) {
        register::<SidecarSet>(registry, &reader.read());
    }

    fn pace(&self, key: &Key) -> Duration {
        pace_of(&self.sets, &key.name, false)
    }

    /// Wakes a SidecarSet when it, a pod that it selects or has selected, a namespace or a revision
    /// of it changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, known) = (queue.clone(), context.clone());
        self.sets.on_change(move |change| match change {
            Change::Applied { old, new } => {
                if old.as_ref().is_none_or(|old| is_trigger(&old.0, &new.0)) {
                    to.add(Key::of(&**new));
                    base_of(&new.0)
                        .into_iter()
                        .for_each(|base| to.add(Key::new("", base)));
                }
            }
            Change::Deleted { old } => {
                base_of(&old.0)
                    .into_iter()
                    .for_each(|base| to.add(Key::new("", base)));
                to.add(Key::of(&**old));
                known.expectations.forget(old.uid());
            }
            Change::Synced => {}
        });
        let to = queue.clone();
        self.sets
            .on_unreadable(move |odd| to.add(Key::new("", &odd.name)));
        let (to, selectors, namespaces) = (
            queue.clone(),
            self.selectors.clone(),
            self.namespaces.clone(),
        );
        let (injection, sets) = (context.injection.clone(), self.sets.clone());
        self.pods.on_change(move |change| {
            let mut woken = Vec::new();
            let is_new = matches!(change, Change::Applied { old: None, .. });
            each(change, |pod| {
                if !injection.leaves_alone(pod, &namespaces) {
                    woken.extend(selectors.of(pod, &namespaces));
                }
            });
            for set in woken {
                to.add_after(Key::new("", &set), pace_of(&sets, &set, is_new));
            }
        });
        let to = queue.clone();
        self.revisions.on_change(move |change| {
            each(change, |revision| {
                managing_set(&revision.0.metadata)
                    .into_iter()
                    .for_each(|set| to.add(Key::new("", &set.name)));
            });
        });
        self.wake_for_unreadable_pods(queue);
        self.wake_for_the_gone(queue);
        self.wake_for_namespaces(queue);
        self.wake_for_answers(queue);
        self.wake_for_images(queue);
        let (to, sets) = (queue.clone(), self.sets.clone());
        context
            .injection
            .on_written(move || sets.all().iter().for_each(|set| to.add(Key::of(&**set))));
    }

    /// One round for one SidecarSet.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        if is_gone(&self.sets, &key.name) {
            self.reported.forget(&key);
            self.turns.forget(&key.name);
            return self.forget(context, &key.name).await;
        }
        let round = |set: Arc<_>| async move { self.round(context, &set).await };
        unreadable::by_last_read(context, (&self.sets, &self.reported), key, round).await
    }
}

impl SidecarSetController {
    /// Removes a SidecarSet that is gone from the conditions of pods.
    async fn forget(&self, context: &Context, name: &str) -> Next {
        let uid = format!("gone/{name}");
        if let Err(next) = context.settled(&uid).await {
            return next;
        }
        let speaks = |pod: &&Arc<Pod>| {
            speaks_of(pod, name) && !context.injection.leaves_alone(pod, &self.namespaces)
        };
        let plan = forget(
            name,
            self.pods.all().iter().filter(speaks),
            Timestamp::now(),
        );
        if plan.is_idle() {
            context.expectations.forget(&uid);
            return Next::Done;
        }
        let writer = Writer {
            resource: object::SIDECAR_SETS,
            namespace: String::new(),
            name: name.to_owned(),
            uid,
        };
        let outcome = context.executor.act(&plan, &writer).await;
        match next(&plan, &outcome, Ok(false)) {
            Next::Done => Next::After(WRITTEN),
            other => other,
        }
    }
}

/// Is there surely no SidecarSet of this name? A store that is not complete cannot tell.
fn is_gone(sets: &Store<Watched<SidecarSet>>, name: &str) -> bool {
    let is_known = || sets.get("", name).is_some() || sets.unreadable("", name).is_some();
    sets.is_synced() && !sets.is_missing() && !is_known()
}

/// How long after the writes for a SidecarSet that is gone the next round checks whether the stores
/// have seen all of them.
const WRITTEN: Duration = Duration::from_secs(1);

/// How long the SidecarSet of this name waits when one pod of it changes, or may change, for
/// example because a budget has capacity.
fn pace_of(sets: &Store<Watched<SidecarSet>>, name: &str, is_new: bool) -> Duration {
    let matched = sets
        .get("", name)
        .and_then(|set| set.0.status.as_ref().map(|status| status.matched_pods));
    pace(matched.unwrap_or(0), is_new)
}

/// How long the change of one pod waits for changes of others. A decision reads all pods. With a
/// thousand of them, of which a hundred change in a second, a decision after each change would take
/// a processor for itself. A pod that was just created only has to be counted, and with many others
/// it is counted together: the author of pods waits for answers of this process, too.
fn pace(matched: i32, is_new: bool) -> Duration {
    const FEW: i32 = 100;
    const LONGEST: Duration = Duration::from_millis(500);
    if matched <= FEW {
        return Duration::ZERO;
    }
    if is_new {
        4 * LONGEST
    } else {
        Duration::from_millis(u64::from(matched.unsigned_abs() / 2)).min(LONGEST)
    }
}

fn is_trigger(old: &SidecarSet, new: &SidecarSet) -> bool {
    triggers::is_trigger(
        (&old.metadata, &old.status),
        (&new.metadata, &new.status),
        |status| {
            for condition in &mut status.conditions {
                condition.message = String::new();
                condition.last_transition_time = None;
            }
        },
    )
}

impl Explains for SidecarSetController {
    type Object = SidecarSet;

    fn reads_nodes(&self) -> bool {
        false
    }

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(set) = self.sets.get("", look.name) else {
            return look.is_missing::<Self>();
        };
        let asks = Arc::<WebhookRules>::default();
        // Without the right to read the entries there are none, and nothing is added to them.
        asks.connect(PodWebhook::looked_at(Some(
            Added::read(&look.client).await.unwrap_or_default(),
        )));
        let injection = Injection::new(
            asks,
            look.gates,
            &look.namespaces.own,
            &look.settings.protected_namespaces,
            None,
        );
        let (mut snapshot, now) = (self.observe(&set, &injection), Timestamp::now());
        if snapshot.injection_calls != InjectionCalls::Never {
            // The condition says what a running controller has seen.
            snapshot.injection_calls = InjectionCalls::from_status(&set.0);
        }
        let plan = decide(&snapshot, now);
        let (carried_out, outcome) = look.carried_out(&plan, stores, &*set).await;
        let status = status(&snapshot, &plan, &outcome, now);
        Ok(look.explained::<Self>(carried_out, &json!(status), &json!(set.0.status)))
    }
}

#[cfg(test)]
mod tests;
