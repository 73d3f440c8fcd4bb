use super::*;

#[test]
fn excess_budget_reports_once_that_it_is_unenforced() {
    let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
    let before = [condition(ENFORCED, true, "Asked", String::new(), now)];
    let told = conditions(&before, "too many", now);
    let said: Vec<_> = told
        .iter()
        .map(|one| (&*one.type_, &*one.status, &*one.reason, &*one.message))
        .collect();
    assert_eq!(
        said,
        [
            (ENFORCED, "False", REASON, "too many"),
            (BLOCKED, "True", REASON, "too many")
        ]
    );
    assert_eq!(conditions(&told, "too many", now), told);
    assert_eq!(
        [&before[..], &told].map(|told| plan(told, "too many", None).events.len()),
        [1, 0]
    );
}
