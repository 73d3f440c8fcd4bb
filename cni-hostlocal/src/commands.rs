//! CNI's calls: what is decided of ranges and records, in the order in which a crash leaves nothing behind.

use std::{collections::HashSet, io, net::IpAddr};

use crate::{
    allocator::offers,
    call::{Call, Command},
    config::{Config, Request, WhenExhausted},
    failure::{Failure, INCOMPATIBLE_VERSION, INTERNAL, INVALID_NAMESPACE, IO_FAILURE, NOT_AVAILABLE, TRY_AGAIN_LATER},
    lease::Owner,
    neighbour, node,
    range::{Range, RangeSet},
    record::{Attachment, Pod, Reservation},
    remedy,
    result::{self, Dns, Given},
    store::{Lease, Store},
};

/// After so many addresses that somebody has, the directory is read once instead of asking for each.
const TRIES: usize = 64;

/// The version of CNI that VERSION's input names; empty when it names none.
pub fn asked_version(json: &[u8]) -> String {
    let input: Option<serde_json::Value> = serde_json::from_slice(json).ok();
    let version = input.as_ref().and_then(|input| input.get("cniVersion")?.as_str());
    version.unwrap_or_default().into()
}

fn open(config: &Config) -> io::Result<Store> {
    Ok(Store::open(&config.data_dir, &config.network, config.sync)?.with_max_minutes(config.max_minutes()))
}

fn check_namespace(call: &Call) -> Result<(), Failure> {
    if call.netns_override || call.netns.is_empty() || !node::is_own_namespace(&call.netns) {
        return Ok(());
    }
    Err(Failure::new(INVALID_NAMESPACE, "plugin's netns and netns from CNI_NETNS should not be the same"))
}

/// ADD: an address of each set, the ones that are kept for the pod first.
///
/// # Errors
/// Why there are none; then nothing is held.
pub fn add(call: &Call, config: &Config) -> Result<String, Failure> {
    check_namespace(call)?;
    let request = config.request(&call.arguments)?;
    let dns = request.resolv_conf.as_deref().map(Dns::read).transpose()?.unwrap_or_default();
    let mut store = open(config)?;
    store.settle()?;
    let mut adding = Adding::begin(&mut store, call, config, &request)?;
    let given = match adding.choose().and_then(|given| adding.write_down(&given).map(|()| given)) {
        Ok(given) => given,
        Err(failure) => {
            adding.undo();
            return Err(failure);
        }
    };
    store.finish()?;
    neighbour::forget(&given.iter().map(|given| given.address).collect::<Vec<_>>());
    Ok(result::added(config.version, &given, &request.routes, &dns))
}

/// One ADD under way.
struct Adding<'a> {
    store: &'a mut Store,
    call: &'a Call,
    config: &'a Config,
    request: &'a Request,
    minutes: u32,
    /// What the attachment has already.
    before: Attachment,
    /// The pod's reservation, where its addresses may be taken up.
    reservation: Option<Reservation>,
    /// What was claimed by this call.
    claimed: Vec<IpAddr>,
    /// What is taken up from the reservation.
    taken_up: Vec<IpAddr>,
}

impl<'a> Adding<'a> {
    fn begin(store: &'a mut Store, call: &'a Call, config: &'a Config, request: &'a Request) -> io::Result<Self> {
        let pod = call.arguments.pod.as_ref();
        let minutes = config.minutes(pod);
        let before = owned(store, &call.owner)?;
        let reservation = match pod.filter(|_| minutes > 0) {
            None => None,
            Some(pod) => {
                let found = store.reservation(pod, &call.owner.interface)?;
                found.filter(|found| is_takable(store, found))
            }
        };
        Ok(Self {
            store,
            call,
            config,
            request,
            minutes,
            before,
            reservation,
            claimed: Vec::new(),
            taken_up: Vec::new(),
        })
    }

