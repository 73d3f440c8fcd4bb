use berth_runtime::Key;
use berth_workload::objects::resource::POD_UNAVAILABLE_BUDGETS;

use super::*;

#[test]
fn only_a_lone_unavailable_budget_needs_no_release() {
    let key = |resource, name| BudgetKey {
        resource,
        key: Key::new("default", name),
    };
    let (web, all) = (
        key(POD_UNAVAILABLE_BUDGETS, "web"),
        key(POD_UNAVAILABLE_BUDGETS, "all"),
    );
    let foo = key(DISTRIBUTED_POD_DISRUPTION_BUDGETS, "foo");
    for (holding, expected) in [
        (vec![web.clone()], vec![false]),
        (vec![web.clone(), all], vec![true, true]),
        (vec![foo.clone()], vec![true]),
        (vec![web, foo], vec![true, true]),
    ] {
        let found: Vec<_> = holding
            .iter()
            .map(|key| may_be_released(&holding, key))
            .collect();
        assert_eq!(found, expected, "{holding:?}");
    }
}
