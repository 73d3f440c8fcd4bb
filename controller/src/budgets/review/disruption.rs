//! What a review asks of a pod.

use berth_api::budget::MOST_CONTAINERS;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_webhook::pods::{Change, Changed, Disruption};
use berth_workload::budget::count::is_available;
use berth_workload::pod::{Metadata, Pod};
use jiff::Timestamp;

/// What is to befall the pod. Resources that restart a container change the pod like its image does.
pub(in crate::budgets) fn operation(disruption: &Disruption) -> ProtectedOperation {
    match disruption.change {
        Change::Delete => ProtectedOperation::Delete,
        Change::Evict => ProtectedOperation::Evict,
        Change::Update => ProtectedOperation::Update,
        Change::Resize if !restarted(disruption).is_empty() => ProtectedOperation::Update,
        Change::Resize => ProtectedOperation::Resize,
    }
}

/// The containers that restart for the resources that they get, by name.
pub(in crate::budgets) fn restarted(disruption: &Disruption) -> &[String] {
    disruption
        .new
        .as_ref()
        .map(|new| &*new.restarted)
        .unwrap_or_default()
}

/// The containers that run and get another image, or restart for other resources, by id; and whether it is a resize that restarts some.
pub(in crate::budgets) fn replaced(pod: &Pod, disruption: &Disruption) -> (Vec<String>, bool) {
    let Some(Changed { images, restarted }) = &disruption.new else {
        return (Vec::new(), false);
    };
    let image = |name: &str| {
        images
            .iter()
            .find(|(of, _)| of == name)
            .map(|(_, image)| &**image)
    };
    let has_another_image = |name: &str| {
        pod.container(name)
            .is_some_and(|old| image(name).is_some_and(|new| *new != *old.image))
    };
    let ids = ids(pod, |name| {
        restarted.iter().any(|one| one == name) || has_another_image(name)
    });
    (
        ids,
        matches!(disruption.change, Change::Resize) && !restarted.is_empty(),
    )
}

/// The ids of these containers of the pod.
pub(in crate::budgets) fn ids(pod: &Pod, is_its: impl Fn(&str) -> bool) -> Vec<String> {
    let statuses = pod
        .status
        .container_statuses
        .iter()
        .chain(&pod.status.init_container_statuses);
    let ids = statuses.filter(|status| is_its(&status.name) && !status.container_id.is_empty());
    ids.map(|status| status.container_id.to_string())
        .take(MOST_CONTAINERS)
        .collect()
}

/// The uid of the pod that a review shows, or that an eviction names.
pub(in crate::budgets) fn shown_uid(disruption: &Disruption) -> Option<&str> {
    match &disruption.object {
        Some(object) => object.as_ref().ok().map(|pod| &*pod.metadata.uid),
        None => disruption.uid.as_deref(),
    }
}

/// Whether the store has the very version of the pod that a review shows.
pub(in crate::budgets) fn is_as_shown(stored: &Metadata, disruption: &Disruption) -> bool {
    let Some(Ok(shown)) = &disruption.object else {
        return false;
    };
    shown.metadata.uid == stored.uid && shown.metadata.resource_version == stored.resource_version
}

/// Whether the pod that has the name is the one that a request means. Only an eviction may leave the uid out: the budgets refuse it.
pub(in crate::budgets) fn is_meant(found: &Metadata, disruption: &Disruption) -> bool {
    shown_uid(disruption).map_or(matches!(disruption.change, Change::Evict), |uid| {
        *uid == *found.uid
    })
}

