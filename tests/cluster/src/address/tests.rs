use super::*;

#[test]
fn all_node_addresses_are_distinct() {
    let all: Vec<_> = (1..=MAX_NODES)
        .map(node)
        .chain([CONTROL_PLANE, HOST])
        .collect();
    let mut distinct = all.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(all.len(), distinct.len());
}
