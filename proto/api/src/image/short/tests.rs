use proptest::prelude::*;

use super::*;
use crate::image::normalised;

const DIGEST: &str = "sha256:f2b6de562150a257551639c432c6999337533816574519989a3f244195a63e63";

#[test]
fn names_are_short_and_tags_are_there() {
    let digested = |image: &str| format!("{image}@{DIGEST}");
    let id = DIGEST.trim_start_matches("sha256:");
    let table = [
        ("nginx".to_owned(), "nginx", "latest"),
        ("nginx:1.25".to_owned(), "nginx", "1.25"),
        ("docker.io/library/nginx:1".to_owned(), "nginx", "1"),
        ("index.docker.io/team/app:2".to_owned(), "team/app", "2"),
        ("docker.io/nginx".to_owned(), "nginx", "latest"),
        (
            "docker.io/library/team/app".to_owned(),
            "library/team/app",
            "latest",
        ),
        (
            "index.docker.io/registry.example/app".to_owned(),
            "docker.io/registry.example/app",
            "latest",
        ),
        (
            "docker.io/localhost/app:1".to_owned(),
            "docker.io/localhost/app",
            "1",
        ),
        (
            format!("docker.io/library/{id}"),
            &*format!("library/{id}"),
            "latest",
        ),
        ("localhost/app".to_owned(), "localhost/app", "latest"),
        (
            "registry:5000/my/app:v1".to_owned(),
            "registry:5000/my/app",
            "v1",
        ),
        (
            "127.0.0.1:5000/app".to_owned(),
            "127.0.0.1:5000/app",
            "latest",
        ),
        ("[::1]:5000/app:2".to_owned(), "[::1]:5000/app", "2"),
        ("[fd00::1]/app:2".to_owned(), "[fd00::1]/app", "2"),
        ("Registry/app".to_owned(), "Registry/app", "latest"),
        ("a__b/c-d---e.f:1_2".to_owned(), "a__b/c-d---e.f", "1_2"),
        (digested("ghcr.io/a/b"), "ghcr.io/a/b", DIGEST),
        (digested("ubuntu:20.04"), "ubuntu", DIGEST),
    ];
    for (reference, name, tag) in table {
        assert_eq!(
            split(&reference),
            Ok((name.to_owned(), tag.to_owned())),
            "{reference}"
        );
        let joined = format!("{name}{}{tag}", if tag.contains(':') { "@" } else { ":" });
        assert_eq!(
            normalised(&joined),
            normalised(&reference),
            "{reference} stays the same image"
        );
    }
}

#[test]
fn digest_has_its_length_in_lower_case() {
    let digest = |algorithm: &str, digit: &str, length: usize| {
        format!("app@{algorithm}:{}", digit.repeat(length))
    };
    for (algorithm, length) in [("sha256", 64), ("sha384", 96), ("sha512", 128)] {
        for digit in ["0", "a", "f"] {
            let reference = digest(algorithm, digit, length);
            let tag = reference.trim_start_matches("app@").to_owned();
            assert_eq!(split(&reference), Ok(("app".to_owned(), tag)));
        }
        for (digit, length) in [
            ("A", length),
            ("g", length),
            ("0", length - 1),
            ("0", length + 1),
        ] {
            let error = split(&digest(algorithm, digit, length)).unwrap_err();
            assert!(error.contains("no digest"), "{error}");
        }
    }
}

#[test]
fn invalid_reference_is_refused_with_its_fault() {
    let too_long = format!("registry.example.com/{}", "a/".repeat(120) + "a");
    let identifier = DIGEST.trim_start_matches("sha256:");
    let table = [
        ("", "no repository"),
        ("NGINX", "\"NGINX\" is no repository"),
        ("team//app", "no repository"),
        ("team/app-", "no repository"),
        ("a___b", "no repository"),
        ("nginx:", "no tag"),
        ("nginx:-1", "no tag"),
        ("ex_ample.com/app", "no registry"),
        ("registry:port/app", "no registry"),
        ("registry:/app", "no registry"),
        ("[]:5000/app", "no registry"),
        ("[::g]:5000/app", "no registry"),
        ("-a.example/app", "no registry"),
        ("a-.example/app", "no registry"),
        ("a..example/app", "no registry"),
        ("nginx@sha256:0f", "no digest"),
        ("nginx@md5:0f", "no digest"),
        (&too_long, "too long"),
        (identifier, "or an id"),
    ];
    for (reference, says) in table {
        let error = split(reference).unwrap_err();
        assert!(
            error.contains(says) && error.contains("no image reference"),
            "{reference}: {error}"
        );
    }
}

proptest! {
    /// The short name with its tag means the same image as the reference did.
    #[test]
    fn the_meaning_stays(
        registry in prop_oneof![
            Just(""), Just("docker.io/"), Just("index.docker.io/"), Just("localhost/"), Just("r.example:5000/")
        ],
        path in "[a-z0-9]{1,5}(/[a-z0-9]{1,5}){0,2}",
        tag in prop_oneof![Just(String::new()), "[a-z0-9]{1,9}".prop_map(|tag| format!(":{tag}"))],
        digest in prop_oneof![Just(String::new()), Just(format!("@{DIGEST}"))],
    ) {
        let reference = format!("{registry}{path}{tag}{digest}");
        let (name, tag) = split(&reference).unwrap();
        let joined = if tag.contains(':') { format!("{name}@{tag}") } else { format!("{name}:{tag}") };
        prop_assert_eq!(normalised(&joined), normalised(&reference));
        prop_assert_eq!(split(&joined), Ok((name, tag)));
    }

    #[test]
    fn any_text_is_split_without_a_panic(reference in "\\PC{0,40}") {
        let _ = split(&reference);
    }
}
