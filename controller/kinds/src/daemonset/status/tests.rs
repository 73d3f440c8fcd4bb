use super::*;

#[test]
fn complete_rollout_is_urgent_once() {
    let of = |[desired, updated, available]: [i32; 3]| DaemonSetStatus {
        desired_number_scheduled: desired,
        updated_number_scheduled: updated,
        number_available: available,
        ..DaemonSetStatus::default()
    };
    for (old, new, expected) in [
        (None, [1, 1, 1], true),
        (Some([1, 1, 0]), [1, 1, 1], true),
        (Some([3, 2, 3]), [3, 3, 3], true),
        (Some([3, 3, 3]), [3, 3, 3], false),
        (Some([3, 1, 3]), [3, 2, 3], false),
        (Some([3, 3, 3]), [3, 3, 2], false),
    ] {
        assert_eq!(
            is_urgent(old.map(of).as_ref(), &of(new)),
            expected,
            "{old:?} {new:?}"
        );
    }
}
