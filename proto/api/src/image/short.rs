//! An image reference as NodeImages list it: a name, and a tag or a digest.

use super::{DOCKER_HUB, Parts, split_registry};

/// Name and tag of an image, as keys of NodeImage: the name in its short form (`nginx`, `team/app`,
/// `registry:5000/app`), and the tag, by default `latest`. A digest takes the tag's place and
/// precedence.
///
/// # Errors
/// The invalid part of the reference, as a sentence.
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

/// The short name of an image of Docker Hub if it means the same: `library/` precedes single names
/// only, and a first part that looks like a registry would be read as one.
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
mod tests;
