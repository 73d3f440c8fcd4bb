//! What a drain of a node would get.

use berth_api::v1beta1::podunavailablebudget::{Ledger, PodUnavailableBudgetStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::budget::count::is_available;
use crate::budget::drain::{
    Budget, Drain, EvictionDecision, Other, Place, Remainder, Resident, drainable,
};
use crate::budget::federation::{Brings, Shared};
use crate::budget::judge::Account;
use crate::budget::ledger::set_numbers;
use crate::budget::native::NativeBudget;
use crate::budget::webhook_calls::WebhookCalls;
use crate::budget::{Fault, Rules};
use crate::objects::pod::Pod;

const WEB: &str = "PodUnavailableBudget default/web";

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

/// A pod that serves, but for what is given.
fn pod(name: &str, fields: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "uid": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for (path, value) in fields.as_object().unwrap() {
        let (parent, key) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn with_selector(fields: &Value) -> Value {
    let mut all = json!({"selector": {"matchLabels": {"app": "web"}}});
    fields
        .as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| all[key] = value.clone());
    all
}

fn rules(fields: &Value) -> Result<Rules, Fault> {
    Rules::of(&serde_json::from_value(with_selector(fields)).unwrap())
}

fn distributed(fields: &Value) -> Result<Rules, Fault> {
    Rules::of_distributed(&serde_json::from_value(with_selector(fields)).unwrap())
}

/// A budget with so many of so many pods available.
fn budget<'a>(
    name: &'a str,
    rules: &'a Result<Rules, Fault>,
    (available, total): (usize, usize),
) -> Budget<'a> {
    let ledger = Some(Ledger {
        counted: "7".to_owned(),
        ..Ledger::default()
    });
    let mut status = PodUnavailableBudgetStatus {
        observed_generation: 1,
        ledger,
        ..PodUnavailableBudgetStatus::default()
    };
    let desired = rules
        .as_ref()
        .map_or(0, |rules| rules.amount.desired(total).unwrap());
    set_numbers(&mut status, available, total, desired);
    let account = Account {
        name,
        rules,
        generation: 1,
        status,
        floor: None,
    };
    Budget {
        account,
        total: None,
        others: Vec::new(),
        webhook_calls: WebhookCalls::Always,
    }
}

/// A budget that names another, which contributes this many.
fn naming<'a>(
    name: &'a str,
    rules: &'a Result<Rules, Fault>,
    available: usize,
    (other, brought): (Place, usize),
) -> Budget<'a> {
    let mut one = budget(name, rules, (available, available));
    one.account.floor = Some(0);
    let brings = Ok(Brings {
        healthy: brought,
        expected: brought,
    });
    one.others = vec![Other {
        brings,
        shared: Shared::default(),
        place: Some(other),
    }];
    one
}

fn native(name: &str, allowed: i32, owner: Option<&str>) -> NativeBudget {
    let owners =
        owner.map(|kind| json!([{"apiVersion": "policy.kruise.io/v1beta1", "kind": kind, "controller": true}]));
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "generation": 1, "ownerReferences": owners.unwrap_or(json!([]))},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3},
    }))
    .unwrap()
}

/// The results for pods, each with the budgets that hold it, in the messages of the budget
/// `reported`.
fn words(
    budgets: Vec<Budget<'_>>,
    natives: Vec<NativeBudget>,
    reported: usize,
    pods: &[(Pod, Vec<usize>)],
) -> Vec<String> {
    let residents: Vec<_> = pods
        .iter()
        .map(|(pod, holding)| Resident {
            pod,
            is_available: is_available(pod, true, now()),
            holding: holding.clone(),
        })
        .collect();
    Drain {
        budgets,
        natives,
        reported,
    }
    .round(&residents, now())
    .iter()
    .map(EvictionDecision::words)
    .collect()
}

fn serving(names: &[&str]) -> Vec<(Pod, Vec<usize>)> {
    names
        .iter()
        .map(|name| (pod(name, &json!({})), vec![0]))
        .collect()
}

#[test]
fn drain_charges_pods_one_after_another() {
    let rules = rules(&json!({"maxUnavailable": 2}));
    let found = words(
        vec![budget(WEB, &rules, (5, 5))],
        Vec::new(),
        0,
        &serving(&["a", "b", "c"]),
    );
    let since = now();
    assert_eq!(
        found,
        [
            "would go, and 1 more may then".to_owned(),
            "would go, and no more may then".to_owned(),
            format!(
                "would be refused: {WEB} allows no more pods to go: 3 of 5 are available and 3 must be (maxUnavailable 2); used up by a \
                 (EVICT by this drain since {since}), b (EVICT by this drain since {since}); try again when more are available, or change its \
                 spec"
            ),
        ]
    );
}

