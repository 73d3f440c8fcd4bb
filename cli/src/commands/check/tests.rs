use std::collections::BTreeSet;

use berth_api::kinds::{CLONE_SET, IMAGE_PULL_JOB, KINDS};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::access::judge_rights;
use super::certificate::end_of_bundle;
use super::controller::{judge_certificate, judge_lease, judge_replicas, judge_webhooks};
use super::daemon::{judge_daemons, judge_runtimes};
use super::definitions::{judge_served, judge_stored};
use super::kubernetes::{judge_apiserver, judge_kubelets, minor};
use super::namespace::{judge_pod_security, judge_quotas};
use super::objects::{is_kept, judge, judge_native, judge_read, lacking, with_condition};
use super::openkruise::{
    judge_gates, judge_helm, judge_manager, judge_no_definitions, judge_no_manager,
    judge_no_webhooks,
};
use super::outcome::{Category, Judged, Outcome};
use super::print::{as_json, as_text};
use super::return_path::{
    is_in_rollout, is_ordered_with_more, lacks_defaults, lacks_gate, united_faults,
    updates_native_sidecars,
};
use super::takeover::{judge_drains, judge_images, lacks_pull_policy, unknown_kinds};

/// Ends on 2029-08-27, as UTCTime.
const UNTIL_2029: &str = "MIIBLDCB36ADAgECAhQyApB6BmuEpm0WE9k6UYshyZztDzAFBgMrZXAwDDEKMAgGA1UEAwwBYTAeFw0yNjEyMDEwMDA5MTNaFw0yOTA4MjcwMDA5MTNaMAwxCjAIBgNVBAMMAWEwKjAFBgMrZXADIQCE75IDw3J7XY9TB6ecNm+fVMCnsLD0ykySU/wYv91SvqNTMFEwHQYDVR0OBBYEFKYmhYtHixcr+7eRwbPWfptAE2qFMB8GA1UdIwQYMBaAFKYmhYtHixcr+7eRwbPWfptAE2qFMA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VwA0EAR5P9Wt2S8s9EKOtaM+ThueFSc3k5mABgpyevmV44dl//g6dqQarAtpBb5PsorXuj/pJPyKUq9zj1FB7w8yyvCg==";
/// Ends on 2059-10-09, as GeneralizedTime.
const UNTIL_2059: &str = "MIIBLjCB4aADAgECAhQArcAJ/UJezesxR9zxy4OAptvPLDAFBgMrZXAwDDEKMAgGA1UEAwwBYTAgFw0yNjEyMDEwMDA5MTNaGA8yMDU5MTAwOTAwMDkxM1owDDEKMAgGA1UEAwwBYTAqMAUGAytlcAMhAA02QAPbxZBRMlhe9CYlotPPFqWHhSCUPkrUhBL/8br+o1MwUTAdBgNVHQ4EFgQU3VjFxXIyMZkecF3dVMapezSiRyEwHwYDVR0jBBgwFoAU3VjFxXIyMZkecF3dVMapezSiRyEwDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQCTwfsWDDQa2en6GGN4x4Lsru4CZ7SHViaRzXsQXM2yvi6RNQAy6r9ojDq5VobWDzuZHg0l18BsN3rxb6Um2PUA";

fn now() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().unwrap()
}

/// The sign of an outcome, and all its words.
fn sign(outcome: &Outcome) -> (char, String) {
    match outcome {
        Outcome::Ok(text) => ('√', text.clone()),
        Outcome::Unknown(text) => ('?', text.clone()),
        Outcome::Warn(text, hint) => ('‼', format!("{text}; {hint}")),
        Outcome::Fail(text, hint) => ('×', format!("{text}; {hint}")),
    }
}

#[track_caller]
fn assert_is(outcome: &Outcome, expected: char, part: &str) {
    let (sign, words) = sign(outcome);
    assert_eq!(sign, expected, "{words}");
    assert!(words.contains(part), "{words:?} lacks {part:?}");
}

