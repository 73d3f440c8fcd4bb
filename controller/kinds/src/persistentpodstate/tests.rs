//! Records, and the workloads that ask for them.

use berth_workload::objects::resource::{NATIVE_STATEFUL_SETS, STATEFUL_SETS};
use serde_json::{Value, json};

use super::*;
use jiff::Timestamp;

fn state(fields: Value, records: Value) -> Arc<PersistentPodState> {
    let mut state = json!({
        "metadata": {"name": "db", "namespace": "default", "uid": "state", "generation": 2},
        "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
            "requiredPersistentTopology": {"keys": ["host"]},
        },
        "status": {"observedGeneration": 1, "podStates": records},
    });
    for (path, value) in fields.as_object().into_iter().flatten() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        state.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    Arc::new(serde_json::from_value(state).unwrap())
}

fn pod(name: &str, node: &str, ready: &str) -> Arc<Pod> {
    let conditions = json!([{"type": "Ready", "status": ready}]);
    let pod = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "annotations": {"kruise.io/kept": "yes", "kruise.io/injected-persistent-pod-state": "db"}}, "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": conditions},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn nodes() -> BTreeMap<Box<str>, Arc<Node>> {
    let node = |name: &str| {
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": {"host": name, "x": "y"}}}),
        )
    };
    ["n1", "n2"]
        .into_iter()
        .map(|name| (name.into(), Arc::new(node(name).unwrap())))
        .collect()
}

fn on(node: &str) -> Value {
    json!({"nodeName": node, "nodeTopologyLabels": {"host": node}})
}

#[test]
fn record_starts_with_ready_pod_and_ends_with_ordinal() {
    let set = |replicas| Target::Set(Some(Ordinals::new(0, replicas, [])));
    let ready = || vec![pod("db-0", "n1", "True")];
    let old = || json!({"db-0": on("n2"), "db-5": on("n2")});
    let kept = json!({"/spec/persistentPodStateRetentionPolicy": "WhenDeleted"});
    let forgets =
        |names: &str| json!({"/metadata/annotations": {"kruise.io/forget-pod-states": names}});
    let table = [
        (
            "anew",
            json!({}),
            set(1),
            ready(),
            json!({"db-0": on("n1")}),
        ),
        (
            "not ready",
            json!({}),
            set(1),
            vec![pod("db-0", "n1", "False")],
            json!({"db-0": on("n2")}),
        ),
        (
            "an unknown node",
            json!({}),
            set(1),
            vec![pod("db-0", "n9", "True")],
            json!({"db-0": on("n2")}),
        ),
        (
            "between two pods",
            json!({}),
            set(1),
            vec![],
            json!({"db-0": on("n2")}),
        ),
        (
            "out of range and there",
            json!({}),
            set(0),
            ready(),
            json!({"db-0": on("n1")}),
        ),
        (
            "out of range and gone",
            json!({}),
            set(0),
            vec![],
            json!({}),
        ),
        ("in range", json!({}), set(6), vec![], old()),
        (
            "kept until it is deleted",
            kept.clone(),
            set(0),
            vec![],
            old(),
        ),
        (
            "a spec that cannot be read",
            json!({}),
            Target::Set(None),
            vec![],
            old(),
        ),
        ("the set is gone", kept, Target::Gone, vec![], json!({})),
        (
            "a kind that is not followed",
            json!({}),
            Target::Unsupported,
            vec![],
            old(),
        ),
        (
            "nothing was seen yet",
            json!({}),
            Target::Unseen,
            vec![],
            old(),
        ),
        (
            "one is forgotten",
            forgets("db-0"),
            set(6),
            ready(),
            json!({"db-5": on("n2")}),
        ),
        (
            "all are forgotten",
            forgets("*"),
            set(6),
            ready(),
            json!({}),
        ),
    ];
    for (what, fields, target, pods, expected) in table {
        let snapshot = Snapshot {
            state: Some(state(fields, old())),
            target,
            pods,
            nodes: nodes(),
            ..Snapshot::default()
        };
        let status = status(&snapshot).unwrap();
        assert_eq!(
            (json!(status.pod_states), status.observed_generation),
            (expected, 2),
            "{what}"
        );
    }
}

