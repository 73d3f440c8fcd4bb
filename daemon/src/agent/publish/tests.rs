use super::*;

#[test]
fn the_condition_keeps_its_time_while_its_status_stays() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let lost = runtime_condition(&[], false, "no socket".into(), at(1));
    let still = runtime_condition(std::slice::from_ref(&lost), false, "refused".into(), at(2));
    assert_eq!(
        (still.last_transition_time.clone(), still.message.as_str()),
        (lost.last_transition_time, "refused")
    );
    let back = runtime_condition(&[still], true, "containerd 2".into(), at(3));
    assert_eq!(
        (back.status.as_str(), back.last_transition_time),
        ("True", Some(Time(at(3))))
    );
}
