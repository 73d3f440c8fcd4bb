//! The cgroups of a cluster. They contain the processes of the cluster and no others, so they show
//! which processes to kill.
//!
//! `berth-NAME/system` holds the components; `berth-NAME/node-1` is the root of the first node's
//! pods.

use anyhow::{Context, Result, bail};
use nix::sys::{
    signal::{Signal, kill},
    statfs::{CGROUP2_SUPER_MAGIC, statfs},
};
use nix::unistd::Pid;
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

const MOUNT: &str = "/sys/fs/cgroup";
/// Controllers of cgroup v2 for a kubelet and its containers. The kubelet insists on each of these
/// but `io` that the machine has.
const KUBELET_CONTROLLERS: [&str; 6] = ["cpuset", "cpu", "io", "memory", "hugetlb", "pids"];

/// The cgroups of one cluster, in every hierarchy that the machine has.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// Version 2 has one hierarchy. Version 1 has one for each controller, and may have one of
    /// version 2 beside them, where runc makes cgroups without being configured to. The first
    /// hierarchy holds the components.
    hierarchies: Vec<PathBuf>,
    unified: bool,
    name: String,
}

impl Cgroups {
    /// The cgroups of the cluster with this name, whether they exist or not.
    pub(crate) fn of(cluster: &str) -> Result<Self> {
        let unified = is_cgroup2(Path::new(MOUNT));
        let hierarchies = if unified {
            vec![PathBuf::from(MOUNT)]
        } else {
            version_1_hierarchies()?
        };
        if hierarchies.is_empty() {
            bail!(
                "no cgroup hierarchy is mounted under {MOUNT}: mount cgroup v2 there, or the controllers of v1"
            );
        }
        Ok(Self {
            hierarchies,
            unified,
            name: format!("berth-{cluster}"),
        })
    }

    /// The version of cgroups on this machine: 1 or 2.
    pub(crate) fn version(&self) -> u8 {
        if self.unified { 2 } else { 1 }
    }

    /// The `cgroupRoot` of a node's kubelet.
    pub(crate) fn node_root(&self, node: &str) -> String {
        format!("/{}/{node}", self.name)
    }

    /// The file that a component writes `0` to, to be a member.
    pub(crate) fn components(&self) -> PathBuf {
        self.hierarchies[0]
            .join(&self.name)
            .join("system/cgroup.procs")
    }

    /// Makes the cgroups for the components and for these nodes.
    pub(crate) fn create(&self, nodes: &[String]) -> Result<()> {
        if self.unified {
            enable_controllers(&self.hierarchies[0])?;
        }
        for hierarchy in self
            .hierarchies
            .iter()
            .filter(|path| self.unified || !is_cgroup2(path))
        {
            let root = hierarchy.join(&self.name);
            self.create_one(&root)?;
            for node in nodes {
                self.create_one(&root.join(node))?;
            }
        }
        fs::create_dir_all(self.hierarchies[0].join(&self.name).join("system"))
            .context("the components' cgroup")
    }

    fn create_one(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the cgroup {}", path.display()))?;
        if self.unified {
            return enable_controllers(path);
        }
        // A new cpuset of version 1 has no processors and no memory, and refuses members until both
        // are set.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (own, parent) = (path.join(file), path.parent().unwrap_or(path).join(file));
            if own.exists() {
                let value = fs::read_to_string(&parent)?;
                fs::write(&own, value.trim())
                    .with_context(|| format!("cannot write {}", own.display()))?;
            }
        }
        Ok(())
    }

    /// Kills every member with SIGKILL and waits until none is left.
    pub(crate) fn kill_all(&self) -> Result<()> {
        let root = self.hierarchies[0].join(&self.name);
        for _ in 0..500 {
            let _ = fs::write(root.join("cgroup.kill"), "1");
            let members = members(&root);
            if members.is_empty() {
                return Ok(());
            }
            for pid in members {
                let _ = kill(pid, Signal::SIGKILL);
                crate::process::reap(pid);
            }
            sleep(Duration::from_millis(20));
        }
        bail!(
            "processes of {} do not end: {:?}",
            self.name,
            members(&root)
        )
    }

    /// Removes the cgroups, which must have no members.
    pub(crate) fn remove(&self) -> Result<()> {
        for hierarchy in &self.hierarchies {
            let root = hierarchy.join(&self.name);
            if root.exists() {
                remove_tree(&root)?;
            }
        }
        Ok(())
    }
}

fn is_cgroup2(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// One directory per hierarchy, that of `pids` first: runc puts every container there, and it
/// limits nothing by itself.
fn version_1_hierarchies() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(MOUNT).with_context(|| format!("cannot list {MOUNT}"))? {
        let entry = entry?;
        // `cpu` and `cpuacct` are links to one directory on most machines.
        if entry.file_type()?.is_dir() && entry.path().join("cgroup.procs").exists() {
            found.push(entry.path());
        }
    }
    found.sort_by_key(|path| (!path.ends_with("pids"), is_cgroup2(path), path.clone()));
    Ok(found)
}

/// Lets the children of a version 2 cgroup use the controllers.
fn enable_controllers(path: &Path) -> Result<()> {
    let available = fs::read_to_string(path.join("cgroup.controllers"))
        .with_context(|| format!("cannot read the controllers of {}", path.display()))?;
    let (file, enable) = (path.join("cgroup.subtree_control"), enabling(&available));
    match fs::write(&file, &enable) {
        // In a container the root that it sees is no real root, and may not have both members and
        // controllers.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && path == Path::new(MOUNT) => {
            let leaf = path.join("init");
            fs::create_dir_all(&leaf)?;
            for pid in fs::read_to_string(path.join("cgroup.procs"))?.lines() {
                let _ = fs::write(leaf.join("cgroup.procs"), pid);
            }
            fs::write(&file, &enable)
        }
        other => other,
    }
    .with_context(|| format!("cannot write {enable:?} to {}", file.display()))
}

/// The value of `cgroup.subtree_control` that enables the available controllers that a kubelet
/// needs. A write to it enables all of them or none.
fn enabling(available: &str) -> String {
    let available: Vec<_> = available.split_whitespace().collect();
    let wanted = KUBELET_CONTROLLERS
        .iter()
        .filter(|controller| available.contains(controller));
    wanted
        .map(|controller| format!("+{controller}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Every process in this cgroup and those below it.
fn members(root: &Path) -> Vec<Pid> {
    let own = fs::read_to_string(root.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<Pid> = own
        .lines()
        .filter_map(|line| line.parse().ok())
        .map(Pid::from_raw)
        .collect();
    for child in children(root) {
        found.extend(members(&child));
    }
    found
}

fn children(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_tree(root: &Path) -> Result<()> {
    for child in children(root) {
        remove_tree(&child)?;
    }
    // A member that was just killed keeps its cgroup busy until the kernel has removed the process.
    let mut tries = 0;
    loop {
        match fs::remove_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < 250 => {
                tries += 1;
                sleep(Duration::from_millis(20));
            }
            other => {
                return other
                    .with_context(|| format!("cannot remove the cgroup {}", root.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
