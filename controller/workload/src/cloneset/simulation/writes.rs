//! What an apiserver makes of each write.

use super::*;

impl World {
    pub(super) fn write(&mut self, action: &Action) {
        self.check_hooks(action);
        match action {
            Action::CreatePod { body } => {
                let mut pod = body.value();
                let id = self.next();
                pod["metadata"]["uid"] = json!(format!("uid-{id}"));
                pod["metadata"]["generation"] = json!(1);
                pod["metadata"]["creationTimestamp"] = json!(self.now);
                pod["status"] = json!({"phase": "Pending"});
                self.pods.insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), pod);
            }
            Action::DeletePod { target } => {
                self.pods.get_mut(&target.name).unwrap()["metadata"]["deletionTimestamp"] = json!(self.now);
                self.reap();
            }
            Action::PatchPod { target, patch } => {
                let pod = self.pods.get_mut(&target.name).unwrap();
                patch_metadata(pod, patch);
                let before = pod["spec"].clone();
                for container in pod["spec"]["containers"].as_array_mut().unwrap() {
                    if let Some(image) = patch.images.get(container["name"].as_str().unwrap()) {
                        container["image"] = json!(image);
                    }
                }
                let generation = pod["metadata"]["generation"].as_i64().unwrap();
                pod["metadata"]["generation"] = json!(generation + i64::from(pod["spec"] != before));
            }
            Action::ResizePod { target, resources } => {
                resizing::patch(self.pods.get_mut(&target.name).unwrap(), resources)
            }
            Action::PatchPodStatus { target, conditions, patch } => {
                let pod = self.pods.get_mut(&target.name).unwrap();
                assert!(patch.images.is_empty(), "the status subresource carries no spec");
                patch_metadata(pod, patch);
                for condition in conditions {
                    set_condition(pod, serde_json::to_value(condition).unwrap());
                }
            }
            Action::CreateRevision { body } => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                let mut body = body.clone();
                body["metadata"]["uid"] = json!(name);
                body["metadata"]["creationTimestamp"] = json!(self.now);
                assert!(self.revisions.insert(name, body).is_none(), "a name is taken once");
            }
            Action::RenumberRevision { target, revision, annotations } => {
                let stored = self.revisions.get_mut(&target.name).unwrap();
                stored["revision"] = json!(revision);
                annotations.iter().for_each(|(key, value)| stored["metadata"]["annotations"][key] = json!(value));
            }
            Action::PatchRevision { target, patch } => {
                crate::imagepulljob::simulation::apply_merge(self.revisions.get_mut(&target.name).unwrap(), patch);
            }
            Action::CreateImagePullJob { body } => {
                let mut job = body.clone();
                let id = self.next();
                job["metadata"]["uid"] = json!(format!("job-{id}"));
                job["metadata"]["creationTimestamp"] = json!(self.now);
                let name = job["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(self.jobs.insert(name, job).is_none(), "a name is taken once");
            }
            Action::DeleteImagePullJob { target } => {
                assert_eq!(self.jobs.remove(&target.name).unwrap()["metadata"]["uid"], json!(target.uid));
            }
            Action::DeleteRevision { target } => {
                self.revisions.remove(&target.name);
            }
            Action::ValidateTemplate { .. } => {}
            Action::PatchCloneSet { patch, .. } => {
                let names = patch["spec"]["scaleStrategy"]["podsToDelete"].clone();
                Arc::make_mut(&mut self.set).spec.scale_strategy.pods_to_delete =
                    serde_json::from_value(names).unwrap();
            }
            Action::CreateClaim { .. } | Action::PatchClaim { .. } | Action::DeleteClaim { .. } => {
                self.claims.write(action);
            }
            Action::CreateBarrier { body } => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                self.barriers.entry(name).or_insert_with(|| body.clone());
            }
            Action::OpenBarrier { pod, keys } => {
                let barrier = self.barriers.get_mut(&priority::barrier(&pod.name)).unwrap();
                assert_eq!(barrier["metadata"]["ownerReferences"][0]["uid"], pod.uid);
                barrier["data"] = keys.iter().map(|key| (key.clone(), json!("true"))).collect();
            }
            other => panic!("no CloneSet writes {}", other.kind()),
        }
    }
}

/// An action in one line.
pub(super) fn told(action: &Action) -> String {
    let action_json = serde_json::to_value(action).unwrap();
    let object = &action_json[action.kind()];
    let name = object["target"]["name"].as_str().or(object["body"]["metadata"]["name"].as_str());
    format!("{} {}", action.kind(), name.unwrap_or_default())
}

fn patch_metadata(pod: &mut Value, patch: &PodPatch) {
    if !patch.finalizers.is_empty() {
        let mut finalizers = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.extend(patch.finalizers.iter().map(|name| json!(name)));
        finalizers.dedup();
        pod["metadata"]["finalizers"] = json!(finalizers);
    }
    for (field, changes) in [("labels", &patch.labels), ("annotations", &patch.annotations)] {
        for (key, value) in changes {
            match value {
                Some(value) => pod["metadata"][field][key] = json!(value),
                None => {
                    if let Some(map) = pod["metadata"][field].as_object_mut() {
                        map.remove(key);
                    }
                }
            }
        }
    }
}

pub(super) fn set_condition(pod: &mut Value, condition: Value) {
    if pod["status"]["conditions"].is_null() {
        pod["status"]["conditions"] = json!([]);
    }
    let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
    match conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
