//! Clusters on this machine: their directories, their owners, and the leftovers without an owner.
//!
//! A cluster's directory has a lock file beside it. The process that brings a cluster up holds the
//! lock, and the kernel frees the lock when the process ends. A cluster that outlives the command
//! that made it is marked as kept, for this boot. A cluster that is neither locked nor kept is a
//! leftover.

use crate::{cgroup::Cgroups, process::Process, versions::Versions};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

const ROOT: &str = "/var/lib/berth-cluster";
const KEPT: &str = "kept";

/// The settings with which a cluster was made, and its addresses on the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) nodes: u8,
    pub(crate) versions: Versions,
    pub(crate) audit: bool,
    #[serde(default)]
    pub(crate) metrics: bool,
    pub(crate) bridged_packets_filtered: bool,
    pub(crate) apiserver_port: u16,
    pub(crate) registry_port: u16,
}

/// A summary of a cluster on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// The process that the cluster ends with, if a test made it.
    pub owner: Option<u32>,
}

/// The directory of the cluster with this name.
pub(crate) fn directory(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// A name is part of file names and cgroup names.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name =
        (1..=40).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with('-');
    if !is_name {
        bail!(
            "{name:?} is no name for a cluster: use up to 40 of a-z, 0-9 and -, not starting with -"
        );
    }
    Ok(())
}

pub(crate) fn write_settings(directory: &Path, settings: &Settings) -> Result<()> {
    fs::write(
        directory.join("settings.json"),
        format!("{:#}\n", serde_json::to_value(settings)?),
    )
    .with_context(|| format!("cannot write the settings of cluster {}", settings.name))
}

pub(crate) fn read_settings(name: &str) -> Result<Settings> {
    let path = directory(name).join("settings.json");
    let text = fs::read_to_string(&path).with_context(|| {
        format!("there is no cluster {name:?}; `cluster up --name {name}` makes it")
    })?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
}

/// The file that records the process of a component or of a namespace.
pub(crate) fn process_file(directory: &Path, name: &str) -> PathBuf {
    directory.join("processes").join(name)
}

/// Marks the cluster as one that outlives its maker, until it is taken down or the machine
/// restarts.
pub(crate) fn keep(directory: &Path) -> Result<()> {
    fs::write(directory.join(KEPT), boot()?).context("cannot mark the cluster as kept")
}

fn is_kept(directory: &Path) -> bool {
    fs::read_to_string(directory.join(KEPT)).is_ok_and(|kept| boot().is_ok_and(|boot| kept == boot))
}

fn boot() -> Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .context("cannot tell this boot from another")
}

/// A lock on a name or on a slot, held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// The lock of this cluster, or the id of the process that holds it.
    pub(crate) fn of_cluster(name: &str) -> Result<Result<Self, Option<u32>>> {
        // Other processes take it for a moment, to see whether the cluster is a leftover.
        for _ in 0..20 {
            if let Ok(lock) = Self::at(lock_file(name))? {
                return Ok(Ok(lock));
            }
            sleep(Duration::from_millis(50));
        }
        Self::at(lock_file(name))
    }

    /// Waits for one of `slots` turns to run a cluster with nodes; prints a line once if none is
    /// free.
    pub(crate) fn turn(slots: usize) -> Result<Self> {
        for attempt in 0_u64.. {
            for slot in 0..slots {
                if let Ok(lock) = Self::at(Path::new(ROOT).join(format!("turn-{slot}.slot")))? {
                    return Ok(lock);
                }
            }
            if attempt == 0 {
                eprintln!("waiting until another test's cluster ends");
            }
            sleep(Duration::from_millis(100));
        }
        bail!("the wait for a turn ended")
    }

    fn at(path: PathBuf) -> Result<Result<Self, Option<u32>>> {
        fs::create_dir_all(ROOT).with_context(|| format!("cannot make {ROOT}; run as root"))?;
        loop {
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Err(holder(&mut file))),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            // Its last holder may have removed the file between this process's opening and locking
            // it.
            if fs::metadata(&path)
                .is_ok_and(|now| file.metadata().is_ok_and(|ours| ours.ino() == now.ino()))
            {
                file.set_len(0)?;
                file.rewind()?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Ok(Self { path, _file: file }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_file(name: &str) -> PathBuf {
    Path::new(ROOT).join(format!("{name}.lock"))
}

/// The id of the process that took the lock.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The process that the cluster ends with, if one has its lock.
fn owner(name: &str) -> Option<u32> {
    let mut file = File::open(lock_file(name)).ok()?;
    // Shared, so that two processes that check at once do not take each other for the owner.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| holder(&mut file))?
}

/// The clusters on this machine, leftovers among them.
///
/// # Errors
/// When the directory of clusters cannot be read.
pub fn list() -> Result<Vec<Summary>> {
    Ok(names()?
        .into_iter()
        .map(|name| Summary {
            owner: owner(&name),
            name,
        })
        .collect())
}

fn names() -> Result<Vec<String>> {
    if !Path::new(ROOT).exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(ROOT).with_context(|| format!("cannot list {ROOT}"))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Ends and removes every cluster whose owner is gone, and returns their names.
///
/// # Errors
/// When a process does not end or a file cannot be removed.
pub fn remove_leftovers() -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for name in names()? {
        let directory = directory(&name);
        if is_kept(&directory) {
            continue;
        }
        let Ok(_lock) = Lock::at(lock_file(&name))? else {
            continue;
        };
        // It may have been marked as kept, or have been taken down, just before this lock was
        // taken.
        if directory.exists() && !is_kept(&directory) {
            remove(&name)?;
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Ends every process of the cluster and removes all its files. The caller holds the cluster's
/// lock.
pub(crate) fn remove(name: &str) -> Result<()> {
    let (directory, cgroups) = (directory(name), Cgroups::of(name)?);
    cgroups
        .kill_all()
        .with_context(|| format!("cluster {name}"))?;
    // Dead children of this process still hold their mounts until they are reaped.
    for record in fs::read_dir(directory.join("processes"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if let Some(process) = Process::recorded(&record.path()) {
            process.runs();
        }
    }
    cgroups.remove()?;
    match fs::remove_dir_all(&directory) {
        Err(error) if directory.exists() => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
