//! Whether an image fits on the image file system.

use std::fmt;
use std::path::{Path, PathBuf};

/// The state of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Where the runtime says that it is mounted, in the host's own paths.
    pub mountpoint: String,
    /// Bytes that can still be written.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Does what is still missing of an image fit? The bytes are those of the compressed blobs, so what fits here may still
/// fail when it is unpacked; what does not fit cannot succeed.
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
/// With the host's paths mounted under `host_root`, that path is asked. Without them the process's own root is: in a
/// container it is an overlay whose upper directory lies on that very file system.
///
/// # Errors
/// What the system answered.
#[allow(clippy::useless_conversion, reason = "these are u32 on some platforms")]
pub fn measure(host_root: &Path, mountpoint: &str) -> Result<Space, nix::Error> {
    let seen = under(host_root, mountpoint);
    let asked = if seen.exists() {
        seen.as_path()
    } else {
        Path::new("/")
    };
    let stat = nix::sys::statvfs::statvfs(asked)?;
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
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_numbers() {
        let space = Space {
            mountpoint: "/var/lib/containerd".into(),
            free: 3 << 30,
            total: 20 << 30,
        };
        assert_eq!(check("app:1", 3 << 30, 9 << 30, &space), Ok(()));
        let refusal = check("app:1", (3 << 30) + 1, 9 << 30, &space).unwrap_err();
        for part in [
            "app:1",
            "9.0 GiB",
            "3.0 GiB free of 20.0 GiB",
            "/var/lib/containerd",
        ] {
            assert!(refusal.contains(part), "{part} is not in: {refusal}");
        }
    }

    #[test]
    fn a_path_that_is_not_mounted_falls_back_to_the_own_root() {
        let here = measure(Path::new("/"), "/").unwrap();
        let elsewhere = measure(Path::new("/no/such/root"), "/var/lib/containerd").unwrap();
        assert_eq!(
            (elsewhere.total, elsewhere.mountpoint.as_str()),
            (here.total, "/var/lib/containerd")
        );
        assert!(here.free <= here.total && here.total > 0);
    }

    #[test]
    fn sizes_are_readable() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (3 << 19, "1.5 MiB"),
            (5 << 40, "5.0 TiB"),
        ];
        for (bytes, text) in table {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
