//! The plugin's view of the node: the id of its boot, the time, and whether a network namespace
//! still exists.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    time::{SystemTime, UNIX_EPOCH},
};

use nix::sys::statfs::{FsType, statfs};

/// The file system type that `statfs` reports for a network namespace's file (`NSFS_MAGIC` in the
/// kernel's headers).
const NAMESPACE_FILE: FsType = FsType(0x6e73_6673);

/// The id of this boot. `None` if the kernel reports none; then no lease counts as one of a
/// previous boot.
pub fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id = id.trim();
    (!id.is_empty()).then(|| id.into())
}

/// When this boot began, in seconds since 1970, by the present clock.
pub fn booted() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// The least time of a clock that is set, in seconds since 1970: the beginning of 2026. A node
/// without a battery-backed clock boots at 1970, and its clock is set when it reaches a time
/// server.
pub const EARLIEST: u64 = 1_767_225_600;

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs())
}

/// Whether the path is that of a network namespace. A file that remains of one is not.
pub fn is_namespace(path: &str) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == NAMESPACE_FILE)
}

/// Whether the path is that of the namespace this program runs in.
pub fn is_own_namespace(path: &str) -> bool {
    let (Ok(given), Ok(own)) = (fs::metadata(path), fs::metadata("/proc/self/ns/net")) else {
        return false;
    };
    given.dev() == own.dev() && given.ino() == own.ino()
}
