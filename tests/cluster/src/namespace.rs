//! Network and mount namespaces: one pair for the control plane, one for each node.
//!
//! A process that only sleeps holds each pair, so nothing is mounted or named on the host: when the
//! cluster's processes are gone, so are its namespaces, with every interface, rule and mount in
//! them.

use crate::{address, cgroup::Cgroups, process};
use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};
use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    thread,
};

/// A directory that a namespace has for its own: `source` of the host is mounted at `target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnDirectory {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

/// The namespaces that a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Namespace {
    holder: process::Process,
}

impl Namespace {
    pub(crate) fn held_by(holder: process::Process) -> Self {
        Self { holder }
    }

    /// Makes namespaces in which each of `own` is mounted, with `hostname` as name.
    pub(crate) fn create(
        cgroups: &Cgroups,
        hostname: &str,
        own: &[OwnDirectory],
        log: &Path,
    ) -> Result<Self> {
        let mut command = process::command(cgroups, None, "unshare");
        command.args([
            "--net",
            "--mount",
            "--uts",
            "--propagation",
            "slave",
            "--",
            "/bin/sh",
            "-ec",
        ]);
        command.arg(holder_script(hostname, own));
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| log.display().to_string())?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(output)
            .spawn()?;
        let holder = process::Process::with_pid(child.id())?;
        let mut answer = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut answer)?;
        }
        if answer.trim() != "ready" {
            bail!(
                "cannot make the namespaces of {hostname}; {} says why",
                log.display()
            );
        }
        Ok(Self { holder })
    }

    pub(crate) fn holder(&self) -> process::Process {
        self.holder
    }

    /// The command that runs the command after it in these namespaces.
    pub(crate) fn enter(&self) -> Vec<OsString> {
        let pid = self.holder.pid();
        [
            "nsenter",
            &format!("--target={pid}"),
            "--net",
            "--mount",
            "--uts",
            "--",
        ]
        .map(OsString::from)
        .to_vec()
    }

    /// Runs `work` on a thread in the network namespace. Sockets made there stay there, wherever
    /// they are used.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = format!("/proc/{}/ns/net", self.holder.pid());
        let namespace = File::open(&path).with_context(|| format!("cannot open {path}"))?;
        let entered = thread::scope(|scope| {
            scope
                .spawn(|| -> Result<T> {
                    setns(&namespace, CloneFlags::CLONE_NEWNET)
                        .context("cannot enter the network namespace")?;
                    Ok(work())
                })
                .join()
        });
        entered.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn holder_script(hostname: &str, own: &[OwnDirectory]) -> String {
    // Copies of other programs' namespace mounts would keep those namespaces alive.
    let mut script =
        String::from("umount -a -l -t nsfs 2>/dev/null || :\nmount --make-rshared /\n");
    for OwnDirectory { source, target } in own {
        let (source, target) = (source.display(), target.display());
        let _ = writeln!(
            script,
            "mkdir -p '{target}'; mount --bind '{source}' '{target}'"
        );
    }
    let _ = writeln!(script, "echo {hostname} >/proc/sys/kernel/hostname");
    script
        + "ip link set lo up\necho 1 >/proc/sys/net/ipv4/ip_forward\necho ready\nexec sleep infinity >/dev/null\n"
}

/// Makes the bridge that joins a cluster's networks; run it in the control plane's namespaces.
pub(crate) fn bridge_script() -> String {
    let (control_plane, host, strangers) =
        (address::CONTROL_PLANE, address::HOST, address::STRANGERS);
    format!(
        "ip link add berth0 type bridge
ip addr add {control_plane}/24 dev berth0
ip addr add {host}/24 dev berth0
ip link set berth0 up
ip route add local {strangers} dev lo
"
    )
}

/// Joins a node's network to the bridge; run it in the control plane's namespaces.
pub(crate) fn node_link_script(number: u8, namespace: &Namespace) -> String {
    let (pid, node, pods) = (
        namespace.holder.pid(),
        address::node(number),
        address::pods(number),
    );
    let control_plane = address::CONTROL_PLANE;
    format!(
        "ip link add node{number} type veth peer name eth0 netns {pid}
ip link set node{number} master berth0 up
nsenter --target={pid} --net -- sh -ec \
  'ip addr add {node}/24 dev eth0; ip link set eth0 up; ip route add default via {control_plane}'
ip route add {pods} via {node}
"
    )
}

#[cfg(test)]
mod tests;