    /// Chooses and claims an address of each set.
    fn choose(&mut self) -> Result<Vec<Given>, Failure> {
        let mut wanted = self.request.wanted.clone();
        let mut given = Vec::with_capacity(self.request.sets.len());
        for (index, set) in self.request.sets.iter().enumerate() {
            let asked = wanted.iter().position(|address| set.range_of(*address).is_some());
            let asked = asked.map(|position| wanted.remove(position));
            let chosen = match asked {
                Some(address) => self.claim_asked(index, set, address),
                None => self.claim_any(index, set),
            };
            let (address, range) = chosen.map_err(|failure| Failure {
                message: format!("failed to allocate for range {index}: {}", failure.message),
                ..failure
            })?;
            given.push(Given { address, prefix: range.subnet.prefix, gateway: range.gateway });
        }
        if wanted.is_empty() {
            return Ok(given);
        }
        let left: Vec<_> = wanted.iter().map(ToString::to_string).collect();
        Err(Failure::new(INTERNAL, format!("failed to allocate all requested IPs: {}", left.join(" "))))
    }

    fn claim_asked(
        &mut self,
        index: usize,
        set: &'a RangeSet,
        address: IpAddr,
    ) -> Result<(IpAddr, &'a Range), Failure> {
        let not_there = || Failure::new(INTERNAL, format!("{address} not in range set {set}"));
        let range = set.range_of(address).ok_or_else(not_there)?;
        if address == range.gateway {
            return Err(Failure::new(INTERNAL, format!("requested ip {address} is subnet's gateway")));
        }
        if self.take_up(address)? || self.claim(index, address)? {
            return Ok((address, range));
        }
        Err(Failure::new(INTERNAL, format!("requested IP address {address} is not available in range set {set}")))
    }

    fn claim_any(&mut self, index: usize, set: &'a RangeSet) -> Result<(IpAddr, &'a Range), Failure> {
        if let Some(has) = self.before.addresses.iter().find(|address| set.range_of(**address).is_some()) {
            let container = &self.call.owner.container;
            let message = format!("{has} has been allocated to {container}, duplicate allocation is not allowed");
            return Err(Failure::new(INTERNAL, message));
        }
        let kept = self.reservation.iter().flat_map(|reservation| reservation.addresses.clone());
        for address in kept.collect::<Vec<_>>() {
            if let Some(range) = set.range_of(address).filter(|range| range.gateway != address)
                && self.take_up(address)?
            {
                return Ok((address, range));
            }
        }
        loop {
            if let Some(found) = self.claim_next(index, set)? {
                return Ok(found);
            }
            let own = self.reservation.as_ref().map(|own| own.pod.clone());
            let next = match self.config.keep.when_exhausted {
                WhenExhausted::Fail => None,
                WhenExhausted::TakeOldest => self
                    .store
                    .next_to_give_way(|address| set.range_of(address).is_some_and(|range| range.gateway != address))?,
            };
            // The pod's own is not given up for itself: what could be taken up of it was.
            let Some(next) = next.filter(|next| Some(&next.pod) != own.as_ref()) else {
                return Err(exhausted(self.store, self.config, set));
            };
            self.store.end(&next)?;
        }
    }

    fn claim_next(&mut self, index: usize, set: &'a RangeSet) -> io::Result<Option<(IpAddr, &'a Range)>> {
        let last = self.store.last(index);
        let mut held: Option<HashSet<IpAddr>> = None;
        for (tried, offer) in offers(set, last).enumerate() {
            if tried == TRIES {
                held = Some(self.store.held()?);
            }
            if held.as_ref().is_some_and(|held| held.contains(&offer.address)) {
                continue;
            }
            if self.claim(index, offer.address)? {
                return Ok(Some((offer.address, offer.range)));
            }
        }
        Ok(None)
    }

    fn claim(&mut self, index: usize, address: IpAddr) -> io::Result<bool> {
        let claimed = self.store.claim(address, &self.call.owner, self.minutes > 0)?;
        if claimed {
            self.claimed.push(address);
            self.store.set_last(index, address);
        }
        Ok(claimed)
    }

    /// Whether the address is kept for this pod. Its lease changes hands when everything is written down.
    fn take_up(&mut self, address: IpAddr) -> io::Result<bool> {
        let Some(reservation) = &self.reservation else { return Ok(false) };
        let kept = reservation.addresses.contains(&address)
            && !self.taken_up.contains(&address)
            && matches!(self.store.lease(address)?, Lease::Of(owner) if reservation.holds(&owner));
        if kept {
            self.taken_up.push(address);
        }
        Ok(kept)
    }

