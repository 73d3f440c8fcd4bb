//! Entries: their owners, their secrets, and the time of a node.

use berth_api::v1beta1::nodeimage::SandboxConfig;
use berth_workload::objects::node::image::entry::{EntryRequest, Standing, ask, standing};
use jiff::SignedDuration;

use super::*;
use crate::model::apiserver::merge;

/// The image's spec after a job has added its entry for `app:1` with these secrets.
fn after(spec: &Value, status: &Value, policy: ImagePullPolicy, secrets: &[Value]) -> Value {
    after_with(spec, status, policy, secrets, None)
}

fn after_with(
    spec: &Value,
    status: &Value,
    policy: ImagePullPolicy,
    secrets: &[Value],
    sandbox: Option<&SandboxConfig>,
) -> Value {
    let node = image(&json!({}), spec, status);
    let owner = serde_json::from_value(owner("job")).unwrap();
    let secrets: Vec<_> = secrets
        .iter()
        .map(|secret| serde_json::from_value(secret.clone()).unwrap())
        .collect();
    let limits = ImageTagPullPolicy {
        timeout_seconds: Some(60),
        ..ImageTagPullPolicy::default()
    };
    let request = EntryRequest {
        image: "app",
        tag: "1",
        owner: &owner,
        limits,
        policy,
        secrets: &secrets,
        sandbox,
    };
    let patch = ask(&node, &request, now());
    let mut after = json!(node.spec);
    merge(&mut after, &patch["spec"]);
    after["images"]["app"].take()
}

#[test]
fn manual_entry_is_owned_by_the_nodeimage() {
    let spec = json!({"images": {"app": {"tags": [{"tag": "1"}]}}});
    let entry = &after(&spec, &json!({}), ImagePullPolicy::IfNotPresent, &[])["tags"][0];
    let node = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "name": "n1", "uid": "image"});
    assert_eq!(entry["ownerReferences"], json!([node, owner("job")]));
    // An entry with owners stays theirs.
    let spec =
        json!({"images": {"app": {"tags": [{"tag": "1", "ownerReferences": [owner("other")]}]}}});
    let entry = &after(&spec, &json!({}), ImagePullPolicy::IfNotPresent, &[])["tags"][0];
    assert_eq!(
        entry["ownerReferences"],
        json!([owner("other"), owner("job")])
    );
}

#[test]
fn each_secret_is_there_once() {
    let secret = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
    let spec = json!({"images": {"app": {"pullSecrets": [secret("default", "a")], "tags": []}}});
    let table = [
        (vec![secret("default", "a")], vec![secret("default", "a")]),
        (
            vec![secret("default", "b")],
            vec![secret("default", "a"), secret("default", "b")],
        ),
        (
            vec![secret("other", "a")],
            vec![secret("default", "a"), secret("other", "a")],
        ),
        (vec![], vec![secret("default", "a")]),
    ];
    for (asked, expected) in table {
        let found = &after(&spec, &json!({}), ImagePullPolicy::IfNotPresent, &asked)["pullSecrets"];
        assert_eq!(*found, json!(expected), "{asked:?}");
    }
}

#[test]
fn version_rises_for_finished_pull_or_policy_always() {
    let spec = json!({"images": {"app": {"tags": [{"tag": "1", "version": 2, "ownerReferences": [owner("other")]}]}}});
    let status = |phase: &str, version: i64| {
        let tags = json!([{"tag": "1", "phase": phase, "version": version}]);
        json!({"imageStatuses": {"app": {"tags": tags}}})
    };
    let table = [
        (json!({}), ImagePullPolicy::IfNotPresent, 2),
        (status("Pulling", 2), ImagePullPolicy::IfNotPresent, 2),
        (status("Pulling", 2), ImagePullPolicy::Always, 3),
        (status("Succeeded", 2), ImagePullPolicy::IfNotPresent, 3),
        (status("Failed", 2), ImagePullPolicy::IfNotPresent, 3),
        // The daemon has not seen this round yet.
        (status("Succeeded", 1), ImagePullPolicy::IfNotPresent, 2),
        // It answers for a later one, of an entry that is gone.
        (status("Succeeded", 7), ImagePullPolicy::Always, 8),
    ];
    for (status, policy, version) in table {
        assert_eq!(
            after(&spec, &status, policy, &[])["tags"][0]["version"],
            version,
            "{status} {policy:?}"
        );
    }
}

#[test]
fn shared_entry_has_longest_limits_of_its_owners() {
    let first = json!({
        "timeoutSeconds": 90, "backoffLimit": 1, "ttlSecondsAfterFinished": 5, "activeDeadlineSeconds": 7,
    });
    let entry = json!({"tag": "1", "pullPolicy": first, "ownerReferences": [owner("other")]});
    let spec = json!({"images": {"app": {"tags": [entry]}}});
    let entry = &after(&spec, &json!({}), ImagePullPolicy::IfNotPresent, &[])["tags"][0];
    // The new owner has 60 s for a try, three more tries, and neither a deadline nor a time to
    // live.
    assert_eq!(
        entry["pullPolicy"],
        json!({"timeoutSeconds": 90, "backoffLimit": 3})
    );
    assert_eq!(entry["createdAt"], ago(0));
}

