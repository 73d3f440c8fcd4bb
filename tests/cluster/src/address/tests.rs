use super::*;

#[test]
fn no_node_has_an_address_of_the_control_plane_or_of_another_node() {
    let all: Vec<_> = (1..=MAX_NODES)
        .map(node)
        .chain([CONTROL_PLANE, HOST])
        .collect();
    let mut distinct = all.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(all.len(), distinct.len());
}