#[test]
fn refusal_for_ever_says_to_change_the_spec() {
    let rules = rules(&json!({"maxUnavailable": 0}));
    let found = words(
        vec![budget(WEB, &rules, (2, 2))],
        Vec::new(),
        0,
        &serving(&["a", "b"]),
    );
    let said = format!(
        "would be refused: {WEB} allows no more pods to go: 2 of 2 are available and 2 must be (maxUnavailable 0); with these numbers it \
         never does: change its spec"
    );
    assert_eq!(found, [said.clone(), said]);
}

#[test]
fn drain_gives_a_reason_for_each_pod() {
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    let owned = |api_version: &str| json!([{"apiVersion": api_version, "kind": "DaemonSet", "controller": true}]);
    let one = json!({"maxUnavailable": 1});
    for (pod_is, spec, holding, expected) in [
        (
            json!({}),
            one.clone(),
            vec![0],
            "would go, and no more may then",
        ),
        (
            json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"}),
            one.clone(),
            vec![0],
            "it is on its way out",
        ),
        (
            json!({"/status/phase": "Succeeded"}),
            one.clone(),
            vec![0],
            "it has ended",
        ),
        (
            json!({"/metadata/annotations": {"kubernetes.io/config.mirror": "x"}}),
            one.clone(),
            vec![0],
            "would be left where it is: it is a mirror pod",
        ),
        (
            json!({"/metadata/ownerReferences": owned("apps/v1")}),
            one.clone(),
            vec![0],
            "it is of a DaemonSet",
        ),
        (
            json!({"/metadata/ownerReferences": owned("apps.kruise.io/v1beta1")}),
            one.clone(),
            vec![0],
            "would go, and no more may then",
        ),
        (
            json!({"/status/conditions": ready("False")}),
            json!({"maxUnavailable": 0}),
            vec![0],
            "would go, and take nothing: it is not available",
        ),
        (
            json!({"/status/conditions": ready("False")}),
            json!({"minAvailable": 4, "unhealthyPodPolicy": "IfHealthyBudget"}),
            vec![0],
            "allows no more pods to go",
        ),
        (
            json!({"/metadata/annotations": {"pub.kruise.io/no-protect": "true"}}),
            one.clone(),
            vec![],
            "annotation pub.kruise.io/no-protect is true",
        ),
        (json!({}), one, vec![], "spec.ignoredPodSelector selects it"),
        (
            json!({}),
            json!({"maxUnavailable": 0, "protectOperations": ["DELETE"]}),
            vec![0],
            "spec.protectOperations does not name EVICT",
        ),
        (
            json!({}),
            json!({"minAvailable": 0}),
            vec![0],
            "no pod must stay",
        ),
        (
            json!({}),
            json!({"maxUnavailable": 1, "minAvailable": 1}),
            vec![0],
            "cannot be counted: spec.maxUnavailable",
        ),
    ] {
        let rules = rules(&spec);
        let found = words(
            vec![budget(WEB, &rules, (3, 3))],
            Vec::new(),
            0,
            &[(pod("a", &pod_is), holding)],
        );
        assert!(found[0].contains(expected), "{pod_is} {spec}: {}", found[0]);
    }
}

#[test]
fn unenforced_budget_charges_no_pod() {
    let rules = rules(&json!({"maxUnavailable": 0}));
    let webhook_calls =
        WebhookCalls::Never("feature gate PodWebhook is off: turn it on".to_owned());
    let off = Budget {
        webhook_calls,
        ..budget(WEB, &rules, (3, 3))
    };
    let found = words(vec![off], Vec::new(), 0, &serving(&["a"]));
    assert_eq!(
        found,
        ["would go, and take nothing: feature gate PodWebhook is off: turn it on"]
    );
}

#[test]
fn uncounted_budget_allows_no_eviction() {
    let rules = rules(&json!({"maxUnavailable": 1}));
    let mut new = budget(WEB, &rules, (3, 3));
    new.account.generation = 2;
    let found = words(vec![new], Vec::new(), 0, &serving(&["a"]));
    assert!(
        found[0].contains("its pods are not counted yet: try again"),
        "{}",
        found[0]
    );
}

