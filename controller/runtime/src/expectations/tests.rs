use std::sync::Arc;

use super::*;
use crate::object::{CONTROLLER_REVISIONS, PODS};
use crate::store::event::Odd;
use berth_workload::objects::pod::Pod;

struct Rig {
    pods: Arc<Store<Pod>>,
    expectations: Arc<Expectations>,
}

fn rig() -> Rig {
    let (pods, expectations) = (Store::new(&[]), Expectations::new(Duration::from_secs(30)));
    expectations.follow(&pods);
    pods.begin_list(false);
    pods.end_list("100");
    Rig { pods, expectations }
}

impl Rig {
    fn enter(&self, name: &str) -> Ticket {
        let deadline = Instant::now() + Duration::from_secs(10);
        self.expectations
            .enter("owner", &PODS, "ns", name, deadline)
    }

    fn show(&self, name: &str, uid: &str, version: &str, terminating: bool) {
        let deletion = if terminating {
            r#","deletionTimestamp":"2026-01-01T00:00:00Z""#
        } else {
            ""
        };
        let pod = format!(
            r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"{deletion}}}}}"#
        );
        self.pods.apply(serde_json::from_str(&pod).unwrap());
    }

    fn settled(&self) -> bool {
        self.expectations.standing("owner") == Standing::Settled
    }
}

#[tokio::test(start_paused = true)]
async fn a_created_pod_is_waited_for() {
    let rig = rig();
    assert!(rig.settled());
    let ticket = rig.enter("a");
    assert!(!rig.settled(), "under way");
    // The event may come before the answer.
    rig.show("a", "1", "105", false);
    assert!(!rig.settled(), "which pod it is only the answer tells");
    ticket.written("1", "105");
    assert!(rig.settled());
}

