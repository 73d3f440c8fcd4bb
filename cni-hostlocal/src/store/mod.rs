//! The disk. A network's leases are where and as the reference plugin has them:
//!
//! ```text
//! DATA_DIR/NETWORK/lock                  flock, held for the whole of a call
//! DATA_DIR/NETWORK/10.1.2.3              container, CR LF, interface
//! DATA_DIR/NETWORK/last_reserved_ip.0    the address that was given last, of each set
//! ```
//!
//! Everything else is in a directory that the reference never looks at, as symbolic links to lines of text ([`crate::record`]):
//!
//! ```text
//! DATA_DIR/.host-local/NETWORK/boot                          the boot that the rest is of
//! DATA_DIR/.host-local/NETWORK/attachments/CONTAINER@IFACE   its addresses, so that nobody looks for them in all leases
//! DATA_DIR/.host-local/NETWORK/pods/NAMESPACE@POD@IFACE      a reservation
//! DATA_DIR/.host-local/NETWORK/released/TIME/…               reservations that end by then; `due` is the first such time
//! DATA_DIR/.host-local/NETWORK/max-minutes                   no reservation lasts longer
//! ```
//!
//! **The lease is the truth**, the attachments are an index of it. Whether the index is exact is written in the modification
//! time of the network's directory: a call that leaves it exact sets a time whose nanoseconds follow from its seconds ([`mark`]).
//! Whatever anybody else creates, renames or removes there sets another time, as does a call that was killed. Then the next call
//! reads the leases once and makes the index anew.

mod index;
mod kept;
mod mark;

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write as _},
    net::IpAddr,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::Duration,
};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::{config::Sync, lease::Owner, node, range::canonical};

/// The directory beside the networks' own. No network is called so, for names begin with a letter or a digit.
pub const STATE: &str = ".host-local";
/// Where the known patch keeps what it keeps, beside the networks.
pub const PATCH: &str = "reserved";
/// The name of the lock's file.
pub const LOCK: &str = "lock";
/// How long a call waits for the lock. Its holder works for milliseconds, unless its disk hangs; then runtimes shall hear of it
/// and repeat the call.
const PATIENCE: Duration = Duration::from_secs(60);
/// How the files with the last addresses begin.
pub const LAST: &str = "last_reserved_ip.";

/// What an address's file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// There is none.
    Free,
    /// It is this attachment's.
    Of(Owner),
    /// There is a file, and it names nobody.
    Broken,
}

/// A network's leases, locked until this is finished or dropped.
#[derive(Debug)]
pub struct Store {
    leases: PathBuf,
    state: PathBuf,
    patch: PathBuf,
    lock: File,
    sync: Sync,
    boot: Option<String>,
    now: u64,
    /// The most minutes that an address is kept; `None` as long as no configuration is known.
    max_minutes: Option<u32>,
    /// The index is exact, or will be at the end of this call.
    exact: bool,
    /// Something changed in the directory of leases, so its time must be set.
    changed: bool,
    /// What is to be written through before the call is answered.
    unsynced: BTreeSet<PathBuf>,
}

impl Store {
    /// Opens and locks a network's leases, making the directories where there are none.
    ///
    /// # Errors
    /// A file cannot be made, opened or locked.
    pub fn open(data_dir: &Path, network: &str, sync: Sync) -> io::Result<Self> {
        let leases = data_dir.join(network);
        let lock = lock(&leases, PATIENCE)?;
        Ok(Self {
            state: data_dir.join(STATE).join(network),
            patch: data_dir.join(PATCH),
            leases,
            lock,
            sync,
            boot: node::boot(),
            now: node::now(),
            max_minutes: None,
            exact: false,
            changed: false,
            unsynced: BTreeSet::new(),
        })
    }

    /// Keeps no address for longer than so many minutes. Without this it is as the last call with a configuration said.
    #[must_use]
    pub fn with_max_minutes(self, minutes: u32) -> Self {
        Self { max_minutes: Some(minutes), ..self }
    }

    /// The seconds since 1970 that this call takes for now.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The directory of leases.
    pub fn directory(&self) -> &Path {
        &self.leases
    }

    /// The directory of what the reference does not know.
    pub fn state_directory(&self) -> &Path {
        &self.state
    }

