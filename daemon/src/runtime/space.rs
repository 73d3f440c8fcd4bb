//! Whether an image fits on the image file system.

use std::fmt;
use std::path::{Path, PathBuf};

/// The state of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// The mount point that the runtime reports, in the host's own paths.
    pub mountpoint: String,
    /// Bytes that can still be written.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Does the missing part of an image fit? The bytes are those of the compressed blobs, so a pull
/// that fits here may still fail when it is unpacked; a pull that does not fit cannot succeed.
///
/// # Errors
/// A sentence with the numbers and the remedy.
pub fn check(reference: &str, missing: u64, total: u64, space: &Space) -> Result<(), String> {
    if missing <= space.free {
        return Ok(());
    }
    Err(format!(
        "given up: {reference} has {} in its blobs, {} of them not here yet, but the image file system {} has only {} free of {}; \
         free space on the node, or use a smaller image",
        Size(total),
        Size(missing),
        space.mountpoint,
        Size(space.free),
        Size(space.total),
    ))
}

/// Reads the state of the image file system that the runtime reports as `mountpoint`.
///
/// Measures that path under `host_root`, where the host's paths are mounted. Without them it
/// measures the process's own root: in a container it is an overlay whose upper directory lies on
/// that very file system.
///
/// # Errors
/// The system's error.
#[allow(clippy::useless_conversion, reason = "these are u32 on some platforms")]
pub fn measure(host_root: &Path, mountpoint: &str) -> Result<Space, nix::Error> {
    let seen = under(host_root, mountpoint);
    let path = if seen.exists() {
        seen.as_path()
    } else {
        Path::new("/")
    };
    let stat = nix::sys::statvfs::statvfs(path)?;
    let fragment = u64::from(stat.fragment_size());
    Ok(Space {
        mountpoint: mountpoint.to_owned(),
        free: u64::from(stat.blocks_available()).saturating_mul(fragment),
        total: u64::from(stat.blocks()).saturating_mul(fragment),
    })
}

/// A path of the host, as this process sees it.
pub fn under(host_root: &Path, path: &str) -> PathBuf {
    host_root.join(path.trim_start_matches('/'))
}

/// Bytes, readable.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] = [
            ("TiB", 1 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
        ];
        match UNITS.iter().find(|(_, unit)| self.0 >= *unit) {
            Some((name, unit)) => write!(f, "{:.1} {name}", self.0 as f64 / *unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests;
