//! OCI images made of local files, without Docker, and pushed to a registry.
//!
//! The same content gives the same digest, because an image contains no time and no data of the
//! machine.

use crate::programs::own_binary;
use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    env,
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};
use tar::{EntryType, Header};

/// The sandbox image of every node.
pub(crate) const PAUSE: &str = "berth-cluster/pause:1";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const SEARCH_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const BUSYBOX: &str = "/bin/busybox";

/// An entry that a layer adds to the files of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Directory { mode: u32 },
    File { content: Vec<u8>, mode: u32 },
    Link { target: String },
}

/// An image to be pushed.
#[derive(Debug, Clone)]
pub struct Image {
    layers: Vec<Vec<(String, Entry)>>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    environment: Vec<String>,
    user: String,
}

impl Image {
    /// An image with nothing but `/tmp` and the users 0 and 65534.
    #[must_use]
    pub fn scratch() -> Self {
        let text = |content: &str| Entry::File {
            content: content.into(),
            mode: 0o644,
        };
        let base = [
            ("etc", Entry::Directory { mode: 0o755 }),
            ("etc/group", text("root:x:0:\nnogroup:x:65534:\n")),
            (
                "etc/passwd",
                text("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"),
            ),
            ("tmp", Entry::Directory { mode: 0o1777 }),
        ];
        Self {
            layers: vec![base.map(|(path, entry)| (path.to_owned(), entry)).to_vec()],
            entrypoint: Vec::new(),
            command: Vec::new(),
            environment: vec![SEARCH_PATH.into()],
            user: String::new(),
        }
    }

    /// A web server that answers every request with `says`, on the port that `$PORT` names or 8080,
    /// and ends at once at SIGTERM.
    ///
    /// # Errors
    /// When the program cannot be built.
    pub fn hello(says: &str) -> Result<Self> {
        let program = own_binary("hello")?;
        let image = Self::scratch()
            .file("hello", &program)?
            .layer()
            .text("etc/image", &format!("{says}\n"));
        Ok(image.entrypoint(["/hello"]))
    }

    /// The same over a layer of so many bytes, which all images of this size share.
    ///
    /// # Errors
    /// When the program cannot be built.
    pub fn hello_over(bytes: usize, says: &str) -> Result<Self> {
        let shared = Self::scratch().noise("noise", "shared", bytes).layer();
        let program = own_binary("hello")?;
        let image = shared
            .file("hello", &program)?
            .layer()
            .text("etc/image", &format!("{says}\n"));
        Ok(image.entrypoint(["/hello"]))
    }

    /// The image of pod sandboxes: it sleeps, and reaps orphaned processes.
    ///
    /// # Errors
    /// When the program cannot be built.
    pub fn pause() -> Result<Self> {
        let program = own_binary("pause")?;
        Ok(Self::scratch()
            .file("pause", &program)?
            .entrypoint(["/pause"]))
    }

    /// A shell and its tools, from the static busybox of this machine.
    ///
    /// # Errors
    /// Without a busybox.
    pub fn busybox() -> Result<Self> {
        let listed = Command::new(BUSYBOX)
            .arg("--list")
            .output()
            .with_context(|| format!("cannot run {BUSYBOX}"))?;
        let mut image = Self::scratch().file("bin/busybox", Path::new(BUSYBOX))?;
        for tool in String::from_utf8_lossy(&listed.stdout)
            .lines()
            .filter(|tool| *tool != "busybox")
        {
            image.add(
                &format!("bin/{tool}"),
                Entry::Link {
                    target: "busybox".into(),
                },
            );
        }
        Ok(image.command(["/bin/sh"]))
    }

    /// Adds a file of this machine. It is executable in the image if it is executable here.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn file(mut self, path: &str, source: &Path) -> Result<Self> {
        let content =
            fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        let executable = fs::metadata(source)?.permissions().mode() & 0o111 != 0;
        self.add(
            path,
            Entry::File {
                content,
                mode: if executable { 0o755 } else { 0o644 },
            },
        );
        Ok(self)
    }

    /// Adds a file with this content.
    #[must_use]
    pub fn text(mut self, path: &str, content: &str) -> Self {
        self.add(
            path,
            Entry::File {
                content: content.into(),
                mode: 0o644,
            },
        );
        self
    }

    /// Adds a file of so many incompressible bytes. The same seed gives the same bytes.
    #[must_use]
    pub fn noise(mut self, path: &str, seed: &str, bytes: usize) -> Self {
        let blocks = (0_u64..).flat_map(|count| {
            Sha256::new_with_prefix(seed)
                .chain_update(count.to_le_bytes())
                .finalize()
        });
        let content = blocks.take(bytes).collect();
        self.add(
            path,
            Entry::File {
                content,
                mode: 0o644,
            },
        );
        self
    }

    /// Puts later additions into a layer of their own, so that the layers below are stored and
    /// pulled once for all images that share them.
    #[must_use]
    pub fn layer(mut self) -> Self {
        self.layers.push(Vec::new());
        self
    }

    /// The command of a container, before its arguments.
    #[must_use]
    pub fn entrypoint<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.entrypoint = words.into_iter().map(Into::into).collect();
        self
    }

    /// The default arguments.
    #[must_use]
    pub fn command<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.command = words.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// The user that containers run as: a name or number, and optionally `:` and a group.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = user.into();
        self
    }

    fn add(&mut self, path: &str, entry: Entry) {
        if let Some(layer) = self.layers.last_mut() {
            layer.push((path.trim_start_matches('/').to_owned(), entry));
        }
    }

    /// Writes the image as an OCI layout, and returns the digest of its manifest.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_layout(&self, directory: &Path) -> Result<String> {
        let blobs = directory.join("blobs/sha256");
        fs::create_dir_all(&blobs).with_context(|| format!("cannot make {}", blobs.display()))?;
        let (mut layers, mut unpacked) = (Vec::new(), Vec::new());
        for entries in &self.layers {
            let archive = archive(entries)?;
            unpacked.push(digest(&archive));
            layers.push(write_blob(&blobs, &compress(&archive)?, LAYER_TYPE)?);
        }
        let config = write_blob(
            &blobs,
            self.config(&unpacked).to_string().as_bytes(),
            CONFIG_TYPE,
        )?;
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": layers});
        let manifest = write_blob(&blobs, manifest.to_string().as_bytes(), MANIFEST_TYPE)?;
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        fs::write(directory.join("index.json"), index.to_string())?;
        fs::write(
            directory.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        Ok(manifest["digest"].as_str().unwrap_or_default().to_owned())
    }

    fn config(&self, layers: &[String]) -> Value {
        let architecture = match env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        json!({
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Env": self.environment,
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "User": self.user,
            },
            "rootfs": {"type": "layers", "diff_ids": layers},
        })
    }
}