#[test]
fn record_has_pod_annotations_named_in_the_spec() {
    let fields = json!({"/spec/persistentPodAnnotations": [{"key": "kruise.io/kept"}, {"key": "kruise.io/other"}, {"key": "example/kept"}]});
    let snapshot = Snapshot {
        state: Some(state(fields, json!({}))),
        target: Target::Set(Some(Ordinals::new(0, 1, []))),
        pods: vec![pod("db-0", "n1", "True")],
        nodes: nodes(),
        annotations: [(
            "uid-db-0".into(),
            [("example/kept".to_owned(), "too".to_owned())].into(),
        )]
        .into(),
        ..Snapshot::default()
    };
    let expected = json!({"kruise.io/kept": "yes", "example/kept": "too"});
    assert_eq!(
        json!(status(&snapshot).unwrap().pod_states["db-0"].annotations),
        expected
    );
    assert_eq!(
        wanted_annotations(snapshot.state.as_ref().unwrap())
            .filter(|key| is_outside(key))
            .collect::<Vec<_>>(),
        ["example/kept"]
    );
}

fn set(annotations: Value) -> Option<Generator> {
    Some(Generator {
        resource: STATEFUL_SETS,
        namespace: "default".to_owned(),
        name: "db".to_owned(),
        uid: "set".to_owned(),
        annotations: serde_json::from_value(annotations).unwrap(),
        is_going: false,
    })
}

fn planned(
    state: Option<Arc<PersistentPodState>>,
    generators: impl IntoIterator<Item = Generator>,
) -> Vec<String> {
    let snapshot = Snapshot {
        state,
        generators: generators.into_iter().collect(),
        ..Snapshot::default()
    };
    decide(&snapshot, Timestamp::UNIX_EPOCH)
        .actions()
        .map(|action| json!(action).to_string())
        .collect()
}

#[test]
fn annotations_manage_only_owned_objects() {
    let asks = |topology: &str| {
        set(json!({
            "kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": topology, "kruise.io/preferred-persistent-topology": "a, b",
        }))
    };
    let made = planned(None, asks("host"));
    assert!(
        made.len() == 1 && made[0].contains("Create") && made[0].contains(r#""weight":100"#),
        "{made:?}"
    );
    let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true}]);
    let preferred: Vec<_> = ["a", "b"]
        .map(|key| json!({"weight": 100, "preference": {"keys": [key]}}))
        .into();
    let fields =
        json!({"/metadata/ownerReferences": owner, "/spec/preferredPersistentTopology": preferred});
    let owned = || Some(state(fields.clone(), json!({})));
    assert_eq!(
        planned(owned(), asks("host")),
        Vec::<String>::new(),
        "nothing to change"
    );
    let changed = planned(owned(), asks("host,zone"));
    assert!(
        changed.len() == 1 && changed[0].contains("Patch") && changed[0].contains("zone"),
        "{changed:?}"
    );
    let deleted = planned(owned(), set(json!({})));
    assert!(
        deleted.len() == 1 && deleted[0].contains("Delete"),
        "{deleted:?}"
    );
    let by_hand = || Some(state(json!({}), json!({})));
    for generator in [asks("zone"), set(json!({})), None] {
        assert!(
            planned(by_hand(), generator).is_empty(),
            "what somebody made is left alone"
        );
    }
    assert!(
        planned(
            None,
            set(json!({"kruise.io/auto-generate-persistent-pod-state": "true"}))
        )
        .is_empty()
    );
}

#[test]
fn records_of_deleted_native_set_move_to_successor() {
    let asks = || {
        set(
            json!({"kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": "zone"}),
        )
    };
    let native = json!({"/spec/targetRef/apiVersion": "apps/v1"});
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "native", "controller": true}]);
    let owned =
        json!({"/spec/targetRef/apiVersion": "apps/v1", "/metadata/ownerReferences": owner});
    let other = json!({"/spec/targetRef/apiVersion": "apps/v1", "/spec/targetRef/name": "other"});
    let there = || Target::Set(Some(Ordinals::new(0, 1, [])));
    for (what, fields, target, generator, expected) in [
        (
            "without an owner",
            native.clone(),
            Target::Gone,
            asks(),
            true,
        ),
        ("its set is there", native.clone(), there(), asks(), false),
        ("of another", owned, Target::Gone, asks(), false),
        ("of another name", other, Target::Gone, asks(), false),
        ("of the same group", json!({}), Target::Gone, asks(), false),
        (
            "without the annotation",
            native,
            Target::Gone,
            set(json!({})),
            false,
        ),
    ] {
        let state = Some(state(fields, json!({"db-0": on("n1")})));
        let generators = generator.into_iter().collect();
        let snapshot = Snapshot {
            state,
            target,
            generators,
            ..Snapshot::default()
        };
        let plan = decide(&snapshot, Timestamp::UNIX_EPOCH);
        let actions: Vec<_> = plan
            .actions()
            .map(|action| json!(action).to_string())
            .collect();
        assert_eq!(actions.len(), usize::from(expected), "{what}: {actions:?}");
        let is_whole = |action: &String| {
            action.contains(r#""uid":"set""#) && action.contains("apps.kruise.io/v1beta1")
        };
        assert!(actions.iter().all(is_whole), "{what}: {actions:?}");
        assert!(
            !actions.iter().any(|action| action.contains("zone")),
            "{what}: the topologies follow later: {actions:?}"
        );
    }
}

