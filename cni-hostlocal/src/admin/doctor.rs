//! Finds faults in a network's files and repairs them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, fs,
    io::{self, Write},
    net::IpAddr,
    path::PathBuf,
    time::UNIX_EPOCH,
};

use super::arguments::{Arguments, read_sandboxes};
use crate::{
    commands::take_back,
    config::document::Sync,
    lease::Owner,
    record::Reservation,
    remedy,
    store::{LAST, LOCK, Lease, Sandbox, Store, address_of, at, names},
};

/// A younger lease may belong to a sandbox that the runtime is still making, and does not list yet.
const YOUNG: u64 = 600;

/// A fault in the files.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// A lease that names no container.
    Corrupt(IpAddr),
    /// A living sandbox has the address, but no lease holds it.
    Lost(IpAddr, Sandbox),
    /// A lease of a sandbox that no longer exists.
    Leaked(IpAddr, Owner, String),
    /// A file of no plugin.
    Foreign(PathBuf),
    /// An empty directory with the name of an address.
    EmptyDirectory(PathBuf, IpAddr),
    /// Another entry that is not a file, with the name of an address.
    Obstacle(PathBuf, IpAddr),
    /// The address that was given last is no address.
    Last(String),
    /// One address under a second name, which no plugin reads.
    Duplicate(String, IpAddr),
    /// Two reservations of one address; this one does not have the lease.
    Reservation(Reservation, IpAddr),
    /// A reservation without addresses.
    Empty(Reservation),
    /// A reservation for more minutes than the network's configuration allows: another program
    /// wrote it.
    TooLong(Reservation, u32),
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(address) => {
                write!(out, "corrupt: the lease of {address} names no container")
            }
            Self::Lost(address, sandbox) => write!(
                out,
                "lost: no lease keeps {address}, which {} has, whose namespace {} lives",
                sandbox.owner.container, sandbox.netns
            ),
            Self::Leaked(address, owner, why) => {
                write!(
                    out,
                    "leaked: {address} is leased to {}, {why}",
                    owner.container
                )
            }
            Self::Foreign(path) => write!(
                out,
                "foreign: {path:?} is no file of host-local (left alone)"
            ),
            Self::EmptyDirectory(path, address) => write!(
                out,
                "foreign: {path:?} is an empty directory, so {address} is given to no pod; doctor --fix removes it"
            ),
            Self::Obstacle(path, address) => write!(
                out,
                "foreign: {path:?} is no file, so {address} is given to no pod; if nothing needs it, remove it: {}",
                remedy::remove(path)
            ),
            Self::Last(name) => write!(out, "corrupt: {name} holds no address"),
            Self::Duplicate(name, address) => {
                write!(out, "duplicate: {name:?} is another name of {address}")
            }
            Self::Reservation(found, address) => {
                write!(
                    out,
                    "duplicate: {address} is reserved for {}, and leased to somebody else",
                    found.pod
                )
            }
            Self::Empty(found) => write!(
                out,
                "stale: the reservation of {} holds no address",
                found.pod
            ),
            Self::TooLong(found, most) => write!(
                out,
                "too long: the reservation of {} is for {} minutes, and reservedIPs.maxMinutes is {most}",
                found.pod, found.minutes
            ),
        }
    }
}

/// Reports faults, and repairs them on request. `false`: faults are left.
pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> io::Result<bool> {
    let sandboxes = arguments
        .sandboxes
        .as_deref()
        .map(read_sandboxes)
        .transpose()?;
    let (mut found, mut left) = (0, 0);
    for network in arguments.networks()? {
        let mut store = Store::open(arguments.data_dir(), &network, Sync::Kept)?;
        // Found before `settle`, because that makes the leases again.
        let lost = store.lost()?;
        if arguments.fix {
            // Ends the leases of another boot and the reservations that are due, and makes the
            // index exact.
            store.settle()?;
        }
        let mut unfixed = Vec::new();
        for finding in examine(&store, lost, sandboxes.as_deref())? {
            found += 1;
            let fixed = arguments.fix && fix(&mut store, &finding)?;
            writeln!(
                out,
                "{network}: {finding}{}",
                if fixed { " - repaired" } else { "" }
            )?;
            if !fixed {
                unfixed.push(finding);
            }
        }
        // A foreign file is reported, but does no harm.
        left += unfixed
            .iter()
            .filter(|finding| !matches!(finding, Finding::Foreign(_)))
            .count();
        if arguments.fix {
            store.settle()?;
            store.finish()?;
        }
    }
    match (found, left) {
        (0, _) => writeln!(out, "nothing is wrong")?,
        (_, 0) => writeln!(out, "{found} found, nothing is left to repair")?,
        _ if arguments.fix => writeln!(out, "{found} found, {left} left to repair by hand")?,
        _ => {
            let command = remedy::repair(
                arguments.data_dir(),
                arguments.network.as_deref(),
                arguments.sandboxes.as_deref(),
            );
            writeln!(out, "{found} found, {left} to repair: {command}")?;
        }
    }
    Ok(left == 0)
}

