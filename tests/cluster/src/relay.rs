//! Loopback ports of the host that lead into a cluster, and addresses in a cluster that lead to the
//! host's loopback.
//!
//! A listening socket belongs to the namespace that it was made in, also if the process that
//! accepts from it runs in another. So the host makes the socket, and a process in the cluster's
//! namespace takes it over as its standard input, or the other way round.

use crate::{
    address,
    cgroup::Cgroups,
    namespace::Namespace,
    process::{self, Process},
    programs::own_binary,
};
use anyhow::{Context, Result};
use std::{
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    os::fd::OwnedFd,
    path::Path,
};

/// Makes the program that listens at `target` in the namespace reachable at a loopback port of the
/// host, and returns the port.
pub(crate) fn into_cluster(
    cgroups: &Cgroups,
    namespace: &Namespace,
    target: SocketAddrV4,
    log: &Path,
) -> Result<(Process, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .context("cannot listen on the host's loopback")?;
    let port = listener.local_addr()?.port();
    Ok((
        relay(cgroups, Some(namespace), listener, target, log)?,
        port,
    ))
}

/// Makes the program that listens at this port of the host's loopback reachable at
/// [`address::HOST`] in the cluster.
pub(crate) fn to_host(
    cgroups: &Cgroups,
    namespace: &Namespace,
    port: u16,
    log: &Path,
) -> Result<Process> {
    let listener = namespace
        .run(|| TcpListener::bind((address::HOST, port)))?
        .with_context(|| format!("cannot listen on {}:{port} in the cluster", address::HOST))?;
    relay(
        cgroups,
        None,
        listener,
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
        log,
    )
}

fn relay(
    cgroups: &Cgroups,
    namespace: Option<&Namespace>,
    listener: TcpListener,
    target: SocketAddrV4,
    log: &Path,
) -> Result<Process> {
    let mut command = process::command(cgroups, namespace, own_binary("relay")?);
    command
        .arg(target.to_string())
        .stdin(OwnedFd::from(listener));
    process::spawn(command, log)
}
