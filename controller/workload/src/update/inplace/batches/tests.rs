use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::objects::node::image::Created;
use crate::update::revision::Revision;

/// Containers that start one after the other, and one of no order. None but those given are ready.
fn pod(ready: &[&str]) -> Pod {
    let container = |name: &str, key: Option<&str>| {
        let reference = |key| json!({"configMapKeyRef": {"name": "web-a-barrier", "key": key}});
        let env: Vec<_> = key
            .iter()
            .map(|key| json!({"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": reference(key)}))
            .collect();
        json!({"name": name, "image": format!("{name}:1"), "env": env})
    };
    let status = |name: &str| json!({"name": name, "containerID": name, "ready": ready.contains(&name), "restartCount": 2});
    let pod = json!({
        "metadata": {"name": "web-a"},
        "spec": {"containers": [
            container("first", Some("p_2")), container("second", Some("p_1")), container("third", Some("p_0")),
            container("free", None),
        ]},
        "status": {"containerStatuses": [status("first"), status("second"), status("third"), status("free")]},
    });
    serde_json::from_value(pod).unwrap()
}

fn images(names: &[&str]) -> BTreeMap<String, String> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), format!("{name}:2")))
        .collect()
}

fn names(map: &BTreeMap<String, String>) -> Vec<&str> {
    map.keys().map(String::as_str).collect()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn revision(template: &Value) -> Revision {
    serde_json::from_value(
        json!({"metadata": {"name": "web-2"}, "data": {"spec": {"template": template}}}),
    )
    .unwrap()
}

#[test]
fn lower_batches_wait_for_higher_and_busy_ones() {
    type Row<'a> = (
        &'a [&'a str],
        &'a [&'a str],
        &'a [&'a str],
        &'a [&'a str],
        Option<&'a [&'a str]>,
        Option<&'a [&'a str]>,
    );

    // The changes; the unfinished rest of an earlier update => the changes now, the later ones, the
    // containers that must be ready before them, and the recorded batch.
    let table: [Row; 12] = [
        (
            &["first", "third", "free"],
            &[],
            &["first", "free"],
            &["third"],
            Some(&["first", "free"]),
            Some(&["first", "free"]),
        ),
        (
            &["second", "third"],
            &[],
            &["second"],
            &["third"],
            Some(&["second"]),
            Some(&["second"]),
        ),
        (&["third"], &[], &["third"], &[], None, Some(&["third"])),
        (&["free"], &[], &["free"], &[], None, None),
        (&[], &[], &[], &[], None, None),
        // The first is being updated: nothing of a lower priority begins before it is ready.
        (
            &["second", "third"],
            &["first"],
            &[],
            &["second", "third"],
            Some(&["first"]),
            Some(&["first"]),
        ),
        (
            &["second", "free"],
            &["first"],
            &["free"],
            &["second"],
            Some(&["first", "free"]),
            Some(&["first", "free"]),
        ),
        // It changes once more: nothing is left behind it.
        (
            &["first"],
            &["first"],
            &["first"],
            &[],
            None,
            Some(&["first"]),
        ),
        (
            &["first", "second"],
            &["first"],
            &["first"],
            &["second"],
            Some(&["first"]),
            Some(&["first"]),
        ),
        // What is busy below it holds nothing up, and is to be ready before what is lower still.
        (
            &["first"],
            &["second"],
            &["first"],
            &[],
            Some(&["first", "second"]),
            Some(&["first"]),
        ),
        // Unless it has its turn again.
        (
            &["first", "second"],
            &["second"],
            &["first"],
            &["second"],
            Some(&["first"]),
            Some(&["first"]),
        ),
        (&[], &["third"], &[], &[], None, Some(&["third"])),
    ];
    for (changed, busy, now, later, required, batch) in table {
        let mut patch = PodPatch {
            images: images(changed),
            ..PodPatch::default()
        };
        // What a batch before this one left behind.
        let stale = PreCheck {
            containers_required_ready: owned(&["stale"]),
        };
        let mut state = State {
            pre_check_before_next: Some(stale),
            ..State::default()
        };
        split(
            &pod(&[]),
            &mut patch,
            &owned(busy),
            &mut state,
            Timestamp::UNIX_EPOCH,
        );
        let what = format!("{changed:?} while {busy:?}");
        assert_eq!(names(&patch.images), now, "now: {what}");
        assert_eq!(names(&state.next_container_images), later, "later: {what}");
        let check = state
            .pre_check_before_next
            .map(|check| check.containers_required_ready);
        assert_eq!(check, required.map(owned), "to be ready: {what}");
        let recorded = state
            .container_batches_record
            .into_iter()
            .next()
            .map(|batch| batch.containers);
        assert_eq!(recorded, batch.map(owned), "the batch: {what}");
    }
}

