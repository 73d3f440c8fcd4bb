//! CNI's calls. They decide on ranges and records, and write in an order in which a crash leaves
//! nothing behind.

mod add;
pub mod neighbour;
mod status;

use std::{collections::HashSet, io};

pub use self::{add::add, status::status};
use crate::{
    call::Call,
    config::Config,
    failure::{Failure, INCOMPATIBLE_VERSION, INTERNAL, INVALID_NAMESPACE, IO_FAILURE},
    lease::Owner,
    node,
    record::{Attachment, Pod, Reservation},
    store::{Lease, Store},
};

/// The version of CNI that VERSION's input names; empty when it names none.
pub fn requested_version(json: &[u8]) -> String {
    let input: Option<serde_json::Value> = serde_json::from_slice(json).ok();
    let version = input
        .as_ref()
        .and_then(|input| input.get("cniVersion")?.as_str());
    version.unwrap_or_default().into()
}

fn open(config: &Config) -> io::Result<Store> {
    Ok(Store::open(&config.data_dir, &config.network, config.sync)?
        .with_max_minutes(config.max_minutes()))
}

fn check_namespace(call: &Call) -> Result<(), Failure> {
    if call.netns_override || call.netns.is_empty() || !node::is_own_namespace(&call.netns) {
        return Ok(());
    }
    Err(Failure::new(
        INVALID_NAMESPACE,
        "plugin's netns and netns from CNI_NETNS should not be the same",
    ))
}

/// The addresses of an attachment: those in the index, as far as the leases agree.
fn owned(store: &mut Store, owner: &Owner) -> io::Result<Attachment> {
    let found = match store.attachment(owner)? {
        Some(found) => Some(found),
        // A very old plugin wrote no interface.
        None => store.attachment(&owner.without_interface())?,
    };
    let mut attachment = found.unwrap_or_default();
    let mut addresses = Vec::with_capacity(attachment.addresses.len());
    for address in attachment.addresses {
        if matches!(store.lease(address)?, Lease::Of(found) if owner.is(&found)) {
            addresses.push(address);
        }
    }
    attachment.addresses = addresses;
    Ok(attachment)
}

/// DEL: releases the attachment's addresses, or begins the time that they are kept.
///
/// # Errors
/// A file cannot be removed.
pub fn del(call: &Call, config: &Config) -> Result<(), Failure> {
    check_namespace(call)?;
    let mut store = open(config)?;
    if let Err(error) = store.settle() {
        // A full disk must not keep a pod from ending: freeing needs no space, only a read of all
        // leases.
        return free_unsettled(store, &call.owner).map_err(|_| error.into());
    }
    let pod = call.arguments.pod.as_ref();
    let minutes = pod.map(|pod| config.minutes(Some(pod)));
    take_back(&mut store, &call.owner, pod, minutes)?;
    store.finish()?;
    Ok(())
}

fn free_unsettled(mut store: Store, owner: &Owner) -> io::Result<()> {
    for address in store.held()? {
        if matches!(store.lease(address)?, Lease::Of(found) if owner.is(&found)) {
            store.free(address)?;
        }
    }
    let reservations = store.all_reservations()?;
    for own in reservations
        .iter()
        .filter(|found| found.owner == *owner && found.released.is_none())
    {
        store.drop_reservation(own)?;
    }
    forget(&mut store, owner)?;
    store.finish()
}

