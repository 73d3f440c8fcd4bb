use berth_runtime::Key;
use berth_workload::objects::resource::POD_UNAVAILABLE_BUDGETS;

use super::*;

fn key(name: &str) -> BudgetKey {
    BudgetKey {
        resource: POD_UNAVAILABLE_BUDGETS,
        key: Key::new("default", name),
    }
}

fn change(uid: &str, generation: i64) -> Request {
    Request {
        pod: uid.to_owned(),
        uid: uid.to_owned(),
        operation: ProtectedOperation::Update,
        holder: "somebody".to_owned(),
        is_available: true,
        generation: Some(generation),
        container_ids: Vec::new(),
        resizes: false,
        grant: None,
        is_again: false,
        is_repair: false,
        passes: false,
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_request_is_recognised_for_ten_seconds() {
    let named = || Request {
        grant: Some("1".to_owned()),
        ..change("a", 1)
    };
    let again = || Request {
        is_again: true,
        ..change("a", 1)
    };
    for (noted, is_dry_run, decision, waited, asked, expected) in [
        (
            change("a", 1),
            false,
            Decision::Reserved,
            0,
            ("web", change("a", 1)),
            true,
        ),
        (
            change("a", 1),
            false,
            Decision::Reserved,
            9,
            ("web", change("a", 1)),
            true,
        ),
        (
            change("a", 1),
            false,
            Decision::Reserved,
            10,
            ("web", change("a", 1)),
            false,
        ),
        (
            change("a", 1),
            false,
            Decision::Reserved,
            0,
            ("all", change("a", 1)),
            false,
        ),
        (
            change("a", 1),
            false,
            Decision::Reserved,
            0,
            ("web", change("b", 1)),
            false,
        ),
        (
            change("a", 1),
            false,
            Decision::Reserved,
            0,
            ("web", change("a", 2)),
            false,
        ),
        (
            change("a", 1),
            false,
            Decision::Reserved,
            0,
            ("web", named()),
            false,
        ),
        (
            named(),
            false,
            Decision::Reserved,
            0,
            ("web", change("a", 1)),
            false,
        ),
        (
            again(),
            false,
            Decision::Reserved,
            0,
            ("web", change("a", 1)),
            false,
        ),
        (
            change("a", 1),
            true,
            Decision::Reserved,
            0,
            ("web", change("a", 1)),
            false,
        ),
        (
            change("a", 1),
            false,
            Decision::Free,
            0,
            ("web", change("a", 1)),
            false,
        ),
    ] {
        let (entered, began) = (RecentReservations::default(), Instant::now());
        // The write takes a while, and its age counts from its beginning.
        tokio::time::advance(Duration::from_secs(waited)).await;
        entered.note(
            &key("web"),
            [(&(noted.clone(), is_dry_run), &decision)].into_iter(),
            began,
        );
        let what = format!("{noted:?} {is_dry_run} {decision:?} {waited} {asked:?}");
        assert_eq!(
            entered.has(&key(asked.0), &asked.1, || false),
            expected,
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn entry_times_are_used_only_just_after_process_start() {
    for (seconds, is_dated, expected) in [
        (0, true, true),
        (0, false, false),
        (9, true, true),
        (10, true, false),
    ] {
        let entered = RecentReservations::default();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        assert_eq!(
            entered.has(&key("web"), &change("a", 1), || is_dated),
            expected,
            "{seconds} {is_dated}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn full_memory_keeps_only_young_reservations() {
    let entered = RecentReservations::default();
    let note = |uid: &str| {
        entered.note(
            &key("web"),
            [(&(change(uid, 1), false), &Decision::Reserved)].into_iter(),
            Instant::now(),
        );
    };
    (0..MOST).for_each(|at| note(&at.to_string()));
    for (seconds, expected) in [(9, false), (1, true)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        note("late");
        assert_eq!(
            entered.has(&key("web"), &change("late", 1), || false),
            expected,
            "{seconds}"
        );
    }
}
