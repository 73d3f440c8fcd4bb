use super::*;

#[test]
fn mirrored_name_is_the_name_that_nodes_request() {
    for (reference, mirrored) in [
        ("nginx", "library/nginx"),
        ("nginx:1", "library/nginx:1"),
        ("docker.io/nginx:1", "library/nginx:1"),
        ("docker.io/library/nginx:1", "library/nginx:1"),
        ("openkruise/x:1", "openkruise/x:1"),
        ("quay.io/a/b:1", "a/b:1"),
        ("quay.io/b:1", "b:1"),
        ("localhost/b", "b"),
        ("10.90.0.1:5000/b:1", "b:1"),
    ] {
        assert_eq!(mirrored_name(reference), mirrored, "{reference}");
    }
}

#[test]
fn a_name_without_a_tag_means_the_latest() {
    assert_eq!(split_tag("a/b:1").unwrap(), ("a/b", "1"));
    assert_eq!(split_tag("a/b").unwrap(), ("a/b", "latest"));
    assert_eq!(split_tag("h:5000/b").unwrap(), ("h:5000/b", "latest"));
    for name in ["", ":1", "a:", "a@sha256:00"] {
        assert!(split_tag(name).is_err(), "{name}");
    }
}

#[test]
fn only_loopback_uses_http_by_default() {
    for (address, plain_http) in [
        ("127.0.0.1:5000", true),
        ("localhost/x", true),
        ("ghcr.io/me", false),
    ] {
        assert_eq!(
            Registry::at(address, false).plain_http,
            plain_http,
            "{address}"
        );
        assert!(Registry::at(address, true).plain_http);
    }
    assert_eq!(Registry::at("ghcr.io/me/", false).address, "ghcr.io/me");
}

#[test]
fn the_same_content_has_the_same_digest_and_another_another() {
    let digest = |text: &str| {
        let layout = Layout::new().unwrap();
        Image::scratch()
            .text("etc/image", text)
            .entrypoint(["/x"])
            .write_layout(&layout.0)
            .unwrap()
    };
    assert_eq!(digest("a"), digest("a"));
    assert_ne!(digest("a"), digest("b"));
}

#[test]
fn a_layer_holds_files_directories_and_links_as_given() {
    let image = Image::scratch().layer().text("/a/b", "text");
    let mut image = image;
    image.add("a/link", Entry::Link { target: "b".into() });
    let bytes = archive(&image.layers[1]).unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let found: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.path().unwrap().into_owned(),
                entry.link_name().unwrap().map(|link| link.into_owned()),
            )
        })
        .collect();
    assert_eq!(
        found,
        [("a/b".into(), None), ("a/link".into(), Some("b".into()))]
    );
}
