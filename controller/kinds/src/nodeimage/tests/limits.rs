//! Limits of entries: those of the owners that an entry has now.

use berth_workload::images::prepull;

use super::*;
use crate::nodeimage::job_bears_on;

/// A job with these limits for a try and its repetitions.
fn limited(uid: &str, timeout: i32, backoff: i32, completion: Value) -> Arc<ImagePullJob> {
    let pull = json!({"timeoutSeconds": timeout, "backoffLimit": backoff});
    job(
        uid,
        json!({"pullPolicy": pull, "completionPolicy": completion}),
        Value::Null,
    )
}

fn with_status(mut job: Arc<ImagePullJob>, status: Value) -> Arc<ImagePullJob> {
    Arc::make_mut(&mut job).status = serde_json::from_value(status).unwrap();
    job
}

fn leaving(mut job: Arc<ImagePullJob>) -> Arc<ImagePullJob> {
    Arc::make_mut(&mut job).metadata.deletion_timestamp = serde_json::from_value(ago(1)).unwrap();
    job
}

/// The limits of the entry for `app:1` after the decision: timeoutSeconds, backoffLimit and
/// activeDeadlineSeconds.
fn limits(owners: &[Value], jobs: Vec<Arc<ImagePullJob>>, unreadable: &[&str]) -> [Value; 3] {
    let before = json!({"timeoutSeconds": 600, "backoffLimit": 50});
    let spec = json!({"images": {"app": {"tags": [{"tag": "1", "pullPolicy": before, "ownerReferences": owners}]}}});
    let image = image(&json!({}), &spec, &json!(null));
    let snapshot = Snapshot {
        jobs,
        unreadable_jobs: unreadable.iter().map(|uid| (*uid).to_owned()).collect(),
        ..snapshot(Some(node(&json!({}))), Some(image))
    };
    let patch = patch(&snapshot);
    let policy = match &patch["spec"]["images"]["app"]["tags"][0] {
        Value::Null => before,
        entry => entry["pullPolicy"].clone(),
    };
    ["timeoutSeconds", "backoffLimit", "activeDeadlineSeconds"].map(|field| policy[field].clone())
}

#[test]
fn entry_has_the_limits_of_its_present_owners() {
    let long = || limited("long", 600, 50, json!({}));
    let short = || limited("short", 10, 1, json!({"activeDeadlineSeconds": 90}));
    let ended = |job| with_status(job, json!({"completionTime": ago(5)}));
    let by_hand = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "name": "n1", "uid": "image"});
    let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "namespace": "shop", "name": "web", "uid": "set"});
    let prepull = prepull::limits("n1");
    let both = [owner("long"), owner("short")];
    let (wide, narrow) = (
        [json!(600), json!(50), json!(null)],
        [json!(10), json!(1), json!(90)],
    );
    let of_set = [
        json!(prepull.timeout_seconds),
        json!(prepull.backoff_limit),
        json!(prepull.active_deadline_seconds),
    ];
    let table = [
        ("both", both.to_vec(), vec![long(), short()], wide.clone()),
        ("one is gone", both.to_vec(), vec![short()], narrow.clone()),
        (
            "one has ended",
            both.to_vec(),
            vec![ended(long()), short()],
            narrow.clone(),
        ),
        (
            "one is being deleted",
            both.to_vec(),
            vec![leaving(long()), short()],
            narrow.clone(),
        ),
        (
            "one alone",
            vec![owner("short")],
            vec![short()],
            narrow.clone(),
        ),
        (
            "all have ended",
            both.to_vec(),
            vec![ended(long()), ended(short())],
            wide.clone(),
        ),
        (
            "by hand, too",
            vec![by_hand, owner("short")],
            vec![short()],
            wide,
        ),
        (
            "a workload",
            vec![set.clone(), owner("long")],
            vec![ended(long())],
            of_set.clone(),
        ),
        (
            "a workload with a short job",
            vec![set, owner("short")],
            vec![short()],
            of_set,
        ),
    ];
    for (what, owners, jobs, expected) in table {
        assert_eq!(limits(&owners, jobs, &[]), expected, "{what}");
    }
    let unread = limits(&both, vec![short()], &["long"]);
    assert_eq!(
        unread,
        [json!(600), json!(50), json!(null)],
        "a job that cannot be read keeps its limits"
    );
}

#[test]
fn entry_with_its_owners_limits_needs_no_write() {
    let short = limited("short", 10, 1, json!({}));
    let entry =
        json!({"tag": "1", "pullPolicy": limits_of(&short), "ownerReferences": [owner("short")]});
    let image = image(
        &json!({}),
        &json!({"images": {"app": {"tags": [entry]}}}),
        &json!(null),
    );
    assert_eq!(
        patch(&Snapshot {
            jobs: vec![short],
            ..snapshot(Some(node(&json!({}))), Some(image))
        }),
        Value::Null
    );
}

#[test]
fn job_wakes_its_nodes_when_limits_change() {
    let base = || limited("j", 60, 3, json!({}));
    let table = [
        ("the same", base(), false),
        ("timeoutSeconds", limited("j", 61, 3, json!({})), true),
        ("backoffLimit", limited("j", 60, 4, json!({})), true),
        (
            "deadline",
            limited("j", 60, 3, json!({"activeDeadlineSeconds": 70})),
            true,
        ),
        (
            "end",
            with_status(base(), json!({"completionTime": ago(1)})),
            true,
        ),
        (
            "progress",
            with_status(base(), json!({"succeeded": 1})),
            false,
        ),
        ("deletion", leaving(base()), true),
    ];
    for (what, new, expected) in table {
        assert_eq!(job_bears_on(&base(), &new), expected, "{what}");
    }
}
