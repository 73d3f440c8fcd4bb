//! The disk. A network's leases have the paths and the form of the reference plugin:
//!
//! ```text
//! DATA_DIR/NETWORK/lock                  flock, held for the whole of a call
//! DATA_DIR/NETWORK/10.1.2.3              container, CR LF, interface
//! DATA_DIR/NETWORK/last_reserved_ip.0    the address that was given last, of each set
//! ```
//!
//! Everything else is in `DATA_DIR/.host-local/NETWORK`, which the reference never reads, as
//! symbolic links to lines of text ([`crate::record`]):
//!
//! ```text
//! boot                          the boot that the rest is of
//! attachments/CONTAINER@IFACE   its addresses: an index of the leases
//! pods/NAMESPACE@POD@IFACE      a reservation
//! released/TIME/…               reservations that end by then; `due` is the first such time
//! max-minutes                   no reservation lasts longer
//! ```
//!
//! **The lease is the truth**, the attachments are an index of it. The modification time of the
//! network's directory shows whether the index is exact: a call that leaves it exact sets a time
//! whose nanoseconds follow from its seconds ([`mark`]). A killed call, or another program that
//! creates, renames or removes a file there, leaves another time. Then the next call reads the
//! leases once and makes the index anew. Before that it makes again the leases that the index has
//! for living sandboxes of this boot and that have no file ([`sandboxes`]): a deleted file must not
//! give a pod's address to another.

mod files;
mod index;
mod kept;
mod lock;
mod mark;
mod patch;
mod sandboxes;

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use self::{
    files::{Entry, open_or_create, read_entry, remove_empty, remove_file, sync},
    lock::{PATIENCE, lock},
};
use crate::{config::document::Sync, lease::Owner, node, range::canonical};

pub use self::{
    files::{at, names},
    index::ATTACHMENTS,
    lock::LOCK,
    sandboxes::Sandbox,
};

/// The directory beside the networks' directories. No network has this name, because names begin
/// with a letter or a digit.
pub const STATE: &str = ".host-local";
/// The directory of the known patch, beside the networks.
pub const PATCH: &str = "reserved";
/// How the files with the last addresses begin.
pub const LAST: &str = "last_reserved_ip.";

/// The content of an address's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// There is none.
    Free,
    /// This attachment has the address.
    Of(Owner),
    /// There is a file, but it names no container.
    Broken,
    /// The name is that of a directory, a link or another entry that is not a file. The address
    /// counts as taken.
    Foreign,
}

/// A network's leases, locked until this is finished or dropped.
pub struct Store {
    leases: PathBuf,
    state: PathBuf,
    patch: PathBuf,
    lock: File,
    sync: Sync,
    boot: Option<String>,
    /// Whether a path is that of a network namespace.
    lives: Box<dyn Fn(&str) -> bool>,
    now: u64,
    /// The most minutes that an address is kept; `None` as long as no configuration is known.
    max_minutes: Option<u32>,
    /// The index is exact, or will be at the end of this call.
    exact: bool,
    /// Something changed in the directory of leases, so its time must be set.
    changed: bool,
    /// The files to sync to disk before the call is answered.
    unsynced: BTreeSet<PathBuf>,
}