/// Releases the addresses of an attachment. `pod` and `minutes` are known by the caller; without
/// them the record of ADD counts.
///
/// # Errors
/// A file cannot be removed.
pub fn take_back(
    store: &mut Store,
    owner: &Owner,
    pod: Option<&Pod>,
    minutes: Option<u32>,
) -> io::Result<()> {
    let attachment = owned(store, owner)?;
    let pod = pod.cloned().or(attachment.pod);
    let minutes = minutes
        .filter(|minutes| *minutes > 0)
        .unwrap_or(attachment.minutes);
    let reservation = match &pod {
        Some(pod) => store.reservation(pod, &owner.interface)?,
        None => None,
    };
    let own = reservation
        .as_ref()
        .filter(|reservation| reservation.owner == *owner);
    if own.is_some_and(|own| own.released.is_some()) {
        // DEL again: the time counts from the first DEL.
        return forget(store, owner);
    }
    let mut addresses = attachment.addresses;
    if let Some(own) = own {
        for address in &own.addresses {
            let holds = matches!(store.lease(*address)?, Lease::Of(found) if own.holds(&found));
            if holds && !addresses.contains(address) {
                addresses.push(*address);
            }
        }
    }
    let of_another = reservation.is_some() && own.is_none();
    if let Some(pod) = pod.filter(|_| minutes > 0 && !of_another && !addresses.is_empty()) {
        let mut kept = Reservation {
            pod,
            addresses: addresses.clone(),
            owner: owner.clone(),
            before: own.and_then(|own| own.before.clone()),
            netns: String::new(),
            minutes,
            released: None,
        };
        match store.release(&mut kept) {
            Ok(()) => return forget(store, owner),
            // The pod must end even if nothing can be recorded for its successor.
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(error),
        }
    }
    for address in addresses {
        store.free(address)?;
    }
    if let Some(own) = own {
        store.drop_reservation(own)?;
    }
    forget(store, owner)
}

fn forget(store: &mut Store, owner: &Owner) -> io::Result<()> {
    store.forget(owner)?;
    store.forget(&owner.without_interface())
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// CHECK: whether the attachment still has the addresses that ADD gave it.
///
/// # Errors
/// It does not have them.
pub fn check(call: &Call, config: &Config) -> Result<(), Failure> {
    if !config.is_at_least("0.4.0") {
        return Err(Failure::new(
            INCOMPATIBLE_VERSION,
            "config version does not allow CHECK",
        ));
    }
    let request = config.request(&call.arguments)?;
    let mut store = open(config)?;
    store.settle()?;
    let has = owned(&mut store, &call.owner)?.addresses;
    store.finish()?;
    let lost = config.previous.iter().find(|address| {
        request
            .sets
            .iter()
            .any(|set| set.range_of(**address).is_some())
            && !has.contains(address)
    });
    let container = &call.owner.container;
    let not_found = format!("host-local: Failed to find address added by container {container}");
    match lost {
        Some(lost) => {
            Err(Failure::new(INTERNAL, not_found).with(format!("{lost} is not leased to it")))
        }
        None if has.is_empty() => Err(Failure::new(INTERNAL, not_found)),
        None => Ok(()),
    }
}

/// GC: releases the addresses of attachments that no longer exist.
///
/// # Errors
/// The addresses that could not be released; all others were.
pub fn gc(config: &Config) -> Result<(), Failure> {
    if !config.is_at_least("1.1.0") {
        return Err(Failure::new(
            INCOMPATIBLE_VERSION,
            "config version does not allow GC",
        ));
    }
    let mut store = open(config)?;
    store.settle()?;
    let valid: HashSet<_> = config.valid.iter().map(Owner::file_name).collect();
    let failed = collect(&mut store, |entry| valid.contains(entry))?;
    store.finish()?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(IO_FAILURE, failed.join("; ")))
    }
}

/// Releases the addresses of the attachments for which `is_valid` is false (by the names of their
/// files). Returns the failures.
///
/// # Errors
/// The index cannot be read.
pub fn collect(store: &mut Store, is_valid: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut failed = Vec::new();
    for (entry, attachment) in store.all_attachments()? {
        if is_valid(&entry) {
            continue;
        }
        // The lease has the whole name; the file's name may be a cut one.
        let mut owner = None;
        for address in &attachment.addresses {
            if let Lease::Of(found) = store.lease(*address)?
                && found.file_name() == entry
            {
                owner = Some(found);
            }
        }
        let done = match owner {
            Some(owner) => take_back(store, &owner, None, None),
            None => store.forget_entry(&entry),
        };
        failed.extend(done.err().map(|error| format!("{entry}: {error}")));
    }
    for mut reservation in store.all_reservations()? {
        if reservation.released.is_none() && !is_valid(&reservation.owner.file_name()) {
            failed.extend(
                store
                    .release(&mut reservation)
                    .err()
                    .map(|error| format!("{}: {error}", reservation.pod)),
            );
        }
    }
    Ok(failed)
}
