//! The order in which the addresses of a set are tried.

use std::net::IpAddr;

use crate::range::{Range, RangeSet, bits, from_bits};

/// An address that may be given out, and its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer<'a> {
    /// The address.
    pub address: IpAddr,
    /// The range that has it.
    pub range: &'a Range,
}

/// Every address of `set` once, without gateways, starting after `last`, the address that was given
/// last. So a released address is given again only after all others had their turn. A `last`
/// outside the set's ranges counts as none.
pub fn offers(set: &RangeSet, last: Option<IpAddr>) -> impl Iterator<Item = Offer<'_>> {
    let ranges = set.ranges();
    let last = last.and_then(|last| {
        let index = ranges.iter().position(|range| range.contains(last))?;
        Some((index, bits(last)))
    });
    let (begin, behind) = last.map_or((0, None), |(index, last)| (index, Some(last)));
    let whole = |index: usize| {
        ranges
            .get(index)
            .map(|range| (range, bits(range.start), bits(range.end)))
    };
    // The range of `last` comes in two pieces: the part after it first, and the part up to it at
    // the very end.
    let first = whole(begin).and_then(|(range, start, end)| match behind {
        None => Some((range, start, end)),
        Some(last) => (last < end).then(|| (range, last + 1, end)),
    });
    let others = (begin + 1..ranges.len()).chain(0..begin).filter_map(whole);
    let rest = behind.and_then(|last| whole(begin).map(|(range, start, _)| (range, start, last)));
    first
        .into_iter()
        .chain(others)
        .chain(rest)
        .flat_map(|(range, from, to)| {
            (from..=to)
                .map(move |number| Offer {
                    address: from_bits(range.start, number),
                    range,
                })
                .filter(|offer| offer.address != offer.range.gateway)
        })
}

#[cfg(test)]
mod tests;
