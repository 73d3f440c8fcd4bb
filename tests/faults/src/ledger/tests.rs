use serde_json::json;

use super::*;

fn write(namespace: &str) -> Write {
    let resource = "pods".to_owned();
    Write {
        method: Method::POST,
        resource,
        namespace: namespace.to_owned(),
        name: String::new(),
    }
}

/// The decisions about the writes until the controller dies, or `most` have passed.
fn life(ledger: &mut Ledger, most: usize) -> Vec<Decision> {
    let life = ledger.begin_life();
    let mut decisions = Vec::new();
    while decisions.len() < most && ledger.dying != Some(life) {
        decisions.push(ledger.admit(life, write("a"), Value::Null));
    }
    decisions
}

#[test]
fn one_fault_kills_once_at_the_chosen_write() {
    use Decision::{Fatal, Hold, Pass};
    for side in [Side::Before, Side::After, Side::Answered] {
        let mut ledger = Ledger::new();
        ledger.begin("a", Fault::One(2, side));
        assert_eq!(life(&mut ledger, 9), [Pass(0), Fatal(1, side)]);
        assert_eq!(ledger.admit(1, write("a"), Value::Null), Hold);
        assert_eq!(life(&mut ledger, 3), [Pass(2), Pass(3), Pass(4)]);
        assert_eq!(ledger.kills(), 1);
    }
}

#[test]
fn the_ledger_with_a_paused_leader_lets_another_life_write() {
    use Decision::{Fatal, Hold, Pass};
    let mut ledger = Ledger::new();
    ledger.begin("a", Fault::Paused(1, Side::After));
    let [leader, other] = [ledger.begin_life(), ledger.begin_life()];
    let admit = |ledger: &mut Ledger, life| ledger.admit(life, write("a"), Value::Null);
    assert_eq!(admit(&mut ledger, leader), Fatal(0, Side::After));
    assert_eq!(
        [admit(&mut ledger, other), admit(&mut ledger, leader)],
        [Pass(1), Hold]
    );
    ledger.goes_on();
    assert_eq!(admit(&mut ledger, leader), Pass(2));
    assert_eq!(
        ledger
            .entries()
            .iter()
            .map(|entry| entry.life)
            .collect::<Vec<_>>(),
        [leader, other, leader]
    );
    assert!(ledger.triggered() && ledger.kills() == 0);
}

#[test]
fn each_fault_lets_every_life_write_once() {
    use Decision::{Fatal, Pass};
    let mut ledger = Ledger::new();
    ledger.begin("a", Fault::Each(Side::Before));
    assert_eq!(life(&mut ledger, 9), [Pass(0), Fatal(1, Side::Before)]);
    assert_eq!(life(&mut ledger, 9), [Pass(2), Fatal(3, Side::Before)]);
    ledger.begin("a", Fault::Each(Side::After));
    assert_eq!(life(&mut ledger, 9), [Fatal(0, Side::After)]);
    assert_eq!(life(&mut ledger, 9), [Fatal(1, Side::After)]);
}

#[test]
fn each_fault_spares_new_paths() {
    let paths = || Write {
        resource: PATHS.to_owned(),
        namespace: String::new(),
        ..write("a")
    };
    let body = |path: &str| json!({"webhooks": [{"clientConfig": {"service": {"path": path}}}]});
    let mut ledger = Ledger::new();
    ledger.admit(1, paths(), body("/pin/x"));
    ledger.begin("a", Fault::Each(Side::After));
    let life = ledger.begin_life();
    assert_eq!(
        ledger.admit(life, paths(), body("/pin/y")),
        Decision::Pass(0)
    );
    assert_eq!(ledger.renewals(), 1);
    let same = ledger.admit(life, paths(), body("/pin/y"));
    assert_eq!(same, Decision::Fatal(1, Side::After));
}

#[test]
fn a_refusal_a_lag_and_a_handover_are_triggered_once() {
    let refused = Decision::Refuse(1, Refusal::Conflict);
    let lags = Decision::LagThenPass(1, Lag::Late, "pods");
    let last = Decision::LastBeforeTheEnd(1, "pods");
    for (fault, decision) in [
        (Fault::Refused(2, Refusal::Conflict), refused),
        (Fault::Lagging(2, Lag::Late, "pods"), lags),
        (Fault::HandedOver(2, "pods"), last),
    ] {
        let mut ledger = Ledger::new();
        ledger.begin("a", fault);
        assert_eq!(
            life(&mut ledger, 3),
            [Decision::Pass(0), decision, Decision::Pass(2)]
        );
        assert!(ledger.triggered() && ledger.kills() == 0 && ledger.stale().is_none());
    }
}

