//! Input of the plugin `host-local`: a configuration, an environment, and the content of files.

use std::net::IpAddr;

use cni_hostlocal::allocator::{Offer, offers};
use cni_hostlocal::call::{self, Arguments};
use cni_hostlocal::commands::requested_version;
use cni_hostlocal::config::Config;
use cni_hostlocal::failure::Failure;
use cni_hostlocal::lease::Owner;
use cni_hostlocal::range::RangeSet;
use cni_hostlocal::record::{Attachment, Pod, Reservation};
use cni_hostlocal::result::{self, Dns, Given};
use cni_hostlocal::store::address_of;

pub(crate) fn configuration(data: &[u8]) {
    requested_version(data);
    let config = match Config::read(data) {
        Ok(config) => config,
        Err(failure) => return told("1.1.0", &failure),
    };
    let pod = Pod {
        namespace: "ns".to_owned(),
        name: "web-0".to_owned(),
    };
    assert!(config.minutes(Some(&pod)) <= config.max_minutes());
    assert!(config.is_at_least("0.1.0"));
    assert!(
        !config.network.contains('/') && !config.network.starts_with('.'),
        "{:?} is no directory's name",
        config.network
    );
    let request = match config.request(&Arguments::default()) {
        Ok(request) => request,
        Err(failure) => return told(config.version, &failure),
    };
    assert!(!request.sets.is_empty());
    let given: Vec<Given> = request.sets.iter().flat_map(offered).collect();
    let answer = result::added(config.version, &given, &request.routes, &Dns::default());
    let answer: Result<serde_json::Value, _> = serde_json::from_str(&answer);
    assert!(answer.is_ok_and(|answer| answer["cniVersion"] == config.version));
}

/// The first addresses of a set: each is in its range, none is a gateway, and the one after the
/// last comes next.
fn offered(set: &RangeSet) -> Vec<Given> {
    let mut given: Vec<Given> = Vec::new();
    for Offer { address, range } in offers(set, None).take(300) {
        assert!(
            range.contains(address)
                && set.range_of(address).is_some()
                && range.subnet.contains(address)
        );
        assert_ne!(address, range.gateway);
        let last = given.last().map(|given| given.address);
        assert!(
            last < Some(address) || set.ranges().len() > 1,
            "{address} comes after {last:?}"
        );
        given.push(Given {
            address,
            prefix: range.subnet.prefix,
            gateway: range.gateway,
        });
    }
    if let [first, second, ..] = &*given {
        let next = offers(set, Some(first.address)).next();
        assert!(next.is_some_and(|next| next.address == second.address));
    }
    given.truncate(3);
    given
}

/// A failure is reported in CNI's form.
pub(crate) fn told(version: &str, failure: &Failure) {
    let answer: serde_json::Value =
        serde_json::from_str(&result::failed(version, failure)).unwrap_or_default();
    assert!(
        answer["code"] == failure.code
            && answer["msg"].as_str().is_some_and(|said| !said.is_empty()),
        "{answer}"
    );
}

/// The environment, a variable in each line.
pub(crate) fn call(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let variable = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(ToOwned::to_owned)
    };
    match call::read(variable) {
        Ok(call) => {
            is_file_name(&call.owner.file_name());
            if let Some(pod) = &call.arguments.pod {
                is_file_name(&pod.file_name(&call.owner.interface));
            }
        }
        Err(failure) => told("1.1.0", &failure),
    }
}

/// A line of a record, the content of a lease, a `resolv.conf`, the name of a file.
pub(crate) fn record(data: &[u8]) {
    if let Some(owner) = Owner::parse(data) {
        assert_eq!(
            Owner::parse(owner.content().as_bytes()).as_ref(),
            Some(&owner)
        );
        assert!(owner.is(&owner));
        is_file_name(&owner.file_name());
        let named = Owner::from_file_name(&owner.file_name());
        assert!(
            named.is_none_or(|named| named == owner),
            "{owner:?} is another by its file's name"
        );
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let attachment = Attachment::parse(text);
    assert_eq!(Attachment::parse(&attachment.line()), attachment);
    if let Some(reservation) = Reservation::parse(text) {
        let line = reservation.line();
        assert_eq!(
            Reservation::parse(&line).as_ref(),
            Some(&reservation),
            "{line:?}"
        );
        assert!(
            line.bytes()
                .all(|byte| byte.is_ascii_graphic() || byte == b' '),
            "{line:?}"
        );
        assert!(reservation.holds(&reservation.owner));
        assert_eq!(reservation.ends().is_none(), reservation.released.is_none());
        is_file_name(&reservation.pod.file_name(&reservation.owner.interface));
    }
    if let Some(pod) = Pod::parse(text) {
        assert_eq!(Pod::parse(&pod.to_string()), Some(pod));
    }
    let dns = serde_json::to_string(&Dns::parse(text));
    assert!(dns.is_ok());
    assert!(address_of(text).is_none_or(|address: IpAddr| address.to_string() == text));
}

/// The name stays in its directory, and is short enough.
fn is_file_name(name: &str) {
    assert!(
        name.len() <= 255 && !name.contains('/') && !matches!(name, "." | ".."),
        "{name:?}"
    );
}
