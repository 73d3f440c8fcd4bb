//! What is asked about, and how it is told.

mod stale_stores;

use berth_webhook::PodWebhook;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::pod_asks::AllRequests;

/// Of a cluster that nobody reaches.
fn budgets(gates: Gates) -> Arc<PodBudgets> {
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    PodBudgets::only_read(client, gates, "", Duration::from_secs(75))
}

#[tokio::test]
async fn what_a_resize_is_to_budgets_of_either_kind_says_a_gate() {
    let all = json!({"matchLabels": {"app": "web"}});
    for (resource, is_on, is_protected) in [
        ("podunavailablebudgets", false, true),
        ("podunavailablebudgets", true, false),
        ("distributedpoddisruptionbudgets", false, true),
        ("distributedpoddisruptionbudgets", true, false),
    ] {
        let budgets = budgets(Gates::default().with(Gate::InPlacePodVerticalScaling, is_on));
        let budget = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {"selector": all, "minAvailable": 1}});
        let budget = Budget::read(resource, &budget.to_string()).unwrap();
        let holds = budgets.holds(&budget);
        let rules = holds.rules.as_ref().unwrap();
        assert!(rules.protects_from(ProtectedOperation::Update), "{resource} {is_on}");
        assert_eq!(rules.protects_from(ProtectedOperation::Resize), is_protected, "{resource} {is_on}");
    }
}

#[tokio::test]
async fn each_gate_has_the_apiserver_ask_about_its_operations_and_those_alone_are_judged() {
    let removals = [Change::Delete, Change::Evict];
    let changes = [Change::Update, Change::Resize];
    for (by_webhook, of_removals, of_changes, is_asked) in [
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
        let budgets = budgets(gates);
        assert_eq!(budgets.is_asked(), is_asked, "{gates:?}");
        let asked = budgets.disruptions(["a".to_owned()].into(), false);
        assert_eq!((asked.deletions, asked.changes_but_by.is_some()), (of_removals, of_changes), "{gates:?}");
        assert_eq!(budgets.disruptions(BTreeSet::new(), true), Disruptions::default(), "{gates:?}");
        let all = removals.map(|change| (change, of_removals)).into_iter();
        for (change, is_judged) in all.chain(changes.map(|change| (change, of_changes))) {
            let disruption = Disruption { change, ..Disruption::default() };
            // It has read no budgets, so it says that of what it judges.
            let expected: Result<Option<String>, NotYet> = if is_judged { Err(UNREAD) } else { Ok(None) };
            assert_eq!(budgets.draw_from_all(disruption).await, expected, "{gates:?} {change:?}");
        }
    }
}

#[tokio::test]
async fn what_the_leader_has_asked_about_is_judged_by_a_replica_of_other_gates() {
    for (others_ask, leads, is_judged) in [(true, false, true), (true, true, false), (false, false, false)] {
        let gates = Gates::default().with(Gate::PodWebhook, true).with(Gate::PodUnavailableBudgetDelete, false);
        let budgets = budgets(gates);
        if others_ask {
            budgets.asks.ask(Arc::new(AllRequests));
        }
        let asks = leads.then(Asks::default);
        let (wanted, written) = (watch::channel(asks.clone()).0, watch::channel(asks).1);
        budgets.asks.connect(PodWebhook { wanted, written, ..PodWebhook::looked_at(None) });
        // It has read no budgets, so it says that of what it judges.
        let expected: Result<Option<String>, NotYet> = if is_judged { Err(UNREAD) } else { Ok(None) };
        assert_eq!(budgets.draw_from_all(Disruption::default()).await, expected, "{others_ask} {leads}");
    }
}