#[test]
fn reservation_is_released_if_other_budget_refuses() {
    let (web, all) = (
        rules(&json!({"maxUnavailable": 1})),
        rules(&json!({"minAvailable": 3})),
    );
    let budgets = vec![
        budget(WEB, &web, (5, 5)),
        budget("PodUnavailableBudget default/z", &all, (3, 3)),
    ];
    let pods = [
        (pod("a", &json!({})), vec![0, 1]),
        (pod("b", &json!({})), vec![0]),
        (pod("c", &json!({})), vec![0]),
    ];
    let found = words(budgets, Vec::new(), 0, &pods);
    assert!(
        found[0].contains("refused: PodUnavailableBudget default/z allows no more"),
        "{}",
        found[0]
    );
    assert_eq!(found[1], "would go, and no more may then");
    assert!(
        found[2].contains("used up by b (EVICT by this drain"),
        "{}",
        found[2]
    );
}

#[test]
fn fewer_expected_pods_allow_more_evictions() {
    let rules = rules(&json!({"maxUnavailable": 0}));
    for (total, expected) in [
        (None, "would be refused"),
        (Some(3), "would be refused"),
        (Some(2), "would go"),
    ] {
        let found = words(
            vec![Budget {
                total,
                ..budget(WEB, &rules, (3, 3))
            }],
            Vec::new(),
            0,
            &serving(&["a"]),
        );
        assert!(found[0].starts_with(expected), "{total:?}: {}", found[0]);
    }
}

#[test]
fn drain_counts_allowed_pods_and_replacements() {
    let rules = rules(&json!({"maxUnavailable": 1}));
    let time = "1970-01-12T13:40:00Z";
    let mut used = budget(WEB, &rules, (2, 3));
    let entry =
        json!({"pod": "a", "uid": "a", "operation": "EVICT", "holder": "admin", "time": time});
    used.account.status.ledger.as_mut().unwrap().entries =
        vec![serde_json::from_value(entry).unwrap()];
    let found = words(vec![used], Vec::new(), 0, &serving(&["a", "b"]));
    assert_eq!(
        found[0],
        "would go, and take nothing: it was allowed to go already"
    );
    assert!(found[1].contains("used up by a (EVICT by"), "{}", found[1]);

    let mut surplus = budget(WEB, &rules, (3, 3));
    let replacement = json!({"pod": "b", "uid": "b", "holder": "admin", "time": time});
    surplus.account.status.ledger.as_mut().unwrap().replacements =
        vec![serde_json::from_value(replacement).unwrap()];
    let found = words(vec![surplus], Vec::new(), 0, &serving(&["a", "b"]));
    assert!(found[0].starts_with("would be refused"), "{}", found[0]);
    assert_eq!(found[1], "would go, and no more may then");
}

#[test]
fn foreign_native_budget_refuses_before_ours() {
    let refused = |name: &str| {
        format!(
            "would be refused: PodDisruptionBudget default/{name} allows no more pods to go: 3 of 3 are healthy and 2 must be; try again when \
             more are"
        )
    };
    let (roomy, tight) = (
        rules(&json!({"maxUnavailable": 2})),
        rules(&json!({"maxUnavailable": 0})),
    );
    let found = |rules, natives| {
        words(
            vec![budget(WEB, rules, (3, 3))],
            natives,
            0,
            &serving(&["a", "b"]),
        )
    };
    let one = found(&roomy, vec![native("other", 1, None)]);
    assert_eq!(
        one,
        ["would go, and 1 more may then".to_owned(), refused("other")]
    );
    let two = found(
        &roomy,
        vec![native("other", 1, None), native("third", 1, None)],
    );
    assert!(
        two[0].contains("the apiserver evicts no pod that two of them hold"),
        "{}",
        two[0]
    );
    let ours = |allowed| vec![native("web", allowed, Some("PodUnavailableBudget"))];
    assert_eq!(found(&roomy, ours(0))[0], refused("web"));
    assert!(
        found(&tight, ours(0))[0].contains(&format!("{WEB} allows no more pods to go: 3 of 3"))
    );
    assert!(found(&tight, ours(1))[0].contains(WEB));
    // The eviction API checks no native budget for a pod that has not started.
    let pending = pod("a", &json!({"/status": {"phase": "Pending"}}));
    let found = words(
        vec![budget(WEB, &tight, (3, 3))],
        vec![native("other", 0, None)],
        0,
        &[(pending, vec![0])],
    );
    assert_eq!(found, ["would go, and take nothing: it is not available"]);
}