    fn lease_path(&self, address: IpAddr) -> PathBuf {
        self.leases.join(address.to_string())
    }

    /// Whose an address is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn lease(&self, address: IpAddr) -> io::Result<Lease> {
        match fs::read(self.lease_path(address)) {
            Ok(content) => Ok(Owner::parse(&content).map_or(Lease::Broken, Lease::Of)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Lease::Free),
            Err(error) => Err(error),
        }
    }

    /// Gives an address that nobody has. `false`: somebody has it.
    ///
    /// # Errors
    /// The file cannot be written; then there is none.
    pub fn claim(&mut self, address: IpAddr, owner: &Owner, kept: bool) -> io::Result<bool> {
        let path = self.lease_path(address);
        // Most of what is tried has somebody; that is seen without writing anything.
        if path.symlink_metadata().is_ok() {
            return Ok(false);
        }
        let new = self.write_new(owner.content().as_bytes())?;
        self.changed = true;
        let renamed = match renameat2(AT_FDCWD, &new, AT_FDCWD, &path, RenameFlags::RENAME_NOREPLACE) {
            // A file system without this: nobody else writes while the lock is held.
            Err(nix::Error::EINVAL | nix::Error::ENOSYS) => fs::rename(&new, &path),
            other => other.map_err(io::Error::from),
        };
        match renamed {
            Ok(()) => {
                self.remember_to_sync(path, kept);
                Ok(true)
            }
            Err(error) => {
                _ = fs::remove_file(&new);
                if error.kind() == ErrorKind::AlreadyExists { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Gives an address, whoever has it.
    ///
    /// # Errors
    /// The file cannot be written; then it is as before.
    pub fn assign(&mut self, address: IpAddr, owner: &Owner, kept: bool) -> io::Result<()> {
        let path = self.lease_path(address);
        let new = self.write_new(owner.content().as_bytes())?;
        self.changed = true;
        fs::rename(&new, &path)?;
        self.remember_to_sync(path, kept);
        Ok(())
    }

    /// Lets an address go.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn free(&mut self, address: IpAddr) -> io::Result<()> {
        self.changed = true;
        if self.sync == Sync::Always {
            self.unsynced.insert(self.leases.clone());
        }
        absent_is_fine(fs::remove_file(self.lease_path(address)))
    }

    /// Removes a file that is no lease from the directory of leases.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_file(&mut self, name: &str) -> io::Result<()> {
        self.changed = true;
        absent_is_fine(fs::remove_file(self.leases.join(name)))
    }

    /// Every address that has a file.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn held(&self) -> io::Result<HashSet<IpAddr>> {
        let mut held = HashSet::new();
        for name in names(&self.leases)? {
            held.extend(address_of(&name));
        }
        Ok(held)
    }

    /// The address of set number `index` that was given last.
    pub fn last(&self, index: usize) -> Option<IpAddr> {
        let text = fs::read_to_string(self.leases.join(format!("{LAST}{index}"))).ok()?;
        text.trim().parse().ok().map(canonical)
    }

    /// Remembers the address that was given last. If that fails, the next call tries addresses from the beginning.
    pub fn set_last(&mut self, index: usize, address: IpAddr) {
        let path = self.leases.join(format!("{LAST}{index}"));
        let text = address.to_string();
        // One write that leaves nothing of the old text behind is never seen half done, and costs no new file. Putting a new
        // file in the place of another would make ext4 wait for the disk.
        if fs::metadata(&path).is_ok_and(|old| (1..=text.len() as u64).contains(&old.len())) {
            _ = OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        } else if let Ok(new) = self.write_new(text.as_bytes()) {
            self.changed = true;
            _ = fs::rename(new, path);
        }
    }

    /// Writes a file whole, under a name that nothing reads. Under the lock there is one writer, so the name can be the same.
    fn write_new(&self, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.state.join("new");
        let open = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let mut file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(&self.state)?;
                open()?
            }
            other => other?,
        };
        if let Err(error) = file.write_all(content) {
            _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(path)
    }

    fn remember_to_sync(&mut self, path: PathBuf, kept: bool) {
        if self.sync == Sync::Always || (kept && self.sync == Sync::Kept) {
            self.unsynced.insert(path);
            self.unsynced.insert(self.leases.clone());
        }
    }

    /// Ends the call: says that the index is exact, lets the lock go, and writes through what must outlive a loss of power.
    /// That comes last, so that nobody waits for a disk behind the lock.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn finish(self) -> io::Result<()> {
        if self.exact && self.changed {
            mark::set(&File::open(&self.leases)?)?;
        }
        let Self { lock, unsynced, .. } = self;
        drop(lock);
        for path in unsynced {
            match File::open(&path).and_then(|file| file.sync_all()) {
                // Somebody else has let it go since.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }
}

/// Takes the lock of a directory of leases. A directory that was removed while this waited is made anew.
fn lock(leases: &Path, patience: Duration) -> io::Result<File> {
    let path = leases.join(LOCK);
    loop {
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o640).open(&path);
        let file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(leases)?;
                open()?
            }
            other => other?,
        };
        let file = wait_for_lock(file, patience).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => io::Error::new(
                ErrorKind::TimedOut,
                format!(
                    "the lock {} is held by another process for more than {} s; lslocks shows which, its disk may hang",
                    path.display(),
                    patience.as_secs()
                ),
            ),
            _ => error,
        })?;
        let locked = file.metadata()?;
        if path.metadata().is_ok_and(|found| found.ino() == locked.ino() && found.dev() == locked.dev()) {
            return Ok(file);
        }
    }
}

