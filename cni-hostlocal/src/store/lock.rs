//! The lock of a network's leases, with a limit on how long a call waits for it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::Duration,
};

use super::files::{at, open_or_create};

/// The name of the lock's file.
pub const LOCK: &str = "lock";

/// How long a call waits for the lock. Its holder works for milliseconds, unless its disk hangs.
/// Then the call fails, so that the runtime repeats it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Takes the lock of a directory of leases; closing the file releases it. A directory that was
/// removed during the wait is made anew.
///
/// # Errors
/// `TimedOut` if another process holds the lock for longer than `patience`, or an error of the
/// file.
pub(super) fn lock(leases: &Path, patience: Duration) -> io::Result<File> {
    let path = leases.join(LOCK);
    loop {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o640);
        let file = open_or_create(&options, leases, LOCK)?;
        let file = wait_for_lock(file, patience).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => io::Error::new(
                ErrorKind::TimedOut,
                format!(
                    "the lock {} is held by another process for more than {} s; lslocks shows which, its disk may hang",
                    path.display(),
                    patience.as_secs()
                ),
            ),
            _ => at(&path)(error),
        })?;
        let locked = file.metadata().map_err(at(&path))?;
        if path
            .metadata()
            .is_ok_and(|found| found.ino() == locked.ino() && found.dev() == locked.dev())
        {
            return Ok(file);
        }
    }
}

/// The number of threads of this process that still wait for a lock although their caller gave up.
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
/// With so many of these threads, callers do not wait at all: a daemon that tries every few
/// minutes, at a disk that hangs for days, must keep few threads.
const MOST_GIVEN_UP: usize = 4;

/// The file, locked by this process. A file's lock has no time limit of its own, so a thread waits
/// for a held lock. A thread that gets the lock too late releases the lock at once.
///
/// # Errors
/// `TimedOut` if the lock is held for longer than `patience`, or an error of the file.
fn wait_for_lock(file: File, patience: Duration) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if GIVEN_UP.load(Ordering::Relaxed) >= MOST_GIVEN_UP {
        return Err(ErrorKind::TimedOut.into());
    }
    let (locked, answer) = sync_channel(0);
    thread::Builder::new().spawn(move || {
        let done = loop {
            match file.lock() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map(|()| file),
            }
        };
        if locked.send(done).is_err() {
            GIVEN_UP.fetch_sub(1, Ordering::Relaxed);
        }
    })?;
    answer.recv_timeout(patience).unwrap_or_else(|_| {
        GIVEN_UP.fetch_add(1, Ordering::Relaxed);
        Err(ErrorKind::TimedOut.into())
    })
}

#[cfg(test)]
mod tests;
