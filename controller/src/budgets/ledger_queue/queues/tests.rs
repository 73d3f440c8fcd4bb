use super::*;

#[test]
fn request_during_a_turn_waits_for_the_next_one() {
    let queues = Queues::default();
    assert!(queues.join(&"a", 1) && !queues.join(&"a", 2) && queues.join(&"b", 3));
    assert_eq!(queues.next(&"a"), Some(vec![1, 2]));
    assert!(!queues.join(&"a", 4), "somebody works on it");
    assert_eq!(
        (queues.next(&"a"), queues.next(&"a")),
        (Some(vec![4]), None)
    );
    assert!(queues.join(&"a", 5));
}