/// Whether a pod serves; `None` where all that speaks against it is that its node is not among those that are known here, and that may
/// have come a moment ago.
pub(in crate::budgets) fn serves(pod: &Pod, knows_node: bool, now: Timestamp) -> Option<bool> {
    let serves = is_available(pod, true, now);
    (knows_node || !serves).then_some(serves)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn review_stands_for_no_pod_but_that_of_its_uid() {
        let found: Metadata =
            serde_json::from_value(json!({"name": "web", "uid": "u", "resourceVersion": "7"}))
                .unwrap();
        let read = |pod: serde_json::Value| Some(Pod::read(&pod.to_string()));
        let shown = |uid: &str, version: &str| {
            read(json!({"metadata": {"uid": uid, "resourceVersion": version}}))
        };
        use Change::{Delete, Evict, Update};
        for (change, object, uid, of_store, of_apiserver) in [
            (Delete, shown("u", "7"), None, true, true),
            (Delete, shown("u", "6"), None, false, true),
            (Delete, shown("other", "7"), None, false, false),
            (Delete, shown("", "7"), None, false, false),
            (
                Delete,
                read(json!({"metadata": {"resourceVersion": "7"}})),
                None,
                false,
                false,
            ),
            (
                Delete,
                read(json!({"metadata": {"resourceVersion": "7"}})),
                Some("u"),
                false,
                false,
            ),
            (Delete, None, None, false, false),
            (Update, shown("u", "7"), None, true, true),
            (Update, None, None, false, false),
            (Evict, None, Some("u"), false, true),
            (Evict, None, Some("other"), false, false),
            // Refused for that, and neither counted nor told.
            (Evict, None, None, false, true),
        ] {
            let disruption = Disruption {
                change,
                object,
                uid: uid.map(str::to_owned),
                ..Disruption::default()
            };
            let decided = (
                is_as_shown(&found, &disruption),
                is_meant(&found, &disruption),
            );
            assert_eq!(decided, (of_store, of_apiserver), "{disruption:?}");
        }
    }

    #[test]
    fn a_pod_that_serves_on_a_node_that_is_not_known_is_not_judged_by_that() {
        for (ready, knows_node, expected) in [
            ("True", true, Some(true)),
            ("True", false, None),
            ("False", true, Some(false)),
            ("False", false, Some(false)),
        ] {
            let conditions = json!([{"type": "Ready", "status": ready}]);
            let pod = json!({"metadata": {"name": "web"}, "status": {"phase": "Running", "conditions": conditions}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(
                serves(&pod, knows_node, Timestamp::now()),
                expected,
                "{ready} {knows_node}"
            );
        }
    }

    #[test]
    fn a_resize_that_restarts_a_container_is_an_update() {
        use ProtectedOperation::{Resize, Update};
        let pod = |policy: &str, memory: &str, cpu: &str| {
            let resources =
                json!({"limits": {"memory": memory}, "requests": {"cpu": cpu, "memory": memory}});
            let policies = json!([{"resourceName": "memory", "restartPolicy": policy}]);
            json!({"spec": {"containers": [{"name": "main", "resources": resources, "resizePolicy": policies}]}})
        };
        let old = |policy: &str| pod(policy, "1Gi", "1");
        for (old, new, expected) in [
            (old("NotRequired"), pod("NotRequired", "2Gi", "1"), Resize),
            (
                old("RestartContainer"),
                pod("RestartContainer", "2Gi", "1"),
                Update,
            ),
            (
                old("RestartContainer"),
                pod("RestartContainer", "1Gi", "2"),
                Resize,
            ),
            (json!(null), pod("RestartContainer", "1Gi", "1"), Update),
        ] {
            let new = Some(Changed::of(&old, &new));
            let disruption = Disruption {
                change: Change::Resize,
                new,
                ..Disruption::default()
            };
            assert_eq!(operation(&disruption), expected, "{disruption:?}");
        }
    }

    // Else a resize would be settled when the kubelet has seen it and before the container stops.
    #[test]
    fn the_containers_that_a_change_replaces_are_those_of_another_image_and_those_that_restart() {
        let pod = |image: &str, memory: [&str; 2], policy: &str| {
            let container = |name: &str, image: &str, memory: &str| {
                let policies = json!([{"resourceName": "memory", "restartPolicy": policy}]);
                json!({"name": name, "image": image, "resources": {"limits": {"memory": memory}}, "resizePolicy": policies})
            };
            let mut sidecar = container("side", "side:1", memory[1]);
            sidecar["restartPolicy"] = json!("Always");
            let status =
                |name: &str| json!([{"name": name, "containerID": format!("containerd://{name}")}]);
            json!({
                "metadata": {"name": "web"},
                "spec": {"containers": [container("main", image, memory[0])], "initContainers": [sidecar]},
                "status": {"containerStatuses": status("main"), "initContainerStatuses": status("side")},
            })
        };
        let (main, side) = ("containerd://main", "containerd://side");
        for (change, image, memory, policy, expected) in [
            (
                Change::Update,
                "web:1",
                ["1Gi", "1Gi"],
                "RestartContainer",
                vec![],
            ),
            (
                Change::Update,
                "web:2",
                ["1Gi", "1Gi"],
                "RestartContainer",
                vec![main],
            ),
            (
                Change::Resize,
                "web:1",
                ["2Gi", "1Gi"],
                "RestartContainer",
                vec![main],
            ),
            (
                Change::Resize,
                "web:1",
                ["1Gi", "2Gi"],
                "RestartContainer",
                vec![side],
            ),
            (
                Change::Resize,
                "web:1",
                ["2Gi", "2Gi"],
                "RestartContainer",
                vec![main, side],
            ),
            (
                Change::Resize,
                "web:1",
                ["2Gi", "2Gi"],
                "NotRequired",
                vec![],
            ),
        ] {
            let old = pod("web:1", ["1Gi", "1Gi"], policy);
            let now: Pod = serde_json::from_value(old.clone()).unwrap();
            let new = Some(Changed::of(&old, &pod(image, memory, policy)));
            let disruption = Disruption {
                change,
                new,
                ..Disruption::default()
            };
            let resizes = matches!(change, Change::Resize) && !expected.is_empty();
            let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(
                replaced(&now, &disruption),
                (expected, resizes),
                "{disruption:?}"
            );
        }
        let gone = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        assert_eq!(
            replaced(&gone, &Disruption::default()),
            (Vec::new(), false),
            "it does not change"
        );
    }
}
