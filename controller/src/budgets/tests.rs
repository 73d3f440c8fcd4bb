//! For which requests budgets decide, and what messages say.

mod stale_stores;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_webhook::PodWebhook;
use berth_webhook::pods::{Asks, Change, Disruption};
use berth_webhook::pods::{Disruptions, NotYet};
use berth_workload::feature_gates::Gate;
use berth_workload::objects::resource::POD_UNAVAILABLE_BUDGETS;
use berth_workload::share;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::admission::webhook_rules::AllRequests;
use crate::stores::reads::Stores;

/// Budgets of a cluster whose apiserver cannot be reached.
fn budgets(gates: Gates, stores: Option<BudgetStores>) -> Arc<PodBudgets> {
    let client =
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    PodBudgets::only_read(client, gates, stores, ("", Duration::from_secs(75), false))
}

#[tokio::test]
async fn feature_gate_decides_if_a_resize_is_protected() {
    let all = json!({"matchLabels": {"app": "web"}});
    for (resource, is_on, is_protected) in [
        ("podunavailablebudgets", false, true),
        ("podunavailablebudgets", true, false),
        ("distributedpoddisruptionbudgets", false, true),
        ("distributedpoddisruptionbudgets", true, false),
    ] {
        let budgets = budgets(
            Gates::default().with(Gate::InPlacePodVerticalScaling, is_on),
            None,
        );
        let budget = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {"selector": all, "minAvailable": 1}});
        let budget = Budget::read(resource, &budget.to_string()).unwrap();
        let holds = budgets.holds(&budget);
        let rules = holds.rules.as_ref().unwrap();
        assert!(
            rules.protects_from(ProtectedOperation::Update),
            "{resource} {is_on}"
        );
        assert_eq!(
            rules.protects_from(ProtectedOperation::Resize),
            is_protected,
            "{resource} {is_on}"
        );
    }
}

#[tokio::test]
async fn feature_gates_select_the_operations_to_review() {
    let removals = [Change::Delete, Change::Evict];
    let changes = [Change::Update, Change::Resize];
    for (by_webhook, of_removals, of_changes, is_called) in [
        (true, true, true, true),
        (true, true, false, true),
        (true, false, true, true),
        (true, false, false, false),
        (false, true, true, false),
    ] {
        let gates = Gates::default()
            .with(Gate::PodWebhook, by_webhook)
            .with(Gate::PodUnavailableBudgetDelete, of_removals)
            .with(Gate::PodUnavailableBudgetUpdate, of_changes);
        let budgets = budgets(gates, None);
        assert_eq!(budgets.is_called(), is_called, "{gates:?}");
        let disruptions = budgets.disruptions(vec![("a".to_owned(), false)]);
        assert_eq!(
            (disruptions.deletions, disruptions.changes_but_by.is_some()),
            (of_removals, of_changes),
            "{gates:?}"
        );
        assert_eq!(
            budgets.disruptions(Vec::new()),
            Disruptions::default(),
            "{gates:?}"
        );
        let all = removals.map(|change| (change, of_removals)).into_iter();
        for (change, is_judged) in all.chain(changes.map(|change| (change, of_changes))) {
            let disruption = Disruption {
                change,
                ..Disruption::default()
            };
            // It has read no budgets, so it gives this error for each request that it judges.
            let expected: Result<Option<String>, NotYet> =
                if is_judged { Err(UNREAD) } else { Ok(None) };
            assert_eq!(
                budgets.review(disruption).await,
                expected,
                "{gates:?} {change:?}"
            );
        }
    }
}

#[tokio::test]
async fn budget_beyond_the_oldest_holds_no_pod() {
    let stores = BudgetStores::new(&mut Stores::default().reader(), |_| true);
    let store = stores.unavailable.clone().unwrap();
    let budgets = budgets(Gates::default(), Some(stores));
    let made = |number: usize, namespace: &str| {
        let budget = json!({
            "metadata": {
                "name": format!("b{number:03}"), "namespace": namespace, "uid": format!("{namespace}{number}"), "resourceVersion": "1",
                "creationTimestamp": Timestamp::from_second(1_000 + number as i64 / 2).unwrap().to_string(),
            },
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        });
        serde_json::from_value::<Watched<PodUnavailableBudget>>(budget).unwrap()
    };
    // The youngest comes first.
    (0..=share::MOST)
        .rev()
        .for_each(|number| store.apply(made(number, "t1")));
    store.apply(made(900, "a"));
    let beyond = |number: usize, namespace: &str| {
        budgets.beyond(&Budget::Unavailable(made(number, namespace).0))
    };
    assert_eq!(
        [
            beyond(0, "t1"),
            beyond(share::MOST - 1, "t1"),
            beyond(900, "a")
        ],
        [None, None, None]
    );
    let why = beyond(share::MOST, "t1").unwrap();
    assert!(
        why.starts_with(
            "PodUnavailableBudget t1/b500 holds no pod: 500 older ones of the namespace count"
        ),
        "{why}"
    );
    let holding = |name: &str| {
        budgets
            .in_namespace("t1")
            .iter()
            .any(|budget| &*budget.key().key.name == name)
    };
    assert_eq!((holding("b499"), holding("b500")), (true, false));
    let last = || {
        budgets
            .last_that_counts(POD_UNAVAILABLE_BUDGETS, "t1")
            .map(|key| key.name.to_string())
    };
    assert_eq!(last().as_deref(), Some("b499"));
    store.remove("t1", "b003", None);
    assert_eq!(
        (
            last().as_deref(),
            beyond(share::MOST, "t1"),
            holding("b500")
        ),
        (Some("b500"), None, true)
    );
    assert_eq!(budgets.last_that_counts(POD_UNAVAILABLE_BUDGETS, "a"), None);
}

#[tokio::test]
async fn pod_that_was_missing_is_not_read_for_a_second() {
    let stores = BudgetStores::new(&mut Stores::default().reader(), |_| false);
    let budgets = budgets(Gates::default().with(Gate::PodWebhook, true), Some(stores));
    let evicted = |uid: Option<&str>| Disruption {
        namespace: "t1".to_owned(),
        pod: "none".to_owned(),
        change: Change::Evict,
        uid: uid.map(str::to_owned),
        ..Disruption::default()
    };
    // The apiserver does not answer, so every read fails.
    assert!(budgets.review(evicted(None)).await.is_err());
    budgets.catalog.missing.looked("t1", "none", false);
    assert_eq!(budgets.review(evicted(None)).await, Ok(None));
    assert!(
        budgets.review(evicted(Some("u"))).await.is_err(),
        "the pod was there"
    );
}

#[tokio::test]
async fn follower_reviews_operations_the_leader_registered() {
    for (others_ask, leads, is_judged) in [
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        let gates = Gates::default()
            .with(Gate::PodWebhook, true)
            .with(Gate::PodUnavailableBudgetDelete, false);
        let budgets = budgets(gates, None);
        if others_ask {
            budgets.rules.asks.ask(Arc::new(AllRequests));
        }
        let asks = leads.then(Asks::default);
        let (wanted, written) = (watch::channel(asks.clone()).0, watch::channel(asks).1);
        budgets.rules.asks.connect(PodWebhook {
            wanted,
            written,
            ..PodWebhook::looked_at(None)
        });
        // It has read no budgets, so it gives this error for each request that it judges.
        let expected: Result<Option<String>, NotYet> =
            if is_judged { Err(UNREAD) } else { Ok(None) };
        assert_eq!(
            budgets.review(Disruption::default()).await,
            expected,
            "{others_ask} {leads}"
        );
    }
}