impl Store {
    /// Opens and locks a network's leases. Makes missing directories.
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
            lives: Box::new(node::is_namespace),
            now: node::now(),
            max_minutes: None,
            exact: false,
            changed: false,
            unsynced: BTreeSet::new(),
        })
    }

    /// Keeps no address for longer than so many minutes. Without this call, the limit is that of
    /// the last call with a configuration.
    #[must_use]
    pub fn with_max_minutes(self, minutes: u32) -> Self {
        Self {
            max_minutes: Some(minutes),
            ..self
        }
    }

    /// The present time of this call, in seconds since 1970.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The directory of leases.
    pub fn directory(&self) -> &Path {
        &self.leases
    }

    /// The directory of the data that the reference plugin does not have.
    pub fn state_directory(&self) -> &Path {
        &self.state
    }

    /// The path of an address's lease.
    pub fn lease_path(&self, address: IpAddr) -> PathBuf {
        self.leases.join(address.to_string())
    }

    /// The owner of an address.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn lease(&self, address: IpAddr) -> io::Result<Lease> {
        Ok(match read_entry(&self.lease_path(address))? {
            Entry::File(content) => Owner::parse(&content).map_or(Lease::Broken, Lease::Of),
            Entry::Absent => Lease::Free,
            Entry::Other => Lease::Foreign,
        })
    }

    /// Gives a free address. `false`: the address is taken.
    ///
    /// # Errors
    /// The file cannot be written; then there is none.
    pub fn claim(&mut self, address: IpAddr, owner: &Owner, kept: bool) -> io::Result<bool> {
        let path = self.lease_path(address);
        // Most of the tried addresses are taken; this check needs no write.
        if path.symlink_metadata().is_ok() {
            return Ok(false);
        }
        let new = self.write_new(owner.content().as_bytes())?;
        self.changed = true;
        let renamed = match renameat2(
            AT_FDCWD,
            &new,
            AT_FDCWD,
            &path,
            RenameFlags::RENAME_NOREPLACE,
        ) {
            // A file system without this flag: no other call writes while the lock is held.
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
                if error.kind() == ErrorKind::AlreadyExists {
                    Ok(false)
                } else {
                    Err(at(&path)(error))
                }
            }
        }
    }

    /// Gives an address, also one that is taken.
    ///
    /// # Errors
    /// The file cannot be written; then it is as before.
    pub fn assign(&mut self, address: IpAddr, owner: &Owner, kept: bool) -> io::Result<()> {
        let path = self.lease_path(address);
        let new = self.write_new(owner.content().as_bytes())?;
        self.changed = true;
        fs::rename(&new, &path).map_err(at(&path))?;
        self.remember_to_sync(path, kept);
        Ok(())
    }

    /// Frees an address.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn free(&mut self, address: IpAddr) -> io::Result<()> {
        self.changed = true;
        if self.sync == Sync::Always {
            self.unsynced.insert(self.leases.clone());
        }
        remove_file(&self.lease_path(address))
    }

    /// Removes a file that is not a lease from the directory of leases.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_file(&mut self, name: &str) -> io::Result<()> {
        self.changed = true;
        remove_file(&self.leases.join(name))
    }

    /// Removes a directory that has the name of an address, if it is empty. `false`: it is not
    /// empty.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_empty_directory(&mut self, address: IpAddr) -> io::Result<bool> {
        let path = self.lease_path(address);
        self.changed = true;
        remove_empty(&path)?;
        Ok(!path.exists())
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
        let Ok(Entry::File(content)) = read_entry(&self.leases.join(format!("{LAST}{index}")))
        else {
            return None;
        };
        String::from_utf8(content)
            .ok()?
            .trim()
            .parse()
            .ok()
            .map(canonical)
    }

    /// Remembers the address that was given last. If that fails, the next call tries addresses from
    /// the beginning.
    pub fn set_last(&mut self, index: usize, address: IpAddr) {
        let path = self.leases.join(format!("{LAST}{index}"));
        let text = address.to_string();
        // One write that leaves nothing of the old text is never seen half done, and costs no new
        // file. Replacing a file by a new one would make ext4 wait for the disk.
        if fs::metadata(&path).is_ok_and(|old| (1..=text.len() as u64).contains(&old.len())) {
            _ = OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|mut file| file.write_all(text.as_bytes()));
        } else if let Ok(new) = self.write_new(text.as_bytes()) {
            self.changed = true;
            _ = fs::rename(new, path);
        }
    }

    /// Writes a file whole, under a name that nothing reads. Under the lock there is one writer, so
    /// the name can be the same.
    fn write_new(&self, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.state.join("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = open_or_create(&options, &self.state, "new")?;
        if let Err(error) = file.write_all(content) {
            _ = fs::remove_file(&path);
            return Err(at(&path)(error));
        }
        Ok(path)
    }

    fn remember_to_sync(&mut self, path: PathBuf, kept: bool) {
        if self.sync == Sync::Always || (kept && self.sync == Sync::Kept) {
            self.unsynced.insert(path);
            self.unsynced.insert(self.leases.clone());
        }
    }

    /// Ends the call: marks the index as exact, frees the lock, and syncs the files that must
    /// outlive a loss of power. The sync comes last, so that no call waits for a disk behind the
    /// lock.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn finish(self) -> io::Result<()> {
        if self.exact && self.changed {
            mark::set(&self.leases).map_err(at(&self.leases))?;
        }
        let Self { lock, unsynced, .. } = self;
        drop(lock);
        for path in unsynced {
            match sync(&path) {
                // Another call has freed it since.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }
}

/// The address in the name of a lease's file. Other spellings of an address are no leases: no
/// plugin reads them.
pub fn address_of(name: &str) -> Option<IpAddr> {
    let address: IpAddr = name.parse().ok()?;
    (canonical(address) == address && address.to_string() == name).then_some(address)
}