#[test]
fn first_of_two_workloads_of_one_name_gets_records() {
    let asking = || {
        let annotations = json!({"kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": "host"});
        let set = set(annotations).unwrap();
        [
            Generator {
                resource: NATIVE_STATEFUL_SETS,
                uid: "native".to_owned(),
                ..set.clone()
            },
            set,
        ]
    };
    let snapshot = Snapshot {
        generators: asking().into(),
        ..Snapshot::default()
    };
    let plan = decide(&snapshot, Timestamp::UNIX_EPOCH);
    assert_eq!(plan.actions().count(), 1);
    let told = &plan.events[0].message;
    assert!(
        told.contains("StatefulSet of apps and of apps.kruise.io both ask")
            && told.contains("that of apps has it"),
        "{told}"
    );
    let going = asking().map(|generator| Generator {
        is_going: true,
        ..generator
    });
    assert!(planned(None, going).is_empty());
}

#[test]
fn records_wait_for_pinning_and_outlive_the_workload() {
    let ready = || vec![pod("db-0", "n1", "True")];
    let set = || Target::Set(Some(Ordinals::new(0, 1, [])));
    let base = || Snapshot {
        state: Some(state(json!({}), json!({}))),
        target: set(),
        pods: ready(),
        nodes: nodes(),
        ..Snapshot::default()
    };
    let records = |snapshot: &Snapshot| json!(status(snapshot).unwrap().pod_states);
    assert_eq!(
        records(&Snapshot {
            pinning: Pinning::NotYet,
            ..base()
        }),
        json!({})
    );
    assert_eq!(
        records(&Snapshot {
            rival: Some("older".to_owned()),
            ..base()
        }),
        json!({})
    );
    let beyond = Snapshot {
        beyond: Some("keeps no records: too many".to_owned()),
        ..base()
    };
    assert_eq!(records(&beyond), json!({}));
    let told = decide(&beyond, Timestamp::UNIX_EPOCH).events;
    assert!(
        told.iter()
            .any(|event| event.reason == "TooManyRecords" && event.message.contains("too many")),
        "{told:?}"
    );
    let predecessor = Some(state(
        json!({}),
        json!({"db-0": on("n2"), "db-1": on("n2")}),
    ));
    let inherits = Snapshot {
        predecessor: predecessor.clone(),
        pods: vec![],
        ..base()
    };
    assert_eq!(
        records(&inherits),
        json!({"db-0": on("n2")}),
        "what is in range"
    );
    assert_eq!(
        records(&Snapshot {
            predecessor,
            ..base()
        }),
        json!({"db-0": on("n1")}),
        "a ready pod is known better"
    );
    let gone = Snapshot {
        target: Target::Gone,
        present: ["db-0".to_owned()].into(),
        pods: vec![],
        ..base()
    };
    let gone = Snapshot {
        state: Some(state(
            json!({}),
            json!({"db-0": on("n1"), "db-1": on("n1")}),
        )),
        ..gone
    };
    assert_eq!(
        records(&gone),
        json!({"db-0": on("n1")}),
        "those of pods that are there"
    );
}

#[test]
fn records_stop_at_the_size_limit_of_objects() {
    let long = "x".repeat(4096);
    let pods: Vec<_> = (0..400)
        .map(|n| pod(&format!("db-{n}"), "n1", "True"))
        .collect();
    let annotations = pods.iter().map(|pod| {
        (
            pod.metadata.uid.clone(),
            [("example/long".to_owned(), long.clone())].into(),
        )
    });
    let fields = json!({"/spec/persistentPodAnnotations": [{"key": "example/long"}]});
    let snapshot = Snapshot {
        state: Some(state(fields, json!({}))),
        target: Target::Set(Some(Ordinals::new(0, 400, []))),
        annotations: annotations.collect(),
        nodes: nodes(),
        pods,
        ..Snapshot::default()
    };
    let status = json!(status(&snapshot).unwrap()).to_string();
    assert!(
        (900_000..1_100_000).contains(&status.len()),
        "{}",
        status.len()
    );
}

