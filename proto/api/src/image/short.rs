//! An image reference as NodeImages list it: a name, and a tag or a digest.

use super::{DOCKER_HUB, Parts, split_registry};

/// Name and tag of an image, as keys of NodeImage: the name in its short form (`nginx`, `team/app`, `registry:5000/app`),
/// the tag `latest` where there is none. A digest takes the tag's place, and wins over a tag beside it.
///
/// # Errors
/// The sentence says which part is no part of a reference.
pub fn split(reference: &str) -> Result<(String, String), String> {
    let wrong = |what: String| Err(format!("{reference:?} is no image reference: {what}"));
    let Parts {
        repository,
        registry,
        path,
        tag,
        digest,
    } = Parts::of(reference);
    if let Some(registry) = registry.filter(|registry| !is_registry(registry)) {
        return wrong(format!(
            "{registry:?} is no registry; write it like registry.example.com:5000"
        ));
    }
    if path.is_empty() || !path.split('/').all(is_path_component) {
        return wrong(format!(
            "{path:?} is no repository; use lower case letters, digits, and single . _ - between them"
        ));
    }
    if repository.len() > MAX_NAME || registry.is_none() && is_identifier(path) {
        return wrong(format!(
            "{path:?} is too long a name, or an id; name the image's repository"
        ));
    }
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return wrong(format!(
            "{tag:?} is no tag; use up to 128 letters, digits, . _ and -"
        ));
    }
    if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
        return wrong(format!(
            "{digest:?} is no digest; write it like sha256: and 64 hexadecimal digits"
        ));
    }
    let name = match registry {
        Some(DOCKER_HUB | "index.docker.io") | None => of_docker_hub(path),
        Some(registry) => format!("{registry}/{path}"),
    };
    Ok((name, digest.or(tag).unwrap_or("latest").to_owned()))
}

const MAX_NAME: usize = 255;

/// The short name of an image of Docker Hub's, where that means the same: `library/` stands before one name only, and
/// what looks like a registry would be taken for one.
fn of_docker_hub(path: &str) -> String {
    match path.strip_prefix("library/") {
        Some(name) if !name.contains('/') && !is_identifier(name) => name.to_owned(),
        _ if split_registry(path).0.is_some() => format!("docker.io/{path}"),
        _ => path.to_owned(),
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        !label.starts_with('-')
            && !label.ends_with('-')
            && !bytes.is_empty()
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let ipv6 = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let host_is = match ipv6 {
        Some(address) => {
            !address.is_empty()
                && address
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(is_label),
    };
    host_is
        && port
            .is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Lower case letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_path_component(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = text
        .split(|c: char| c.is_ascii() && alphanumeric(c as u8))
        .filter(|part| !part.is_empty());
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.iter().all(|end| end.is_some_and(alphanumeric))
        && separators
            .into_iter()
            .all(|part| matches!(part, "." | "_" | "__") || part.bytes().all(|byte| byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text
            .bytes()
            .all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, digits)) = text.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    digits.len() == length && digits.bytes().all(is_lower_hex)
}

/// Sixty-four hexadecimal digits are the id of an image on one machine, which no registry knows.
fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

#[cfg(test)]
mod tests {
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
    fn a_digest_is_as_long_as_its_algorithm_says_and_in_lower_case() {
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
    fn what_is_no_reference_is_said() {
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
        fn nothing_makes_it_stumble(reference in "\\PC{0,40}") {
            let _ = split(&reference);
        }
    }
}