fn berth(name: &str, rest: Value) -> Value {
    let mut object = json!({"metadata": {
        "name": name, "namespace": "kruise-system",
        "labels": {"app.kubernetes.io/name": "berth", "app.kubernetes.io/version": "0.1.0"},
    }});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

fn node(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}})
}

#[test]
fn versions_are_read_with_suffixes() {
    let cases = [
        ("v1.34.2", Some(34)),
        ("v1.33.9-gke.100", Some(33)),
        ("v1.35.0+k3s1", Some(35)),
        ("v2.0.0", Some(u32::MAX)),
        ("1.34", None),
        ("", None),
    ];
    for (version, expected) in cases {
        assert_eq!(minor(version), expected, "{version}");
    }
    assert_is(&judge_apiserver("v1.34.0"), '√', "v1.34.0");
    assert_is(&judge_apiserver("v1.33.5"), '×', "v1.33.5");
    assert_is(&judge_apiserver("odd"), '‼', "odd");
}

#[test]
fn kubelets_must_report_generations() {
    let pod = |node: &str, generation: u64, phase: &str| json!({"spec": {"nodeName": node}, "status": {"phase": phase, "observedGeneration": generation}});
    let nodes = [node("a", "v1.37.0"), node("b", "v1.34.1")];
    let reports = [pod("a", 1, "Running"), pod("b", 2, "Running")];
    assert_is(&judge_kubelets(&nodes, &reports), '√', "all 2 nodes");
    assert_is(&judge_kubelets(&nodes, &[]), '√', "all 2 nodes");
    let silent = [pod("a", 1, "Running"), pod("b", 0, "Running")];
    assert_is(&judge_kubelets(&nodes, &silent), '×', "pods: b");
    let pending = [pod("a", 1, "Running"), pod("b", 0, "Pending")];
    assert_is(&judge_kubelets(&nodes, &pending), '√', "");
    let old = [node("a", "v1.37.0"), node("b", "v1.33.1")];
    assert_is(&judge_kubelets(&old, &reports), '×', "b (v1.33.1)");
}

#[test]
fn missing_kind_fails_with_its_version() {
    let mut served: BTreeSet<_> = KINDS
        .iter()
        .flat_map(|kind| {
            kind.versions()
                .map(|one| (kind.api_version(one), kind.plural.to_owned()))
        })
        .collect();
    assert_is(&judge_served(&served), '√', "all 13 kinds");
    served.remove(&("apps.kruise.io/v1alpha1".to_owned(), "clonesets".to_owned()));
    assert_is(
        &judge_served(&served),
        '×',
        "apps.kruise.io/v1alpha1 CloneSet",
    );
}

#[test]
fn definitions_of_another_release_warn() {
    let definitions = |change: fn(&mut Value)| -> Vec<Value> {
        KINDS
            .iter()
            .map(|kind| {
                let stored = kind.stored.name();
                let mut one = berth(&kind.crd(), json!({
                    "spec": {
                        "versions": [{"name": "v1alpha1", "storage": stored == "v1alpha1"}, {"name": "v1beta1", "storage": stored == "v1beta1"}],
                        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "eA=="}}},
                    },
                    "status": {"storedVersions": [stored], "conditions": [{"type": "Established", "status": "True"}]},
                }));
                if kind.plural == CLONE_SET.plural {
                    change(&mut one);
                }
                one
            })
            .collect()
    };
    type Change = fn(&mut Value);
    let cases: [(Change, char, &str); 6] = [
        (|_| {}, '√', "13 definitions"),
        (
            |one| one["metadata"]["labels"] = json!({"app.kubernetes.io/version": "0.2.0"}),
            '‼',
            "0.2.0",
        ),
        (
            |one| one["status"]["storedVersions"] = json!(["v1alpha1", "v1beta1"]),
            '‼',
            "stored as v1alpha1",
        ),
        (
            |one| one["spec"]["versions"] = json!([{"name": "v1alpha1", "storage": true}]),
            '×',
            "stores version \"v1alpha1\"",
        ),
        (
            |one| one["spec"]["conversion"] = json!({"strategy": "None"}),
            '×',
            "not Webhook",
        ),
        (
            |one| one["status"]["conditions"] = json!([]),
            '×',
            "Established",
        ),
    ];
    for (change, expected, part) in cases {
        assert_is(&judge_stored(&definitions(change), "0.1.0"), expected, part);
    }
    assert_is(&judge_stored(&[], "0.1.0"), '×', "does not exist");
}

