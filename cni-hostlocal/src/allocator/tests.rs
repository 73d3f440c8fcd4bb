use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::offers;
use crate::range::{Range, RangeSet, bits, canonical, from_bits, parse_cidr};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Subnet, start, end, gateway.
type Text<'a> = (&'a str, Option<&'a str>, Option<&'a str>, Option<&'a str>);

fn set(ranges: &[Text<'_>]) -> RangeSet {
    let ranges = ranges.iter().map(|(subnet, start, end, gateway)| {
        Range::new(
            parse_cidr(subnet).unwrap(),
            start.map(ip),
            end.map(ip),
            gateway.map(ip),
        )
        .unwrap()
    });
    RangeSet::new(ranges.collect()).unwrap()
}

fn subnets(subnets: &[&str]) -> RangeSet {
    set(&subnets
        .iter()
        .map(|subnet| (*subnet, None, None, None))
        .collect::<Vec<_>>())
}

/// The first address that is not held, as ADD takes it.
fn next(set: &RangeSet, held: &[&str], last: &str) -> Option<String> {
    let held: HashSet<IpAddr> = held.iter().map(|held| ip(held)).collect();
    let last = (!last.is_empty()).then(|| ip(last));
    offers(set, last)
        .find(|offer| !held.contains(&offer.address))
        .map(|offer| offer.address.to_string())
}

#[test]
fn the_next_free_address_behind_the_last_one() {
    let small = || subnets(&["10.0.0.0/29"]);
    let two = || subnets(&["10.0.0.0/29", "10.0.1.0/29"]);
    let full_small = ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"];
    for (set, held, last, wanted) in [
        (small(), &[][..], "", Some("10.0.0.2")),
        (
            subnets(&["2001:db8:1::0/64"]),
            &[],
            "",
            Some("2001:db8:1::2"),
        ),
        (small(), &[], "10.0.0.3", Some("10.0.0.4")),
        (small(), &[], "10.0.0.6", Some("10.0.0.2")),
        (small(), &["10.0.0.2"], "10.0.0.6", Some("10.0.0.3")),
        (small(), &["10.0.0.5"], "10.0.0.4", Some("10.0.0.6")),
        (
            small(),
            &["10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"],
            "10.0.0.4",
            Some("10.0.0.3"),
        ),
        (
            small(),
            &["10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"],
            "10.0.0.3",
            Some("10.0.0.3"),
        ),
        (small(), &full_small, "10.0.0.3", None),
        (small(), &[], "192.168.0.1", Some("10.0.0.2")),
        (two(), &[], "10.0.0.6", Some("10.0.1.2")),
        (two(), &full_small, "", Some("10.0.1.2")),
        (two(), &[], "10.0.1.6", Some("10.0.0.2")),
        (
            set(&[("10.0.0.0/29", Some("10.0.0.3"), Some("10.0.0.4"), None)]),
            &[],
            "",
            Some("10.0.0.3"),
        ),
        (
            set(&[("10.0.0.0/29", Some("10.0.0.3"), Some("10.0.0.4"), None)]),
            &["10.0.0.3", "10.0.0.4"],
            "",
            None,
        ),
        (
            set(&[("10.0.0.0/29", None, None, Some("10.0.0.3"))]),
            &["10.0.0.1", "10.0.0.2"],
            "",
            Some("10.0.0.4"),
        ),
    ] {
        assert_eq!(
            next(&set, held, last).as_deref(),
            wanted,
            "{set}, held {held:?}, last {last}"
        );
    }
}

#[test]
fn a_range_says_what_it_is_and_why_it_is_none() {
    let range = |subnet, start: Option<&str>, end: Option<&str>, gateway: Option<&str>| {
        let range = Range::new(
            parse_cidr(subnet).unwrap(),
            start.map(ip),
            end.map(ip),
            gateway.map(ip),
        );
        range.map(|range| format!("{range} {}", range.gateway))
    };
    for (made, wanted) in [
        (
            range("192.0.2.0/24", None, None, None),
            Ok("192.0.2.1-192.0.2.254 192.0.2.1"),
        ),
        (
            range("192.0.2.0/25", None, None, None),
            Ok("192.0.2.1-192.0.2.126 192.0.2.1"),
        ),
        (
            range(
                "192.0.2.0/24",
                Some("192.0.2.40"),
                Some("192.0.2.50"),
                Some("192.0.2.254"),
            ),
            Ok("192.0.2.40-192.0.2.50 192.0.2.254"),
        ),
        (
            range("2001:db8:1::/64", None, None, None),
            Ok("2001:db8:1::1-2001:db8:1:0:ffff:ffff:ffff:ffff 2001:db8:1::1"),
        ),
        (
            range("192.0.2.0/31", None, None, None),
            Err("Network 192.0.2.0/31 too small to allocate from"),
        ),
        (
            range("2001:db8::/127", None, None, None),
            Err("Network 2001:db8::/127 too small to allocate from"),
        ),
        (
            range("192.0.2.12/24", None, None, None),
            Err(
                "Network has host bits set. For a subnet mask of length 24 the network address is 192.0.2.0",
            ),
        ),
        (
            range("192.0.2.0/24", Some("192.0.3.0"), None, None),
            Err("RangeStart 192.0.3.0 not in network 192.0.2.0/24"),
        ),
        (
            range("192.0.2.0/24", None, Some("192.0.4.0"), None),
            Err("RangeEnd 192.0.4.0 not in network 192.0.2.0/24"),
        ),
        (
            range("192.0.2.0/24", Some("192.0.2.50"), Some("192.0.2.40"), None),
            Err("RangeEnd 192.0.2.40 not in network 192.0.2.0/24 from RangeStart 192.0.2.50 on"),
        ),
    ] {
        assert_eq!(
            made.as_deref(),
            wanted.map_err(ToString::to_string).as_ref().copied()
        );
    }
    let made = |subnets: &[&str]| {
        let ranges = subnets
            .iter()
            .map(|subnet| Range::new(parse_cidr(subnet).unwrap(), None, None, None).unwrap());
        RangeSet::new(ranges.collect()).map(|set| set.to_string())
    };
    assert_eq!(made(&[]), Err("empty range set".into()));
    assert_eq!(
        made(&["10.0.0.0/24", "2001:db8::/64"]),
        Err("mixed address families".into())
    );
    assert_eq!(
        made(&["10.0.0.0/20", "10.0.1.0/24"]),
        Err("subnets 10.0.0.1-10.0.15.254 and 10.0.1.1-10.0.1.254 overlap".into())
    );
}

/// Sets of up to four small ranges of one family.
fn sets() -> impl Strategy<Value = RangeSet> {
    let range = (0u128..6, 0u128..6, 0u128..8);
    (any::<bool>(), prop::collection::vec(range, 1..4)).prop_map(|(v4, ranges)| {
        let base = if v4 {
            IpAddr::V4(Ipv4Addr::new(10, 9, 0, 0))
        } else {
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0))
        };
        let prefix = if v4 { 29 } else { 125 };
        let made = ranges
            .iter()
            .enumerate()
            .map(|(index, (start, length, gateway))| {
                let network = bits(base) + 8 * index as u128;
                let end = (start + length).min(7);
                let at = |offset| Some(from_bits(base, network + offset));
                Range::new(
                    (from_bits(base, network), prefix),
                    at(*start),
                    at(end),
                    at(*gateway),
                )
                .unwrap()
            });
        RangeSet::new(made.collect()).unwrap()
    })
}

