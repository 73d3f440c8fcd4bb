//! ADD: chooses and claims addresses, then records them, or frees them again.

use std::{collections::HashSet, io, net::IpAddr};

use super::{check_namespace, neighbour, open, owned};
use crate::{
    allocator::offers,
    call::Call,
    config::{Config, Request, document::WhenExhausted},
    failure::{Failure, INTERNAL, TRY_AGAIN_LATER},
    range::{Range, RangeSet},
    record::{Attachment, Reservation},
    remedy,
    result::{self, Dns, Given},
    store::{Lease, Store},
};

/// After so many taken addresses, the directory is read once instead of one read for each.
const TRIES: usize = 64;

/// ADD: an address of each set, the ones that are kept for the pod first.
///
/// # Errors
/// Why there are none; then nothing is held.
pub fn add(call: &Call, config: &Config) -> Result<String, Failure> {
    check_namespace(call)?;
    let request = config.request(&call.arguments)?;
    let dns = request
        .resolv_conf
        .as_deref()
        .map(Dns::read)
        .transpose()?
        .unwrap_or_default();
    let mut store = open(config)?;
    store.settle()?;
    let mut adding = Adding::begin(&mut store, call, config, &request)?;
    let given = match adding
        .choose()
        .and_then(|given| adding.write_down(&given).map(|()| given))
    {
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
    /// The attachment as it was before the call.
    before: Attachment,
    /// The pod's reservation, where its addresses may be taken up.
    reservation: Option<Reservation>,
    /// The addresses that this call claimed.
    claimed: Vec<IpAddr>,
    /// The addresses that are taken up from the reservation.
    taken_up: Vec<IpAddr>,
}

impl<'a> Adding<'a> {
    fn begin(
        store: &'a mut Store,
        call: &'a Call,
        config: &'a Config,
        request: &'a Request,
    ) -> io::Result<Self> {
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
            let requested = wanted
                .iter()
                .position(|address| set.range_of(*address).is_some());
            let requested = requested.map(|position| wanted.remove(position));
            let chosen = match requested {
                Some(address) => self.claim_requested(index, set, address),
                None => self.claim_any(index, set),
            };
            let (address, range) = chosen.map_err(|failure| Failure {
                message: format!("failed to allocate for range {index}: {}", failure.message),
                ..failure
            })?;
            given.push(Given {
                address,
                prefix: range.subnet.prefix,
                gateway: range.gateway,
            });
        }
        if wanted.is_empty() {
            return Ok(given);
        }
        let left: Vec<_> = wanted.iter().map(ToString::to_string).collect();
        Err(Failure::new(
            INTERNAL,
            format!("failed to allocate all requested IPs: {}", left.join(" ")),
        ))
    }

    fn claim_requested(
        &mut self,
        index: usize,
        set: &'a RangeSet,
        address: IpAddr,
    ) -> Result<(IpAddr, &'a Range), Failure> {
        let not_there = || Failure::new(INTERNAL, format!("{address} not in range set {set}"));
        let range = set.range_of(address).ok_or_else(not_there)?;
        if address == range.gateway {
            return Err(Failure::new(
                INTERNAL,
                format!("requested ip {address} is subnet's gateway"),
            ));
        }
        if self.take_up(address)? || self.claim(index, address)? {
            return Ok((address, range));
        }
        Err(Failure::new(
            INTERNAL,
            format!("requested IP address {address} is not available in range set {set}"),
        ))
    }

    fn claim_any(
        &mut self,
        index: usize,
        set: &'a RangeSet,
    ) -> Result<(IpAddr, &'a Range), Failure> {
        if let Some(has) = self
            .before
            .addresses
            .iter()
            .find(|address| set.range_of(**address).is_some())
        {
            let container = &self.call.owner.container;
            let message = format!(
                "{has} has been allocated to {container}, duplicate allocation is not allowed"
            );
            return Err(Failure::new(INTERNAL, message));
        }
        let kept = self
            .reservation
            .iter()
            .flat_map(|reservation| reservation.addresses.clone());
        for address in kept.collect::<Vec<_>>() {
            if let Some(range) = set
                .range_of(address)
                .filter(|range| range.gateway != address)
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
                WhenExhausted::TakeOldest => self.store.next_to_give_way(|address| {
                    set.range_of(address)
                        .is_some_and(|range| range.gateway != address)
                })?,
            };
            // The pod's own reservation does not end for the pod itself: all addresses that it
            // could take up are taken up.
            let Some(next) = next.filter(|next| Some(&next.pod) != own.as_ref()) else {
                return Err(exhausted(self.store, self.config, set));
            };
            self.store.end(&next)?;
        }
    }

    fn claim_next(
        &mut self,
        index: usize,
        set: &'a RangeSet,
    ) -> io::Result<Option<(IpAddr, &'a Range)>> {
        let last = self.store.last(index);
        let mut held: Option<HashSet<IpAddr>> = None;
        for (tried, offer) in offers(set, last).enumerate() {
            if tried == TRIES {
                held = Some(self.store.held()?);
            }
            if held
                .as_ref()
                .is_some_and(|held| held.contains(&offer.address))
            {
                continue;
            }
            if self.claim(index, offer.address)? {
                return Ok(Some((offer.address, offer.range)));
            }
        }
        Ok(None)
    }

    fn claim(&mut self, index: usize, address: IpAddr) -> io::Result<bool> {
        let claimed = self
            .store
            .claim(address, &self.call.owner, self.minutes > 0)?;
        if claimed {
            self.claimed.push(address);
            self.store.set_last(index, address);
        }
        Ok(claimed)
    }

    /// Whether the address is kept for this pod. Its lease gets the new owner after everything is
    /// recorded.
    fn take_up(&mut self, address: IpAddr) -> io::Result<bool> {
        let Some(reservation) = &self.reservation else {
            return Ok(false);
        };
        let kept = reservation.addresses.contains(&address)
            && !self.taken_up.contains(&address)
            && matches!(self.store.lease(address)?, Lease::Of(owner) if reservation.holds(&owner));
        if kept {
            self.taken_up.push(address);
        }
        Ok(kept)
    }

    /// Writes the records of the chosen addresses. The attachment and the reservation come first,
    /// so that either of them tells the next call the owner of a lease that this call left
    /// unwritten.
    fn write_down(&mut self, given: &[Given]) -> Result<(), Failure> {
        let mut addresses: Vec<_> = given.iter().map(|given| given.address).collect();
        addresses.sort_unstable();
        let owner = &self.call.owner;
        let netns = self.call.netns.clone();
        let pod = self.call.arguments.pod.clone();
        let mut has = self.before.addresses.clone();
        has.extend(&addresses);
        has.sort_unstable();
        let attachment = Attachment {
            addresses: has,
            netns: netns.clone(),
            pod: pod.clone(),
            minutes: self.minutes,
        };
        self.store.set_attachment(owner, &attachment)?;
        let Some(pod) = pod.filter(|_| self.minutes > 0) else {
            return Ok(());
        };
        if let Some(old) = &self.reservation {
            let left = old
                .addresses
                .iter()
                .filter(|address| !self.taken_up.contains(address))
                .copied()
                .collect();
            let left = Reservation {
                addresses: left,
                ..old.clone()
            };
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

    /// Frees the addresses that this call claimed. The index comes first, so that no call makes
    /// their leases again. The caller reports its first error, not one of this clean-up. DEL finds
    /// an address that cannot be freed here, because the directory of leases has lost its mark.
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

/// The failure of a set without a free address. It says how many addresses of the set `doctor`
/// makes available.
pub(super) fn exhausted(store: &Store, config: &Config, set: &RangeSet) -> Failure {
    let failure = Failure::new(
        TRY_AGAIN_LATER,
        format!("no IP addresses available in range set: {set}"),
    );
    // An error here would hide the failure, and only costs its remedy.
    let leaked = store.leaked().unwrap_or_default();
    let gives_way = config.keep.when_exhausted == WhenExhausted::TakeOldest;
    let freed = leaked.iter().filter(|(address, sandbox)| {
        set.range_of(**address)
            .is_some_and(|range| range.gateway != **address)
            && (gives_way || sandbox.minutes == 0)
    });
    match freed.count() {
        0 => failure,
        freed => failure.with(format!(
            "leaked leases in this range set: {freed}, because their sandboxes have gone; to free them, run on this node: {}",
            remedy::repair(&config.data_dir, Some(&config.network), None)
        )),
    }
}

/// Whether the reservation's addresses are unused: it was released, or the network namespace of its
/// sandbox has gone.
fn is_takable(store: &Store, reservation: &Reservation) -> bool {
    reservation.released.is_some()
        || (!reservation.netns.is_empty() && !store.lives(&reservation.netns))
}