#[test]
fn replicas_are_judged_by_readiness() {
    let of = |all: i64, ready: i64| {
        berth(
            "m",
            json!({"spec": {"replicas": all}, "status": {"readyReplicas": ready}}),
        )
    };
    assert_is(
        &judge_replicas(Some(&of(2, 2)), "ns"),
        '√',
        "2 of 2 replicas are",
    );
    assert_is(
        &judge_replicas(Some(&of(1, 1)), "ns"),
        '√',
        "1 of 1 replica is",
    );
    assert_is(&judge_replicas(Some(&of(2, 1)), "ns"), '‼', "1 of 2");
    assert_is(&judge_replicas(Some(&of(2, 0)), "ns"), '×', "0 of 2");
    assert_is(&judge_replicas(None, "ns"), '×', "namespace ns");
    assert_is(&judge_replicas(Some(&json!({})), "ns"), '×', "OpenKruise's");
}

#[test]
fn lease_fails_when_it_is_not_renewed() {
    let of = |holder: &str, renewed: &str| json!({"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}});
    let cases = [
        (
            of("a", "2026-11-30T23:59:58.500000Z"),
            '√',
            "renewed 1.5 s ago",
        ),
        (
            of("a", "2026-12-01T00:00:09.000000Z"),
            '√',
            "renewed 0.0 s ago",
        ),
        (of("a", "2026-11-30T23:58:00.000000Z"), '×', "for 2m"),
        (
            of("", "2026-11-30T23:59:58.500000Z"),
            '×',
            "no replica holds",
        ),
        (of("a", "yesterday"), '×', "no replica holds"),
    ];
    for (lease, expected, part) in cases {
        assert_is(&judge_lease(Some(&lease), "ns", now()), expected, part);
    }
    assert_is(
        &judge_lease(None, "ns", now()),
        '×',
        "no Lease ns/kruise-manager",
    );
}

#[test]
fn webhooks_need_a_bundle() {
    let of = |name: &str, bundle: &str| {
        berth(
            name,
            json!({"webhooks": [{"name": "x.kruise.io", "clientConfig": {"caBundle": bundle}}]}),
        )
    };
    let all = |bundle: &str| {
        ["validating", "mutating", "budget"]
            .map(|one| of(&format!("kruise-{one}-webhook-configuration"), bundle))
    };
    assert_is(&judge_webhooks(&all("eA==")), '√', "3 webhook");
    assert_is(
        &judge_webhooks(&all("")),
        '×',
        "x.kruise.io of kruise-validating",
    );
    assert_is(
        &judge_webhooks(&all("eA==")[..2]),
        '‼',
        "budgets hold no pods",
    );
    let foreign = json!({"metadata": {"name": "kruise-validating-webhook-configuration"}});
    assert_is(&judge_webhooks(&[foreign]), '×', "OpenKruise's");
}

fn bundle(certificates: &[&str]) -> String {
    let pem: String = certificates
        .iter()
        .map(|one| format!("-----BEGIN CERTIFICATE-----\n{one}\n-----END CERTIFICATE-----\n"))
        .collect();
    let base64 = serde_json::to_value(ByteString(pem.into_bytes())).unwrap();
    base64.as_str().unwrap().to_owned()
}

#[test]
fn bundles_end_with_their_last_authority() {
    let end =
        |certificates: &[&str]| end_of_bundle(&bundle(certificates)).map(|end| end.to_string());
    assert_eq!(end(&[UNTIL_2029]).as_deref(), Some("2029-08-27T00:09:13Z"));
    assert_eq!(end(&[UNTIL_2059]).as_deref(), Some("2059-10-09T00:09:13Z"));
    assert_eq!(
        end(&[UNTIL_2059, UNTIL_2029]).as_deref(),
        Some("2059-10-09T00:09:13Z")
    );
    for broken in [
        "",
        "%",
        &bundle(&[]),
        &bundle(&["AAAA"]),
        &bundle(&["MIL/////"]),
    ] {
        assert_eq!(end_of_bundle(broken), None, "{broken:?}");
    }
    // No prefix of a certificate makes the parser panic.
    let whole = UNTIL_2059.trim_end_matches('=');
    for length in (0..whole.len()).step_by(4) {
        end_of_bundle(&bundle(&[&whole[..length]]));
    }
}

#[test]
fn certificates_warn_in_their_last_month() {
    let bundles = [bundle(&[UNTIL_2029]), bundle(&[UNTIL_2059])];
    let end: Timestamp = "2029-08-27T00:09:13Z".parse().unwrap();
    let before = |days: i64| end - SignedDuration::from_hours(24 * days);
    assert_is(&judge_certificate(&bundles, before(31)), '√', "in 31d");
    assert_is(&judge_certificate(&bundles, before(6)), '‼', "in 6d");
    assert_is(
        &judge_certificate(&bundles, before(-2)),
        '×',
        "ended 2d ago",
    );
    assert_is(
        &judge_certificate(&["eA==".to_owned()], now()),
        '×',
        "no certificate",
    );
    assert_is(&judge_certificate(&[], now()), '×', "no webhook");
}

#[test]
fn daemons_and_runtimes_are_judged_by_node() {
    let set = |wanted: i64, ready: i64| json!({"status": {"desiredNumberScheduled": wanted, "numberReady": ready}});
    assert_is(&judge_daemons(Some(&set(3, 3)), "ns"), '√', "3 of 3");
    assert_is(&judge_daemons(Some(&set(3, 2)), "ns"), '×', "2 of 3");
    assert_is(&judge_daemons(None, "ns"), '×', "no DaemonSet");
    let image = |name: &str, status: &str| {
        json!({"metadata": {"name": name}, "status": {"conditions": [{
            "type": "RuntimeReady", "status": status, "message": "no socket",
            "lastTransitionTime": "2026-11-30T23:57:00Z",
        }]}})
    };
    let nodes = [node("a", ""), node("b", "")];
    let both = [image("a", "True"), image("b", "True")];
    assert_is(&judge_runtimes(&nodes, &both, now()), '√', "all 2 nodes");
    assert_is(&judge_runtimes(&nodes, &both[..1], now()), '‼', "b");
    let failed = [image("a", "True"), image("b", "False")];
    assert_is(
        &judge_runtimes(&nodes, &failed, now()),
        '×',
        "b: NodeImage condition RuntimeReady is False since 3m: no socket",
    );
    let silent = [image("a", "True"), json!({"metadata": {"name": "b"}})];
    assert_is(
        &judge_runtimes(&nodes, &silent, now()),
        '×',
        "has not reported",
    );
}

#[test]
fn blocked_objects_get_a_command() {
    let object = |status: &str| {
        json!({"metadata": {"name": "web", "namespace": "default"},
            "status": {"conditions": [{"type": "Blocked", "status": status, "reason": "ImageUnavailable"}]}})
    };
    let lines = |kind, status| with_condition(kind, &[object(status)], "Blocked", "True");
    assert_eq!(
        lines(&CLONE_SET, "True"),
        ["CloneSet default/web ImageUnavailable: kubectl berth why cloneset/web -n default"]
    );
    assert!(lines(&CLONE_SET, "False").is_empty());
    assert_eq!(lines(&IMAGE_PULL_JOB, "True").len(), 1);
}

#[test]
fn namespaces_must_admit_the_daemon() {
    let of = |level: &str| json!({"metadata": {"name": "ns", "labels": {"pod-security.kubernetes.io/enforce": level}}});
    assert_is(
        &judge_pod_security(Some(&of("privileged")), "ns"),
        '√',
        "privileged",
    );
    assert_is(
        &judge_pod_security(Some(&of("baseline")), "ns"),
        '×',
        "\"baseline\"",
    );
    assert_is(
        &judge_pod_security(Some(&json!({})), "ns"),
        '√',
        "no Pod Security",
    );
    assert_is(&judge_pod_security(None, "ns"), '√', "does not exist");
    let gone = json!({"metadata": {"deletionTimestamp": "2026-12-01T00:00:00Z"}});
    assert_is(&judge_pod_security(Some(&gone), "ns"), '×', "being deleted");
    assert_is(&judge_rights(&[], "ns"), '√', "namespace ns");
    assert_is(
        &judge_rights(&["secrets".to_owned()], ""),
        '×',
        "in the cluster: secrets",
    );
}

#[test]
fn quotas_that_are_too_small_warn() {
    let hard = |hard: Value| [json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})];
    let judge = |quotas: &[Value]| judge_quotas(quotas, 3, "v1.34.0");
    assert_is(&judge(&[]), '√', "no ResourceQuota");
    assert_is(&judge(&hard(json!({"pods": "5"}))), '√', "");
    assert_is(&judge(&hard(json!({"pods": "4"}))), '‼', "needs 5 pods");
    assert_is(
        &judge(&hard(json!({"limits.memory": "1Gi"}))),
        '‼',
        "limits.memory is 1Gi",
    );
    assert_is(&judge_quotas(&[], 3, "v1.34.1-gke.5"), '‼', "GKE");
    let classes =
        json!({"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}});
    assert_is(&judge_quotas(&[classes], 3, "v1.34.1-gke.5"), '√', "");
}

#[test]
fn leftovers_of_openkruise_are_found() {
    let manager = |labels: Value| {
        json!({"metadata": {"name": "kruise-controller-manager", "namespace": "kruise-system", "labels": labels},
            "spec": {"template": {"spec": {"containers": [{"image": "openkruise/kruise-manager:v1.9.0"}]}}}})
    };
    let own = json!({"app.kubernetes.io/name": "berth"});
    assert_is(&judge_no_manager(&[]), '√', "no controller");
    assert_is(
        &judge_no_manager(&[manager(own.clone())]),
        '‼',
        "installed already",
    );
    assert_is(
        &judge_no_manager(&[manager(json!({}))]),
        '×',
        "kruise-manager:v1.9.0",
    );
    assert_is(
        &judge_manager(Some(&manager(json!({}))), "ns"),
        '√',
        "1.9.0",
    );
    assert_is(
        &judge_manager(Some(&manager(own)), "ns"),
        '‼',
        "installed already",
    );
    assert_is(&judge_manager(None, "ns"), '‼', "--berth-namespace");
    let definition = json!({"metadata": {"name": CLONE_SET.crd()}});
    assert_is(
        &judge_no_definitions(&[definition]),
        '‼',
        "--take-ownership",
    );
    let other = json!({"metadata": {"name": "backups.velero.io"}});
    assert_is(
        &judge_no_definitions(&[other, berth(&CLONE_SET.crd(), json!({}))]),
        '√',
        "",
    );
    let webhook = json!([{"clientConfig": {"service": {"name": "kruise-webhook-service"}}}]);
    let left = json!({"metadata": {"name": "kruise-x"}, "webhooks": webhook});
    assert_is(&judge_no_webhooks(&[left]), '×', "kruise-x");
    assert_is(
        &judge_no_webhooks(&[berth("x", json!({"webhooks": webhook}))]),
        '√',
        "",
    );
}

#[test]
fn takeover_finds_release_and_gates() {
    let annotations =
        json!({"meta.helm.sh/release-name": "kruise", "meta.helm.sh/release-namespace": "ops"});
    let of_helm = json!({"metadata": {"annotations": annotations}});
    assert_is(
        &judge_helm(&[of_helm]),
        '‼',
        "kubectl -n ops delete secret -l owner=helm,name=kruise",
    );
    assert_is(&judge_helm(&[json!({})]), '√', "no release");
    assert_is(&judge_gates(""), '√', "no feature gates");
    assert_is(
        &judge_gates("ImagePullJobGate=true"),
        '√',
        "ImagePullJobGate=true",
    );
    assert_is(
        &judge_gates("WorkloadSpread=false,ImagePullJobGate=true"),
        '√',
        "",
    );
    assert_is(&judge_gates("WorkloadSpread=true"), '‼', "no effect");
    assert_is(&judge_gates("Unheard=true"), '‼', "refuses");
}

#[test]
fn takeover_finds_unknown_kinds() {
    let of = |plural: &str, group: &str| {
        json!({"metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "names": {"kind": "X", "plural": plural}, "versions": [
                {"name": "v1alpha1", "served": false}, {"name": "v1beta1", "served": true}]}})
    };
    let all = [
        of("clonesets", "apps.kruise.io"),
        of("nodepodprobes", "apps.kruise.io"),
        of("workloadspreads", "apps.kruise.io"),
        of("backups", "velero.io"),
    ];
    let found: Vec<_> = unknown_kinds(&all)
        .into_iter()
        .map(|kind| format!("{} {}", kind.api_version, kind.plural))
        .collect();
    assert_eq!(found, ["apps.kruise.io/v1beta1 workloadspreads"]);
}

