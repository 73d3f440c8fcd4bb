//! The SidecarSet controller: which pods it is about, what it reads of them, and its rounds.

mod places;
mod turns;
mod wakes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetRepair};
use berth_kinds::sidecarset::{
    Snapshot, annotations_to_read, base_of, blocked_event, decide, forget, hashes, is_injected,
    keeps_annotations, pod_events, speaks_of, status,
};
use berth_runtime::client::{self, Failed};
use berth_runtime::driver::Next;
use berth_runtime::executor::Owner as Writer;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store, object, turn};
use berth_workload::objects::namespace::Namespace;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Outcome, Plan, Target};
use berth_workload::update::revision::Revision;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::budgets::BudgetStores;
use crate::context::{Context, LARGE, next};
use crate::controller::Controller;
use crate::custom_resources::JOBS_OF_SIDECAR_SETS;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::injection::selectors::{Compiled, Selectors};
use crate::injection::{Injection, is_paused};
use crate::reads::Reader;
use crate::reported::Reported;
use crate::status_throttle::{StatusThrottle, at_latest, nothing_is_urgent};
use crate::triggers::{self, each};
use crate::unreadable;
use crate::watched::{Watched, managing_set, sidecar_set_revisions};
use crate::webhook_rules::WebhookRules;
use berth_kinds::sidecarset::Asked;
use berth_webhook::PodWebhook;
use berth_webhook::pods::Added;
use serde_json::json;
use turns::KnownTurns;

