//! Small images, written as OCI layouts.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The name of the image in its layout.
pub const NAME: &str = "image";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image in a directory.
pub struct Layout {
    directory: TempDir,
    /// Digest of the config: CRI's id.
    pub config: String,
    /// Digest of the manifest.
    pub manifest: String,
    /// Digest of the index, if there is one.
    pub index: Option<String>,
    /// Bytes of config and layers.
    pub bytes: u64,
}

/// The content of an image.
#[derive(Default)]
pub struct Content<'a> {
    /// Bytes of each layer's file; every layer gets one with incompressible bytes.
    pub layers: &'a [usize],
    /// A seed that makes images differ.
    pub seed: u64,
    /// A busybox at `/busybox`, and its arguments.
    pub program: Option<(&'a Path, &'a [&'a str])>,
    /// Whether an index is around the manifest.
    pub indexed: bool,
}

impl Layout {
    pub fn write(content: &Content<'_>) -> Layout {
        let directory = TempDir::new().unwrap();
        fs::create_dir_all(directory.path().join("blobs/sha256")).unwrap();
        let mut layers: Vec<Vec<u8>> = (content.layers.iter().enumerate())
            .map(|(i, size)| {
                layer(
                    &format!("file-{i}"),
                    &noise(content.seed + i as u64, *size),
                    0o644,
                )
            })
            .collect();
        if let Some((program, _)) = content.program {
            layers.push(layer("busybox", &fs::read(program).unwrap(), 0o755));
        }
        let diff_ids: Vec<String> = layers.iter().map(|bytes| digest(bytes)).collect();
        let words: Vec<&str> = content
            .program
            .iter()
            .flat_map(|(_, words)| words.iter().copied())
            .collect();
        let entrypoint: Vec<&str> = content
            .program
            .iter()
            .map(|_| "/busybox")
            .chain(words)
            .collect();
        let config = json!({
            "architecture": architecture(), "os": "linux", "author": content.seed.to_string(),
            "config": {"Entrypoint": entrypoint}, "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let at = directory.path();
        let config = blob(at, CONFIG, config.to_string().as_bytes());
        let layers: Vec<Value> = layers
            .iter()
            .map(|bytes| blob(at, LAYER, &compressed(bytes)))
            .collect();
        let bytes = layers
            .iter()
            .chain([&config])
            .map(|b| b["size"].as_u64().unwrap())
            .sum();
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        let manifest = blob(at, MANIFEST, manifest.to_string().as_bytes());
        let text = |blob: &Value| blob["digest"].as_str().unwrap().to_owned();
        let (config, manifest_digest) = (text(&config), text(&manifest));
        let mut top = manifest;
        let mut index = None;
        if content.indexed {
            top["platform"] = json!({"architecture": architecture(), "os": "linux"});
            let document = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]});
            top = blob(at, INDEX, document.to_string().as_bytes());
            index = Some(text(&top));
        }
        top["annotations"] = json!({"org.opencontainers.image.ref.name": NAME});
        fs::write(
            at.join("index.json"),
            json!({"schemaVersion": 2, "manifests": [top]}).to_string(),
        )
        .unwrap();
        fs::write(at.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Layout {
            directory,
            config,
            manifest: manifest_digest,
            index,
            bytes,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn layer(path: &str, content: &[u8], mode: u32) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    tar.append_data(&mut header, path, content).unwrap();
    tar.into_inner().unwrap()
}

/// Compressed as registries store layers; skopeo would compress other layers on the way.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Bytes that look random and are the same every time.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

fn blob(directory: &Path, media_type: &str, bytes: &[u8]) -> Value {
    let digest = digest(bytes);
    fs::write(
        directory.join("blobs").join(digest.replace(':', "/")),
        bytes,
    )
    .unwrap();
    json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
}