#[test]
fn takeover_judges_drains_and_manifests() {
    let cordoned = json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}});
    let nodes = [cordoned, json!({"metadata": {"name": "b"}})];
    assert_is(
        &judge_drains(&nodes, 0, false),
        '√',
        "no PodUnavailableBudgets",
    );
    assert_is(&judge_drains(&nodes, 2, false), '×', "cordoned: a");
    assert_is(
        &judge_drains(&nodes[1..], 2, false),
        '‼',
        "2 PodUnavailableBudgets are",
    );
    assert_is(&judge_drains(&nodes, 2, true), '√', "refuses evictions");
    let images = |names: Value| [json!({"status": {"images": [{"names": names}]}})];
    let both = json!(["r/berth-controller:1", "r/berth-daemon:1"]);
    assert_is(&judge_images(&images(both)), '√', "1 of 1");
    assert_is(
        &judge_images(&images(json!(["r/berth-daemon:1"]))),
        '‼',
        "no node",
    );
    let applied = |container: Value| {
        let manifest = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": manifest.to_string()}}})
    };
    assert!(lacks_pull_policy(&applied(json!({"name": "a"}))));
    assert!(!lacks_pull_policy(&applied(
        json!({"imagePullPolicy": "Always"})
    )));
    assert!(!lacks_pull_policy(&json!({})));
}

