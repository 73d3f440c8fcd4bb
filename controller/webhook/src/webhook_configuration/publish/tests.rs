use super::*;
use crate::PodWebhook;
use crate::pods::{PinnedWorkload, Scope};

fn workload(name: &str) -> PinnedWorkload {
    let text = str::to_owned;
    PinnedWorkload {
        namespace: text("a"),
        group: text("apps"),
        kind: text("StatefulSet"),
        name: text(name),
    }
}

fn asks(names: &[&str]) -> Option<Asks> {
    let pins = Scope::new(names.iter().map(|name| (workload(name), true)));
    Some(Asks {
        pins,
        ..Asks::default()
    })
}

#[test]
fn called_path_is_of_service_or_url() {
    for (client, expected) in [
        (
            json!({"service": {"namespace": "a", "name": "b", "path": "/pin/x"}}),
            Some("/pin/x"),
        ),
        (
            json!({"url": "https://[fd00::1]:9876/pin/x"}),
            Some("/pin/x"),
        ),
        (json!({"service": {"namespace": "a", "name": "b"}}), None),
        (json!({}), None),
    ] {
        assert_eq!(
            called_path(&json!({"clientConfig": client})).as_deref(),
            expected,
            "{client}"
        );
    }
}

#[test]
fn removed_entry_applies_only_after_next_write() {
    let ((wanted, wishes), (write_down, written)) = (watch::channel(None), watch::channel(None));
    let webhook = PodWebhook {
        wanted,
        written,
        ..PodWebhook::looked_at(None)
    };
    let stands = |name: &str| webhook.stands_before(|asks| asks.pins.has(&workload(name)));
    webhook.wanted.send_replace(asks(&["db", "web"]));
    assert_eq!(to_publish(&wishes, &write_down), asks(&["db", "web"]));
    assert!(!stands("db"), "nothing is written yet");
    write_down.send_replace(asks(&["db", "web"]));
    assert!(stands("db") && stands("web"));

    webhook.wanted.send_replace(asks(&["web"]));
    assert!(!stands("db"), "it may go at any moment");
    assert_eq!(to_publish(&wishes, &write_down), asks(&["web"]));
    // The answer to that write was lost, and a kind wants the rule again.
    webhook.wanted.send_replace(asks(&["db", "web"]));
    assert!(!stands("db") && stands("web"));
    assert_eq!(to_publish(&wishes, &write_down), asks(&["db", "web"]));
    assert!(!stands("db") && stands("web"));
    write_down.send_replace(asks(&["db", "web"]));
    assert!(stands("db"));
}

#[test]
fn configuration_that_fails_leaves_the_other_as_written() {
    let of = |pins: &[&str], namespaces: &[&str]| {
        let namespaces = namespaces.iter().map(|name| ((*name).to_owned(), false));
        Asks {
            disruptions: Disruptions::default().of(namespaces),
            ..asks(pins).unwrap()
        }
    };
    let (old, new, nothing) = (
        of(&["a"], &["x"]),
        of(&["a", "b"], &["x", "late"]),
        Asks::default(),
    );
    for (before, mutating, validating, expected) in [
        (Some(&old), Some(true), Some(true), Some(new.clone())),
        (
            Some(&old),
            None,
            Some(true),
            Some(of(&["a"], &["x", "late"])),
        ),
        (Some(&old), Some(true), None, Some(of(&["a", "b"], &["x"]))),
        (Some(&old), None, None, Some(old.clone())),
        (
            Some(&old),
            Some(false),
            Some(true),
            Some(of(&[], &["x", "late"])),
        ),
        (Some(&old), Some(false), Some(false), Some(nothing.clone())),
        (None, None, Some(true), Some(of(&[], &["x", "late"]))),
        // It is not known what the other configuration contains.
        (None, Some(true), None, None),
    ] {
        let found = now_written(before, &new, (mutating.as_ref(), validating.as_ref()));
        assert_eq!(found, expected, "{mutating:?} {validating:?}");
    }
}

#[test]
fn paths_of_another_seed_are_overwritten_every_5s() {
    let now = Instant::now();
    assert_eq!(reseeds_in(None, now), None);
    for (seconds, left) in [(0, Some(5)), (3, Some(2)), (5, None), (9, None)] {
        let later = now + Duration::from_secs(seconds);
        assert_eq!(
            reseeds_in(Some(now), later),
            left.map(Duration::from_secs),
            "after {seconds} s"
        );
    }
}

#[test]
fn new_leader_ignores_rules_written_before() {
    let ((wanted, wishes), (write_down, written)) =
        (watch::channel(None), watch::channel(asks(&["db"])));
    let webhook = PodWebhook {
        wanted,
        written,
        ..PodWebhook::looked_at(None)
    };
    assert_eq!(to_publish(&wishes, &write_down), None);
    webhook.wanted.send_replace(asks(&["db"]));
    assert!(!webhook.stands_before(|asks| asks.pins.has(&workload("db"))));
}
