use berth_kinds::sidecarset::{LeftOut, Reach};
use berth_webhook::PodWebhook;
use berth_webhook::pods::{Added, SidecarRequest};
use berth_workload::feature_gates::Gates;
use serde_json::{Value, json};

use super::*;
use crate::admission::webhook_rules::WebhookRules;
use crate::stores::reads::Stores;

const OURS: &str = "kruise-system";

/// Stores with these SidecarSets, namespaces with labels, and pods.
fn reads(sets: &[Value], namespaces: &[(&str, Value)], pods: &[Value]) -> SidecarSetController {
    let mut stores = Stores::default();
    let reads = SidecarSetController::new(&mut stores.reader());
    for set in sets {
        reads
            .sets
            .apply(serde_json::from_value(set.clone()).unwrap());
    }
    for (name, labels) in namespaces {
        let namespace = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels}});
        reads
            .namespaces
            .apply(serde_json::from_value(namespace).unwrap());
    }
    for pod in pods {
        reads
            .pods
            .apply(serde_json::from_value(pod.clone()).unwrap());
    }
    reads
}

fn set(name: &str, labels: Value, annotations: Value) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "annotations": annotations},
        "spec": {"selector": {"matchLabels": labels}, "containers": [{"name": name, "image": "a:1"}]},
    })
}

fn pod(namespace: &str, name: &str, labels: Value, annotations: Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1", "labels": labels,
                        "annotations": annotations}})
}

fn injection() -> Arc<Injection> {
    Injection::new(Arc::default(), Gates::default(), OURS, "kube-system", None)
}

/// The names of the pods that a decision about a SidecarSet is about.
fn selected(reads: &SidecarSetController, set: &str) -> Vec<String> {
    selected_beside(reads, set, &injection())
}