#[test]
fn return_finds_templates_to_change() {
    let template = |pod: Value| json!({"spec": {"template": {"spec": pod}}});
    let container = json!({"imagePullPolicy": "Always", "terminationMessagePath": "/dev/x", "terminationMessagePolicy": "File"});
    let mut pod = json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "s", "securityContext": {}, "containers": [container]});
    assert!(!lacks_defaults(&template(pod.clone())));
    pod["containers"] = json!([{"name": "a"}]);
    assert!(lacks_defaults(&template(pod)));
    let set = |policy: &str, gates: Value| json!({"spec": {"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": policy}}, "template": {"spec": {"readinessGates": gates}}}});
    assert!(lacks_gate(&set("InPlaceIfPossible", json!([]))));
    assert!(!lacks_gate(&set("ReCreate", json!([]))));
    assert!(!lacks_gate(&set(
        "InPlaceOnly",
        json!([{"conditionType": "InPlaceUpdateReady"}])
    )));
    let ordered = |policy: &str, most: Value| json!({"spec": {"podManagementPolicy": policy, "updateStrategy": {"rollingUpdate": {"maxUnavailable": most}}}});
    assert!(is_ordered_with_more(&ordered("OrderedReady", json!(2))));
    assert!(is_ordered_with_more(&ordered("", json!("50%"))));
    assert!(!is_ordered_with_more(&ordered("OrderedReady", json!(1))));
    assert!(!is_ordered_with_more(&ordered("Parallel", json!(2))));
    let sidecar = |type_: &str| json!({"spec": {"updateStrategy": {"type": type_}, "initContainers": [{"restartPolicy": "Always"}]}});
    assert!(updates_native_sidecars(&sidecar("RollingUpdate")));
    assert!(!updates_native_sidecars(&sidecar("NotUpdate")));
}