#[tokio::test(start_paused = true)]
async fn write_for_another_owner_is_awaited_if_answered() {
    let rig = rig();
    rig.show("a", "1", "101", false);
    rig.show("b", "2", "101", false);
    let pod = |name: &str| rig.pods.get("ns", name).unwrap();
    let others_wrote = |owner: &str| rig.expectations.others_wrote(owner, &[pod("b"), pod("a")]);
    let before = pod("a");
    let ticket = rig.enter("a");
    assert!(!others_wrote("another"), "it may be refused yet");
    ticket.written("1", "105");
    assert!(others_wrote("another"));
    assert!(!others_wrote("owner"), "its own writes it waits for anyway");
    assert!(
        !rig.expectations.others_wrote("another", &[pod("b")]),
        "of another pod"
    );
    rig.show("a", "1", "105", false);
    assert!(!others_wrote("another"), "seen");
    assert!(
        rig.expectations.others_wrote("another", &[before]),
        "it was read before"
    );
    rig.enter("a").deleted("1");
    assert!(others_wrote("another"));
    rig.expectations.forget("owner");
    assert!(
        !others_wrote("another"),
        "no owner waits for the writes of an owner that is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn newest_version_is_unknown_while_write_in_doubt() {
    let rig = rig();
    let newest = || {
        rig.expectations
            .newest_versions()
            .get("pods")
            .map(ToString::to_string)
    };
    assert_eq!(newest().as_deref(), Some("0"), "no pod was seen");
    rig.show("a", "1", "105", false);
    rig.show("b", "2", "99", false);
    assert_eq!(newest().as_deref(), Some("105"), "in any order");
    rig.enter("b").written("2", "110");
    assert_eq!(
        newest().as_deref(),
        Some("110"),
        "written, and not seen yet"
    );
    rig.show("b", "2", "110", false);
    let ticket = rig.enter("c");
    assert_eq!(newest(), None, "not answered");
    drop(ticket);
    assert_eq!(newest(), None, "never answered");
    rig.expectations.forget("owner");
    rig.enter("a").deleted("1");
    assert_eq!(newest(), None, "a deletion has no version");
    rig.show("a", "1", "112", true);
    assert_eq!(newest().as_deref(), Some("112"), "it was seen");
    rig.pods.note_deletion("115");
    rig.pods.note_deletion("114");
    assert_eq!(
        newest().as_deref(),
        Some("115"),
        "the newest deletion was seen"
    );
    let unsynced = Expectations::new(Duration::from_secs(30));
    unsynced.follow(&Store::<Pod>::new(&[]));
    assert_eq!(
        unsynced.newest_versions(),
        Versions::new(),
        "nothing was listed"
    );
}

#[tokio::test(start_paused = true)]
async fn older_version_or_other_pod_does_not_settle() {
    let rig = rig();
    rig.show("a", "1", "101", false);
    rig.enter("a").written("1", "105");
    assert!(!rig.settled());
    rig.show("a", "1", "104", false);
    assert!(!rig.settled());
    rig.show("a", "1", "106", false);
    assert!(rig.settled(), "a later version contains the write");
    rig.enter("a").written("2", "110");
    assert!(!rig.settled());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_decoded_is_seen() {
    let rig = rig();
    rig.show("a", "u", "105", false);
    rig.enter("a").written("u", "107");
    assert!(!rig.settled());
    let odd = |version: &str| Odd {
        namespace: "ns".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        version: version.to_owned(),
        ..Odd::default()
    };
    rig.pods.apply_unreadable(odd("106"));
    assert!(!rig.settled());
    rig.pods.apply_unreadable(odd("107"));
    assert!(rig.settled());
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_changed_nothing_is_settled_at_once() {
    let rig = rig();
    rig.show("a", "1", "101", false);
    rig.enter("a").written("1", "101");
    assert!(rig.settled());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_and_went_is_not_waited_for() {
    let rig = rig();
    rig.enter("a").written("1", "105");
    rig.pods.advance("104");
    assert!(!rig.settled());
    rig.pods.advance("107");
    assert!(
        rig.settled(),
        "the feed has passed the version without showing the pod: it is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn deletion_is_awaited_until_the_pod_terminates() {
    for terminates in [true, false] {
        let rig = rig();
        rig.show("a", "1", "101", false);
        rig.enter("a").deleted("1");
        assert!(!rig.settled());
        rig.show("a", "1", "102", false);
        assert!(!rig.settled(), "an event from before the deletion");
        if terminates {
            rig.show("a", "1", "103", true)
        } else {
            rig.pods.remove("ns", "a", Some("1"))
        }
        assert!(rig.settled());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_not_waited_for() {
    let rig = rig();
    rig.enter("a").refused();
    assert!(rig.settled());
}

#[tokio::test(start_paused = true)]
async fn unanswered_write_is_in_doubt_after_deadline() {
    let rig = rig();
    drop(rig.enter("a"));
    assert_eq!(
        rig.expectations.standing("owner"),
        Standing::Waiting(Duration::from_secs(10))
    );
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(rig.expectations.standing("owner"), Standing::Doubtful);
}

#[tokio::test(start_paused = true)]
async fn missing_event_is_awaited_for_30_seconds() {
    let rig = rig();
    rig.enter("a").written("1", "105");
    rig.enter("b").written("2", "106");
    tokio::time::advance(Duration::from_secs(29)).await;
    assert_eq!(
        rig.expectations.standing("owner"),
        Standing::Waiting(Duration::from_secs(1))
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(rig.expectations.standing("owner"), Standing::Doubtful);
    rig.pods.advance("200");
    assert!(rig.settled());
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_no_numbers_count_when_equal() {
    let rig = rig();
    rig.enter("a").written("1", "x");
    rig.show("a", "1", "w", false);
    assert!(!rig.settled());
    rig.show("a", "1", "x", false);
    assert!(rig.settled());
}

#[tokio::test(start_paused = true)]
async fn owners_do_not_wait_for_each_other() {
    let rig = rig();
    rig.enter("a").written("1", "105");
    assert_eq!(rig.expectations.standing("another"), Standing::Settled);
    rig.expectations.forget("owner");
    assert!(rig.settled());
    assert!(
        rig.expectations.lock().is_empty(),
        "nothing is kept, by owner or by object"
    );
}

#[tokio::test(start_paused = true)]
async fn write_to_unfollowed_kind_is_not_awaited() {
    let rig = rig();
    let deadline = Instant::now();
    rig.expectations
        .enter("owner", &CONTROLLER_REVISIONS, "ns", "a", deadline)
        .written("1", "105");
    assert!(rig.settled());
}

#[tokio::test(start_paused = true)]
async fn settled_expectations_leave_no_entries() {
    let rig = rig();
    for name in ["a", "b", "c"] {
        rig.enter(name).written(name, "101");
    }
    rig.enter("d").refused();
    rig.pods.advance("101");
    assert!(rig.settled());
    assert!(
        rig.expectations.lock().is_empty(),
        "nothing is kept, by owner or by object"
    );
}