#[test]
fn mutual_budgets_see_each_others_reservations() {
    let (foo, bar) = (
        "DistributedPodDisruptionBudget default/foo",
        "DistributedPodDisruptionBudget default/bar",
    );
    let (one, two) = (
        distributed(&json!({"minAvailable": 1})),
        distributed(&json!({"minAvailable": 2})),
    );
    let both = || {
        vec![
            naming(bar, &one, 1, (Place::Ours(1), 1)),
            naming(foo, &one, 1, (Place::Ours(0), 1)),
        ]
    };
    let pods = [
        (pod("a", &json!({})), vec![0]),
        (pod("b", &json!({})), vec![1]),
    ];
    let found = words(both(), Vec::new(), 1, &pods);
    assert!(found[0].starts_with("would go"), "{}", found[0]);
    let refused = format!(
        "refused: {foo} allows no more pods to go: 1 of 2 are available and 1 must be (minAvailable 1)"
    );
    assert!(found[1].contains(&refused), "{}", found[1]);
    // For a pod that both budgets hold, the second sees the first one's reservation, and the first
    // decides once more.
    let of_both = || [(pod("a", &json!({})), vec![0, 1])];
    let found = words(both(), Vec::new(), 1, &of_both());
    assert!(found[0].contains(&refused), "{}", found[0]);
    let uneven = vec![
        naming(bar, &two, 2, (Place::Ours(1), 1)),
        naming(foo, &one, 1, (Place::Ours(0), 2)),
    ];
    let found = words(uneven, Vec::new(), 1, &of_both());
    let refused = format!(
        "refused: {bar} or a budget that it names has let another pod go at the same moment"
    );
    assert!(found[0].contains(&refused), "{}", found[0]);
}

#[test]
fn contribution_stays_at_last_reported_number() {
    let (foo, bar) = (
        "DistributedPodDisruptionBudget default/foo",
        "DistributedPodDisruptionBudget default/bar",
    );
    let (some, none) = (
        distributed(&json!({"minAvailable": 3})),
        distributed(&json!({"minAvailable": 0})),
    );
    for (brought, expected) in [
        (0, "would be refused"),
        (1, "would be refused"),
        (2, "would go"),
    ] {
        let budgets = vec![
            naming(foo, &some, 2, (Place::Ours(1), brought)),
            naming(bar, &none, 3, (Place::Ours(0), 2)),
        ];
        let found = words(budgets, Vec::new(), 0, &serving(&["a"]));
        assert!(found[0].starts_with(expected), "{brought}: {}", found[0]);
    }
}

#[test]
fn eviction_lowers_contribution_of_native_budget() {
    let rules = distributed(&json!({"minAvailable": 3}));
    let foo = naming(
        "DistributedPodDisruptionBudget default/foo",
        &rules,
        1,
        (Place::Native(0), 3),
    );
    let pods = |first: &str, second: &str| {
        let pod = |app: &str| pod(app, &json!({"/metadata/labels": {"app": app}}));
        let holding = |app: &str| if app == "foo" { vec![0] } else { Vec::new() };
        [first, second].map(|app| (pod(app), holding(app)))
    };
    let found = |pods: &[(Pod, Vec<usize>)]| {
        words(vec![foo.clone()], vec![native("web", 1, None)], 0, pods)
    };
    assert_eq!(
        found(&pods("foo", "web"))[0],
        "would go, and no more may then"
    );
    let after = found(&pods("web", "foo"));
    assert!(
        after[1].contains("3 of 4 are available, 2 of them of other budgets, and 3 must be"),
        "{}",
        after[1]
    );
}

#[test]
fn annotation_that_holds_a_pod_is_named() {
    let rules = distributed(&json!({"minAvailable": 0}));
    let held = || {
        pod(
            "a",
            &json!({"/metadata/annotations": {"hold.policy.kruise.io/backup": "it is saved"}}),
        )
    };
    for (floor, expected) in [
        (
            Some(0),
            "would be refused: annotation hold.policy.kruise.io/backup holds pod a: it is saved; try again when it is gone",
        ),
        (None, "would go, and 2 more may then"),
    ] {
        let mut foo = budget("DistributedPodDisruptionBudget default/foo", &rules, (3, 3));
        foo.account.floor = floor;
        assert_eq!(
            words(vec![foo], Vec::new(), 0, &[(held(), vec![0])]),
            [expected]
        );
    }
}

#[test]
fn nodes_that_could_be_drained_at_once_are_named() {
    let left = |node: &str, pods, refused| Remainder {
        node: node.to_owned(),
        pods,
        refused,
    };
    assert_eq!(drainable(&[]), [""; 0]);
    assert_eq!(
        drainable(&[left("n1", 2, 0), left("n2", 2, 1), left("n3", 1, 0)]),
        [
            "one of these nodes could be drained at once now, as far as its pods go: n1, n3",
            "of these, a drain would have to wait for some of its pods: n2 (1 of 2)",
        ]
    );
    let many: Vec<_> = (0..12).map(|at| left(&format!("n{at:02}"), 1, 0)).collect();
    assert!(
        drainable(&many)[0].ends_with("n08, n09, 2 more"),
        "{:?}",
        drainable(&many)
    );
}