#[test]
fn unordered_containers_after_a_batch_are_recorded() {
    let before = Batch {
        timestamp: None,
        containers: owned(&["first"]),
    };
    let mut state = State {
        container_batches_record: vec![before],
        ..State::default()
    };
    let mut patch = PodPatch {
        images: images(&["free"]),
        ..PodPatch::default()
    };
    split(
        &pod(&[]),
        &mut patch,
        &[],
        &mut state,
        Timestamp::UNIX_EPOCH,
    );
    let batches: Vec<_> = state
        .container_batches_record
        .into_iter()
        .map(|batch| batch.containers)
        .collect();
    assert_eq!(batches, [owned(&["first"]), owned(&["free"])]);
}

#[test]
fn next_batch_waits_for_required_containers() {
    let after = |next: &[&str], required: &[&str], ready: &[&str], node: &NodeFacts| {
        let check = PreCheck {
            containers_required_ready: owned(required),
        };
        let state = State {
            revision: "web-2".into(),
            next_container_images: images(next),
            pre_check_before_next: Some(check),
            ..State::default()
        };
        super::next(&pod(ready), &state, None, node, Timestamp::UNIX_EPOCH).map(|action| {
            let Action::PatchPod { patch, .. } = action else {
                panic!("{action:?}")
            };
            let record: Value =
                serde_json::from_str(patch.annotations[state::ANNOTATION].as_deref().unwrap())
                    .unwrap();
            (
                names(&patch.images).join(" "),
                record["preCheckBeforeNext"]["containersRequiredReady"].clone(),
            )
        })
    };
    let waits = |name: &str| {
        Err(format!(
            "container {name} is to be ready before those of a lower priority are updated"
        ))
    };
    let goes = |now: &str, required: Value| Ok((now.to_owned(), required));
    let none = NodeFacts::default();
    assert_eq!(
        after(&["second", "third"], &["first"], &[], &none),
        waits("first")
    );
    assert_eq!(
        after(&["second", "third"], &["first"], &["first"], &none),
        goes("second", json!(["second"]))
    );
    assert_eq!(
        after(&["second"], &["first", "free"], &["first"], &none),
        waits("free"),
        "of no order is not below"
    );
    // Of the same priority, left by an update before.
    assert_eq!(after(&["second"], &["second"], &[], &none), waits("second"));
    // What is below is not waited for here, but by those that are below it.
    let below = after(&["second"], &["first", "third"], &["first"], &none);
    assert_eq!(below, goes("second", json!(["second", "third"])));

    // The node reports a newer container than the pod's status shows, so that the ready container
    // is the old one.
    for (attempt, expected) in [
        (None, goes("second", Value::Null)),
        (Some(1), goes("second", Value::Null)),
        (Some(2), goes("second", Value::Null)),
        (Some(3), waits("first")),
    ] {
        let created = Created {
            attempt,
            ..Created::default()
        };
        let node = NodeFacts {
            created: [("first".to_owned(), created)].into(),
            ..NodeFacts::default()
        };
        assert_eq!(
            after(&["second"], &["first"], &["first"], &node),
            expected,
            "{attempt:?}"
        );
    }
}

#[test]
fn unfinished_changes_join_the_next_update() {
    let left = json!({
        "nextContainerImages": {"second": "second:2", "third": "third:2"},
        "nextContainerRefMetadata": {"third": {
            "labels": {"tier": "2", "kept": "2"}, "annotations": {"note": "2", "other": "2", "gone": null},
        }},
    });
    let state: State = serde_json::from_value(left).unwrap();
    let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, Option<String>> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())))
            .collect()
    };
    let patch = PodPatch {
        images: [("third".to_owned(), "third:3".to_owned())].into(),
        labels: of(&[("tier", "3")]),
        annotations: of(&[("note", "3")]),
        ..PodPatch::default()
    };
    let read = json!([{"name": "KEPT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['kept']"}}}]);
    let revision = revision(&json!({"spec": {"containers": [{"name": "third", "env": read}]}}));
    let whole = with_rest(
        &Phase::Patched(state, UpdateDecision::Wait(String::new())),
        &patch,
        &Brief::new(&revision),
    );
    let expected = [("second", "second:2"), ("third", "third:3")]
        .map(|(name, image)| (name.into(), image.into()));
    assert_eq!(whole.images, expected.into());
    assert_eq!(whole.labels, of(&[("tier", "3"), ("kept", "2")]));
    let mut annotations = of(&[("note", "3"), ("other", "2")]);
    annotations.insert("gone".into(), None);
    assert_eq!(whole.annotations, annotations);
    assert_eq!(
        whole.env.containers().collect::<Vec<_>>(),
        ["third"],
        "who reads what was left restarts for it"
    );
}

#[test]
fn busy_containers_are_last_batch_and_its_pre_check() {
    let state = json!({
        "containerBatchesRecord": [{"containers": ["first"]}, {"containers": ["second"]}],
        "preCheckBeforeNext": {"containersRequiredReady": ["third"]},
    });
    let state: State = serde_json::from_value(state).unwrap();
    assert_eq!(
        busy(&Phase::Patched(state, UpdateDecision::Wait(String::new()))),
        owned(&["second", "third"])
    );
    assert_eq!(busy(&Phase::Idle), owned(&[]));
}
