use super::*;

#[test]
fn the_condition_joins_what_is_there_and_is_written_once() {
    let now = Timestamp::from_second(0).unwrap();
    let old = json!({"replicas": 3, "odd": {"x": 1}, "conditions": [{"type": "FailedScale"}, {"type": "Blocked"}]});
    let new = with_condition(&old, "spec: broken", now);
    assert_eq!((&new["replicas"], &new["odd"]["x"]), (&json!(3), &json!(1)));
    let types: Vec<_> = new["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].clone())
        .collect();
    assert_eq!(types, ["FailedScale", "Blocked"]);
    assert_eq!(new["conditions"][1]["message"], "spec: broken");
    let later = Timestamp::from_second(99).unwrap();
    assert_eq!(
        with_condition(&new, "spec: broken", later),
        new,
        "nothing to write again"
    );
}
