//! The commands for operators: `list`, `release` and `doctor`.

mod arguments;
mod doctor;
pub mod install;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{self, Write},
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;

pub use self::arguments::networks;
use self::arguments::{Arguments, parse, read_sandboxes};

use crate::{
    commands,
    config::document::Sync,
    lease::Owner,
    node,
    record::Reservation,
    store::{Lease, Store},
};

const HELP: &str = "\
host-local gives pods IP addresses of a node's ranges, and keeps them for pods that come back.
Container runtimes call it as a CNI plugin (CNI_COMMAND and a configuration on standard input). People call it so:

  host-local list                       every lease and every address that is kept for a pod
  host-local release --ip ADDRESS       release an address, even if a sandbox uses it
  host-local release --container ID     release all addresses of a container (a pod's sandbox)
  host-local release --pod NAMESPACE/NAME   end what is kept for a pod; what a sandbox uses stays
  host-local doctor                     report leaks, lost leases, duplicates, corrupt and foreign files; exit code 1 if there are any
  host-local doctor --fix               and repair them
  host-local install DIRECTORY          put this program there as the plugin host-local, and keep the one that is there
  host-local restore DIRECTORY          put that one back

  --data-dir DIRECTORY   where the leases are (default: /var/lib/cni/networks)
  --network NAME         only this network (default: all)
  --json                 for list: one JSON object a line
  --sandboxes FILE       for doctor and list: the ids of all containers there are, one a line (- is standard input); a lease of any
                         other that is older than ten minutes is a leak. For example: crictl pods -q | host-local doctor --sandboxes -
";

/// One line of `list`.
#[derive(Debug, Serialize)]
struct Line {
    network: String,
    address: IpAddr,
    state: &'static str,
    container: String,
    interface: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    /// In seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_until: Option<u64>,
    /// The path of an entry that is not a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

/// Runs the command in the arguments.
pub fn run(arguments: &[String], out: &mut impl Write, errors: &mut impl Write) -> ExitCode {
    let result = match arguments.split_first() {
        None => write!(errors, "CNI host-local plugin\n{HELP}").map(|()| true),
        Some((command, rest)) => match (command.as_str(), parse(rest)) {
            ("help" | "--help" | "-h", _) => out.write_all(HELP.as_bytes()).map(|()| true),
            ("install", _) => placed(rest, out, |directory| {
                install::install(&env::current_exe()?, directory)
            }),
            ("restore", _) => placed(rest, out, install::restore),
            (_, Err(why)) => writeln!(errors, "{why}; see host-local help").map(|()| false),
            ("list", Ok(arguments)) => list(&arguments, out).map(|()| true),
            ("release", Ok(arguments)) => release(&arguments, out),
            ("doctor", Ok(arguments)) => doctor::run(&arguments, out),
            (other, _) => writeln!(errors, "there is no command {other:?}; see host-local help")
                .map(|()| false),
        },
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            _ = writeln!(errors, "host-local: {error}");
            ExitCode::FAILURE
        }
    }
}

fn placed(
    arguments: &[String],
    out: &mut impl Write,
    work: impl Fn(&Path) -> io::Result<&'static str>,
) -> io::Result<bool> {
    let [directory] = arguments else {
        writeln!(
            out,
            "name one directory of plugins, for example /opt/cni/bin"
        )?;
        return Ok(false);
    };
    let done = work(Path::new(directory))
        .map_err(|error| io::Error::new(error.kind(), format!("{directory}: {error}")))?;
    writeln!(out, "host-local {done} in {directory}")?;
    Ok(true)
}

fn list(arguments: &Arguments, out: &mut impl Write) -> io::Result<()> {
    let sandboxes = arguments
        .sandboxes
        .as_deref()
        .map(read_sandboxes)
        .transpose()?;
    let mut lines = Vec::new();
    for network in arguments.networks()? {
        lines.extend(lines_of(
            arguments.data_dir(),
            &network,
            sandboxes.as_deref(),
        )?);
    }
    if arguments.json {
        for line in &lines {
            writeln!(out, "{}", serde_json::to_string(line)?)?;
        }
        return Ok(());
    }
    let now = node::now();
    writeln!(
        out,
        "{:<16} {:<24} {:<20} {:<40} {:<12} CONTAINER",
        "NETWORK", "ADDRESS", "STATE", "POD", "INTERFACE"
    )?;
    for line in lines {
        let state = match line.kept_until {
            Some(until) if until <= now => "kept, over".into(),
            Some(until) => format!("kept {} s more", until - now),
            None => line.state.into(),
        };
        let pod = line.pod.unwrap_or_default();
        let container = line.path.map_or(line.container, |path| format!("{path:?}"));
        writeln!(
            out,
            "{:<16} {:<24} {state:<20} {pod:<40} {:<12} {container}",
            line.network, line.address, line.interface
        )?;
    }
    Ok(())
}

fn lines_of(data_dir: &Path, network: &str, sandboxes: Option<&[String]>) -> io::Result<Vec<Line>> {
    // The store is read without repairs, because `list` must change nothing.
    let store = Store::open(data_dir, network, Sync::Never)?;
    let mut reserved: BTreeMap<IpAddr, Reservation> = BTreeMap::new();
    for reservation in store.all_reservations()? {
        reserved.extend(
            reservation
                .addresses
                .iter()
                .map(|address| (*address, reservation.clone())),
        );
    }
    let leaks = doctor::leaks(&store, sandboxes)?;
    let lost = store.lost()?;
    let addresses: BTreeSet<_> = store
        .held()?
        .into_iter()
        .chain(lost.keys().copied())
        .collect();
    let mut lines = Vec::with_capacity(addresses.len());
    for address in addresses {
        let lease = store.lease(address)?;
        let path = (lease == Lease::Foreign).then(|| store.lease_path(address));
        let (state, owner) = match (lease, lost.get(&address)) {
            (Lease::Of(owner), _) if leaks.contains_key(&address) => ("leaked", owner),
            (Lease::Of(owner), _) => ("in use", owner),
            (_, Some(sandbox)) => ("lost", sandbox.owner.clone()),
            (Lease::Broken, None) => ("corrupt", Owner::new("", "")),
            (Lease::Foreign, None) => ("foreign", Owner::new("", "")),
            (Lease::Free, None) => continue,
        };
        let reservation = reserved
            .get(&address)
            .filter(|reservation| reservation.holds(&owner));
        let attachment = store.attachment(&owner)?.unwrap_or_default();
        let pod = reservation
            .map(|found| &found.pod)
            .or(attachment.pod.as_ref())
            .map(ToString::to_string);
        let kept_until = reservation.and_then(Reservation::ends);
        let Owner {
            container,
            interface,
        } = owner;
        let state = if kept_until.is_some() { "kept" } else { state };
        lines.push(Line {
            network: network.into(),
            address,
            state,
            container,
            interface,
            pod,
            kept_until,
            path,
        });
    }
    Ok(lines)
}

fn release(arguments: &Arguments, out: &mut impl Write) -> io::Result<bool> {
    if arguments.address.is_none() && arguments.container.is_none() && arguments.pod.is_none() {
        writeln!(out, "name what to release: --ip, --container or --pod")?;
        return Ok(false);
    }
    let mut released = 0;
    for network in arguments.networks()? {
        let mut store = Store::open(arguments.data_dir(), &network, Sync::Kept)?;
        store.settle()?;
        for line in to_release(arguments, &store)? {
            match line {
                Released::Address(address) if store.lease(address)? == Lease::Foreign => {
                    writeln!(out, "{network}: {}", doctor::obstacle(&store, address))?;
                    continue;
                }
                Released::Address(address) => {
                    store.disown(address)?;
                    store.free(address)?;
                }
                Released::Reservation(reservation) => {
                    store.end(&reservation)?;
                    store.forget(&reservation.owner)?;
                }
            }
            released += 1;
        }
        // Remakes the index of attachments from the remaining leases.
        store.settle()?;
        store.finish()?;
    }
    writeln!(out, "{released} released")?;
    Ok(released > 0)
}

enum Released {
    Address(IpAddr),
    Reservation(Reservation),
}

fn to_release(arguments: &Arguments, store: &Store) -> io::Result<Vec<Released>> {
    let mut released = Vec::new();
    for reservation in store.all_reservations()? {
        let is_pod =
            arguments.pod.as_ref() == Some(&reservation.pod) && reservation.released.is_some();
        let is_container = arguments.container.as_ref() == Some(&reservation.owner.container);
        if is_pod || is_container {
            released.push(Released::Reservation(reservation));
        }
    }
    for address in store.held()? {
        let is_container = matches!(store.lease(address)?, Lease::Of(owner) if arguments.container.as_ref() == Some(&owner.container));
        if arguments.address == Some(address) || is_container {
            released.push(Released::Address(address));
        }
    }
    Ok(released)
}

/// Releases the addresses of containers that are not among `sandboxes` and whose leases are older
/// than `age` seconds, in all networks below `data_dir`. An address whose network namespace still
/// `lives` stays. Returns the released addresses.
///
/// # Errors
/// A file cannot be read or written.
pub fn reclaim(
    data_dir: &Path,
    sandboxes: &[String],
    age: u64,
    lives: impl Fn(&str) -> bool + Clone + 'static,
) -> io::Result<Vec<IpAddr>> {
    let mut reclaimed = Vec::new();
    for network in networks(data_dir)? {
        let mut store = Store::open(data_dir, &network, Sync::Kept)?.with_namespaces(lives.clone());
        store.settle()?;
        for (address, owner) in doctor::unknown(&store, sandboxes, age)? {
            let netns = store.attachment(&owner)?.unwrap_or_default().netns;
            if store.lives(&netns) {
                continue;
            }
            commands::take_back(&mut store, &owner, None, None)?;
            reclaimed.push(address);
        }
        store.finish()?;
    }
    Ok(reclaimed)
}
