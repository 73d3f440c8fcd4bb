//! Which budgets keep a native one.

use berth_api::v1beta1::podunavailablebudget::UnhealthyPodPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::{Value, json};

use crate::budget::child::{self, Candidate, Wanted, Without, keeps};
use crate::budget::native::NativeBudget;
use crate::objects::resource::POD_UNAVAILABLE_BUDGETS;
use crate::objects::selector::Selector;

fn selector(labels: &Value) -> Selector {
    Selector::new(&serde_json::from_value(json!({"matchLabels": labels})).unwrap()).unwrap()
}

fn candidate(made: &str, name: &str, labels: &Value) -> Candidate {
    Candidate {
        since: (
            made.to_owned(),
            "DistributedPodDisruptionBudget",
            name.to_owned(),
        ),
        selector: selector(labels),
        uid: name.to_owned(),
    }
}

fn native(name: &str, labels: &Value, owner: Option<&str>) -> NativeBudget {
    let owners = owner.map(
        |uid| json!([{"kind": "DistributedPodDisruptionBudget", "uid": uid, "controller": true}]),
    );
    serde_json::from_value(json!({
        "metadata": {"name": name, "ownerReferences": owners.unwrap_or(json!([]))}, "spec": {"selector": {"matchLabels": labels}},
    }))
    .unwrap()
}

/// Whether each of these keeps a native one, by name.
fn names_of_kept(all: &[Candidate], natives: &[NativeBudget]) -> Vec<String> {
    let natives: Vec<_> = natives.iter().collect();
    let kept = all
        .iter()
        .filter(|candidate| keeps(candidate, all, &natives).is_ok());
    kept.map(|candidate| candidate.since.2.clone()).collect()
}

#[test]
fn oldest_overlapping_budget_keeps_a_native_one() {
    let (web, db, tier) = (
        json!({"app": "web"}),
        json!({"app": "db"}),
        json!({"tier": "front"}),
    );
    let apart = [candidate("1", "a", &web), candidate("2", "b", &db)];
    assert_eq!(names_of_kept(&apart, &[]), ["a", "b"]);
    let beside = [candidate("2", "a", &web), candidate("1", "b", &tier)];
    assert_eq!(names_of_kept(&beside, &[]), ["b"]);
    // The first excludes the second, so that the second cannot exclude the third.
    let chain = [
        candidate("1", "a", &json!({"app": "web"})),
        candidate("2", "b", &tier),
        candidate("3", "c", &json!({"app": "db"})),
    ];
    assert_eq!(names_of_kept(&chain, &[]), ["a", "c"]);
}

#[test]
fn foreign_native_budget_prevents_an_own_one() {
    let (web, tier) = (json!({"app": "web"}), json!({"tier": "front"}));
    let all = [candidate("1", "a", &web)];
    let others = native("other", &tier, None);
    let taken = native("a", &json!({"app": "db"}), None);
    assert_eq!(
        keeps(&all[0], &all, &[&others]),
        Err(Without::Overlaps("PodDisruptionBudget other".to_owned()))
    );
    assert_eq!(keeps(&all[0], &all, &[&taken]), Err(Without::Taken));
    let own = native("a", &web, Some("a"));
    assert_eq!(keeps(&all[0], &all, &[&own]), Ok(()));
    // A native budget that must be deleted delays the next one.
    let both = [candidate("1", "a", &web), candidate("2", "b", &tier)];
    let late = native("b", &tier, Some("b"));
    assert!(keeps(&both[0], &both, &[&late]).is_err());
    assert_eq!(names_of_kept(&both, &[]), ["a"]);
}

#[test]
fn native_budget_has_min_available_and_policy() {
    use UnhealthyPodPolicy::{AlwaysAllow, IfHealthyBudget};
    let owner = ObjectMeta {
        name: Some("a".to_owned()),
        uid: Some("a".to_owned()),
        ..ObjectMeta::default()
    };
    let labels: LabelSelector =
        serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    let step = |unhealthy, found: Option<&NativeBudget>| {
        let resource = &POD_UNAVAILABLE_BUDGETS;
        let wanted = Wanted {
            resource,
            owner: &owner,
            selector: &labels,
            min_available: 2,
            unhealthy,
        };
        child::step(Some(&wanted), found, "a").map(|step| json!(step).to_string())
    };
    let said = |unhealthy| step(unhealthy, None).unwrap();
    assert!(
        said(AlwaysAllow).contains(r#""unhealthyPodEvictionPolicy":"AlwaysAllow""#),
        "{}",
        said(AlwaysAllow)
    );
    assert!(said(IfHealthyBudget).contains(r#""unhealthyPodEvictionPolicy":"IfHealthyBudget""#));
    for (policy, unhealthy, patched) in [
        (None, IfHealthyBudget, None),
        (
            None,
            AlwaysAllow,
            Some(r#""unhealthyPodEvictionPolicy":"AlwaysAllow""#),
        ),
        (Some("AlwaysAllow"), AlwaysAllow, None),
        (
            Some("AlwaysAllow"),
            IfHealthyBudget,
            Some(r#""unhealthyPodEvictionPolicy":"IfHealthyBudget""#),
        ),
    ] {
        let mut found = native("a", &json!({"app": "web"}), Some("a"));
        found.spec.min_available = Some(json!(2));
        if let Some(policy) = policy {
            found.spec.unhealthy_pod_eviction_policy =
                serde_json::from_value(json!(policy)).unwrap();
        }
        let patch = step(unhealthy, Some(&found));
        assert_eq!(
            patch.is_some(),
            patched.is_some(),
            "{policy:?} {unhealthy:?}"
        );
        assert!(
            patch
                .unwrap_or_default()
                .contains(patched.unwrap_or_default()),
            "{policy:?} {unhealthy:?}"
        );
    }
}

#[test]
fn selectors_with_contradicting_labels_exclude() {
    let expression = |operator: &str, values: &[&str]| {
        let values = if values.is_empty() {
            json!(null)
        } else {
            json!(values)
        };
        let expression = json!({"key": "app", "operator": operator, "values": values});
        Selector::new(&serde_json::from_value(json!({"matchExpressions": [expression]})).unwrap())
            .unwrap()
    };
    let web = selector(&json!({"app": "web"}));
    for (other, excludes) in [
        (selector(&json!({"app": "db"})), true),
        (selector(&json!({"app": "web", "tier": "front"})), false),
        (selector(&json!({"tier": "front"})), false),
        (expression("In", &["db", "cache"]), true),
        (expression("In", &["db", "web"]), false),
        (expression("NotIn", &["web", "db"]), true),
        (expression("NotIn", &["db"]), false),
        (expression("Exists", &[]), false),
        (expression("DoesNotExist", &[]), true),
    ] {
        assert_eq!(
            (web.excludes(&other), other.excludes(&web)),
            (excludes, excludes),
            "{other}"
        );
    }
    assert!(expression("Exists", &[]).excludes(&expression("DoesNotExist", &[])));
    for selector in [
        &web,
        &expression("NotIn", &["web"]),
        &expression("Exists", &[]),
        &expression("In", &["a", "b"]),
    ] {
        let written = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector::from(selector);
        assert_eq!(
            &Selector::new(&written).unwrap(),
            selector,
            "as specs have it"
        );
    }
}