fn addresses(set: &RangeSet) -> BTreeSet<IpAddr> {
    let all = set.ranges().iter().flat_map(|range| {
        (bits(range.start)..=bits(range.end))
            .map(|number| from_bits(range.start, number))
            .filter(|address| *address != range.gateway)
    });
    all.collect()
}

proptest! {
    /// For any start, every address comes once and a gateway never: so a free address is found, and
    /// the search in a full set ends.
    #[test]
    fn every_address_is_offered_once(set in sets(), at in 0usize..64) {
        let all = addresses(&set);
        let last = all.iter().nth(at).copied();
        let offered: Vec<_> = offers(&set, last).map(|offer| offer.address).collect();
        prop_assert_eq!(offered.len(), all.len());
        prop_assert_eq!(offered.iter().copied().collect::<BTreeSet<_>>(), all);
        if let Some(last) = last {
            prop_assert_eq!(offered.last(), Some(&last));
        }
        for offer in offers(&set, last) {
            prop_assert_eq!(set.range_of(offer.address), Some(offer.range));
            prop_assert_eq!(canonical(offer.address), offer.address);
        }
    }

    /// For any sequence of claims and releases: no address is given twice, none while all are held,
    /// and one otherwise.
    #[test]
    fn comings_and_goings(set in sets(), calls in prop::collection::vec((any::<bool>(), 0usize..64), 0..80)) {
        let all = addresses(&set);
        let mut held: Vec<IpAddr> = Vec::new();
        let mut last = None;
        for (add, which) in calls {
            if add {
                let free = all.len() - held.len();
                let next = offers(&set, last).map(|offer| offer.address).find(|address| !held.contains(address));
                prop_assert_eq!(next.is_none(), free == 0);
                let Some(next) = next else { continue };
                held.push(next);
                last = Some(next);
            } else if !held.is_empty() {
                held.swap_remove(which % held.len());
            }
        }
    }

    /// An IPv6 subnet with too many addresses to count is offered lazily.
    #[test]
    fn a_large_subnet(last in any::<u64>()) {
        let set = subnets(&["2001:db8::/64"]);
        let last = from_bits(ip("2001:db8::"), bits(ip("2001:db8::")) | u128::from(last));
        let next = offers(&set, Some(last)).next().map(|offer| offer.address);
        prop_assert!(next.is_some_and(|next| set.range_of(next).is_some() && next != last));
    }
}