#[test]
fn node_times_out_ten_minutes_after_all_tries() {
    let limits = |more: Value| {
        let mut limits = json!({"timeoutSeconds": 60, "backoffLimit": 2});
        crate::model::apiserver::merge(&mut limits, &more);
        limits
    };
    let pulling = json!({"phase": "Pulling", "version": 1, "startTime": ago(0)});
    let table = [
        // Three tries of 60 s, after each a pause of 30 s.
        (
            "it pulls",
            limits(json!({})),
            pulling.clone(),
            Some(3 * 90 + 600),
        ),
        (
            "it pulls, with a deadline",
            limits(json!({"activeDeadlineSeconds": 100})),
            pulling.clone(),
            Some(700),
        ),
        (
            "the deadline comes later",
            limits(json!({"activeDeadlineSeconds": 9999})),
            pulling,
            Some(870),
        ),
        // The pull may wait for other pulls of its node without a limit.
        (
            "it has not begun",
            limits(json!({})),
            json!({"phase": "Waiting", "version": 1}),
            None,
        ),
        (
            "it has said nothing",
            limits(json!({})),
            Value::Null,
            Some(600),
        ),
        (
            "nothing of this round",
            limits(json!({})),
            json!({"phase": "Succeeded", "version": 0}),
            Some(600),
        ),
    ];
    for (what, limits, status, seconds) in table {
        let entry = json!({
            "tag": "1", "version": 1, "createdAt": ago(0), "pullPolicy": limits, "ownerReferences": [owner("job")],
        });
        let mut tags = if status.is_null() {
            json!([])
        } else {
            json!([status])
        };
        tags.as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|tag| tag["tag"] = json!("1"));
        let status = json!({"imageStatuses": {"app": {"tags": tags}}});
        let node = image(
            &json!({}),
            &json!({"images": {"app": {"tags": [entry]}}}),
            &status,
        );
        let after = |seconds: i64| {
            standing(
                &node,
                "app",
                "1",
                "job",
                now() + SignedDuration::from_secs(seconds),
            )
        };
        let silent_from = seconds.map(|seconds| now() + SignedDuration::from_secs(seconds));
        let last = seconds.map_or(1_000_000, |seconds| seconds - 1);
        assert_eq!(after(last), Standing::Active { silent_from }, "{what}");
        if let Some(seconds) = seconds {
            assert!(
                matches!(after(seconds), Standing::Failed(_)),
                "{what}: {:?}",
                after(seconds)
            );
        }
        assert_eq!(
            standing(&node, "app", "1", "stranger", now()),
            Standing::NotRequested,
            "{what}"
        );
    }
}

#[test]
fn sandbox_config_is_per_tag_and_of_the_pull_owner() {
    let sandbox = |value: &str| json!({"annotations": {"from": value}});
    let entry = |own: Value| {
        let mut tag = json!({"tag": "1", "ownerReferences": [owner("other")]});
        merge(&mut tag, &own);
        json!({"images": {"app": {"sandboxConfig": sandbox("hand"), "tags": [tag, {"tag": "2"}]}}})
    };
    let status =
        |phase: &str| json!({"imageStatuses": {"app": {"tags": [{"tag": "1", "phase": phase}]}}});
    let own = json!({"sandboxConfig": sandbox("other")});
    let table = [
        (
            "under way",
            entry(own.clone()),
            status("Pulling"),
            sandbox("other"),
        ),
        (
            "under way without any",
            entry(json!({})),
            status("Pulling"),
            Value::Null,
        ),
        ("over", entry(own), status("Succeeded"), sandbox("job")),
        (
            "new",
            json!({"images": {"app": {"sandboxConfig": sandbox("hand"), "tags": [{"tag": "2"}]}}}),
            json!({}),
            sandbox("job"),
        ),
    ];
    for (what, spec, status, expected) in table {
        for policy in [ImagePullPolicy::IfNotPresent, ImagePullPolicy::Always] {
            let wanted = serde_json::from_value(sandbox("job")).unwrap();
            let after = after_with(&spec, &status, policy, &[], Some(&wanted));
            let tags = after["tags"].as_array().unwrap();
            assert_eq!(
                tags.iter().find(|tag| tag["tag"] == "1").unwrap()["sandboxConfig"],
                expected,
                "{what}"
            );
            assert_eq!(
                tags.iter().find(|tag| tag["tag"] == "2").unwrap()["sandboxConfig"],
                Value::Null,
                "{what}"
            );
            assert_eq!(after["sandboxConfig"], sandbox("hand"), "{what}");
        }
    }
}
