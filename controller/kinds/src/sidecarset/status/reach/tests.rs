use berth_workload::plan::{Outcome, Plan};
use serde_json::json;

use super::*;
use crate::sidecarset::tests::{NOW, snapshot};
use crate::sidecarset::{decide, status};

/// The condition `InjectionReady`, and the waits that `explain` prints.
fn told(is_any: bool, left_out: &[(LeftOut, &str)], has_selector: bool) -> ([String; 3], String) {
    let selector = json!({"/spec/namespaceSelector": {"matchLabels": {"team": "a"}}});
    let mut snapshot = snapshot(&if has_selector { selector } else { json!({}) }, &[]);
    let left_out = left_out
        .iter()
        .map(|(why, name)| (*why, (*name).to_owned()))
        .collect();
    snapshot.reach = Reach { is_any, left_out };
    let mut conditions = status(&snapshot, &Plan::default(), &Outcome::default(), NOW).conditions;
    conditions.retain(|condition| condition.type_ == "InjectionReady");
    let condition = conditions.remove(0);
    let waiting: Vec<_> = decide(&snapshot, NOW)
        .waiting
        .into_iter()
        .map(|waiting| waiting.reason)
        .collect();
    (
        [condition.status, condition.reason, condition.message],
        waiting.join("\n"),
    )
}

#[test]
fn set_without_reached_namespace_is_not_ready() {
    use LeftOut::{Labelled, Narrowed, Protected};
    for (is_any, left_out, has_selector, status, reason, words) in [
        (true, &[][..], true, "True", "Asked", &[][..]),
        (
            true,
            &[(Protected, "kube-system")],
            false,
            "True",
            "Asked",
            &[],
        ),
        (
            false,
            &[],
            true,
            "False",
            "NoNamespace",
            &["matches no namespace"],
        ),
        (
            false,
            &[(Protected, "kube-system")],
            true,
            "False",
            "NamespacesLeftOut",
            &["kube-system (by the value controller.protectedNamespaces"],
        ),
        (
            true,
            &[
                (Labelled, "b"),
                (Protected, "kube-system"),
                (Labelled, "a"),
                (Narrowed, "c"),
            ],
            true,
            "True",
            "Asked",
            &[
                "kube-system (by",
                "a, b (by their label control-plane",
                "c (by selectors that others",
            ],
        ),
    ] {
        let ([is_so, why, message], waiting) = told(is_any, left_out, has_selector);
        assert_eq!((&*is_so, &*why), (status, reason), "{message}");
        for words in words {
            assert!(
                message.contains(words) && waiting.contains(words),
                "{words}: {message} | {waiting}"
            );
        }
        assert!(!words.is_empty() || waiting.is_empty(), "{waiting}");
    }
}

#[test]
fn many_left_out_namespaces_are_counted() {
    let names: Vec<_> = (0..8).map(|number| format!("n{number}")).collect();
    let left_out: Vec<_> = names
        .iter()
        .map(|name| (LeftOut::Labelled, name.as_str()))
        .collect();
    let ([_, _, message], _) = told(false, &left_out, true);
    assert!(
        message.contains("n0, n1, n2, n3, n4 and 3 more (by their label"),
        "{message}"
    );
}