    /// Writes down what was chosen. The attachment and the reservation come first: whatever a lease says afterwards, either
    /// of them tells the next call whose it is.
    fn write_down(&mut self, given: &[Given]) -> Result<(), Failure> {
        let mut addresses: Vec<_> = given.iter().map(|given| given.address).collect();
        addresses.sort_unstable();
        let owner = &self.call.owner;
        let netns = self.call.netns.clone();
        let pod = self.call.arguments.pod.clone();
        let mut has = self.before.addresses.clone();
        has.extend(&addresses);
        has.sort_unstable();
        let attachment = Attachment { addresses: has, netns: netns.clone(), pod: pod.clone(), minutes: self.minutes };
        self.store.set_attachment(owner, &attachment)?;
        let Some(pod) = pod.filter(|_| self.minutes > 0) else { return Ok(()) };
        if let Some(old) = &self.reservation {
            let left = old.addresses.iter().filter(|address| !self.taken_up.contains(address)).copied().collect();
            let left = Reservation { addresses: left, ..old.clone() };
            for address in &left.addresses {
                if matches!(self.store.lease(*address)?, Lease::Of(found) if left.holds(&found)) {
                    self.store.free(*address)?;
                }
            }
        }
        self.store.set_reservation(&Reservation {
            pod,
            addresses,
            owner: owner.clone(),
            before: self
                .reservation
                .as_ref()
                .map(|old| old.owner.container.clone())
                .filter(|old| *old != owner.container),
            netns,
            minutes: self.minutes,
            released: None,
        })?;
        if let Some(old) = &self.reservation {
            self.store.unschedule(old)?;
        }
        for address in &self.taken_up {
            self.store.assign(*address, owner, true)?;
        }
        if let Some(old) = self.reservation.as_ref().filter(|old| old.owner != *owner) {
            self.store.forget(&old.owner)?;
        }
        Ok(())
    }

    /// Lets go what this call claimed, in the index first, so that no call makes the leases again. The error that led here is
    /// the one to tell; what cannot be undone now either is found by DEL, for the directory of leases has lost its mark.
    fn undo(&mut self) {
        if self.taken_up.is_empty() {
            _ = if self.before.addresses.is_empty() {
                self.store.forget(&self.call.owner)
            } else {
                self.store.set_attachment(&self.call.owner, &self.before)
            };
        }
        for address in std::mem::take(&mut self.claimed) {
            _ = self.store.free(address);
        }
    }
}

/// The failure of a set without a free address. It says how many addresses of the set `doctor` makes available.
fn exhausted(store: &Store, config: &Config, set: &RangeSet) -> Failure {
    let failure = Failure::new(TRY_AGAIN_LATER, format!("no IP addresses available in range set: {set}"));
    // An error here would hide the failure, and only costs its remedy.
    let leaked = store.leaked().unwrap_or_default();
    let gives_way = config.keep.when_exhausted == WhenExhausted::TakeOldest;
    let freed = leaked.iter().filter(|(address, sandbox)| {
        set.range_of(**address).is_some_and(|range| range.gateway != **address) && (gives_way || sandbox.minutes == 0)
    });
    match freed.count() {
        0 => failure,
        freed => failure.with(format!(
            "leaked leases in this range set: {freed}, because their sandboxes have gone; to free them, run on this node: {}",
            remedy::repair(&config.data_dir, Some(&config.network), None)
        )),
    }
}

/// Whether nobody uses what the reservation holds: it was released, or the namespace of its sandbox has gone.
fn is_takable(store: &Store, reservation: &Reservation) -> bool {
    reservation.released.is_some() || (!reservation.netns.is_empty() && !store.lives(&reservation.netns))
}

/// What an attachment has: what the index says, as far as the leases agree.
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

