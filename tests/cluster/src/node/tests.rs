use super::*;

#[test]
fn every_directory_of_a_node_lies_in_the_cluster() {
    for OwnDirectory { source, .. } in own_directories(Path::new("/c"), 2) {
        assert!(
            source.starts_with("/c/node-2") || source == Path::new("/c/volumes"),
            "{}",
            source.display()
        );
    }
}

#[test]
fn a_node_on_an_overlay_copies_layers_instead() {
    assert!(containerd(true).contains(r#"snapshotter = "overlayfs""#));
    assert!(containerd(false).contains(r#"snapshotter = "native""#));
}
