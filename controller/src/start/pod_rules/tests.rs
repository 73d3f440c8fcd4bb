use super::*;

#[test]
fn kinds_and_budget_gates_enable_the_pod_webhook() {
    let (deletes, updates) = (
        Gate::PodUnavailableBudgetDelete,
        Gate::PodUnavailableBudgetUpdate,
    );
    let none = Gates::default().with(deletes, false).with(updates, false);
    for (kinds, gates, is_served) in [
        ("", none, true),
        ("CloneSet", Gates::default(), false),
        ("ContainerRecreateRequest", none, true),
        ("PodUnavailableBudget", none, false),
        ("PodUnavailableBudget", none.with(deletes, true), true),
        ("PodUnavailableBudget", none.with(updates, true), true),
        (
            "DistributedPodDisruptionBudget",
            none.with(updates, true),
            true,
        ),
        (
            "DistributedPodDisruptionBudget",
            none.with(updates, true).with(Gate::PodWebhook, false),
            false,
        ),
    ] {
        assert_eq!(
            gates_of_kinds(gates, kinds).has(Gate::PodWebhook),
            is_served,
            "{kinds} {gates:?}"
        );
    }
}
