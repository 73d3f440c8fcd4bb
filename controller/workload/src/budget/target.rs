//! Whose pods a budget by `targetRef` holds before the leader has asked the target which those are.

use berth_api::v1beta1::podunavailablebudget::TargetReference;

use crate::owner::group;
use crate::pod::Metadata;

/// Whether a pod may be the target's: its controller is the target, or has the target's name and more, as a ReplicaSet has its
/// Deployment's. Rather one too many than one that goes from a budget that nobody has counted yet.
pub fn may_be_of(pod: &Metadata, target: &TargetReference) -> bool {
    let Some(owner) = pod.controller() else {
        return false;
    };
    match owner.name.strip_prefix(target.name.as_str()) {
        Some("") => {
            *owner.kind == *target.kind && group(&owner.api_version) == group(&target.api_version)
        }
        Some(rest) => rest.starts_with('-') && *owner.kind != *target.kind,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_may_be_of_the_target_that_controls_it_or_that_its_controller_is_named_after() {
        let target = |kind: &str, api_version: &str| TargetReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: "web".to_owned(),
        };
        let (deployment, clone_set) = (
            target("Deployment", "apps/v1"),
            target("CloneSet", "apps.kruise.io/v1alpha1"),
        );
        for (target, api_version, kind, name, expected) in [
            (
                &clone_set,
                "apps.kruise.io/v1beta1",
                "CloneSet",
                "web",
                true,
            ),
            (&clone_set, "example.com/v1", "CloneSet", "web", false),
            (
                &clone_set,
                "apps.kruise.io/v1beta1",
                "StatefulSet",
                "web",
                false,
            ),
            (
                &clone_set,
                "apps.kruise.io/v1beta1",
                "CloneSet",
                "web-2",
                false,
            ),
            (&deployment, "apps/v1", "ReplicaSet", "web-5d4f", true),
            (&deployment, "apps/v1", "ReplicaSet", "website-5d4f", false),
            (&deployment, "apps/v1", "ReplicaSet", "we", false),
        ] {
            let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true});
            let pod: Metadata =
                serde_json::from_value(json!({"name": "p", "ownerReferences": [owner]})).unwrap();
            assert_eq!(
                may_be_of(&pod, target),
                expected,
                "{target:?} {api_version} {kind} {name}"
            );
        }
        assert!(
            !may_be_of(&Metadata::default(), &deployment),
            "a pod of nobody"
        );
    }
}