/// DEL: takes the attachment's addresses back, or begins the time that they are kept.
///
/// # Errors
/// A file cannot be removed.
pub fn del(call: &Call, config: &Config) -> Result<(), Failure> {
    check_namespace(call)?;
    let mut store = open(config)?;
    if let Err(error) = store.settle() {
        // A full disk must not keep a pod from ending: freeing needs no space, only the sight of all leases.
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
    for own in reservations.iter().filter(|found| found.owner == *owner && found.released.is_none()) {
        store.drop_reservation(own)?;
    }
    forget(&mut store, owner)?;
    store.finish()
}

/// Takes back what an attachment has. `pod` and `minutes` are what the caller knows; otherwise it is what ADD was told.
///
/// # Errors
/// A file cannot be removed.
pub fn take_back(store: &mut Store, owner: &Owner, pod: Option<&Pod>, minutes: Option<u32>) -> io::Result<()> {
    let attachment = owned(store, owner)?;
    let pod = pod.cloned().or(attachment.pod);
    let minutes = minutes.filter(|minutes| *minutes > 0).unwrap_or(attachment.minutes);
    let reservation = match &pod {
        Some(pod) => store.reservation(pod, &owner.interface)?,
        None => None,
    };
    let own = reservation.as_ref().filter(|reservation| reservation.owner == *owner);
    if own.is_some_and(|own| own.released.is_some()) {
        // DEL again: the time runs since the first.
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
            // The pod must end even when nothing can be written down for its successor.
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
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// CHECK: whether the attachment still has what ADD gave it.
///
/// # Errors
/// It has not.
pub fn check(call: &Call, config: &Config) -> Result<(), Failure> {
    if !config.is_at_least("0.4.0") {
        return Err(Failure::new(INCOMPATIBLE_VERSION, "config version does not allow CHECK"));
    }
    let request = config.request(&call.arguments)?;
    let mut store = open(config)?;
    store.settle()?;
    let has = owned(&mut store, &call.owner)?.addresses;
    store.finish()?;
    let lost = config
        .previous
        .iter()
        .find(|address| request.sets.iter().any(|set| set.range_of(**address).is_some()) && !has.contains(address));
    let container = &call.owner.container;
    let not_found = format!("host-local: Failed to find address added by container {container}");
    match lost {
        Some(lost) => Err(Failure::new(INTERNAL, not_found).with(format!("{lost} is not leased to it"))),
        None if has.is_empty() => Err(Failure::new(INTERNAL, not_found)),
        None => Ok(()),
    }
}

/// GC: takes back what attachments have that are no more.
///
/// # Errors
/// What could not be taken back; everything else was.
pub fn gc(config: &Config) -> Result<(), Failure> {
    if !config.is_at_least("1.1.0") {
        return Err(Failure::new(INCOMPATIBLE_VERSION, "config version does not allow GC"));
    }
    let mut store = open(config)?;
    store.settle()?;
    let valid: HashSet<_> = config.valid.iter().map(Owner::file_name).collect();
    let failed = collect(&mut store, |entry| valid.contains(entry))?;
    store.finish()?;
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(IO_FAILURE, failed.join("; "))) }
}

/// Takes back what the attachments have of which `is_valid` is false (by the names of their files). Returns what failed.
///
/// # Errors
/// The index cannot be read.
pub fn collect(store: &mut Store, is_valid: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut failed = Vec::new();
    for (entry, attachment) in store.all_attachments()? {
        if is_valid(&entry) {
            continue;
        }
        // The lease has the whole name, which the file's name may be cut from.
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
            failed.extend(store.release(&mut reservation).err().map(|error| format!("{}: {error}", reservation.pod)));
        }
    }
    Ok(failed)
}

/// STATUS: whether an ADD would find addresses and could write them down.
///
/// # Errors
/// It would not.
pub fn status(call: &Call, config: &Config) -> Result<(), Failure> {
    debug_assert_eq!(call.command, Command::Status);
    if !config.is_at_least("1.1.0") {
        return Err(Failure::new(INCOMPATIBLE_VERSION, "config version does not allow STATUS"));
    }
    let request = config.request(&call.arguments)?;
    let unavailable = |error: io::Error| Failure::new(NOT_AVAILABLE, error.to_string());
    let mut store = open(config).map_err(unavailable)?;
    store.settle().map_err(unavailable)?;
    let held = store.held().map_err(unavailable)?;
    for set in &request.sets {
        let free = offers(set, None).any(|offer| !held.contains(&offer.address));
        let gives_way = config.keep.when_exhausted == WhenExhausted::TakeOldest
            && !free
            && store.next_to_give_way(|address| set.range_of(address).is_some()).map_err(unavailable)?.is_some();
        if !free && !gives_way {
            return Err(Failure { code: NOT_AVAILABLE, ..exhausted(&store, config, set) });
        }
    }
    store.finish().map_err(unavailable)
}
