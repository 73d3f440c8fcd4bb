use berth_api::names::taint::{IMAGES_NOT_READY, IMAGES_NOT_READY_AT_STARTUP};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_000_000;

fn ago(seconds: i64) -> String {
    Timestamp::from_second(NOW - seconds).unwrap().to_string()
}

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect})
}

/// A node that was created this many seconds ago.
fn node(age: i64, taints: &[Value]) -> Arc<Node> {
    let node = json!({
        "metadata": {"name": "n1", "uid": "u", "resourceVersion": "7", "creationTimestamp": ago(age)},
        "spec": {"taints": taints},
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

fn image(age: i64, spec: &Value, status: &Value) -> Arc<NodeImage> {
    let image = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
        "metadata": {"name": "n1", "uid": "i", "creationTimestamp": ago(age)}, "spec": spec, "status": status,
    });
    Arc::new(serde_json::from_value(image).unwrap())
}

fn decided(node: Arc<Node>, image: Option<Arc<NodeImage>>) -> Plan {
    decide(
        &Snapshot { node, image },
        Timestamp::from_second(NOW).unwrap(),
    )
}

/// The taints that are written, and the event.
fn taken(plan: &Plan) -> Option<(&Value, &Event)> {
    let step = plan.stages.first()?.steps.first()?;
    let [
        Action::Patch {
            resource: NODES,
            target,
            patch,
        },
    ] = &step.actions[..]
    else {
        panic!("{step:?}")
    };
    assert_eq!(
        (&*target.uid, target.resource_version.as_deref()),
        ("u", Some("7")),
        "only the node as it was seen"
    );
    Some((&patch["spec"]["taints"], step.done.as_ref().unwrap()))
}

#[test]
fn taint_is_removed_after_first_pulls_or_timeout() {
    let ours = [taint(IMAGES_NOT_READY, "NoSchedule")];
    let synced = |status: &str, message: &str| json!({"desired": 1, "firstSyncStatus": {"status": status, "message": message}});
    let listed = json!({"firstPullsListed": true, "images": {"web": {"tags": [{"tag": "1"}, {"tag": "2"}]}}});
    let half = json!({"desired": 2, "imageStatuses": {"web": {"tags": [{"tag": "1", "phase": "Succeeded"}, {"tag": "2", "phase": "Pulling"}]}}});
    let done = json!({"desired": 2, "imageStatuses": {"web": {"tags": [{"tag": "1", "phase": "Succeeded"}, {"tag": "2", "phase": "Failed"}]}}});
    // The case, the age of the node, its NodeImage; the reason of the event and a part of it, or of
    // the plan's wait.
    let table = [
        (
            "synced",
            60,
            Some(image(50, &listed, &synced("Succeeded", ""))),
            Some("ImagesReady"),
            "has all images",
        ),
        (
            "failed",
            60,
            Some(image(50, &listed, &synced("Failed", "1 not pulled: web:2"))),
            Some("ImagesNotPulled"),
            "web:2",
        ),
        (
            "no phase",
            60,
            Some(image(
                50,
                &listed,
                &json!({"desired": 1, "firstSyncStatus": {}}),
            )),
            None,
            "web:1, web:2",
        ),
        (
            "half",
            60,
            Some(image(50, &listed, &half)),
            None,
            "not done with web:2",
        ),
        (
            "not said yet",
            60,
            Some(image(50, &listed, &done)),
            None,
            "has yet to say",
        ),
        (
            "not listed",
            60,
            Some(image(50, &json!({}), &half)),
            None,
            "Never have yet to ask",
        ),
        ("no NodeImage", 60, None, None, "no NodeImage"),
        (
            "of an earlier node",
            60,
            Some(image(61, &listed, &synced("Succeeded", ""))),
            None,
            "no NodeImage",
        ),
        (
            "in time",
            239,
            Some(image(50, &listed, &half)),
            None,
            "web:2",
        ),
        (
            "too late",
            240,
            Some(image(50, &listed, &half)),
            Some("ImagesNotReadyTimedOut"),
            "4 minutes for its images: it is not done with web:2",
        ),
        (
            "its daemon has yet to say so",
            599,
            Some(image(50, &listed, &done)),
            None,
            "has yet to say",
        ),
        ("no daemon yet", 599, None, None, "no NodeImage"),
        (
            "no daemon",
            9999,
            None,
            Some("ImagesNotReadyTimedOut"),
            "does Berth's daemon run there?",
        ),
        (
            "late and synced",
            9999,
            Some(image(50, &listed, &synced("Succeeded", ""))),
            Some("ImagesReady"),
            "n1",
        ),
    ];
    for (what, age, image, reason, says) in table {
        let plan = decided(node(age, &ours), image);
        let event = taken(&plan).map(|(taints, event)| {
            assert_eq!(*taints, Value::Null, "{what}");
            (event.reason, &event.message)
        });
        assert_eq!(event.map(|(reason, _)| reason), reason, "{what}");
        let said = event.map_or_else(
            || plan.waiting[0].reason.clone(),
            |(_, message)| message.clone(),
        );
        assert!(
            said.contains(says) && said.contains(IMAGES_NOT_READY),
            "{what}: {said}"
        );
        let longest = if said.contains("not done") || said.contains("Never have") {
            240
        } else {
            600
        };
        let wait = reason
            .is_none()
            .then(|| SignedDuration::from_secs(longest - age));
        assert_eq!(plan.look_again, wait, "{what}");
    }
}

/// The namespaces that ask for a pull, and whether the pull is over.
type Pull<'a> = (&'a [&'a str], bool);

/// A NodeImage with a pull for each entry: the namespaces that ask for it, and whether the pull is
/// over.
fn asked(pulls: &[Pull<'_>], is_listed: bool) -> Arc<NodeImage> {
    let (mut images, mut statuses) = (json!({}), json!({}));
    for (at, (namespaces, is_over)) in pulls.iter().enumerate() {
        let owners: Vec<_> = namespaces
            .iter()
            .map(|namespace| json!({"namespace": namespace, "uid": "u"}))
            .collect();
        images[format!("i{at}")] = json!({"tags": [{"tag": "1", "ownerReferences": owners}]});
        let phase = if *is_over { "Failed" } else { "Pulling" };
        statuses[format!("i{at}")] = json!({"tags": [{"tag": "1", "phase": phase}]});
    }
    let spec = json!({"firstPullsListed": is_listed, "images": images});
    image(
        5,
        &spec,
        &json!({"desired": pulls.len(), "imageStatuses": statuses}),
    )
}

#[test]
fn timeout_grows_with_namespaces_waited_for() {
    let table: [(&str, &[Pull<'_>], bool, i64); 9] = [
        ("one", &[(&["a"], false)], true, 4),
        (
            "one, with many images",
            &[(&["a"], false), (&["a"], false), (&["a"], false)],
            true,
            4,
        ),
        ("two", &[(&["a"], false), (&["b"], false)], true, 6),
        (
            "two that ask for one image",
            &[(&["a", "b"], false)],
            true,
            6,
        ),
        (
            "of two one is done",
            &[(&["a"], false), (&["b"], true)],
            true,
            4,
        ),
        ("many", &[(&["a", "b", "c", "d", "e"], false)], true, 10),
        ("none is left", &[(&["a"], true)], true, 10),
        ("not all is listed", &[(&["a"], false)], false, 6),
        ("nothing is listed", &[], false, 4),
    ];
    for (what, pulls, is_listed, minutes) in table {
        let node = |age| node(age, &[taint(IMAGES_NOT_READY, "NoSchedule")]);
        let image = asked(pulls, is_listed);
        assert!(
            decided(node(60 * minutes - 1), Some(image.clone()))
                .stages
                .is_empty(),
            "{what}"
        );
        assert!(
            !decided(node(60 * minutes), Some(image)).stages.is_empty(),
            "{what}"
        );
    }
    let (two, one) = (
        asked(&[(&["a"], false), (&["b"], false)], true),
        asked(&[(&["a"], false), (&["b"], true)], true),
    );
    assert!(concerns_image(Some(&two), &one), "its time ends earlier");
    let plan = decided(
        node(240, &[taint(IMAGES_NOT_READY, "NoSchedule")]),
        Some(one),
    );
    assert!(
        taken(&plan)
            .unwrap()
            .1
            .message
            .contains("not done with i0:1 of namespace a"),
        "{plan:?}"
    );
}

#[test]
fn only_image_taints_are_removed() {
    let others = [
        json!({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}),
        json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}),
        taint("x.io/images-not-ready", "NoSchedule"),
        taint("apps.kruise.io/images-not-ready-2", "NoSchedule"),
    ];
    let written = json!([
        {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "value": "", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        {"key": "x.io/images-not-ready", "value": "", "effect": "NoSchedule"},
        {"key": "apps.kruise.io/images-not-ready-2", "value": "", "effect": "NoSchedule"},
    ]);
    let mut all = others.to_vec();
    all.insert(0, taint(IMAGES_NOT_READY, "NoExecute"));
    all.insert(2, taint(IMAGES_NOT_READY_AT_STARTUP, "NoSchedule"));
    all.push(taint(IMAGES_NOT_READY, "PreferNoSchedule"));
    let plan = decided(node(9999, &all), None);
    assert_eq!(taken(&plan).map(|(taints, _)| taints), Some(&written));
    assert_eq!(
        decided(node(9999, &others), None),
        Plan::default(),
        "without them nothing is done"
    );
    let mut going = node(9999, &all);
    Arc::make_mut(&mut going).metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(decided(going, None), Plan::default());
}

#[test]
fn wait_names_three_open_images_and_counts_the_rest() {
    let tags: Vec<_> = (0..9).map(|n| json!({"tag": n.to_string()})).collect();
    let spec = json!({"firstPullsListed": true, "images": {"web": {"tags": tags}}});
    let plan = decided(
        node(1, &[taint(IMAGES_NOT_READY, "NoSchedule")]),
        Some(image(0, &spec, &json!(null))),
    );
    assert!(
        plan.waiting[0]
            .reason
            .ends_with("not done with web:0, web:1, web:2 and 6 more"),
        "{:?}",
        plan.waiting
    );
}

#[test]
fn heartbeats_and_untainted_nodes_are_ignored() {
    let (ours, other) = (
        taint(IMAGES_NOT_READY, "NoSchedule"),
        taint("dedicated", "NoSchedule"),
    );
    let beat = |node: Arc<Node>| Node {
        ready: true,
        ..(*node).clone()
    };
    let tainted = node(5, std::slice::from_ref(&ours));
    let table = [
        ("new", None, (*tainted).clone(), true),
        ("a beat", Some(&*tainted), beat(tainted.clone()), false),
        (
            "another taint goes",
            Some(&*node(5, &[ours.clone(), other.clone()])),
            (*tainted).clone(),
            true,
        ),
        (
            "tainted later",
            Some(&*node(5, &[])),
            (*tainted).clone(),
            true,
        ),
        ("free", Some(&*tainted), (*node(5, &[other])).clone(), false),
    ]
    .map(|(what, old, new, expected)| (what, old.cloned(), new, expected));
    for (what, old, new, expected) in table {
        assert_eq!(concerns(old.as_ref(), &new), expected, "{what}");
    }
    let of = |status: Value| image(5, &json!({}), &status);
    let (open, done) = (
        of(json!({"desired": 1})),
        of(json!({"desired": 1, "firstSyncStatus": {"status": "Failed"}})),
    );
    assert!(concerns_image(Some(&open), &done) && concerns_image(None, &done));
    assert!(!concerns_image(None, &open) && !concerns_image(Some(&done), &done));
}

proptest! {
    /// The pulls of other namespaces and the number of images do not matter.
    #[test]
    fn one_namespace_adds_two_minutes_at_most(
        others in prop::collection::vec((prop::sample::select(vec!["a", "b", "c", "d"]), any::<bool>()), 0..6),
        own in prop::collection::vec(any::<bool>(), 0..6),
    ) {
        let others: Vec<_> = others.iter().map(|(of, is_over)| (std::slice::from_ref(of), *is_over)).collect();
        let own = own.iter().map(|is_over| (&["tenant"][..], *is_over));
        let all: Vec<_> = others.iter().copied().chain(own).collect();
        let (with, without) = (patience(Some(&asked(&all, true))), patience(Some(&asked(&others, true))));
        // Where all else is there the node waits for its daemon alone.
        prop_assert!(with <= without + OF_NAMESPACE);
    }

    #[test]
    fn other_taints_keep_their_order(
        all in prop::collection::vec((prop::sample::select(vec![IMAGES_NOT_READY, IMAGES_NOT_READY_AT_STARTUP, "a", "b/c"]),
            prop::sample::select(vec!["NoSchedule", "NoExecute", "PreferNoSchedule"])), 0..8)
    ) {
        let is_ours = |key: &str| key == IMAGES_NOT_READY || key == IMAGES_NOT_READY_AT_STARTUP;
        let written = |(key, effect): &(&str, &str)| json!({"key": key, "value": "", "effect": effect});
        let rest: Vec<_> = all.iter().filter(|(key, _)| !is_ours(key)).map(written).collect();
        let taints: Vec<_> = all.iter().map(|(key, effect)| taint(key, effect)).collect();
        let plan = decided(node(600, &taints), None);
        let expected = (rest.len() < all.len()).then(|| if rest.is_empty() { Value::Null } else { json!(rest) });
        prop_assert_eq!(taken(&plan).map(|(taints, _)| taints.clone()), expected);
    }
}
