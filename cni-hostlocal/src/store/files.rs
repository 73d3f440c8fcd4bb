//! Files, and links that hold a line. Every error names its path.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read as _},
    os::unix::fs::{OpenOptionsExt as _, symlink},
    path::Path,
};

use nix::{errno::Errno, fcntl::OFlag};

/// The maximum number of bytes to read of a file. A lease and a last address are far shorter.
const MOST_READ: u64 = 1 << 16;

/// An entry of the directory of leases.
pub(super) enum Entry {
    Absent,
    File(Vec<u8>),
    /// A directory, a link, a pipe, a socket or a device.
    Other,
}

/// Adds the path to an error's message.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Reads an entry that should be a file. It follows no link and waits for no pipe's writer.
pub(super) fn read_entry(path: &Path) -> io::Result<Entry> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Entry::Absent),
        // The errors of open(2) for a link and for a socket.
        Err(error)
            if [Errno::ELOOP, Errno::ENXIO]
                .map(|code| Some(code as i32))
                .contains(&error.raw_os_error()) =>
        {
            return Ok(Entry::Other);
        }
        Err(error) => return Err(at(path)(error)),
    };
    if !file.metadata().map_err(at(path))?.is_file() {
        return Ok(Entry::Other);
    }
    let mut content = Vec::new();
    file.take(MOST_READ)
        .read_to_end(&mut content)
        .map_err(at(path))?;
    Ok(Entry::File(content))
}

/// Opens a file. If its directory is missing, that is made first.
pub(super) fn open_or_create(
    options: &OpenOptions,
    directory: &Path,
    name: &str,
) -> io::Result<File> {
    let path = directory.join(name);
    match options.open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(directory).map_err(at(directory))?;
            options.open(&path)
        }
        other => other,
    }
    .map_err(at(&path))
}

/// The names in a directory; none if the directory does not exist.
///
/// # Errors
/// It cannot be read.
pub fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at(directory))?,
    };
    let names = entries.map(|entry| {
        Ok(entry
            .map_err(at(directory))?
            .file_name()
            .to_string_lossy()
            .into_owned())
    });
    names.collect()
}

/// The target of a link; `None` if there is no link.
pub(super) fn read_line(path: &Path) -> io::Result<Option<String>> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        // A file that another program put there has no content either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            Ok(None)
        }
        Err(error) => Err(at(path)(error)),
    }
}

/// Writes a link: directly if there is none, otherwise by replacing it.
pub(super) fn write_line(directory: &Path, name: &str, line: &str) -> io::Result<()> {
    let path = directory.join(name);
    let line = if line.is_empty() { "-" } else { line };
    let made = match symlink(line, &path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(directory).map_err(at(directory))?;
            symlink(line, &path)
        }
        other => other,
    };
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Berth's directories have no entry with this name, because names have no blanks.
            let new = directory.join("new line");
            remove_file(&new)?;
            symlink(line, &new).map_err(at(&new))?;
            fs::rename(&new, &path)
        }
        other => other,
    }
    .map_err(at(&path))
}

/// Removes a file; an absent file counts as removed.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    absent_is_fine(fs::remove_file(path)).map_err(at(path))
}

/// Removes a directory if it is empty.
pub(super) fn remove_empty(directory: &Path) -> io::Result<()> {
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        other => absent_is_fine(other).map_err(at(directory)),
    }
}

/// Syncs a file or a directory to disk.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(at(path))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