/// Threads of this process that still wait for a lock which nobody wants any more.
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
/// With so many of them nobody waits: a daemon that looks every few minutes, at a disk that hangs for days, keeps few threads.
const MOST_GIVEN_UP: usize = 4;

/// A lock of a file has no time limit of its own, so where somebody has it a thread waits. Should it get the lock too late, it
/// lets it go at once.
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

/// The address that a lease's file is named for. Other spellings of an address are no leases: no plugin looks there.
pub fn address_of(name: &str) -> Option<IpAddr> {
    let address: IpAddr = name.parse().ok()?;
    (canonical(address) == address && address.to_string() == name).then_some(address)
}

/// The names in a directory; none when there is no such directory.
///
/// # Errors
/// It cannot be read.
pub fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

/// What a link says; `None` when there is none.
fn read_line(path: &Path) -> io::Result<Option<String>> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        // A file that somebody put there says nothing either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a link: at once where there is none, else by putting a new one in its place.
fn write_line(directory: &Path, name: &str, line: &str) -> io::Result<()> {
    let path = directory.join(name);
    let line = if line.is_empty() { "-" } else { line };
    let made = match symlink(line, &path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(directory)?;
            symlink(line, &path)
        }
        other => other,
    };
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Below a directory of ours there is nothing with this name: names have no blanks.
            let new = directory.join("new line");
            absent_is_fine(fs::remove_file(&new))?;
            symlink(line, &new)?;
            fs::rename(&new, &path)
        }
        other => other,
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::failure::{Failure, TRY_AGAIN_LATER};

    /// What gives up is counted for the whole process.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_lock_that_is_held_for_too_long_is_named_and_given_to_the_next_when_it_is_free() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path(), PATIENCE).unwrap();
        let error = lock(directory.path(), Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let path = directory.path().join(LOCK).display().to_string();
        assert!(error.to_string().contains(&path), "{error}");
        assert_eq!(Failure::from(error).code, TRY_AGAIN_LATER);
        drop(held);
        // The one that gave up is before it in the queue, and lets go.
        lock(directory.path(), PATIENCE).unwrap();
        let held = lock(directory.path(), PATIENCE).unwrap();
        let waiting = {
            let leases = directory.path().to_owned();
            thread::spawn(move || lock(&leases, PATIENCE).map(|_| ()))
        };
        drop(held);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_lock_that_is_never_free_takes_no_thread_for_each_that_gave_up() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = || fs::read_dir("/proc/self/task").unwrap().count();
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path(), PATIENCE).unwrap();
        let before = threads();
        for _ in 0..20 * MOST_GIVEN_UP {
            let error = lock(directory.path(), Duration::from_millis(1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        // Other tests of this process may have begun meanwhile.
        assert!(threads() < before + 10 * MOST_GIVEN_UP, "{before} threads, then {}", threads());
        drop(held);
        // The last of them lets go.
        while GIVEN_UP.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }
}
