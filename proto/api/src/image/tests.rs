use super::*;

#[test]
fn references_have_one_full_form() {
    let table = [
        ("nginx", "docker.io/library/nginx:latest", "docker.io"),
        ("nginx:1.25", "docker.io/library/nginx:1.25", "docker.io"),
        ("team/app", "docker.io/team/app:latest", "docker.io"),
        (
            "index.docker.io/team/app:2",
            "docker.io/team/app:2",
            "docker.io",
        ),
        ("localhost/app", "localhost/app:latest", "localhost"),
        ("HOST/app", "HOST/app:latest", "HOST"),
        ("registry:5000/app", "registry:5000/app:latest", "registry"),
        ("registry:5000/app:3", "registry:5000/app:3", "registry"),
        (
            "ghcr.io/a/b/c:v1@sha256:0f",
            "ghcr.io/a/b/c@sha256:0f",
            "ghcr.io",
        ),
    ];
    for (text, full, host) in table {
        let reference = Reference::parse(text);
        assert_eq!(reference.canonical(), full);
        assert_eq!(normalised(text), full);
        assert_eq!(reference.registry_host(), host);
        assert_eq!(
            Reference::parse(full).canonical(),
            full,
            "a full form stays"
        );
        assert_eq!(normalised(full), full, "a full form stays");
    }
}

#[test]
fn every_spelling_means_the_same() {
    let hub = [
        "nginx",
        "nginx:1",
        "team/app:2",
        "nginx@sha256:0f",
        "docker.io/r.io/a:1",
        "docker.io/library/r.io/a",
    ];
    for text in hub
        .into_iter()
        .chain(["r.example:5000/a:1", "r.io/a:1@sha256:0f"])
    {
        let reference = Reference::parse(text);
        let spellings = reference.spellings();
        assert!(
            spellings.iter().any(|s| s == text),
            "{text} is not among {spellings:?}"
        );
        for spelling in spellings {
            assert_eq!(
                Reference::parse(&spelling).canonical(),
                reference.canonical(),
                "{spelling}"
            );
        }
    }
}

#[test]
fn entries_join_tags_and_digests() {
    assert_eq!(join("nginx", "1"), "nginx:1");
    assert_eq!(join("nginx", "sha256:0f"), "nginx@sha256:0f");
}

#[test]
fn ids_are_compared_by_digest() {
    assert!(same_id("docker.io/library/nginx@sha256:aa", "sha256:aa"));
    assert!(!same_id("sha256:aa", "sha256:ab"));
    assert!(!same_id("", ""));
    assert!(pins("nginx@sha256:aa", "docker.io/library/nginx@sha256:aa"));
    assert!(!pins("nginx:aa", "nginx:aa"));
}