fn selected_beside(reads: &SidecarSetController, set: &str, injection: &Injection) -> Vec<String> {
    let snapshot = reads.observe(&reads.sets.get("", set).unwrap(), injection);
    let mut names: Vec<_> = snapshot
        .pods
        .iter()
        .map(|pod| pod.metadata.name.to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn pods_without_injection_are_not_selected() {
    let web = || json!({"app": "web"});
    let pods = [
        pod("default", "one", web(), json!({})),
        pod("default", "other", json!({"app": "db"}), json!({})),
        pod(
            "default",
            "mirror",
            web(),
            json!({"kubernetes.io/config.mirror": "hash"}),
        ),
        pod(OURS, "ours", web(), json!({})),
        pod("kube-system", "protected", web(), json!({})),
        pod("untouched", "untouched", web(), json!({})),
    ];
    let namespaces = [
        ("default", json!({})),
        ("untouched", json!({"control-plane": "openkruise"})),
    ];
    assert_eq!(
        selected(
            &reads(&[set("log", web(), json!({}))], &namespaces, &pods),
            "log"
        ),
        ["one"]
    );
}

#[test]
fn pods_excluded_by_others_lack_no_sidecar() {
    let web = || json!({"app": "web"});
    let pods = [
        pod("default", "called", web(), json!({})),
        pod("opted-out", "bare", web(), json!({})),
        pod(
            "opted-out",
            "injected",
            web(),
            json!({"kruise.io/sidecarset-injected-list": "log"}),
        ),
    ];
    let namespaces = [
        ("default", json!({})),
        ("opted-out", json!({"no-sidecars": ""})),
    ];
    let reads = reads(&[set("log", web(), json!({}))], &namespaces, &pods);
    let selector = serde_json::from_value(json!({"matchLabels": web()})).unwrap();
    let ask = SidecarRequest {
        name: "log".to_owned(),
        selector,
        namespaces: None,
        fails_closed: false,
    };
    let entry = json!({
        "name": format!("{}-0.pods.kruise.io", ask.entry(injection().protected())), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {},
        "namespaceSelector": {"matchExpressions": [{"key": "no-sidecars", "operator": "DoesNotExist"}]},
    });
    let narrowed = Added::of(&[serde_json::from_value(entry).unwrap()]);
    for (what, added, expected) in [
        (
            "nothing is added",
            Some(Added::default()),
            &["bare", "called", "injected"][..],
        ),
        (
            "namespaces are left out",
            Some(narrowed),
            &["called", "injected"],
        ),
        ("not known yet", None, &["injected"]),
    ] {
        let asks = Arc::<WebhookRules>::default();
        asks.connect(PodWebhook::looked_at(added));
        let injection = Injection::new(asks, Gates::default(), OURS, "kube-system", None);
        assert_eq!(
            selected_beside(&reads, "log", &injection),
            expected,
            "{what}"
        );
    }
}

#[test]
fn canary_takes_pods_without_containers_of_its_base() {
    let canary = |paused: bool| {
        let annotations = json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "log"});
        let mut canary = set("log-canary", json!({"canary": "yes"}), annotations);
        canary["spec"]["injectionStrategy"] = json!({"paused": paused});
        canary
    };
    let both = || json!({"app": "web", "canary": "yes"});
    let pods = [
        pod("default", "base", json!({"app": "web"}), json!({})),
        pod("default", "new", both(), json!({})),
        pod(
            "default",
            "old",
            both(),
            json!({"kruise.io/sidecarset-injected-list": "log"}),
        ),
    ];
    let sets = |paused| [set("log", json!({"app": "web"}), json!({})), canary(paused)];
    let namespaces = [("default", json!({}))];
    let taken = |reads: &SidecarSetController| {
        let snapshot = reads.observe(&reads.sets.get("", "log").unwrap(), &injection());
        snapshot
            .taken
            .into_keys()
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let (with, without) = (
        reads(&sets(false), &namespaces, &pods),
        reads(&sets(true), &namespaces, &pods),
    );
    assert_eq!(selected(&with, "log"), ["base", "old"]);
    assert_eq!(taken(&with), ["new", "old"]);
    assert_eq!(selected(&without, "log"), ["base", "new", "old"]);
    assert!(taken(&without).is_empty());
}

#[test]
fn namespace_label_times_are_observed() {
    let pods = ["early", "late", "late"].iter().zip(["a", "b", "c"]);
    let pods: Vec<_> = pods
        .map(|(namespace, name)| pod(namespace, name, json!({"app": "web"}), json!({})))
        .collect();
    let mut of_mesh = set("mesh", json!({"app": "web"}), json!({}));
    of_mesh["spec"]["namespaceSelector"] = json!({"matchLabels": {"mesh": "on"}});
    let reads = reads(
        &[set("log", json!({"app": "web"}), json!({})), of_mesh],
        &[("early", json!({"mesh": "on"}))],
        &pods,
    );
    let fields = json!({"f:metadata": {"f:labels": {"f:mesh": {}}}});
    let late = json!({"metadata": {"name": "late", "uid": "late", "resourceVersion": "1", "labels": {"mesh": "on"},
                                   "creationTimestamp": "2026-01-01T00:00:00Z",
                                   "managedFields": [{"time": "2026-03-01T00:00:00Z", "fieldsV1": fields}]}});
    reads
        .namespaces
        .apply(serde_json::from_value(late).unwrap());
    let labelled = |set: &str| {
        let snapshot = reads.observe(&reads.sets.get("", set).unwrap(), &injection());
        let labelled = snapshot
            .labelled
            .into_iter()
            .map(|(namespace, time)| format!("{namespace} {time}"));
        labelled.collect::<Vec<_>>()
    };
    assert_eq!(labelled("mesh"), ["late 2026-03-01T00:00:00Z"]);
    assert!(
        labelled("log").is_empty(),
        "it looks at no labels of namespaces"
    );
}

#[test]
fn unselected_pod_is_observed_until_condition_is_gone() {
    let speaking = |name: &str, message: &str| {
        let mut pod = pod("default", name, json!({"app": "db"}), json!({}));
        pod["status"] = json!({"conditions": [{"type": "SidecarSetUpgradable", "status": "False", "message": message}]});
        pod
    };
    let pods = [
        speaking("one", r#"{"log":false}"#),
        speaking("other", r#"{"logs":false}"#),
    ];
    let reads = reads(
        &[set("log", json!({"app": "web"}), json!({}))],
        &[("default", json!({}))],
        &pods,
    );
    let snapshot = reads.observe(&reads.sets.get("", "log").unwrap(), &injection());
    let names: Vec<_> = snapshot
        .strangers
        .iter()
        .map(|pod| &*pod.metadata.name)
        .collect();
    assert_eq!((names, snapshot.pods.len()), (vec!["one"], 0));
}

#[test]
fn observed_reach_names_left_out_namespaces() {
    let of = |namespaces: &[&str]| {
        let mut set = set("log", json!({"app": "web"}), json!({}));
        let named =
            json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces});
        set["spec"]["namespaceSelector"] = json!({"matchExpressions": [named]});
        set
    };
    let labelled = |name: &str| json!({"kubernetes.io/metadata.name": name});
    let mut untouched = labelled("untouched");
    untouched["control-plane"] = json!("openkruise");
    let namespaces = [
        ("default", labelled("default")),
        ("kube-system", labelled("kube-system")),
        ("untouched", untouched),
    ];
    for (selected, is_any, left_out) in [
        (&["default"][..], true, &[][..]),
        (
            &["default", "kube-system"],
            true,
            &[(LeftOut::Protected, "kube-system")],
        ),
        (&["untouched"], false, &[(LeftOut::Labelled, "untouched")]),
        (&["gone"], false, &[]),
    ] {
        let reads = reads(&[of(selected)], &namespaces, &[]);
        let reach = reads
            .observe(&reads.sets.get("", "log").unwrap(), &injection())
            .reach;
        let left_out = left_out
            .iter()
            .map(|(why, name)| (*why, (*name).to_owned()))
            .collect();
        assert_eq!(reach, Reach { is_any, left_out }, "{selected:?}");
    }
}

#[test]
fn incomplete_store_proves_no_sidecar_set_deleted() {
    let reads = reads(&[], &[], &[]);
    assert!(!is_gone(&reads.sets, "log"));
}
