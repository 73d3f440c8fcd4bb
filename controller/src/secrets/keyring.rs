//! Docker's registry credentials, and which of them apply to an image, by the kubelet's rules.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::image;
use berth_grpc::v1::Credential;
use serde::Deserialize;

/// The key under which `docker login` without a host keeps the credentials of Docker Hub.
const DOCKER_HUB: &str = "index.docker.io";
const DOCKERCONFIGJSON: (&str, &str) = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson");
const DOCKERCFG: (&str, &str) = ("kubernetes.io/dockercfg", ".dockercfg");

/// Credentials by the registry, or the path in a registry, that they apply to.
#[derive(Default)]
pub struct Keyring {
    keys: BTreeMap<String, Vec<Credential>>,
}

#[derive(Deserialize)]
struct DockerConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
    #[serde(default)]
    identitytoken: String,
    #[serde(default)]
    registrytoken: String,
}

impl Keyring {
    /// Adds the credentials of a secret of that type and with that data.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it, without any of its data.
    pub fn add<'a>(
        &mut self,
        type_: &str,
        data: impl Fn(&str) -> Option<&'a [u8]>,
    ) -> Result<(), String> {
        let field = match type_ {
            t if t == DOCKERCONFIGJSON.0 => DOCKERCONFIGJSON.1,
            t if t == DOCKERCFG.0 => DOCKERCFG.1,
            other => {
                return Err(format!(
                    "is of type {other:?}, not {} or {}",
                    DOCKERCONFIGJSON.0, DOCKERCFG.0
                ));
            }
        };
        let json = data(field).ok_or_else(|| format!("has no {field}"))?;
        // Errors of the parser may quote the data, so the message has only their position.
        let broken = |e: serde_json::Error| {
            format!(
                "has a {field} that is not valid: line {} column {}",
                e.line(),
                e.column()
            )
        };
        let entries: BTreeMap<String, Entry> = if field == DOCKERCFG.1 {
            serde_json::from_slice(json).map_err(broken)?
        } else {
            serde_json::from_slice::<DockerConfigJson>(json)
                .map_err(broken)?
                .auths
        };
        for (location, entry) in entries {
            let key = key(&location);
            let credential = entry
                .credential(&key)
                .map_err(|why| format!("has an entry {location:?} {why}"))?;
            let known = self.keys.entry(key).or_default();
            if !known.contains(&credential) {
                known.push(credential);
            }
        }
        Ok(())
    }

    /// The credentials for an image, given without tag, in the order in which to try them: the most
    /// specific key first.
    pub fn lookup(&self, image: &str) -> Vec<Credential> {
        let full = image::normalised(image);
        let repository = full.strip_suffix(":latest").unwrap_or(&full);
        // In descending order a path comes before the host that it is on.
        let matching = self
            .keys
            .iter()
            .rev()
            .filter(|(key, _)| matches(key, repository));
        let found: Vec<Credential> = matching
            .flat_map(|(_, credentials)| credentials.clone())
            .collect();
        if found.is_empty() && repository.starts_with("docker.io/") {
            return self.keys.get(DOCKER_HUB).cloned().unwrap_or_default();
        }
        found
    }
}

impl Entry {
    fn credential(self, key: &str) -> Result<Credential, String> {
        let (mut username, mut password) = (self.username, self.password);
        if !self.auth.is_empty() {
            let decoded = STANDARD
                .decode(self.auth.trim())
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok());
            let decoded = decoded.ok_or("whose auth is not base64 of username:password")?;
            // Some writers end the text with zeros.
            let pair = decoded.trim_end_matches('\0').split_once(':');
            let (user, word) = pair.ok_or("whose auth is not base64 of username:password")?;
            (username, password) = (user.to_owned(), word.to_owned());
        }
        Ok(Credential {
            registry: key.to_owned(),
            username,
            password,
            identity_token: self.identitytoken,
            registry_token: self.registrytoken,
        })
    }
}

/// An entry's location without scheme, and without the path of the registry's API:
/// `https://host/v1/` is `host`.
fn key(location: &str) -> String {
    let plain = location
        .strip_prefix("https://")
        .or_else(|| location.strip_prefix("http://"))
        .unwrap_or(location);
    let (host, path) = plain
        .find('/')
        .map_or((plain, ""), |slash| plain.split_at(slash));
    let path = if path.starts_with("/v1/") || path.starts_with("/v2/") {
        &path[3..]
    } else {
        path
    };
    if path == "/" {
        host.to_owned()
    } else {
        format!("{host}{path}")
    }
}

/// Does a key apply to a repository? Its host must match, part by part, and its path must be the
/// beginning of the repository's.
fn matches(key: &str, repository: &str) -> bool {
    let split = |text: &str| {
        text.find('/')
            .map_or((text.to_owned(), String::new()), |i| {
                (text[..i].to_owned(), text[i..].to_owned())
            })
    };
    let ((key_host, key_path), (host, path)) = (split(key), split(repository));
    let port = |host: &str| {
        host.rsplit_once(':')
            .map_or((host.to_owned(), String::new()), |(h, p)| {
                (h.to_owned(), p.to_owned())
            })
    };
    let ((key_host, key_port), (host, port)) = (port(&key_host), port(&host));
    let (key_parts, parts): (Vec<&str>, Vec<&str>) =
        (key_host.split('.').collect(), host.split('.').collect());
    key_port == port
        && path.starts_with(&key_path)
        && key_parts.len() == parts.len()
        && key_parts
            .iter()
            .zip(&parts)
            .all(|(pattern, part)| glob(pattern.as_bytes(), part.as_bytes()))
}

/// `*` stands for any text, `?` for one character.
fn glob(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // The text after the last star, and the position where it was tried. Only that star may take
    // more text: to retry all stars takes longer with each star, practically forever for a pattern
    // with many.
    let mut last: Option<(&[u8], &[u8])> = None;
    loop {
        (pattern, text) = match (pattern, text, last) {
            ([], [], _) => return true,
            ([b'*', rest @ ..], _, _) => {
                last = Some((rest, text));
                (rest, text)
            }
            ([b'?', pattern @ ..], [_, text @ ..], _) => (pattern, text),
            ([a, pattern @ ..], [b, text @ ..], _) if a == b => (pattern, text),
            (_, _, Some((rest, [_, text @ ..]))) => {
                last = Some((rest, text));
                (rest, text)
            }
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests;
