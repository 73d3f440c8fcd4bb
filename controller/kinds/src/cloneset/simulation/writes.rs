//! The effects of each write on the simulated apiserver.

use berth_workload::objects::resource::{CLONE_SETS, CONFIG_MAPS, IMAGE_PULL_JOBS};
use berth_workload::plan::IfExists;

use super::*;

impl World {
    pub(super) fn write(&mut self, action: &Action) {
        assert_eq!(self.passes_over(action), None);
        if self.write_pod_or_revision(action) {
            // The kubelet has no part in it here.
            self.reap();
            if let Action::ReleasePod { target, .. } = action
                && self.lingers
            {
                self.pods.remove(&target.name);
            }
            return;
        }
        match action {
            Action::ResizePod { target, resources } => {
                resizing::patch(self.pods.get_mut(&target.name).unwrap(), resources)
            }
            Action::Create {
                resource: IMAGE_PULL_JOBS,
                body,
                if_exists: IfExists::IsOfSameOwner,
            } => {
                let mut job = body.clone();
                let id = self.next();
                job["metadata"]["uid"] = json!(format!("job-{id}"));
                job["metadata"]["creationTimestamp"] = json!(self.now);
                let name = job["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(
                    self.jobs.insert(name, job).is_none(),
                    "a name is taken once"
                );
            }
            Action::Delete {
                resource: IMAGE_PULL_JOBS,
                target,
            } => {
                assert_eq!(
                    self.jobs.remove(&target.name).unwrap()["metadata"]["uid"],
                    json!(target.uid)
                );
            }
            Action::ValidateTemplate { .. } => {}
            Action::Confirm { target, .. } => {
                assert_eq!(
                    self.set.metadata.uid.as_ref(),
                    Some(&target.uid),
                    "it is the one that is meant"
                );
            }
            Action::Patch {
                resource: CLONE_SETS,
                patch,
                ..
            } => {
                let names = patch["spec"]["scaleStrategy"]["podsToDelete"].clone();
                Arc::make_mut(&mut self.set)
                    .spec
                    .scale_strategy
                    .pods_to_delete = serde_json::from_value(names).unwrap();
            }
            Action::CreateClaim { .. } | Action::PatchClaim { .. } | Action::DeleteClaim { .. } => {
                self.claims.write(action);
            }
            Action::Create {
                resource: CONFIG_MAPS,
                body,
                ..
            } => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                self.barriers.entry(name).or_insert_with(|| body.clone());
            }
            Action::OpenBarrier { pod, keys } => {
                let barrier = self
                    .barriers
                    .get_mut(&priority::barrier(&pod.name))
                    .unwrap();
                assert_eq!(barrier["metadata"]["ownerReferences"][0]["uid"], pod.uid);
                barrier["data"] = keys
                    .iter()
                    .map(|key| (key.clone(), json!("true")))
                    .collect();
            }
            other => panic!("no CloneSet writes {}", other.write()),
        }
    }
}

/// An action in one line.
pub(super) fn describe(action: &Action) -> String {
    let action_json = serde_json::to_value(action).unwrap();
    let object = action_json
        .as_object()
        .and_then(|of| of.values().next())
        .unwrap();
    let name = object["target"]["name"]
        .as_str()
        .or(object["body"]["metadata"]["name"].as_str());
    format!("{} {}", action.write(), name.unwrap_or_default())
}
