//! Installs the program in place of the reference plugin, and removes it again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The plugin's name, which configurations have as `type`.
const NAME: &str = "host-local";
/// The name under which the previous plugin is kept.
const BEFORE: &str = ".host-local.before-berth";
const NEW: &str = ".host-local.new";
/// A text that every build of this program contains, and no other program.
pub const SIGN: &str = "host-local gives pods IP addresses of a node's ranges, and keeps them for pods that come back.";

/// Copies `program` into the directory of plugins and keeps the previous plugin beside it. The
/// directory has a plugin at every moment.
///
/// # Errors
/// A file cannot be read or written; then the previous plugin is still there.
pub fn install(program: &Path, directory: &Path) -> io::Result<&'static str> {
    let content = fs::read(program)?;
    let place = directory.join(NAME);
    let found = fs::read(&place);
    if found.as_ref().is_ok_and(|found| *found == content) {
        return Ok("is there already");
    }
    // A link whose target is not visible from here is a plugin as well.
    let is_there = place.symlink_metadata().is_ok();
    if is_there && !found.is_ok_and(|found| is_ours(&found)) {
        let before = directory.join(BEFORE);
        absent_is_fine(fs::remove_file(&before))?;
        fs::hard_link(&place, &before)?;
    }
    let new = directory.join(NEW);
    absent_is_fine(fs::remove_file(&new))?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&new)?;
    file.write_all(&content)?;
    file.sync_all()?;
    fs::rename(&new, &place)?;
    File::open(directory)?.sync_all()?;
    Ok("is installed")
}

/// Restores the plugin that was there before [`install`]. Another program's plugin that was
/// installed since stays.
///
/// # Errors
/// A file cannot be read, renamed or removed.
pub fn restore(directory: &Path) -> io::Result<&'static str> {
    let (place, before) = (directory.join(NAME), directory.join(BEFORE));
    let ours = fs::read(&place).is_ok_and(|found| is_ours(&found));
    if !ours {
        absent_is_fine(fs::remove_file(&before))?;
        return Ok("was not there");
    }
    match fs::rename(&before, &place) {
        Ok(()) => Ok("gave way to what was there before"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::remove_file(&place)?;
            Ok("is removed, for there was nothing before")
        }
        Err(error) => Err(error),
    }
}

fn is_ours(program: &[u8]) -> bool {
    program
        .windows(SIGN.len())
        .any(|part| part == SIGN.as_bytes())
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
