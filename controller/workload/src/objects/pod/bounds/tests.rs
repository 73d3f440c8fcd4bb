use jiff::Timestamp;

use serde_json::{Value, json};

use super::*;

fn pod(metadata: &Value, spec: &Value, status: &Value) -> Result<Pod, String> {
    let pod = json!({"metadata": metadata, "spec": spec, "status": status});
    serde_json::from_value(pod).map_err(|error| error.to_string())
}

#[test]
fn pod_within_bounds_is_read() {
    let containers: Vec<_> = (0..64)
            .map(
                |at| json!({"name": format!("c{at}"), "image": "r".repeat(200), "resources": {"limits": {"cpu": "1"}}}),
            )
            .collect();
    let annotations =
        json!({"apps.kruise.io/a": "x".repeat(16 << 10), "other.io/b": "x".repeat(200 << 10)});
    let statuses: Vec<_> = (0..64)
        .map(|at| json!({"name": format!("c{at}"), "imageID": "i".repeat(200)}))
        .collect();
    let read = pod(
        &json!({"name": "a", "annotations": annotations}),
        &json!({"containers": containers}),
        &json!({"containerStatuses": statuses}),
    );
    assert_eq!(read.map(|pod| pod.spec.containers.len()), Ok(64));
}

#[test]
fn pod_of_a_time_that_no_type_reads_is_read() {
    for (time, expected) in [
        (
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05Z".parse().unwrap(),
        ),
        ("9999-12-31T23:59:59Z", Timestamp::MAX),
        ("10000-01-01T00:00:00Z", Timestamp::MAX),
    ] {
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": time}]);
        let status = json!({"startTime": time, "conditions": conditions});
        let pod = pod(&json!({"name": "a"}), &json!({}), &status).unwrap();
        let times = (
            pod.status.start_time,
            pod.condition("Ready").unwrap().last_transition_time,
        );
        assert_eq!(times, (Some(expected), Some(expected)), "{time}");
    }
}

#[test]
fn slim_metadata_keeps_what_is_read_and_is_bounded() {
    let many = |domain: &str| {
        (0..2_000)
            .map(|at| (format!("{domain}/a{at}"), json!("")))
            .collect::<Value>()
    };
    let slimmed = |field: &str, value: Value| {
        let mut metadata: ObjectMeta = serde_json::from_value(json!({field: value})).unwrap();
        let kept = slim(&mut metadata).map(|()| metadata.annotations.map_or(0, |all| all.len()));
        (
            kept,
            metadata.labels.map_or(0, |all| all.len()),
            metadata.managed_fields.is_some(),
        )
    };
    let long = "x".repeat(250_000);
    let mixed = json!({
        "apps.kruise.io/wait-after-node": "1s", "deprecated.daemonset.template.generation": "2", "other.io/a": long,
        "apps.kruise.io/berth-conversion": long,
    });
    assert_eq!(slimmed("annotations", mixed), (Ok(2), 0, false));
    assert_eq!(slimmed("annotations", many("other.io")), (Ok(0), 0, false));
    assert_eq!(slimmed("labels", json!({"app": "web"})), (Ok(0), 1, false));
    assert_eq!(
        slimmed(
            "managedFields",
            json!([{"manager": "m", "fieldsV1": {"f:spec": {}}}])
        ),
        (Ok(0), 0, false)
    );
    for (field, value) in [
        ("labels", many("other.io")),
        ("annotations", many("kruise.io")),
    ] {
        let why = slimmed(field, value).0.unwrap_err();
        assert!(
            why.starts_with("metadata: labels, annotations of kruise.io") && why.contains("65536"),
            "{why}"
        );
    }
}

#[test]
fn pod_beyond_a_bound_names_the_field_and_the_limit() {
    let long = "x".repeat(100_000);
    let many = |of: Value| vec![of; 30_000];
    let none = json!({});
    let owner = |field: &str| json!({"ownerReferences": [{field: long}]});
    let kruise = json!({"annotations": {"apps.kruise.io/a": long}});
    let table = [
        (
            owner("kind"),
            none.clone(),
            none.clone(),
            "metadata.ownerReferences[0].kind: has 100000 bytes, and 63",
        ),
        (
            owner("uid"),
            none.clone(),
            none.clone(),
            "metadata.ownerReferences[0].uid: has 100000 bytes, and 128",
        ),
        (
            kruise,
            none.clone(),
            none.clone(),
            "metadata: labels, annotations of kruise.io",
        ),
        (
            json!({"finalizers": many(json!("a/b"))}),
            none.clone(),
            none.clone(),
            "metadata: labels",
        ),
        (
            none.clone(),
            json!({"containers": many(none.clone())}),
            none.clone(),
            "containers, volumes, gates",
        ),
        (
            none.clone(),
            json!({"initContainers": [{"name": "i", "restartPolicy": "Always", "image": long}]}),
            none.clone(),
            "spec.containers[i].image: has 100000 bytes, and 1024",
        ),
        (
            none.clone(),
            json!({"readinessGates": many(json!({"conditionType": "a"}))}),
            none.clone(),
            "containers, volumes",
        ),
        (
            none.clone(),
            none.clone(),
            json!({"conditions": [{"message": long}]}),
            "containers, volumes, gates",
        ),
        (
            none.clone(),
            none.clone(),
            json!({"containerStatuses": [{"state": {"waiting": {"message": long}}}]}),
            "containers",
        ),
        (
            none.clone(),
            none,
            json!({"message": long}),
            "containers, volumes",
        ),
    ];
    for (metadata, spec, status, says) in table {
        let refused = pod(&metadata, &spec, &status).unwrap_err();
        assert!(
            refused.starts_with(says) && refused.contains(" are the limit: "),
            "{refused}"
        );
    }
}