#[test]
fn return_finds_united_deployments_and_rollouts() {
    let whole = json!({"spec": {"replicas": 2, "updateStrategy": {"type": "Manual"}, "template": {"deploymentTemplate": {"spec": {"selector": {}}}}}});
    assert!(united_faults(&whole).is_empty());
    assert_eq!(united_faults(&json!({"spec": {}})).len(), 3);
    let clone = json!({"spec": {"replicas": 2, "updateStrategy": {"type": "Manual"}, "template": {"cloneSetTemplate": {"spec": {
        "selector": {}, "replicas": 1, "template": {"spec": {"containers": [{"name": "a"}]}}}}}}});
    assert_eq!(united_faults(&clone).len(), 2);
    let workload = |seen: i64, updated: i64| json!({"metadata": {"generation": 2}, "status": {"observedGeneration": seen, "replicas": 3, "updatedReplicas": updated}});
    assert!(!is_in_rollout(&workload(2, 3)));
    assert!(is_in_rollout(&workload(1, 3)));
    assert!(is_in_rollout(&workload(2, 1)));
    let daemons = json!({"status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 2}});
    assert!(is_in_rollout(&daemons));
}

#[test]
fn results_print_as_linkerd_prints_them() {
    let judged = |category, outcome| Judged {
        category,
        rule: "r",
        outcome,
    };
    let (hint, cat) = ("do\nthat".to_owned(), "cat");
    let results = [
        judged(cat, Outcome::Ok("fine".to_owned())),
        judged(cat, Outcome::Warn("odd\u{1b}[2J".to_owned(), hint)),
        judged("other", Outcome::Unknown("no right".to_owned())),
    ];
    let plain = |short| {
        anstream::adapter::strip_str(&as_text(&results, short, "kubectl berth check")).to_string()
    };
    let all = "cat\n---\n√ fine\n‼ odd\\u{1b}[2J\n    do\n    that\nother\n-----\n? no right\nStatus check results are ‼\n";
    assert_eq!(plain(false), all);
    assert_eq!(plain(true), all.replace("√ fine\n", ""));
    let json = as_json(&results);
    assert_eq!(json["success"], true);
    assert_eq!(json["categories"][0]["checks"][1]["result"], "warning");
    assert_eq!(json["categories"][1]["categoryName"], "other");
}

#[test]
fn hints_of_many_lines_name_the_command() {
    let lines = |many: usize| (1..=many).map(|one| format!("object {one}")).collect();
    let print = |many| {
        let outcome = judge(9, lines(many), "blocked");
        let judged = [Judged {
            category: "cat",
            rule: "r",
            outcome,
        }];
        let text = as_text(&judged, false, "kubectl berth check -n d");
        (
            anstream::adapter::strip_str(&text).to_string(),
            as_json(&judged),
        )
    };
    let (five, _) = print(5);
    assert!(five.contains("    object 5\nStatus"), "{five}");
    let (seven, json) = print(7);
    let more = "    object 5\n    and 2 more; `kubectl berth check -n d -o json` lists all\nStatus";
    assert!(seven.contains(more), "{seven}");
    let hint = json["categories"][0]["checks"][0]["hint"].as_str().unwrap();
    assert_eq!(hint.lines().count(), 7);
}

#[test]
fn category_without_an_outcome_fails() {
    let category = Category {
        name: "cat",
        rules: &[],
    };
    let judged = |outcome| Judged {
        category: "cat",
        rule: "r",
        outcome,
    };
    let unknown = || judged(Outcome::Unknown("may not list pods".to_owned()));
    let ok = || judged(Outcome::Ok("fine".to_owned()));
    let found = category.unjudged(&[unknown(), unknown()]).unwrap();
    assert_is(
        &found.outcome,
        '×',
        "no rule of cat could be judged: may not list pods",
    );
    assert!(category.unjudged(&[unknown(), ok()]).is_none());
    assert!(category.unjudged(&[]).is_none());
    let refused = || Some("may not list pods".to_owned());
    assert_is(
        &judge_read(judge(3, vec![], "blocked"), None),
        '√',
        "none of 3",
    );
    assert_is(
        &judge_read(judge(3, vec![], "blocked"), refused()),
        '?',
        "may not",
    );
    let some = judge(3, vec!["object".to_owned()], "blocked");
    assert_is(
        &judge_read(some, refused()),
        '‼',
        "as far as you may read (may not",
    );
}

#[test]
fn sidecar_sets_without_pods_are_in_order() {
    let set = |(selected, missed, refused): (i64, i64, i64), ready: &str| {
        json!({"status": {
            "injection": {"selected": selected, "missed": missed, "refused": refused},
            "conditions": [{"type": "InjectionReady", "status": ready, "reason": "NoNamespace", "message": "m"}],
        }})
    };
    let cases = [
        (set((0, 0, 0), "False"), None),
        (set((2, 0, 0), "True"), None),
        (
            set((2, 0, 0), "False"),
            Some("new pods do not get its containers (NoNamespace): m"),
        ),
        (
            set((3, 1, 1), "True"),
            Some("2 of 3 pods that it selects lack its containers"),
        ),
        (json!({}), None),
    ];
    for (set, expected) in cases {
        assert_eq!(lacking(&set).as_deref(), expected, "{set}");
    }
}

#[test]
fn limits_of_kept_budgets_are_not_judged() {
    for (owner, expected) in [("policy.kruise.io/v1alpha1", true), ("apps/v1", false)] {
        let budget = json!({"metadata": {"ownerReferences": [
            {"apiVersion": owner, "kind": "K", "name": "web", "controller": true}]}});
        assert_eq!(is_kept(&budget), expected, "{owner}");
    }
}

#[test]
fn native_budgets_that_let_no_pod_go_are_found() {
    let budget = |name: &str, most: i64, reason: &str| {
        json!({
            "metadata": {"name": name, "namespace": "d"},
            "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"conditions": [{
                "type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "no scale"}]},
        })
    };
    let pods = [json!({"metadata": {"name": "a", "namespace": "d", "labels": {"app": "web"}}})];
    let (open, other) = (budget("web", 1, "x"), budget("other", 1, "x"));
    let cases = [
        (vec![open.clone()], None),
        (
            vec![budget("web", 0, "x")],
            Some("spec.maxUnavailable is 0"),
        ),
        (
            vec![budget("web", 0, "SyncFailed")],
            Some("(SyncFailed): no scale; set spec.minAvailable to 0"),
        ),
        (
            vec![open, other],
            Some("PodDisruptionBudget other holds them, too"),
        ),
    ];
    for (all, expected) in cases {
        let typed: Vec<_> = all
            .iter()
            .map(|one| serde_json::from_value(one.clone()).unwrap())
            .collect();
        let why = judge_native(&all[0], &typed, &pods);
        assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
        let why = why.unwrap_or_default();
        assert!(why.contains(expected.unwrap_or_default()), "{why}");
    }
}
