//! For which pods the webhook is called, and what it answers.

mod random;

use berth_webhook::PodWebhook;
use berth_webhook::pods::{Labels, Lacks};
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::stores::reads::Stores;

fn set(name: &str, spec: Value) -> Watched<SidecarSet> {
    let mut set =
        json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec});
    if set["spec"]["selector"].is_null() {
        set["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    }
    serde_json::from_value(set).unwrap()
}

#[test]
fn a_pod_of_ours_gets_nothing_where_the_webhook_is_never_called() {
    let pod = |annotations: Value| json!({"metadata": {"name": "a", "annotations": annotations}});
    let namespace = |labels: Value| {
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}}))
    };
    let plain: Watched<Namespace> = namespace(json!({"team": "a"})).unwrap();
    let other: Watched<Namespace> = namespace(json!({UNTOUCHED.0: "other"})).unwrap();
    let untouched: Watched<Namespace> = namespace(json!({UNTOUCHED.0: UNTOUCHED.1})).unwrap();
    for (what, annotations, namespace, expected) in [
        ("a pod", Value::Null, Some(&plain), true),
        (
            "a pod with annotations",
            json!({"a": "b"}),
            Some(&other),
            true,
        ),
        (
            "whose namespace is excluded",
            Value::Null,
            Some(&untouched),
            false,
        ),
        (
            "whose namespace came a moment ago",
            Value::Null,
            None,
            false,
        ),
        (
            "a mirror of a static pod",
            json!({MIRROR_POD: "x"}),
            Some(&plain),
            false,
        ),
    ] {
        assert_eq!(
            may_be_called_for(&pod(annotations), namespace),
            expected,
            "{what}"
        );
    }
}

#[test]
fn set_counts_only_once_current_selectors_are_written() {
    let of = |changed: Value| {
        let mut set = json!(*set("a", json!({})).0);
        for (path, value) in changed.as_object().into_iter().flatten() {
            let (parent, field) = path.rsplit_once('/').unwrap();
            set.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        serde_json::from_value::<SidecarSet>(set).unwrap()
    };
    let of_db = json!({"matchLabels": {"app": "db"}});
    let asks = Asks {
        sidecars: Sidecars::new(request_of(&of(json!({}))), []),
        ..Asks::default()
    };
    for (what, written, set, expected) in [
        (
            "as it was written",
            Some(&asks),
            of(json!({})),
            InjectionCalls::Yes,
        ),
        (
            "other containers",
            Some(&asks),
            of(json!({"/spec/containers": [{"name": "b"}]})),
            InjectionCalls::Yes,
        ),
        (
            "another selector",
            Some(&asks),
            of(json!({"/spec/selector": of_db})),
            InjectionCalls::NotYet,
        ),
        (
            "a namespaceSelector",
            Some(&asks),
            of(json!({"/spec/namespaceSelector": of_db})),
            InjectionCalls::NotYet,
        ),
        (
            "another failure policy",
            Some(&asks),
            of(json!({"/metadata/annotations": {FAILURE_POLICY: "Fail"}})),
            InjectionCalls::NotYet,
        ),
        (
            "paused",
            Some(&asks),
            of(json!({"/spec/injectionStrategy": {"paused": true}})),
            InjectionCalls::NotYet,
        ),
        (
            "nothing is written",
            None,
            of(json!({})),
            InjectionCalls::Unknown,
        ),
    ] {
        let webhook_rules = Arc::<WebhookRules>::default();
        let channel = || watch::channel(written.cloned());
        let (wanted, written) = (channel().0, channel().1);
        webhook_rules.connect(PodWebhook {
            wanted,
            written,
            ..PodWebhook::looked_at(None)
        });
        let injection = Injection::new(webhook_rules, Gates::default(), "kruise-system", "", None);
        assert_eq!(injection.injection_calls(&set), expected, "{what}");
    }
}

#[test]
fn injected_part_is_recomputed_when_the_set_changes() {
    let of = |spec: Value, status: Value| {
        let mut set = json!(*set("a", spec).0);
        set["status"] = status;
        Arc::new(serde_json::from_value::<SidecarSet>(set).unwrap())
    };
    let revision =
        |name: &str, matched: i32| json!({"latestRevision": name, "matchedPods": matched});
    let before = of(json!({}), revision("a-1", 1));
    for (what, now, is_same) in [
        ("more pods", of(json!({}), revision("a-1", 2)), true),
        ("another revision", of(json!({}), revision("a-2", 1)), false),
        (
            "another name of it",
            of(
                json!({}),
                json!({"latestRevision": "a-1", "collisionCount": 1}),
            ),
            false,
        ),
        (
            "a container",
            of(json!({"containers": [{"name": "b"}]}), revision("a-1", 1)),
            false,
        ),
        (
            "a selector",
            of(
                json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}),
                revision("a-1", 1),
            ),
            false,
        ),
        ("no status", of(json!({}), Value::Null), false),
    ] {
        assert_eq!(is_the_same(&before, &now), is_same, "{what}");
    }
}

#[test]
fn namespace_is_read_only_if_its_labels_decide() {
    let injection = Injection::new(
        Arc::default(),
        Gates::default(),
        "kruise-system",
        "kube-system",
        Some(InjectionStores::new(&mut Stores::default().reader())),
    );
    let stores = injection.stores.as_ref().unwrap();
    let namespace = json!({"metadata": {"name": "known", "labels": {"team": "a"}}});
    stores
        .namespaces
        .apply(serde_json::from_value(namespace).unwrap());
    stores.sets.apply(set("all", json!({})));
    stores.sets.apply(set(
        "paused",
        json!({"injectionStrategy": {"paused": true}}),
    ));
    let labels = |team: &str| Labels::from([("team".to_owned(), team.to_owned())]);
    let names = |namespace: &str, labels: Option<&Labels>, app: &'static str| {
        let matching = injection.matching(stores, (namespace, labels), |key| {
            (key == "app").then_some(app)
        });
        matching.map(|matching| matching.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(
        names("new", None, "web").unwrap(),
        ["all"],
        "no set depends on its labels"
    );
    stores.sets.apply(set(
        "of-a",
        json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
    ));
    let of_b = json!({"selector": {"matchLabels": {"app": "db"}}, "namespaceSelector": {"matchLabels": {"team": "b"}}});
    stores.sets.apply(set("db-of-b", of_b));
    for (namespace, asked, app, expected) in [
        ("known", None, "web", Ok(&["all", "of-a"][..])),
        ("known", Some(labels("b")), "web", Ok(&["all"])),
        ("known", None, "db", Err(Lacks::Namespace)),
        ("known", Some(labels("a")), "db", Ok(&[])),
        // The namespace got this label a moment ago.
        ("known", Some(labels("b")), "db", Ok(&["db-of-b"])),
        ("new", None, "web", Err(Lacks::Namespace)),
        ("new", None, "other", Ok(&[])),
        ("new", Some(labels("a")), "web", Ok(&["all", "of-a"])),
        ("new", Some(labels("b")), "web", Ok(&["all"])),
    ] {
        let found = names(namespace, asked.as_ref(), app);
        let expected = expected.map(|names| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "{namespace} {asked:?} {app}");
    }
}