fn examine(
    store: &Store,
    lost: BTreeMap<IpAddr, Sandbox>,
    sandboxes: Option<&[String]>,
) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in names(store.directory())?
        .into_iter()
        .filter(|name| name != LOCK)
    {
        let path = store.directory().join(&name);
        if let Some(address) = address_of(&name) {
            match store.lease(address)? {
                Lease::Broken if lost.contains_key(&address) => {}
                Lease::Broken => findings.push(Finding::Corrupt(address)),
                Lease::Foreign => findings.push(obstacle(store, address)),
                Lease::Free | Lease::Of(_) => {}
            }
        } else if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            findings.push(Finding::Foreign(path));
        } else if let Ok(address) = name.parse::<IpAddr>() {
            findings.push(Finding::Duplicate(name, address.to_canonical()));
        } else if name.starts_with(LAST) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if text.trim().parse::<IpAddr>().is_err() {
                findings.push(Finding::Last(name));
            }
        } else {
            findings.push(Finding::Foreign(path));
        }
    }
    let leaks = leaks(store, sandboxes)?.into_iter();
    findings.extend(leaks.map(|(address, (owner, why))| Finding::Leaked(address, owner, why)));
    findings.extend(reservations(store, &lost)?);
    findings.extend(
        lost.into_iter()
            .map(|(address, sandbox)| Finding::Lost(address, sandbox)),
    );
    Ok(findings)
}

/// The finding for an entry that is not a file.
pub(super) fn obstacle(store: &Store, address: IpAddr) -> Finding {
    let path = store.lease_path(address);
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_directory && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none()) {
        return Finding::EmptyDirectory(path, address);
    }
    Finding::Obstacle(path, address)
}

/// Leases of sandboxes that no longer exist, and why: their namespace has gone, or the runtime does
/// not know them.
///
/// # Errors
/// A file cannot be read.
pub(super) fn leaks(
    store: &Store,
    sandboxes: Option<&[String]>,
) -> io::Result<BTreeMap<IpAddr, (Owner, String)>> {
    let leaked = store.leaked()?.into_iter();
    let mut leaks: BTreeMap<_, _> = leaked
        .map(|(address, sandbox)| {
            (
                address,
                (
                    sandbox.owner,
                    format!("whose namespace {} has gone", sandbox.netns),
                ),
            )
        })
        .collect();
    for (address, owner) in
        sandboxes.map_or(Ok(Vec::new()), |sandboxes| unknown(store, sandboxes, YOUNG))?
    {
        leaks.insert(address, (owner, "which the runtime does not know".into()));
    }
    Ok(leaks)
}

/// Leases that are in use by containers that are not among `sandboxes`, and that are older than
/// `age` seconds.
///
/// # Errors
/// A lease cannot be read.
pub(super) fn unknown(
    store: &Store,
    sandboxes: &[String],
    age: u64,
) -> io::Result<Vec<(IpAddr, Owner)>> {
    let mut kept: HashMap<IpAddr, Reservation> = HashMap::new();
    for reservation in store
        .all_reservations()?
        .into_iter()
        .filter(|found| found.released.is_some())
    {
        kept.extend(
            reservation
                .addresses
                .iter()
                .map(|address| (*address, reservation.clone())),
        );
    }
    let mut unknown = Vec::new();
    for address in store.held()? {
        let Lease::Of(owner) = store.lease(address)? else {
            continue;
        };
        let is_kept = kept
            .get(&address)
            .is_some_and(|reservation| reservation.holds(&owner));
        if is_kept || sandboxes.contains(&owner.container) {
            continue;
        }
        let path = store.lease_path(address);
        let written = fs::metadata(&path)
            .and_then(|found| found.modified())
            .map_err(at(&path))?;
        let written = written
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        if store.now().saturating_sub(written) >= age {
            unknown.push((address, owner));
        }
    }
    Ok(unknown)
}

fn reservations(store: &Store, lost: &BTreeMap<IpAddr, Sandbox>) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut holders: HashMap<IpAddr, usize> = HashMap::new();
    let all = store.all_reservations()?;
    let most = store.recorded_max_minutes()?;
    for address in all.iter().flat_map(|reservation| &reservation.addresses) {
        *holders.entry(*address).or_default() += 1;
    }
    for reservation in all {
        let mut held = 0;
        for address in &reservation.addresses {
            let owner = match store.lease(*address)? {
                Lease::Of(owner) => Some(owner),
                _ => lost.get(address).map(|sandbox| sandbox.owner.clone()),
            };
            let holds = owner.is_some_and(|owner| reservation.holds(&owner));
            held += usize::from(holds);
            if !holds && holders.get(address).is_some_and(|count| *count > 1) {
                findings.push(Finding::Reservation(reservation.clone(), *address));
            }
        }
        if held == 0 {
            findings.push(Finding::Empty(reservation));
        } else if let Some(most) = most.filter(|most| reservation.minutes > *most) {
            findings.push(Finding::TooLong(reservation, most));
        }
    }
    Ok(findings)
}

/// Repairs one fault. `false`: it is left alone.
fn fix(store: &mut Store, finding: &Finding) -> io::Result<bool> {
    match finding {
        Finding::Corrupt(address) => store.free(*address)?,
        Finding::Lost(address, sandbox) => return store.restore(*address, &sandbox.owner),
        Finding::Leaked(_, owner, _) => take_back(store, owner, None, None)?,
        Finding::Foreign(_) | Finding::Obstacle(..) => return Ok(false),
        Finding::EmptyDirectory(_, address) => return store.remove_empty_directory(*address),
        Finding::Last(name) | Finding::Duplicate(name, _) => store.remove_file(name)?,
        Finding::Empty(reservation) => store.drop_reservation(reservation)?,
        Finding::TooLong(reservation, most) => store.shorten(reservation, *most)?,
        Finding::Reservation(reservation, address) => {
            let mut rest = reservation.clone();
            rest.addresses.retain(|found| found != address);
            store.set_reservation(&rest)?;
        }
    }
    Ok(true)
}
