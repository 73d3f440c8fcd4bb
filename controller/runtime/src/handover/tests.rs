use berth_workload::objects::pod::Pod;
use http::StatusCode;
use serde_json::json;

use super::*;
use crate::client::fake;
use crate::store::Store;

/// Of a server whose pods have these versions.
fn pods(versions: &'static [&'static str]) -> Client {
    fake::apiserver(move |_| {
        let item = |version: &&str| json!({"metadata": {"resourceVersion": version}});
        let items: Vec<_> = versions.iter().map(item).collect();
        std::future::ready(fake::answer(
            StatusCode::OK,
            &json!({"metadata": {"resourceVersion": "99"}, "items": items}),
        ))
    })
}

fn lease(version: &str, seen: &[(&str, &str)]) -> Taken {
    let seen = seen
        .iter()
        .map(|(resource, version)| ((*resource).to_owned(), (*version).into()))
        .collect();
    Taken {
        version: version.into(),
        seen,
    }
}

async fn has_caught_up(client: &Client, store: &Arc<Store<Pod>>) -> bool {
    let followee = Followee {
        resource: crate::object::PODS,
        store: store.clone(),
    };
    let lister = Lister {
        client: client.clone(),
        turn: Semaphore::new(1),
    };
    tokio::time::timeout(
        Duration::from_secs(10),
        catch_up(&lister, &followee, &lease("50", &[])),
    )
    .await
    .is_ok()
}

fn store_at(version: &str) -> Arc<Store<Pod>> {
    let store = Store::new(&[]);
    store.begin_list(false);
    store.end_list(version);
    store
}

#[tokio::test(start_paused = true)]
async fn store_has_caught_up_at_newest_object_or_lease() {
    let client = pods(&["7", "40", "12"]);
    assert!(
        !has_caught_up(&client, &Store::new(&[])).await,
        "it has seen nothing"
    );
    for (position, expected) in [("39", false), ("40", true), ("49", true), ("50", true)] {
        assert_eq!(
            has_caught_up(&client, &store_at(position)).await,
            expected,
            "{position}"
        );
    }
    let late = store_at("39");
    let event = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        late.advance("40");
    };
    assert!(tokio::join!(has_caught_up(&client, &late), event).0);
}

#[tokio::test(start_paused = true)]
async fn store_at_recorded_version_needs_no_list() {
    let unused =
        fake::apiserver(|request| async move { panic!("no request is sent, but {request:?}") });
    let followee = |store| Followee {
        resource: crate::object::PODS,
        store,
    };
    let lister = Lister {
        client: unused,
        turn: Semaphore::new(1),
    };
    catch_up(
        &lister,
        &followee(store_at("40")),
        &lease("50", &[("pods", "40")]),
    )
    .await;
    catch_up(
        &lister,
        &followee(store_at("1")),
        &lease("50", &[("pods", "0")]),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn handover_waits_for_a_lagging_store() {
    let client = pods(&["40"]);
    let late = store_at("39");
    let followee = Followee {
        resource: crate::object::PODS,
        store: late.clone(),
    };
    let lister = Lister {
        client,
        turn: Semaphore::new(1),
    };
    let told = lease("50", &[("pods", "40")]);
    let wait = catch_up(&lister, &followee, &told);
    assert!(
        tokio::time::timeout(Duration::from_secs(10), wait)
            .await
            .is_err()
    );
    late.advance("40");
    catch_up(&lister, &followee, &told).await;
}

#[tokio::test(start_paused = true)]
async fn backwards_history_delays_no_handover() {
    let newest = Arc::new(parking_lot::Mutex::new("45"));
    let answered = newest.clone();
    let client = fake::apiserver(move |_| {
        let items = json!([{"metadata": {"resourceVersion": *answered.lock()}}]);
        std::future::ready(fake::answer(
            StatusCode::OK,
            &json!({"metadata": {"resourceVersion": "99"}, "items": items}),
        ))
    });
    let store = store_at("39");
    let restored = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        *newest.lock() = "12";
        store.begin_list(true);
        store.end_list("13");
    };
    assert!(tokio::join!(has_caught_up(&client, &store), restored).0);
}

#[tokio::test(start_paused = true)]
async fn empty_or_unserved_resource_delays_no_handover() {
    for items in [json!([]), json!(null)] {
        let empty = fake::apiserver(move |_| {
            let list = json!({"metadata": {"resourceVersion": "99"}, "items": items});
            std::future::ready(fake::answer(StatusCode::OK, &list))
        });
        assert!(has_caught_up(&empty, &store_at("1")).await);
    }
    let missing = fake::apiserver(|_| {
        std::future::ready(fake::answer(
            StatusCode::NOT_FOUND,
            &json!({"message": "no such kind"}),
        ))
    });
    assert!(has_caught_up(&missing, &store_at("0")).await);
}

/// Whether it completes without anything else happening.
async fn is_complete(handover: &Handover) -> bool {
    tokio::time::timeout(Duration::from_millis(1), handover.complete())
        .await
        .is_ok()
}

#[tokio::test(start_paused = true)]
async fn handover_is_complete_for_the_seen_lease() {
    let (taken, leadership) = Leadership::with_lease();
    let (seen, handover) = Handover::by_hand(leadership.taken().unwrap());
    assert!(!is_complete(&handover).await, "the lease is free");
    taken.send_replace(Some(lease("7", &[])));
    assert!(
        !is_complete(&handover).await,
        "the stores have seen nothing"
    );
    seen.send_replace(Some("7".into()));
    assert!(is_complete(&handover).await);
    taken.send_replace(None);
    assert!(!is_complete(&handover).await, "the lease was lost");
    taken.send_replace(Some(lease("9", &[])));
    assert!(!is_complete(&handover).await, "another led in between");
    seen.send_replace(Some("9".into()));
    assert!(is_complete(&handover).await);
}

#[tokio::test(start_paused = true)]
async fn without_election_handover_is_complete() {
    assert!(is_complete(&Handover::without_election()).await);
}
