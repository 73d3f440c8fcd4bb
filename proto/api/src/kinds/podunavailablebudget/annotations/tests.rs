use super::*;

#[test]
fn annotation_fault_is_unreadable_or_contradictory() {
    use ProtectedOperation::{Delete, Evict};
    for (key, value, says) in [
        (PUB_PROTECT_OPERATIONS, "EVICT, DELETE", None),
        (PUB_PROTECT_OPERATIONS, "DROP", Some("lists something else")),
        (
            PUB_PROTECT_OPERATIONS,
            "DELETE",
            Some("spec.protectOperations"),
        ),
        (PUB_PROTECT_TOTAL_REPLICAS, "5", None),
        (PUB_PROTECT_TOTAL_REPLICAS, "abc", Some("is no number")),
        (
            PUB_PROTECT_TOTAL_REPLICAS,
            "6",
            Some("spec.protectTotalReplicas"),
        ),
    ] {
        let said = |asked: &str| (asked == key).then_some(value);
        let found = annotation_faults(said, Some(&[Delete, Evict]), Some(5));
        assert_eq!(
            found.len(),
            usize::from(says.is_some()),
            "{key} {value}: {found:?}"
        );
        if let (Some(says), [fault]) = (says, &*found) {
            assert!(
                fault.key == key && fault.value == value && fault.problem.contains(says),
                "{fault:?}"
            );
        }
        let alone = annotation_faults(said, None, None);
        assert_eq!(
            alone.is_empty(),
            !["DROP", "abc"].contains(&value),
            "{key} {value}: {alone:?}"
        );
    }
}

#[test]
fn operations_are_listed_with_or_without_blanks() {
    use ProtectedOperation::{Delete, Evict, Resize, Update};
    for (text, expected) in [
        ("", Some(vec![])),
        (" , ", Some(vec![])),
        ("DELETE", Some(vec![Delete])),
        (" DELETE , EVICT,DELETE", Some(vec![Delete, Evict])),
        ("UPDATE,RESIZE", Some(vec![Update, Resize])),
        ("delete", None),
        ("DELETE;EVICT", None),
    ] {
        assert_eq!(operations(text).ok(), expected, "{text:?}");
    }
}

#[test]
fn a_total_is_a_number_from_one() {
    for (text, expected) in [
        ("1", Some(1)),
        ("2147483647", Some(i32::MAX)),
        ("0", None),
        ("-1", None),
        ("+1", None),
        ("2147483648", None),
        ("", None),
    ] {
        assert_eq!(total_replicas(text).ok(), expected, "{text:?}");
    }
}
