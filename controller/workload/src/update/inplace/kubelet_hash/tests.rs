use super::*;

/// As read from containers that a kubelet 1.34 created.
#[test]
fn hashes_are_the_kubelets() {
    let table = [
        ("demo/app:a", "c89f8f0c"),
        ("demo/app:b", "2cfb4201"),
        ("demo/app:a2", "8d3ecb37"),
        ("demo/other:a", "d15c4c70"),
    ];
    for (image, hash) in table {
        assert_eq!(kubelet_hash("c", image), hash, "{image}");
    }
}
