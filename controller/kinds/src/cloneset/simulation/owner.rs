//! The owner of lifecycle hooks in the small world, and checks of the writes to pods that the owner
//! holds.

use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::lifecycle::{
    self, NORMAL, PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED, UPDATING, hook,
};
use berth_workload::objects::pod::unready::{self, Reason};
use berth_workload::plan::Action;
use serde_json::{Value, json};

use super::World;

/// The label of the hooks here.
pub(in crate::cloneset) const LABEL: &str = "x.io/hook";
/// The finalizer of the hooks here.
pub(in crate::cloneset) const FINALIZER: &str = "x.io/held";

impl World {
    pub(in crate::cloneset) fn set_lifecycle(&mut self, lifecycle: Value) {
        std::sync::Arc::make_mut(&mut self.set).spec.lifecycle =
            serde_json::from_value(lifecycle).unwrap();
    }

    /// The CloneSet is deleted with `--cascade=orphan`, and applied again: it has this uid then.
    pub(in crate::cloneset) fn orphan(&mut self, uid: &str) {
        let set = std::sync::Arc::make_mut(&mut self.set);
        let before = set.metadata.uid.replace(uid.to_owned());
        set.metadata.creation_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now),
        );
        set.status = None;
        let is_believed = self.foreign.is_believed;
        self.foreign = super::Foreign::of(&self.set);
        self.foreign.is_believed = is_believed;
        let objects = self
            .pods
            .values_mut()
            .chain(self.revisions.values_mut())
            .chain(self.claims.stored().values_mut());
        for object in objects {
            let owners = object["metadata"]["ownerReferences"].as_array_mut();
            owners
                .into_iter()
                .for_each(|all| all.retain(|owner| owner["uid"].as_str() != before.as_deref()));
        }
    }

    /// A user deletes the pods and claims that have no owner.
    pub(in crate::cloneset) fn clean_up(&mut self) {
        let is_owned = |object: &Value| {
            object["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        };
        self.pods.retain(|_, pod| is_owned(pod));
        self.claims.stored().retain(|_, claim| is_owned(claim));
        self.collect_garbage();
    }

    /// The owner adds the label and the finalizer of the hooks to the pod at this place, or removes
    /// them.
    pub(in crate::cloneset) fn hold(&mut self, at: usize, label: bool, finalizer: bool) {
        let Some(pod) = self.pods.values_mut().nth(at) else {
            return;
        };
        hold(pod, label, finalizer);
        self.reap();
    }

    /// The owner does the work that each pod's state asks for. True if there was any work.
    pub(in crate::cloneset) fn serve_hooks(&mut self) -> bool {
        let before = self.pods.clone();
        for pod in self.pods.values_mut() {
            // A pod that is being deleted already must not be held.
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                hold(pod, false, false);
                continue;
            }
            let state = pod["metadata"]["labels"][lifecycle::STATE_LABEL]
                .as_str()
                .unwrap_or_default();
            match state {
                PREPARING_NORMAL | UPDATED => hold(pod, true, true),
                PREPARING_UPDATE | PREPARING_DELETE => hold(pod, false, false),
                _ => {}
            }
        }
        let changed = self.pods != before;
        self.reap();
        changed
    }

    /// Lets the controller, the kubelets and the owner go on until nothing happens any more.
    pub(in crate::cloneset) fn settle_with_owner(&mut self) {
        for _ in 0..100 {
            self.settle();
            if !self.serve_hooks() {
                return;
            }
        }
        panic!(
            "controller and owner do not come to rest: {:#?}",
            self.plan()
        );
    }

    /// Another client takes the pod at this place out of service.
    pub(in crate::cloneset) fn add_reason(&mut self, at: usize, reason: &Reason) {
        let now = self.now;
        let pod = self.pods.values_mut().nth(at).unwrap();
        let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
        let condition = unready::with(&typed, reason, now).unwrap();
        super::set_condition(pod, serde_json::to_value(condition).unwrap());
    }

    /// The controller dies after this many of its writes.
    pub(in crate::cloneset) fn die_after(&mut self, writes: usize) {
        let plan = self.plan();
        self.execute(&plan, writes);
        self.schedule();
    }

    /// Each pod's lifecycle state, by the pods' names.
    pub(in crate::cloneset) fn states(&self) -> Vec<String> {
        self.each(|pod| {
            pod["metadata"]["labels"][lifecycle::STATE_LABEL]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
    }

    /// Removes deleted pods that have no finalizers and whose kubelet has ended them.
    pub(super) fn reap(&mut self) {
        let lingers = self.lingers;
        self.pods.retain(|_, pod| {
            let finalizers = pod["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
            let runs = lingers && pod["ended"] != true;
            pod["metadata"]["deletionTimestamp"].is_null() || finalizers > 0 || runs
        });
    }

    /// The hook that a write passes over, if it does, in words.
    pub(super) fn passes_over(&self, action: &Action) -> Option<String> {
        let lifecycle = self.set.spec.lifecycle.clone().unwrap_or_default();
        let pod = |name: &str| -> Pod { serde_json::from_value(self.pods[name].clone()).unwrap() };
        match action {
            Action::DeletePod { target } => {
                hook::holds(lifecycle.pre_delete.as_ref(), &pod(&target.name))
                    .then(|| format!("{} is held by preDelete", target.name))
            }
            Action::PatchPod { target, patch } if !patch.images.is_empty() => {
                let pod = pod(&target.name);
                let is_updating = lifecycle::state(&pod) == UPDATING;
                if !is_updating && hook::holds(lifecycle.in_place_update.as_ref(), &pod) {
                    return Some(format!("{} is held by inPlaceUpdate", target.name));
                }
                pod.is_true("InPlaceUpdateReady")
                    .then(|| format!("{} is in service", target.name))
            }
            Action::PatchPodStatus { target, patch, .. } => {
                let pod = pod(&target.name);
                let to = patch
                    .labels
                    .get(lifecycle::STATE_LABEL)
                    .and_then(Option::as_deref);
                let begins = to == Some(UPDATING) && lifecycle::state(&pod) != PREPARING_DELETE;
                if begins && hook::holds(lifecycle.in_place_update.as_ref(), &pod) {
                    return Some(format!("{} is held by inPlaceUpdate", target.name));
                }
                let after = match lifecycle::state(&pod) {
                    PREPARING_NORMAL => &lifecycle.pre_normal,
                    UPDATED => &lifecycle.in_place_update,
                    _ => return None,
                };
                (to == Some(NORMAL) && !hook::is_whole(after.as_ref(), &pod))
                    .then(|| format!("{} goes on without its hook", target.name))
            }
            _ => None,
        }
    }
}

fn hold(pod: &mut Value, label: bool, finalizer: bool) {
    let metadata = pod["metadata"].as_object_mut().unwrap();
    let labels = metadata
        .entry("labels")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .unwrap();
    if label {
        labels.insert(LABEL.to_owned(), json!("on"));
    } else {
        labels.remove(LABEL);
    }
    metadata.insert(
        "finalizers".to_owned(),
        if finalizer {
            json!([FINALIZER])
        } else {
            json!([])
        },
    );
}
