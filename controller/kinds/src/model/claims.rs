//! Claims in the small world of tests: an apiserver that keeps them while a pod uses them, and
//! garbage collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_workload::objects::claim::Claim;
use berth_workload::objects::resource::CLAIMS;
use berth_workload::plan::{Action, Body, IfExists};
use serde_json::{Value, json};

use super::apiserver::merge;

/// The claims by name.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    all: BTreeMap<String, Value>,
    made: u64,
}

impl Claims {
    /// As the store has them.
    pub(crate) fn seen(&self) -> Vec<Arc<Claim>> {
        self.all
            .values()
            .map(|claim| Arc::new(serde_json::from_value(claim.clone()).unwrap()))
            .collect()
    }

    /// As they are stored, by name.
    pub(crate) fn stored(&mut self) -> &mut BTreeMap<String, Value> {
        &mut self.all
    }

    /// How many were ever made.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn write(&mut self, action: &Action) {
        match action {
            Action::CreateClaim { body } => {
                let mut claim = body.value();
                self.made += 1;
                claim["metadata"]["uid"] = json!(format!("claim-{}", self.made));
                claim["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
                if claim["metadata"]["ownerReferences"].is_null() {
                    claim["metadata"]["ownerReferences"] = json!([]);
                }
                let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(
                    self.all.insert(name, claim).is_none(),
                    "a claim is never made again: {body:?}"
                );
            }
            Action::Create {
                resource: CLAIMS,
                body,
                if_exists: IfExists::IsFine,
            } => {
                let name = body["metadata"]["name"].as_str().unwrap();
                if !self.all.contains_key(name) {
                    self.write(&Action::CreateClaim {
                        body: Body::from(body),
                    });
                }
            }
            Action::PatchClaim { target, patch } => {
                let Some(claim) = self.all.get_mut(&target.name) else {
                    return;
                };
                assert_eq!(claim["metadata"]["uid"], target.uid);
                for owner in patch["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    let owners = claim["metadata"]["ownerReferences"].as_array_mut().unwrap();
                    owners.retain(|other| other["uid"] != owner["uid"]);
                    if owner["$patch"] != "delete" {
                        owners.push(owner.clone());
                    }
                }
                for field in ["/metadata/annotations", "/spec"] {
                    let (kept, patch) = (claim.pointer_mut(field), patch.pointer(field));
                    kept.zip(patch)
                        .into_iter()
                        .for_each(|(kept, patch)| merge(kept, patch));
                }
            }
            Action::DeleteClaim { target } => {
                if let Some(claim) = self.all.get_mut(&target.name) {
                    claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
            }
            other => panic!("{} is not about claims", other.write()),
        }
    }

    /// Deletes claims whose owners are all gone, and ends claims that are being deleted and that no
    /// pod mounts.
    pub(crate) fn collect_garbage(&mut self, pods: &BTreeMap<String, Value>) {
        self.all.retain(|name, claim| {
            let mounts = |volume: &Value| volume["persistentVolumeClaim"]["claimName"] == **name;
            let is_used = pods.values().any(|pod| {
                pod["spec"]["volumes"]
                    .as_array()
                    .is_some_and(|v| v.iter().any(mounts))
            });
            let owners = claim["metadata"]["ownerReferences"].as_array().unwrap();
            // A claim that never had an owner, or was orphaned, stays.
            let owned = owners.is_empty()
                || owners.iter().any(|owner| {
                    ["CloneSet", "StatefulSet"].contains(&owner["kind"].as_str().unwrap())
                        || pods
                            .values()
                            .any(|pod| pod["metadata"]["uid"] == owner["uid"])
                });
            if !owned {
                claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            is_used || claim["metadata"]["deletionTimestamp"].is_null()
        });
    }
}
