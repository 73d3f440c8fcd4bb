//! The CloneSet controller: observe, decide, act, status.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use berth_api::names::label;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_kinds::cloneset::{Ended, Orphans, Snapshot, decide, noted, status};
use berth_runtime::driver::Next;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store, object, turn};
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::podset::Phases;
use jiff::Timestamp;

use crate::acting::{Acting, LARGE};
use crate::change;
use crate::controller::Controller;
use crate::ended::EndedPods;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::overlapping;
use crate::pod_budgets::BudgetStores;
use crate::podset::{Observed, PodSetReads};
use crate::reads::Reader;
use crate::told::Told;
use crate::unreadable;
use crate::watched::Watched;
use berth_workload::pod::spread::is_constrained;
use serde_json::json;

/// What a decision about a CloneSet is made of.
pub(crate) struct Reads {
    pub(crate) clonesets: Arc<Store<Watched<CloneSet>>>,
    pub(crate) of_pods: PodSetReads,
    told: Told,
    ended: EndedPods<Option<Ended>>,
}

impl Controller for Reads {
    const RESOURCE: Resource = object::CLONE_SETS;
    const NAME: &'static str = "cloneset";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            clonesets: reader.read(),
            of_pods: PodSetReads::new(reader),
            told: Told::default(),
            ended: EndedPods::default(),
        }
    }

    /// Wakes a CloneSet when it, one of its pods, one of its revisions or one of their claims changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        let (to, acting, ended) = (queue.clone(), acting.clone(), self.ended.clone());
        self.clonesets.on_change(move |change| match change {
            Change::Applied {
                old: Some(old),
                new,
            } if !is_news(&old.0, &new.0) => {}
            Change::Applied { new, .. } => to.add(Key::of(&**new)),
            Change::Deleted { old } => {
                acting.expectations.forget(old.uid());
                ended.forget(old.uid());
            }
            Change::Synced => {}
        });
        let to = queue.clone();
        self.clonesets
            .on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
        overlapping::wake(&self.clonesets, queue);
        self.of_pods.wake(&self.clonesets, queue);
    }

    /// One round for one CloneSet.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let round = |set: Arc<_>| async move { round(self, acting, &set).await };
        unreadable::by_last_read(acting, (&self.clonesets, &self.told), key, round).await
    }
}

fn is_news(old: &CloneSet, new: &CloneSet) -> bool {
    change::is_news(
        (&old.metadata, &old.status),
        (&new.metadata, &new.status),
        |status| {
            for condition in &mut status.conditions {
                condition.message = String::new();
                (condition.last_update_time, condition.last_transition_time) = (None, None);
            }
        },
    )
}

/// Everything that a decision about this CloneSet reads, from the stores alone.
pub(crate) fn observe(
    reads: &Reads,
    set: &Watched<CloneSet>,
    gates: Gates,
    resize: Ability,
) -> Snapshot {
    let owner = owner_key(set);
    let of_pods = &reads.of_pods;
    let Observed {
        pods,
        strays,
        revisions,
        node_images,
        nodes,
        jobs,
        mut claims,
        unreadable,
    } = of_pods.observe(&owner, &set.0.spec.selector, &set.0.spec.template, gates);
    // Pods may own claims of other kinds of volumes.
    claims.retain(|claim| claim.metadata.label(label::CLONESET_INSTANCE_ID).is_some());
    // What an earlier CloneSet of this name may have left.
    let orphaned = of_pods.orphaned(set.namespace());
    let orphans = Orphans::of(&set.0, orphaned.pods, orphaned.claims, orphaned.revisions);
    // Seeded by the operating system, anew for every hasher.
    let seed = RandomState::new().build_hasher().finish();
    Snapshot {
        set: set.0.clone(),
        pods,
        strays,
        claims,
        orphans,
        revisions,
        node_images,
        nodes,
        jobs,
        ended: reads.ended.of(set.uid()),
        phases: Phases::default(),
        unreadable,
        overlapping: overlapping::older(&reads.clonesets, set),
        gates,
        resize,
        seed,
    }
}

/// Has it many pods, or is it to have many? By the numbers that are at hand.
fn is_large(set: &CloneSet) -> bool {
    let has = set.status.as_ref().map_or(0, |status| status.replicas);
    usize::try_from(has.max(set.spec.replicas.unwrap_or(1))).is_ok_and(|pods| pods > LARGE)
}

async fn round(reads: &Reads, acting: &Acting, set: &Watched<CloneSet>) -> Next {
    let now = Timestamp::now();
    let is_large = is_large(&set.0);
    let decided = || {
        let snapshot = observe(reads, set, acting.gates, acting.resize);
        acting.has_all_of_others(set.uid(), &snapshot.pods)?;
        let plan = decide(&snapshot, now);
        Ok((snapshot, plan))
    };
    let (snapshot, plan): (Snapshot, Plan) = match turn::decide(is_large, decided).await {
        Ok(decided) => decided,
        Err(next) => return next,
    };
    if let Some(ended) = noted(&snapshot, &plan, now) {
        reads.ended.note(set.uid(), |known| *known = Some(ended));
    }
    let status = |outcome: &Outcome| {
        Some(turn::alone(is_large, || {
            status(&snapshot, &plan, outcome, now)
        }))
    };
    acting
        .carry_out(&plan, &reads.clonesets, set, (&set.0.status, status))
        .await
}

impl Explains for Reads {
    type Object = CloneSet;

    // Only a template that spreads its pods asks where its nodes are.
    fn reads_nodes(&self) -> bool {
        let all = self.clonesets.all();
        all.iter().any(|set| is_constrained(&set.0.spec.template))
    }

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(set) = self.clonesets.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let (snapshot, now) = (
            observe(self, &set, look.gates, look.resize),
            Timestamp::now(),
        );
        let plan = decide(&snapshot, now);
        let (carried_out, outcome) = look.carried_out(&plan, stores, &*set).await;
        let status = status(&snapshot, &plan, &outcome, now);
        Ok(look.explained::<Self>(carried_out, &json!(status), &json!(snapshot.set.status)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_words_in_a_condition_are_no_news() {
        let set = |generation: i64, reason: &str, message: &str| -> CloneSet {
            serde_json::from_value(json!({
                "metadata": {"name": "web", "generation": generation},
                "spec": {"selector": {}, "template": {}},
                "status": {"conditions": [{"type": "FailedScale", "status": "True", "reason": reason, "message": message}]},
            }))
            .unwrap()
        };
        let before = set(1, "Refused", "pod a");
        for (after, news) in [
            (set(1, "Refused", "pod b"), false),
            (set(1, "Other", "pod a"), true),
            (set(2, "Refused", "pod a"), true),
        ] {
            assert_eq!(is_news(&before, &after), news, "{after:?}");
        }
    }
}