#[test]
fn chosen_event_of_resource_triggers_the_lag() {
    let mut ledger = Ledger::new();
    ledger.begin("a", Fault::Unseen(2, Lag::Missed, "pods"));
    let lags = ["pods", "nodes", "nodes", "pods", "pods"].map(|resource| ledger.event(resource));
    assert_eq!(lags, [None, None, None, Some((Lag::Missed, "pods")), None]);
    assert_eq!(
        ledger.events(),
        &[("nodes", 2), ("pods", 3)]
            .map(|(of, count)| (of.to_owned(), count))
            .into()
    );
    assert!(ledger.triggered());
    assert_eq!(life(&mut ledger, 1), [Decision::Pass(0)]);
    ledger.begin("a", Fault::None);
    assert!(ledger.events().is_empty() && ledger.event("pods").is_none());
}

#[test]
fn the_life_after_a_stale_kill_sees_an_old_state() {
    let mut ledger = Ledger::new();
    ledger.begin("a", Fault::Stale(1, "pods"));
    assert_eq!(ledger.stale(), None);
    assert_eq!(life(&mut ledger, 9), [Decision::Fatal(0, Side::Answered)]);
    assert_eq!(ledger.stale(), Some("pods"));
    assert_eq!(life(&mut ledger, 2), [Decision::Pass(1), Decision::Pass(2)]);
}

#[test]
fn a_write_in_another_namespace_is_not_counted() {
    let mut ledger = Ledger::new();
    ledger.begin("a", Fault::One(1, Side::Before));
    let life = ledger.begin_life();
    assert_eq!(
        ledger.admit(life, write("b"), Value::Null),
        Decision::Beside
    );
    let fatal = Decision::Fatal(0, Side::Before);
    assert_eq!(
        ledger.admit(life, write(""), Value::Null),
        fatal,
        "what has no namespace belongs to the run"
    );
}

#[test]
fn revisions_of_cluster_objects_count_for_the_run() {
    let mut ledger = Ledger::new();
    ledger.begin("a", Fault::None);
    let life = ledger.begin_life();
    let own = write("kruise-system");
    assert_eq!(
        ledger.admit(life, own.clone(), Value::Null),
        Decision::Beside
    );
    let history = Write {
        resource: "controllerrevisions".to_owned(),
        ..own
    };
    assert_eq!(ledger.admit(life, history, Value::Null), Decision::Pass(0));
}

#[tokio::test(start_paused = true)]
async fn controller_rests_some_time_after_its_last_answer() {
    let second = Duration::from_secs(1);
    let mut ledger = Ledger::new();
    ledger.begin_life();
    ledger.ended(Instant::now());
    assert!(
        !ledger.rests_for(Duration::ZERO),
        "what a life before was answered is no request of this one"
    );
    ledger.requested(Instant::now());
    ledger.sent();
    tokio::time::advance(second).await;
    assert!(!ledger.rests_for(second), "the answer is awaited");
    ledger.ended(Instant::now());
    assert!(!ledger.rests_for(second), "the answer has just come");
    tokio::time::advance(second).await;
    assert!(ledger.rests_for(second));
}

#[test]
fn a_write_is_done_only_when_its_answer_is_a_success() {
    let mut ledger = Ledger::new();
    ledger.begin("a", Fault::None);
    for answer in [Some(201), Some(409), None] {
        let Decision::Pass(index) = ledger.admit(1, write("a"), Value::Null) else {
            panic!("it must pass")
        };
        answer
            .into_iter()
            .for_each(|code| ledger.answered(index, code));
    }
    assert_eq!(ledger.done(&Method::POST, "pods"), 1);
    assert_eq!(
        ledger
            .entries()
            .iter()
            .map(|entry| entry.arrived_by_then)
            .collect::<Vec<_>>(),
        [1, 2, 0]
    );
    assert_eq!(ledger.done(&Method::DELETE, "pods"), 0);
}