#[test]
fn moved_pod_sends_event_with_cause() {
    let snapshot = |pinned: bool, recorded: &str| {
        let mut pod = (*pod("db-0", "n1", "True")).clone();
        if !pinned {
            pod.metadata.annotations = Box::default();
        }
        let state = state(json!({}), json!({"db-0": on(recorded)}));
        let pods = vec![Arc::new(pod)];
        Snapshot {
            state: Some(state),
            target: Target::Set(None),
            pods,
            nodes: nodes(),
            ..Snapshot::default()
        }
    };
    let events = |snapshot: &Snapshot| {
        let events = decide(snapshot, Timestamp::UNIX_EPOCH).events;
        events
            .into_iter()
            .map(|event| event.message)
            .collect::<Vec<_>>()
    };
    assert!(events(&snapshot(true, "n1")).is_empty());
    let relabelled = json!({"db-0": {"nodeName": "n1", "nodeTopologyLabels": {"host": "old"}}});
    let relabelled = Snapshot {
        state: Some(state(json!({}), relabelled)),
        ..snapshot(true, "n1")
    };
    assert!(
        events(&relabelled).is_empty(),
        "its node has another label, and the pod did not move"
    );
    let mut cordoned = snapshot(true, "n2");
    cordoned.nodes.values_mut().for_each(|node| {
        *node = Arc::new(Node {
            ready: true,
            cordoned: true,
            ..(**node).clone()
        })
    });
    assert!(
        events(&cordoned)[0].ends_with("node n2 is cordoned"),
        "{:?}",
        events(&cordoned)
    );
    let table = [
        (false, "n2", "made without being pinned"),
        (true, "n9", "node n9 is gone"),
        (true, "n2", "node n2 is not ready"),
    ];
    for (pinned, recorded, cause) in table {
        let told = events(&snapshot(pinned, recorded));
        let begins = format!("pod db-0 came back on node n1, not on {recorded}: ");
        assert!(
            told.len() == 1 && told[0].starts_with(&begins) && told[0].contains(cause),
            "{told:?}"
        );
    }
}

#[test]
fn unpinned_pods_of_protected_namespaces_warn() {
    for (pinning, says) in [
        (Pinning::Webhook, None),
        (Pinning::Off, Some("podPinning.by is none")),
        (Pinning::Protected, Some("controller.protectedNamespaces")),
    ] {
        let state = Some(state(json!({}), json!({})));
        let plan = decide(
            &Snapshot {
                state,
                target: Target::Set(None),
                pinning,
                ..Snapshot::default()
            },
            Timestamp::UNIX_EPOCH,
        );
        let told: Vec<_> = plan
            .events
            .iter()
            .filter(|event| event.reason == "PodsNotPinned")
            .collect();
        assert_eq!(told.len(), usize::from(says.is_some()), "{pinning:?}");
        assert!(
            told.iter()
                .all(|event| event.message.contains(says.unwrap_or_default())),
            "{told:?}"
        );
    }
}

#[test]
fn explain_names_last_node_and_pinning_of_each_pod() {
    let preferred = json!([{"weight": 7, "preference": {"keys": ["x"]}}]);
    let records = json!({"db-0": {"nodeName": "n1", "nodeTopologyLabels": {"host": "n1", "x": "y"}}, "db-1": on("n9")});
    let snapshot = Snapshot {
        state: Some(state(
            json!({"/spec/preferredPersistentTopology": preferred}),
            records,
        )),
        target: Target::Set(None),
        pods: vec![pod("db-0", "n1", "True"), pod("db-2", "n2", "False")],
        nodes: nodes(),
        pinning: Pinning::Webhook,
        ..Snapshot::default()
    };
    let lines: Vec<_> = explain(&snapshot)
        .into_iter()
        .map(|line| format!("{}: {}", line.pod, line.reason))
        .collect();
    assert_eq!(
        lines,
        [
            ": is of StatefulSet db (apps.kruise.io/v1beta1); the pod webhook pins a pod when it is created",
            "db-0: was ready last on node n1, which is not ready; the pod is on n1, pinned by db; the next one gets nodeSelector host=n1; \
             preferred node affinity x=y (weight 7)",
            "db-1: was ready last on node n9, which is gone; no pod has the name now; the next one gets nodeSelector host=n9",
            "db-2: has no record yet: one is taken when the pod is ready",
        ]
    );
}
