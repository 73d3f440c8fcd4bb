use berth_runtime::metrics::QueueMetrics;
use berth_runtime::object::{CLONE_SETS, SIDECAR_SETS, STATEFUL_SETS};
use berth_runtime::queue::Backoff;
use berth_workload::objects::resource::POD_UNAVAILABLE_BUDGETS;
use serde_json::json;

use super::*;

fn budget(name: &str, allowed: i32) -> Budget {
    let budget = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"maxUnavailable": 1},
        "status": {"observedGeneration": 1, "unavailableAllowed": allowed},
    });
    Budget::read("podunavailablebudgets", &budget.to_string()).unwrap()
}

fn owner(resource: Resource, name: &str) -> Owner {
    let [namespace, name, uid] = ["default", name, "u"].map(str::to_owned);
    Owner {
        resource,
        namespace,
        name,
        uid,
    }
}

fn queue() -> Arc<Queue<Key>> {
    Queue::new(Backoff::default(), QueueMetrics::unread())
}

fn at_once() -> Pace {
    Box::new(|_| Duration::ZERO)
}

/// Which of these are in the queue, in the order in which they are taken.
async fn woken(queue: &Arc<Queue<Key>>) -> Vec<String> {
    let mut names = Vec::new();
    while let Ok(Some(work)) = tokio::time::timeout(BETWEEN * 4, queue.take()).await {
        names.push(work.key.name.to_string());
    }
    names
}

#[tokio::test(start_paused = true)]
async fn more_capacity_wakes_the_longest_waiters_first() {
    let recounted = |allowed| {
        let mut budget = budget("web", allowed);
        let Budget::Unavailable(of) = &mut budget else {
            unreachable!()
        };
        let status = Arc::get_mut(of).unwrap().status.as_mut().unwrap();
        status.ledger.get_or_insert_default().recount = true;
        budget
    };
    let plain = |allowed| budget("web", allowed);
    for (old, new, expected) in [
        (Some(plain(0)), Some(plain(2)), vec!["b", "a"]),
        (Some(plain(1)), Some(plain(9)), vec!["b", "a", "c"]),
        (Some(plain(1)), Some(plain(1)), vec![]),
        (Some(plain(2)), Some(plain(1)), vec![]),
        (None, Some(plain(3)), vec![]),
        (Some(plain(1)), None, vec!["b", "a", "c"]),
        // Reserved, and released because another budget refused.
        (Some(recounted(0)), Some(plain(2)), vec![]),
    ] {
        let (awaited, queue) = (Arc::new(Waiters::default()), queue());
        awaited.wake_by(CLONE_SETS, &queue, at_once());
        let (web, other) = (budget("web", 0).key(), budget("other", 0).key());
        for name in ["b", "a", "c", "a"] {
            awaited.note(&web, &owner(CLONE_SETS, name));
            std::thread::sleep(Duration::from_millis(1));
        }
        awaited.note(&other, &owner(CLONE_SETS, "other"));
        awaited.changed(old.as_ref(), new.as_ref());
        let mut found = woken(&queue).await;
        found.sort_by_key(|name| expected.iter().position(|expected| expected == name));
        assert_eq!(found, expected, "{old:?} {new:?}");
        assert_eq!(
            (awaited.has(&web), awaited.has(&other)),
            (expected.len() < 3, true),
            "{old:?} {new:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn first_waiter_triggers_a_count_of_the_budget() {
    let (awaited, queue) = (Waiters::default(), queue());
    awaited.wake_by(POD_UNAVAILABLE_BUDGETS, &queue, at_once());
    let web = budget("web", 0).key();
    awaited.note(&web, &owner(SIDECAR_SETS, "a"));
    assert!(awaited.has(&web) && woken(&queue).await == ["web"]);
    let waits = |name| awaited.is_waiting(&web, &owner(SIDECAR_SETS, name));
    assert!(waits("a") && !waits("b"));
    awaited.note(&web, &owner(STATEFUL_SETS, "b"));
    assert_eq!(
        woken(&queue).await,
        Vec::<String>::new(),
        "somebody waits already"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_with_a_pace_of_its_own_is_woken_at_it() {
    const LONG: Duration = Duration::from_millis(500);
    for (pace, expected) in [(Duration::ZERO, BETWEEN), (LONG, LONG)] {
        let (awaited, queue, web) = (Waiters::default(), queue(), budget("web", 0).key());
        awaited.wake_by(
            SIDECAR_SETS,
            &queue,
            Box::new(move |key| if &*key.name == "log" { pace } else { 2 * LONG }),
        );
        awaited.note(
            &web,
            &Owner {
                namespace: String::new(),
                ..owner(SIDECAR_SETS, "log")
            },
        );
        let begun = tokio::time::Instant::now();
        awaited.wake(&web, 1);
        let work = queue.take().await.unwrap();
        assert_eq!(
            (work.key.clone(), begun.elapsed()),
            (Key::new("", "log"), expected)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_is_woken_when_the_store_shows_capacity() {
    let watched = |version: &str, allowed| {
        let Budget::Unavailable(of) = budget("web", allowed) else {
            unreachable!()
        };
        let mut of = Arc::unwrap_or_clone(of);
        of.metadata.resource_version = Some(version.to_owned());
        Watched(Arc::new(of))
    };
    let (awaited, queue) = (Arc::new(Waiters::default()), queue());
    awaited.wake_by(CLONE_SETS, &queue, at_once());
    let store = Store::new(&[]);
    awaited.follow(&store, Budget::Unavailable);
    store.apply(watched("1", 0));
    awaited.note(&budget("web", 0).key(), &owner(CLONE_SETS, "web"));
    store.apply(watched("2", 1));
    assert_eq!(woken(&queue).await, ["web"]);
}

#[test]
fn long_refused_workload_is_no_waiter() {
    let (awaited, web) = (Waiters::default(), budget("web", 0).key());
    assert!(!awaited.has(&web));
    awaited.note(&web, &owner(CLONE_SETS, "web"));
    for waiting in awaited.waiting.lock().values_mut() {
        waiting
            .values_mut()
            .for_each(|since| *since = since.checked_sub(WAITS).unwrap());
    }
    assert!(!awaited.has(&web));
    awaited.note(&budget("other", 0).key(), &owner(CLONE_SETS, "other"));
    assert!(!awaited.waiting.lock().contains_key(&web), "it may be gone");
}