/// What a decision about a SidecarSet is made of.
pub(crate) struct SidecarSetController {
    pub(crate) sets: Arc<Store<Watched<SidecarSet>>>,
    pub(crate) namespaces: Arc<Store<Watched<Namespace>>>,
    pub(crate) revisions: Arc<Store<Watched<Revision>>>,
    pods: Arc<Store<Pod>>,
    nodeimages: Arc<Store<Watched<NodeImage>>>,
    jobs: Arc<Store<Watched<ImagePullJob>>>,
    selectors: Arc<Selectors>,
    told: Reported,
    paced: StatusThrottle,
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
            told: Reported::default(),
            paced: StatusThrottle::default(),
            turns: KnownTurns::default(),
        }
    }

    fn pace(&self, key: &Key) -> Duration {
        pace_of(&self.sets, &key.name, false)
    }

    /// Wakes a SidecarSet when it, a pod that it selects or has selected, a namespace or a revision of it changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, known) = (queue.clone(), context.clone());
        self.sets.on_change(move |change| match change {
            Change::Applied { old, new } => {
                if old.as_ref().is_none_or(|old| is_news(&old.0, &new.0)) {
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
            self.told.forget(&key);
            self.turns.forget(&key.name);
            return self.forget(context, &key.name).await;
        }
        let round = |set: Arc<_>| async move { round(self, context, &set).await };
        unreadable::by_last_read(context, (&self.sets, &self.told), key, round).await
    }
}

impl SidecarSetController {
    /// The conditions of pods speak no more of a SidecarSet that is gone.
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

    /// The SidecarSet's jobs that pull its images ahead; none where that kind is not served.
    fn jobs(&self, set: &Watched<SidecarSet>) -> Option<Vec<Arc<ImagePullJob>>> {
        let jobs = || {
            self.jobs
                .by_index(&JOBS_OF_SIDECAR_SETS, set.uid())
                .iter()
                .map(|job| job.0.clone())
                .collect()
        };
        (!self.jobs.is_missing()).then(jobs)
    }

    /// The selectors of the canaries of a SidecarSet.
    fn canaries(&self, base: &str) -> Vec<Compiled> {
        let is_canary = |set: &&Arc<Watched<SidecarSet>>| {
            base_of(&set.0).is_some_and(|known| known == base) && !is_paused(&set.0)
        };
        self.sets
            .all()
            .iter()
            .filter(is_canary)
            .map(|set| Compiled::new(&set.0))
            .collect()
    }

    /// By namespace of the pods: when labels were written by which it is selected, where that was later than the namespace.
    fn labelled(&self, selectors: &Compiled, pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Timestamp> {
        let Some(selector) = &selectors.namespaces else {
            return BTreeMap::new();
        };
        let names: BTreeSet<_> = pods.iter().map(|pod| &pod.metadata.namespace).collect();
        let known = names
            .into_iter()
            .filter_map(|name| Some((name, self.namespaces.get("", name)?)));
        known
            .filter_map(|(name, it)| Some((name.clone(), it.0.labelled_for(selector)?)))
            .collect()
    }

    /// Everything that a decision about this SidecarSet reads, from the stores alone.
    pub(crate) fn observe(&self, set: &Watched<SidecarSet>, injection: &Injection) -> Snapshot {
        let selectors = Compiled::new(&set.0);
        let canaries = self.canaries(set.name());
        let narrowed = injection.narrowed(&set.0);
        // For whom the webhook is not called, by what others have added to its entry, lacks nothing.
        let is_left_out = |pod: &Pod| {
            let namespace = self.namespaces.get("", &pod.metadata.namespace);
            narrowed.leaves_out(|key| pod.metadata.label(key), namespace.as_deref())
        };
        let repaired = |record: &SidecarSetRepair| self.pods.get(&record.namespace, &record.pod);
        let (mut pods, mut taken, mut strangers) = (Vec::new(), BTreeMap::new(), Vec::new());
        for pod in self.pods.all() {
            // Most pods are none of this SidecarSet's.
            let is_selected = selectors.select(&pod, &self.namespaces);
            let is_concerned = is_selected || speaks_of(&pod, set.name());
            if !is_concerned || injection.leaves_alone(&pod, &self.namespaces) {
                continue;
            }
            let is_taken = is_selected
                && canaries
                    .iter()
                    .any(|canary| canary.select(&pod, &self.namespaces));
            taken.extend(is_taken.then(|| (pod.metadata.uid.clone(), pod.clone())));
            // Where a canary is injected its base is not.
            let lacks_nothing = || is_taken || is_left_out(&pod);
            if is_selected && (is_injected(&pod, set.name()) || !lacks_nothing()) {
                pods.push(pod);
            } else if speaks_of(&pod, set.name()) {
                strangers.push(pod);
            }
        }
        let places = self.places((&selectors, &narrowed), injection);
        let node_image = |pod: &Arc<Pod>| {
            let node = self.nodeimages.get("", &pod.spec.node_name)?;
            Some((pod.spec.node_name.clone(), node.0.clone()))
        };
        let unreadable = |pod: &Arc<Pod>| {
            let odd = self
                .pods
                .unreadable(&pod.metadata.namespace, &pod.metadata.name)?;
            Some((pod.metadata.uid.clone(), odd.error.clone()))
        };
        Snapshot {
            unreadable: pods.iter().filter_map(unreadable).collect(),
            hashes: hashes(&set.0.spec),
            node_images: pods.iter().filter_map(node_image).collect(),
            labelled: self.labelled(&selectors, &pods),
            taken,
            set: set.0.clone(),
            pods,
            strangers,
            repaired: set
                .0
                .status
                .as_ref()
                .and_then(|status| status.repair.as_ref())
                .and_then(repaired),
            revisions: sidecar_set_revisions(&self.revisions, set, injection.own_namespace()),
            own_namespace: injection.own_namespace().to_owned(),
            jobs: self.jobs(set),
            gates: injection.gates(),
            allowed: injection.allowed(&set.0, &set.0.spec),
            annotations: BTreeMap::new(),
            reach: Self::reach(&places),
            asked: injection.asked(&set.0),
            fruitless: None,
            turns: self.turns.of(set),
        }
    }
}

/// Is there surely no SidecarSet of this name? A store that is not complete cannot tell.
fn is_gone(sets: &Store<Watched<SidecarSet>>, name: &str) -> bool {
    let is_known = || sets.get("", name).is_some() || sets.unreadable("", name).is_some();
    sets.is_synced() && !sets.is_missing() && !is_known()
}

/// After a pod whose change failed, until the next pod's turn.
const ANOTHERS_TURN: Duration = Duration::from_secs(1);

/// After what was written for a SidecarSet that is gone, until it is looked whether all of it is seen.
const WRITTEN: Duration = Duration::from_secs(1);

/// How long the SidecarSet of this name waits when one pod of it changes, or may change, as by the room of a budget.
fn pace_of(sets: &Store<Watched<SidecarSet>>, name: &str, is_new: bool) -> Duration {
    let matched = sets
        .get("", name)
        .and_then(|set| set.0.status.as_ref().map(|status| status.matched_pods));
    pace(matched.unwrap_or(0), is_new)
}

/// How long the change of one pod waits for that of others. A decision looks at all pods: where there are a thousand, and a hundred
/// of them change in a second, one after each change would take a processor for itself. For a pod that was just created there is
/// nothing to do but to count it, and beside many it is counted with others: who creates pods waits for answers of this process, too.
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

fn is_news(old: &SidecarSet, new: &SidecarSet) -> bool {
    triggers::is_news(
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

async fn round(reads: &SidecarSetController, context: &Context, set: &Watched<SidecarSet>) -> Next {
    let now = Timestamp::now();
    let is_large = set
        .0
        .status
        .as_ref()
        .is_some_and(|status| usize::try_from(status.matched_pods).is_ok_and(|n| n > LARGE));
    let annotations = match annotations(reads, context, set, now).await {
        Ok(annotations) => annotations,
        Err(failed) => return Next::Retry(failed.to_string()),
    };
    let (asked, fruitless, again) = reads.probed(context, &set.0).await;
    let decided = || {
        let snapshot = Snapshot {
            annotations,
            asked,
            fruitless,
            ..reads.observe(set, &context.injection)
        };
        context.has_all_of_others(set.uid(), &snapshot.pods)?;
        let plan = decide(&snapshot, now);
        Ok((snapshot, plan))
    };
    let (snapshot, plan): (Snapshot, Plan) = match turn::decide(is_large, decided).await {
        Ok(decided) => decided,
        Err(next) => return next,
    };
    let (told, turns) = (Mutex::new(Vec::new()), Mutex::new(None));
    let status = |outcome: &Outcome| {
        let after = snapshot.turns.after(&snapshot, &plan, outcome, now);
        let new = turn::alone(is_large, || status(&snapshot, &plan, outcome, now));
        let of_set = blocked_event(&snapshot, &new).map(|event| (Writer::of(set), event));
        let of_pods = pod_events(&after, &plan, outcome).into_iter().map(
            |(
                Target {
                    namespace,
                    name,
                    uid,
                    ..
                },
                event,
            )| {
                (
                    Writer {
                        resource: object::PODS,
                        namespace,
                        name,
                        uid,
                    },
                    event,
                )
            },
        );
        *told.lock() = of_set.into_iter().chain(of_pods).collect::<Vec<_>>();
        *turns.lock() = Some(after);
        Some(Some(new))
    };
    let next = reads
        .paced
        .carry_out(
            context,
            &plan,
            &reads.sets,
            set,
            (&set.0.status, status, nothing_is_urgent),
        )
        .await;
    for (of, event) in told.into_inner() {
        context
            .executor
            .act(
                &Plan {
                    events: vec![event],
                    ..Plan::default()
                },
                &of,
            )
            .await;
    }
    let turns = turns.into_inner();
    let is_anothers_turn = turns.is_some_and(|turns| reads.turns.note(set, turns));
    let again = again
        .into_iter()
        .chain(is_anothers_turn.then_some(ANOTHERS_TURN))
        .min();
    match (next, again) {
        // The pod that failed is set aside, and no other pod waits for a longer back-off.
        (Next::Retry(_) | Next::Again(_), Some(again)) if is_anothers_turn => Next::After(again),
        (next, Some(again)) => at_latest(next, again),
        (next, None) => next,
    }
}

/// By uid: the annotations of the pods that are updated next, where these count for what they become.
async fn annotations(
    reads: &SidecarSetController,
    context: &Context,
    set: &Watched<SidecarSet>,
    now: Timestamp,
) -> Result<BTreeMap<Box<str>, BTreeMap<String, String>>, Failed> {
    #[derive(Deserialize)]
    struct Annotated {
        metadata: ObjectMeta,
    }
    let mut all = BTreeMap::new();
    if !keeps_annotations(&set.0) {
        return Ok(all);
    }
    for pod in annotations_to_read(&reads.observe(set, &context.injection), now) {
        let path = object::PODS.path(&pod.metadata.namespace, &pod.metadata.name)?;
        let read: Annotated = client::get(&context.client, &path).await?;
        if read.metadata.uid.as_deref() == Some(&*pod.metadata.uid) {
            let mut annotations = read.metadata.annotations.unwrap_or_default();
            annotations.retain(|key, _| {
                set.0
                    .spec
                    .patch_pod_metadata
                    .iter()
                    .any(|it| it.annotations.contains_key(key))
            });
            all.insert(pod.metadata.uid.clone(), annotations);
        }
    }
    Ok(all)
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
        // Where the entries are not ours to read there are none, and nothing is added to them.
        asks.connect(PodWebhook::looked_at(Some(
            Added::read(&look.client).await.unwrap_or_default(),
        )));
        let injection = Injection::new(
            asks,
            look.gates,
            &look.namespaces.own,
            &look.run.protected_namespaces,
            None,
        );
        let (mut snapshot, now) = (self.observe(&set, &injection), Timestamp::now());
        if snapshot.asked != Asked::Never {
            // What a running controller has seen, its condition tells.
            snapshot.asked = Asked::told(&set.0);
        }
        let plan = decide(&snapshot, now);
        let (carried_out, outcome) = look.carried_out(&plan, stores, &*set).await;
        let status = status(&snapshot, &plan, &outcome, now);
        Ok(look.explained::<Self>(carried_out, &json!(status), &json!(set.0.status)))
    }
}

#[cfg(test)]
mod tests;
