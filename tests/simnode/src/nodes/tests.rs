use super::*;

#[test]
fn only_simulated_nodes_are_ours() {
    assert!(is_ours(&name(0)) && number(&name(4999)) == Some(4999));
    for other in ["node-1", "sim-", "sim-x", ""] {
        assert!(!is_ours(other), "{other}");
    }
}