fn archive(entries: &[(String, Entry)]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, entry) in entries {
        let mut header = Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        let added = match entry {
            Entry::Directory { mode } => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(*mode);
                archive.append_data(&mut header, path, std::io::empty())
            }
            Entry::File { content, mode } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(content.len() as u64);
                archive.append_data(&mut header, path, content.as_slice())
            }
            Entry::Link { target } => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                archive.append_link(&mut header, path, target)
            }
        };
        added.with_context(|| format!("cannot put {path} into an image"))?;
    }
    Ok(archive.into_inner()?)
}

fn compress(archive: &[u8]) -> Result<Vec<u8>> {
    use std::io::Write;
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::fast());
    encoder.write_all(archive)?;
    Ok(encoder.finish()?)
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .fold(String::from("sha256:"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn write_blob(blobs: &Path, content: &[u8], media_type: &str) -> Result<Value> {
    let digest = digest(content);
    let path = blobs.join(digest.trim_start_matches("sha256:"));
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(json!({"mediaType": media_type, "digest": digest, "size": content.len()}))
}

/// A registry to push images to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// `HOST[:PORT]`, and optionally `/` and a prefix for every repository.
    pub address: String,
    /// Whether it speaks HTTP rather than HTTPS.
    pub plain_http: bool,
}

impl Registry {
    /// A registry at this address, called over HTTPS unless it is on loopback or `plain_http` is
    /// set.
    #[must_use]
    pub fn at(address: &str, plain_http: bool) -> Self {
        let host = address.split('/').next().unwrap_or_default();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let loopback = host == "localhost" || host.starts_with("127.") || host == "[::1]";
        Self {
            address: address.trim_end_matches('/').to_owned(),
            plain_http: plain_http || loopback,
        }
    }

    /// Pushes the image to `REPOSITORY:TAG` of this registry, and returns its digest. Credentials
    /// are those of `docker login` or `skopeo login`.
    ///
    /// # Errors
    /// When the registry refuses it; the error has skopeo's own words.
    pub fn push(&self, image: &Image, name: &str) -> Result<String> {
        self.push_all(image, &[name])
    }

    /// Pushes the image under several names of one digest.
    ///
    /// # Errors
    /// As for [`Registry::push`].
    pub fn push_all(&self, image: &Image, names: &[&str]) -> Result<String> {
        let layout = Layout::new()?;
        let digest = image.write_layout(&layout.0)?;
        for name in names {
            let (repository, tag) = split_tag(name)?;
            let target = format!("docker://{}/{repository}:{tag}", self.address);
            let mut command = Command::new("skopeo");
            command.args(["copy", "--quiet", "--insecure-policy", "--preserve-digests"]);
            command.arg(format!("--dest-tls-verify={}", !self.plain_http));
            command
                .arg(format!("oci:{}", layout.0.display()))
                .arg(&target);
            crate::process::output(&mut command, None)
                .with_context(|| format!("cannot push {target}"))?;
        }
        Ok(digest)
    }
}

/// A directory for an image until it is pushed.
struct Layout(PathBuf);

impl Layout {
    fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "berth-image-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn split_tag(name: &str) -> Result<(&str, &str)> {
    let (repository, tag) = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, "latest"),
    };
    ensure!(
        !repository.is_empty() && !tag.is_empty(),
        "{name:?} is no image name: use REPOSITORY:TAG"
    );
    if name.contains('@') {
        bail!("{name:?} names a digest, which is the registry's to give: use REPOSITORY:TAG");
    }
    Ok((repository, tag))
}

/// The name that a node requests from the cluster's registry when a pod names this image: the
/// registry stands for all others, so the host is left out, and Docker's short names are made long.
#[must_use]
pub fn mirrored_name(reference: &str) -> String {
    let (first, rest) = reference.split_once('/').unwrap_or(("", reference));
    let is_host = first.contains(['.', ':']) || first == "localhost";
    match (first, rest) {
        ("docker.io" | "", rest) if !rest.contains('/') => format!("library/{rest}"),
        (_, rest) if is_host => rest.to_owned(),
        _ => reference.to_owned(),
    }
}

#[cfg(test)]
mod tests;
