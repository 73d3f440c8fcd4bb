use super::*;

#[test]
fn ids_differ_by_seed_and_do_not_repeat() {
    let ids = |seed| {
        fresh_ids(seed, BTreeSet::new())
            .take(1_000)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(ids(1), ids(1), "a decision can be repeated");
    assert!(ids(1).len() == 1_000 && ids(1).is_disjoint(&ids(2)));
    assert!(
        ids(3)
            .iter()
            .all(|id| id.len() == ID_LENGTH && id.bytes().all(|b| ALPHABET.contains(&b)))
    );
    let taken: BTreeSet<_> = ids(1);
    assert!(
        fresh_ids(1, taken.clone())
            .take(10)
            .all(|id| !taken.contains(&id))
    );
}
