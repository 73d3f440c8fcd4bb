use berth_workload::plan::{Outcome, Plan};
use serde_json::json;

use super::*;
use crate::sidecarset::tests::{NOW, pod, snapshot};
use crate::sidecarset::{decide, status};

fn of(set: &str, name: &str) -> Replaced {
    [(set.to_owned(), [name.to_owned()].into())].into()
}

#[test]
fn note_keeps_what_earlier_calls_replaced() {
    let sets = || ["log", "mesh"].into_iter();
    let first = noted(None, sets(), of("log", "main"));
    assert_eq!(first.as_deref(), Some(r#"{"log":["main"]}"#));
    assert_eq!(
        noted(first.as_deref(), sets(), Replaced::new()),
        first,
        "twice is once"
    );
    let both = r#"{"log":["main"],"mesh":["web"]}"#;
    assert_eq!(
        noted(first.as_deref(), sets(), of("mesh", "web")).as_deref(),
        Some(both)
    );
    assert_eq!(
        noted(first.as_deref(), ["mesh"].into_iter(), Replaced::new()),
        None,
        "another SidecarSet's"
    );
    let long = format!(r#"{{"log":["{}"]}}"#, "x".repeat(MOST_BYTES));
    for text in ["no JSON", "[]", &long] {
        assert_eq!(
            noted(Some(text), sets(), Replaced::new()),
            None,
            "{text:.20}"
        );
    }
}

#[test]
fn replaced_containers_are_counted_and_send_one_event() {
    let mut replaced = pod("a", "h2", true);
    replaced["metadata"]["annotations"][REPLACED] = json!(r#"{"log":["agent"]}"#);
    let mut snapshot = snapshot(&json!({}), &[replaced, pod("b", "h2", true)]);
    let plan = decide(&snapshot, NOW);
    let events: Vec<_> = plan
        .events
        .iter()
        .map(|event| (event.reason, &*event.message))
        .collect();
    assert!(
        matches!(events[..], [("ContainersReplaced", text)] if text.contains("pod default/a has the SidecarSet's container agent in place of its own of that name: rename")),
        "{events:?}"
    );
    assert!(
        plan.waiting
            .iter()
            .any(|waiting| waiting.pod == "default/a" && waiting.reason.contains("rename"))
    );
    let status = status(&snapshot, &Plan::default(), &Outcome::default(), NOW);
    assert_eq!(status.injection.as_ref().map(|told| told.replaced), Some(1));
    Arc::make_mut(&mut snapshot.set).status = Some(status);
    assert!(decide(&snapshot, NOW).events.is_empty());
}
