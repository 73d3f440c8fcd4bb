use super::container_hash;

/// Taken from containers that a kubelet 1.34.4 created.
#[test]
fn equals_what_a_kubelet_wrote() {
    assert_eq!(container_hash("c", "library/app:v1"), "6724c8dd");
    assert_eq!(container_hash("c", "library/app:v1same"), "95ba1402");
}

#[test]
fn depends_on_both_parts() {
    assert_ne!(container_hash("c", "a:1"), container_hash("d", "a:1"));
    assert_ne!(container_hash("c", "a:1"), container_hash("c", "a:2"));
}
