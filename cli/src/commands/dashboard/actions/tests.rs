use super::*;

const AT: &str = "2026-11-30T12:00:00Z";

fn rolling(fields: Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 6, "updateStrategy": {"rollingUpdate": fields}, "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}},
            "spec": {"containers": [{"name": "web", "image": "web:2"}]},
        }},
    })
}

fn in_rolling_update(fields: Value) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": fields}}})
}

#[test]
fn patch_changes_only_the_wanted_field() {
    let running = rolling(json!({"partition": 2}));
    let paused = rolling(json!({"paused": true, "partition": "50%"}));
    let restart = || Action::Restart {
        at: AT.parse().unwrap(),
    };
    let restarted =
        json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: AT}}}}});
    let old = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    });
    let undone = json!({"spec": {"template": {
        "metadata": {"annotations": null},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }}});
    let sidecars = json!({"metadata": {"name": "logs"}, "spec": {"updateStrategy": {}}});
    let job = json!({"metadata": {"name": "job"}, "spec": {"paused": true}});
    let cases = [
        (
            CLONE_SETS,
            Action::Pause,
            &running,
            in_rolling_update(json!({"paused": true})),
        ),
        (
            STATEFUL_SETS,
            Action::Pause,
            &running,
            in_rolling_update(json!({"paused": true})),
        ),
        (
            DAEMON_SETS,
            Action::Resume,
            &paused,
            in_rolling_update(json!({"paused": false})),
        ),
        (
            SIDECAR_SETS,
            Action::Pause,
            &sidecars,
            json!({"spec": {"updateStrategy": {"paused": true}}}),
        ),
        (
            BROADCAST_JOBS,
            Action::Resume,
            &job,
            json!({"spec": {"paused": false}}),
        ),
        (
            CLONE_SETS,
            Action::Partition(json!("100%")),
            &paused,
            in_rolling_update(json!({"partition": "100%"})),
        ),
        (
            STATEFUL_SETS,
            Action::Partition(json!(0)),
            &running,
            in_rolling_update(json!({"partition": 0})),
        ),
        (
            SIDECAR_SETS,
            Action::Partition(json!("10%")),
            &sidecars,
            json!({"spec": {"updateStrategy": {"partition": "10%"}}}),
        ),
        (CLONE_SETS, restart(), &running, restarted.clone()),
        (DAEMON_SETS, restart(), &running, restarted),
        (CLONE_SETS, Action::Undo { template: old }, &running, undone),
    ];
    for (resource, action, object, expected) in cases {
        let patched = patch(resource, &action, object);
        assert_eq!(patched, Ok(expected), "{} {action:?}", resource.kind);
    }
}

#[test]
fn impossible_change_is_refused_by_a_sentence() {
    let running = rolling(json!({"partition": 2}));
    let paused = rolling(json!({"paused": true}));
    let same = running["spec"]["template"].clone();
    let restart = Action::Restart {
        at: AT.parse().unwrap(),
    };
    let cases = [
        (CLONE_SETS, Action::Pause, &paused, "web is paused already"),
        (CLONE_SETS, Action::Resume, &running, "web is not paused"),
        (
            CLONE_SETS,
            Action::Partition(json!(2)),
            &running,
            "the partition of web is 2 already",
        ),
        (
            CLONE_SETS,
            Action::Partition(json!(-1)),
            &running,
            "the partition -1 is neither a number of pods, such as 2, nor a percentage, such as \"50%\"",
        ),
        (
            CLONE_SETS,
            Action::Partition(json!("101%")),
            &running,
            "the partition \"101%\" is neither a number of pods, such as 2, nor a percentage, such as \"50%\"",
        ),
        (
            STATEFUL_SETS,
            Action::Partition(json!("50%")),
            &running,
            "the partition \"50%\" is no number of pods, such as 2",
        ),
        (
            CLONE_SETS,
            Action::Undo { template: same },
            &running,
            "web has the template of this revision already",
        ),
        (
            BROADCAST_JOBS,
            restart,
            &running,
            "broadcastjobs have no restart",
        ),
        (
            BROADCAST_JOBS,
            Action::Partition(json!(1)),
            &running,
            "broadcastjobs have no partition",
        ),
    ];
    for (resource, action, object, expected) in cases {
        let refused = patch(resource, &action, object).unwrap_err();
        assert_eq!(refused.sentence, expected);
    }
}

#[test]
fn undo_without_number_takes_the_newest_other() {
    let revision = |number: i64, image: &str| {
        let template = json!({"$patch": "replace", "spec": {"image": image}});
        json!({
            "metadata": {"name": format!("web-{number}")}, "revision": number,
            "data": {"spec": {"template": template}},
        })
    };
    let revisions = [revision(3, "c"), revision(2, "b"), revision(1, "a")];
    let object = json!({"status": {"updateRevision": "web-3"}});
    let image = |wanted| {
        earlier(&object, &revisions, wanted).map(|template| template["spec"]["image"].clone())
    };
    assert_eq!(image(None), Ok(json!("b")));
    assert_eq!(image(Some(1)), Ok(json!("a")));
    assert_eq!(
        image(Some(9)).unwrap_err().sentence,
        "there is no revision 9 any more"
    );
    let first = json!({"status": {"updateRevision": "web-1"}});
    let none = earlier(&first, &revisions[2..], None).unwrap_err();
    assert_eq!(none.sentence, "there is no earlier revision");
}

#[test]
fn body_of_other_fields_is_refused() {
    let read = |text: &str| serde_json::from_str::<Wanted>(text);
    assert!(read(r#"{"dryRun":true,"partition":"50%"}"#).is_ok());
    assert!(read(r#"{"dryRun":true,"patch":{}}"#).is_err());
    assert!(read("{").is_err());
}
