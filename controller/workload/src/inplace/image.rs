//! Names of images, compared as runtimes understand them.

/// The full form of an image reference: registry, repository, and tag or digest. `nginx` and
/// `docker.io/library/nginx:latest` are the same image. A tag beside a digest says nothing and is dropped.
pub fn normalised(reference: &str) -> String {
    let (name, digest) = reference.split_once('@').map_or((reference, None), |(name, digest)| (name, Some(digest)));
    let (repository, tag) = split_tag(name);
    let (registry, path) = split_registry(repository);
    let path = if registry == "docker.io" && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
    match digest {
        Some(digest) => format!("{registry}/{path}@{digest}"),
        None => format!("{registry}/{path}:{}", tag.unwrap_or("latest")),
    }
}

/// Do two ids name the same content? An id is a digest, or a repository with a digest (`repo@sha256:…`).
pub fn same_id(a: &str, b: &str) -> bool {
    !a.is_empty() && digest(a) == digest(b)
}

/// Is `id` the very digest that `reference` pins?
pub fn pins(reference: &str, id: &str) -> bool {
    reference.contains('@') && same_id(reference, id)
}

fn digest(id: &str) -> &str {
    id.rsplit_once('@').map_or(id, |(_, digest)| digest)
}

/// A colon after the last slash starts a tag; one before it belongs to the registry's port.
fn split_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    }
}

fn split_registry(repository: &str) -> (&str, &str) {
    match repository.split_once('/') {
        Some(("index.docker.io", path)) => ("docker.io", path),
        Some((first, path)) if is_host(first) => (first, path),
        _ => ("docker.io", repository),
    }
}

/// No repository of Docker Hub's looks like it.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_one_full_form() {
        let table = [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.25", "docker.io/library/nginx:1.25"),
            ("team/app", "docker.io/team/app:latest"),
            ("index.docker.io/team/app:2", "docker.io/team/app:2"),
            ("localhost/app", "localhost/app:latest"),
            ("HOST/app", "HOST/app:latest"),
            ("registry:5000/app", "registry:5000/app:latest"),
            ("registry:5000/app:3", "registry:5000/app:3"),
            ("ghcr.io/a/b/c:v1@sha256:0f", "ghcr.io/a/b/c@sha256:0f"),
        ];
        for (reference, full) in table {
            assert_eq!(normalised(reference), full);
            assert_eq!(normalised(full), full, "normalising twice changes nothing");
        }
    }

    #[test]
    fn ids_are_compared_by_digest() {
        assert!(same_id("docker.io/library/nginx@sha256:aa", "sha256:aa"));
        assert!(!same_id("sha256:aa", "sha256:ab"));
        assert!(!same_id("", ""));
        assert!(pins("nginx@sha256:aa", "docker.io/library/nginx@sha256:aa"));
        assert!(!pins("nginx:aa", "nginx:aa"));
    }
}
