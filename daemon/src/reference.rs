//! Image references, read as container runtimes read them.

/// An image reference in its full form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Registry host, with its port if it names one: `docker.io` where the reference has none.
    pub registry: String,
    /// Path in the registry: `library/nginx`.
    pub path: String,
    /// Tag, `latest` where the reference has neither tag nor digest.
    pub tag: Option<String>,
    /// Digest, `sha256:…`.
    pub digest: Option<String>,
}

impl Reference {
    /// Reads a reference. Everything is one: what a registry would refuse is the registry's to refuse.
    pub fn parse(text: &str) -> Reference {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (text, None),
        };
        // A colon after the last slash starts a tag; one before it belongs to the registry's port.
        let (repository, tag) = match name.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag.to_owned())),
            _ => (name, None),
        };
        let (registry, path) = match repository.split_once('/') {
            Some(("index.docker.io", path)) => ("docker.io", path),
            Some((first, path)) if is_host(first) => (first, path),
            _ => ("docker.io", repository),
        };
        let path =
            if registry == "docker.io" && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
        let tag = if tag.is_none() && digest.is_none() { Some("latest".to_owned()) } else { tag };
        Reference { registry: registry.to_owned(), path, tag, digest }
    }

    /// The registry's host without its port.
    pub fn registry_host(&self) -> &str {
        match self.registry.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => &self.registry,
        }
    }

    /// The name under which containerd keeps the image: a digest wins over a tag beside it.
    pub fn canonical(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}/{}@{digest}", self.registry, self.path),
            (None, tag) => format!("{}/{}:{}", self.registry, self.path, tag.as_deref().unwrap_or("latest")),
        }
    }

    /// Every way in which a pod's spec may spell the reference.
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
        // A path of Docker Hub's that begins like a registry has no short form: it would be that registry's.
        repositories.retain(|repository| {
            let read = Reference::parse(repository);
            (&read.registry, &read.path) == (&self.registry, &self.path)
        });
        let mut suffixes = Vec::new();
        match (&self.tag, &self.digest) {
            (Some(tag), Some(digest)) => suffixes.extend([format!(":{tag}@{digest}"), format!("@{digest}")]),
            (None, Some(digest)) => suffixes.push(format!("@{digest}")),
            (tag, None) => {
                suffixes.push(format!(":{}", tag.as_deref().unwrap_or("latest")));
                if tag.as_deref().is_none_or(|t| t == "latest") {
                    suffixes.push(String::new());
                }
            }
        }
        repositories.iter().flat_map(|r| suffixes.iter().map(move |s| format!("{r}{s}"))).collect()
    }
}

/// What stands before the first slash, and no repository of Docker Hub's begins with.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// The reference of a NodeImage entry: the image's name, and a tag or a digest.
pub fn join(image: &str, tag: &str) -> String {
    if tag.contains(':') { format!("{image}@{tag}") } else { format!("{image}:{tag}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_one_full_form() {
        let table = [
            ("nginx", "docker.io/library/nginx:latest", "docker.io"),
            ("nginx:1.25", "docker.io/library/nginx:1.25", "docker.io"),
            ("team/app", "docker.io/team/app:latest", "docker.io"),
            ("index.docker.io/team/app:2", "docker.io/team/app:2", "docker.io"),
            ("localhost/app", "localhost/app:latest", "localhost"),
            ("HOST/app", "HOST/app:latest", "HOST"),
            ("registry:5000/app", "registry:5000/app:latest", "registry"),
            ("registry:5000/app:3", "registry:5000/app:3", "registry"),
            ("ghcr.io/a/b/c:v1@sha256:0f", "ghcr.io/a/b/c@sha256:0f", "ghcr.io"),
        ];
        for (text, full, host) in table {
            let reference = Reference::parse(text);
            assert_eq!(reference.canonical(), full);
            assert_eq!(reference.registry_host(), host);
            assert_eq!(Reference::parse(full).canonical(), full, "a full form stays");
        }
    }

    #[test]
    fn every_spelling_means_the_same() {
        let hub =
            ["nginx", "nginx:1", "team/app:2", "nginx@sha256:0f", "docker.io/r.io/a:1", "docker.io/library/r.io/a"];
        for text in hub.into_iter().chain(["r.example:5000/a:1", "r.io/a:1@sha256:0f"]) {
            let reference = Reference::parse(text);
            let spellings = reference.spellings();
            assert!(spellings.iter().any(|s| s == text), "{text} is not among {spellings:?}");
            for spelling in spellings {
                assert_eq!(Reference::parse(&spelling).canonical(), reference.canonical(), "{spelling}");
            }
        }
    }

    #[test]
    fn entries_join_tags_and_digests() {
        assert_eq!(join("nginx", "1"), "nginx:1");
        assert_eq!(join("nginx", "sha256:0f"), "nginx@sha256:0f");
    }
}
