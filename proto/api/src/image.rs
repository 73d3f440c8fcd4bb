//! The parser of image references, which reads them as container runtimes do.

mod short;

pub use short::split;

/// The parts of a reference, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts<'a> {
    /// Registry and path.
    repository: &'a str,
    /// Host and port, if the reference has them.
    registry: Option<&'a str>,
    path: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(reference: &'a str) -> Self {
        let (tagged, digest) = match reference.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (reference, None),
        };
        // A colon after the last slash starts a tag; one before it belongs to the registry's port.
        let (repository, tag) = match tagged.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
            _ => (tagged, None),
        };
        let (registry, path) = split_registry(repository);
        Self {
            repository,
            registry,
            path,
            tag,
            digest,
        }
    }

    /// The registry that serves the image.
    fn host(&self) -> &'a str {
        match self.registry {
            Some("index.docker.io") | None => DOCKER_HUB,
            Some(registry) => registry,
        }
    }

    /// The path at that registry: Docker Hub's images with a single name are in its library.
    fn full_path(&self) -> String {
        let in_library = self.host() == DOCKER_HUB && !self.path.contains('/');
        if in_library {
            format!("library/{}", self.path)
        } else {
            self.path.to_owned()
        }
    }
}

/// The registry of references without one.
const DOCKER_HUB: &str = "docker.io";

/// Splits off the registry: the part before the first slash is one if it looks like a host;
/// otherwise the image is Docker Hub's.
fn split_registry(repository: &str) -> (Option<&str>, &str) {
    match repository.split_once('/') {
        Some((first, path)) if is_host(first) => (Some(first), path),
        _ => (None, repository),
    }
}

/// Whether the part before the first slash is a host: no repository of Docker Hub begins like this.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// The full form of an image reference: registry, repository, and tag or digest. `nginx` and
/// `docker.io/library/nginx:latest` are the same image. A tag next to a digest has no effect and is
/// dropped.
pub fn normalised(reference: &str) -> String {
    let parts = Parts::of(reference);
    let (registry, path) = (parts.host(), parts.full_path());
    match parts.digest {
        Some(digest) => format!("{registry}/{path}@{digest}"),
        None => format!("{registry}/{path}:{}", parts.tag.unwrap_or("latest")),
    }
}

/// Whether two ids name the same content. An id is a digest, or a repository with a digest
/// (`repo@sha256:…`).
pub fn same_id(a: &str, b: &str) -> bool {
    !a.is_empty() && digest(a) == digest(b)
}

/// Whether `id` is the digest that `reference` pins.
pub fn pins(reference: &str, id: &str) -> bool {
    reference.contains('@') && same_id(reference, id)
}

fn digest(id: &str) -> &str {
    id.rsplit_once('@').map_or(id, |(_, digest)| digest)
}

/// An image reference in its full form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Registry host, with its port if the reference has one: `docker.io` without a registry.
    pub registry: String,
    /// Path in the registry: `library/nginx`.
    pub path: String,
    /// Tag, `latest` if the reference has neither tag nor digest.
    pub tag: Option<String>,
    /// Digest, `sha256:…`.
    pub digest: Option<String>,
}

impl Reference {
    /// Parses a reference. Every text is accepted; an invalid reference is refused by its registry.
    pub fn parse(text: &str) -> Reference {
        let parts = Parts::of(text);
        let owned = |part: Option<&str>| part.map(str::to_owned);
        let latest = || (parts.digest.is_none()).then(|| "latest".to_owned());
        Reference {
            registry: parts.host().to_owned(),
            path: parts.full_path(),
            tag: owned(parts.tag).or_else(latest),
            digest: owned(parts.digest),
        }
    }

    /// The registry's host without its port.
    pub fn registry_host(&self) -> &str {
        match self.registry.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
                host
            }
            _ => &self.registry,
        }
    }

    /// The name under which containerd keeps the image. A digest takes precedence over a tag.
    pub fn canonical(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}/{}@{digest}", self.registry, self.path),
            (None, tag) => format!(
                "{}/{}:{}",
                self.registry,
                self.path,
                tag.as_deref().unwrap_or("latest")
            ),
        }
    }

    /// All forms of the reference that a pod's spec may use.
    pub fn spellings(&self) -> Vec<String> {
        let mut repositories = vec![format!("{}/{}", self.registry, self.path)];
        if self.registry == "docker.io" {
            repositories.push(format!("index.docker.io/{}", self.path));
            repositories.push(self.path.clone());
            if let Some(short) = self.path.strip_prefix("library/") {
                repositories.extend([
                    short.to_owned(),
                    format!("docker.io/{short}"),
                    format!("index.docker.io/{short}"),
                ]);
            }
        }
        // A path of Docker Hub that begins like a registry has no short form, which would mean that
        // registry.
        repositories.retain(|repository| {
            let read = Reference::parse(repository);
            (&read.registry, &read.path) == (&self.registry, &self.path)
        });
        let mut suffixes = Vec::new();
        match (&self.tag, &self.digest) {
            (Some(tag), Some(digest)) => {
                suffixes.extend([format!(":{tag}@{digest}"), format!("@{digest}")])
            }
            (None, Some(digest)) => suffixes.push(format!("@{digest}")),
            (tag, None) => {
                suffixes.push(format!(":{}", tag.as_deref().unwrap_or("latest")));
                if tag.as_deref().is_none_or(|t| t == "latest") {
                    suffixes.push(String::new());
                }
            }
        }
        repositories
            .iter()
            .flat_map(|r| suffixes.iter().map(move |s| format!("{r}{s}")))
            .collect()
    }
}

/// The reference of a NodeImage entry: the image's name, and a tag or a digest.
pub fn join(image: &str, tag: &str) -> String {
    if tag.contains(':') {
        format!("{image}@{tag}")
    } else {
        format!("{image}:{tag}")
    }
}

#[cfg(test)]
mod tests;
