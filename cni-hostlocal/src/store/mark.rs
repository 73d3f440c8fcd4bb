//! The mark on a directory that its index is exact: a modification time that no other program sets.

use std::{
    fs::{File, FileTimes},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The nanoseconds of a mark with these seconds. A time that the kernel sets has them by chance
/// once in a thousand million times.
fn nanoseconds(seconds: u64) -> u32 {
    let mixed = (seconds ^ 0x6265_7274_6820_6970).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    u32::try_from(mixed % 999_999_999).unwrap_or_default() + 1
}

/// Sets the mark.
pub(super) fn set(directory: &Path) -> io::Result<()> {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let time = UNIX_EPOCH + Duration::new(seconds, nanoseconds(seconds));
    File::open(directory)?.set_times(FileTimes::new().set_modified(time))
}

/// Whether the mark is set. A file system without nanoseconds never has it; then every call reads
/// all leases.
pub(super) fn is_set(directory: &Path) -> io::Result<bool> {
    let found = directory.metadata()?;
    let seconds = u64::try_from(found.mtime()).unwrap_or_default();
    Ok(found.mtime_nsec() == i64::from(nanoseconds(seconds)))
}
