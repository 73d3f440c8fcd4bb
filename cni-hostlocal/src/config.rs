//! The network's configuration, read and checked.

pub mod document;

use std::{collections::HashMap, net::IpAddr, num::IntErrorKind, path::PathBuf};

use crate::{
    call::{Arguments, is_name},
    failure::{Failure, INCOMPATIBLE_VERSION, INVALID_CONFIG, UNDECODABLE},
    lease::Owner,
    range::{Range, RangeSet, canonical, parse_cidr},
    record::Pod,
};
use document::{Document, Ipam, Keep, RangeText, Route, Sync};

/// The supported versions of CNI, the oldest first.
pub const VERSIONS: [&str; 7] = [
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
];
/// The directory of leases, unless `dataDir` sets another.
pub const DATA_DIR: &str = "/var/lib/cni/networks";
/// The maximum number of minutes that addresses are kept, unless `reservedIPs.maxMinutes` sets
/// another: a day.
pub const MAX_MINUTES: u32 = 24 * 60;
/// The pod annotation: for how many minutes after its end a pod's addresses are kept.
pub const ANNOTATION: &str = "io.kubernetes.cri/reserved-ip-duration";

/// A configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The network's name.
    pub network: String,
    /// The version of CNI to answer in.
    pub version: &'static str,
    /// The directory of leases; the network has a directory in it.
    pub data_dir: PathBuf,
    /// The pods whose addresses are kept.
    pub keep: Keep,
    /// When files are synced to disk.
    pub sync: Sync,
    /// The attachments that still exist, for GC.
    pub valid: Vec<Owner>,
    /// The addresses of the call's previous result, for CHECK.
    pub previous: Vec<IpAddr>,
    /// The pod's annotations, if the runtime passes them.
    annotations: Option<HashMap<String, String>>,
    document: Document,
}

/// The part of the configuration that only ADD needs.
#[derive(Debug, Clone)]
pub struct Request {
    /// An attachment gets one address of each.
    pub sets: Vec<RangeSet>,
    /// Requested addresses.
    pub wanted: Vec<IpAddr>,
    /// Routes of the answer.
    pub routes: Vec<Route>,
    /// A file with the DNS names of the answer.
    pub resolv_conf: Option<PathBuf>,
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(INVALID_CONFIG, message)
}

impl Config {
    /// Reads a configuration as far as every call needs it.
    ///
    /// # Errors
    /// The reason why it is no configuration.
    pub fn read(json: &[u8]) -> Result<Self, Failure> {
        let document: Document = serde_json::from_slice(json).map_err(|error| {
            Failure::new(
                UNDECODABLE,
                format!("error unmarshall network config: {error}"),
            )
        })?;
        if document.name.is_empty() {
            return Err(invalid("missing network name"));
        }
        if !is_name(&document.name) {
            return Err(invalid("invalid characters found in network name").with(document.name));
        }
        let requested = if document.cni_version.is_empty() {
            "0.1.0"
        } else {
            &document.cni_version
        };
        let Some(version) = VERSIONS.iter().find(|version| **version == requested) else {
            return Err(
                Failure::new(INCOMPATIBLE_VERSION, "incompatible CNI versions").with(format!(
                    "config is {requested:?}, plugin supports {VERSIONS:?}"
                )),
            );
        };
        let Some(ipam) = &document.ipam else {
            return Err(invalid("IPAM config missing 'ipam' key"));
        };
        let valid = document.valid_attachments.iter().flatten();
        let previous = document
            .prev_result
            .iter()
            .filter_map(|result| result.ips.as_ref())
            .flatten();
        Ok(Self {
            network: document.name.clone(),
            version,
            data_dir: if ipam.data_dir.is_empty() {
                DATA_DIR.into()
            } else {
                ipam.data_dir.clone().into()
            },
            keep: ipam.reserved.clone(),
            sync: ipam.sync,
            valid: valid
                .map(|valid| Owner::new(&valid.container, &valid.ifname))
                .collect(),
            previous: previous
                .filter_map(|ip| Some(parse_cidr(&ip.address)?.0))
                .collect(),
            annotations: document.runtime_config.annotations.clone(),
            document,
        })
    }

    /// Whether the configuration's version is `version` or newer.
    pub fn is_at_least(&self, version: &str) -> bool {
        let place = |version: &str| VERSIONS.iter().position(|known| *known == version);
        place(self.version) >= place(version)
    }

    /// The maximum number of minutes that addresses are kept.
    pub fn max_minutes(&self) -> u32 {
        self.keep.max_minutes.unwrap_or(MAX_MINUTES)
    }

    /// How many minutes the addresses of `pod` are kept: as its annotation says if that is allowed,
    /// otherwise as the configuration says, and never more than [`Self::max_minutes`].
    pub fn minutes(&self, pod: Option<&Pod>) -> u32 {
        let Some(pod) = pod else { return 0 };
        let has = |namespaces: &[String]| {
            namespaces
                .iter()
                .any(|name| *name == "*" || *name == pod.namespace)
        };
        let configured = if has(&self.keep.namespaces) {
            self.keep.minutes
        } else {
            0
        };
        let annotated = self
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(ANNOTATION));
        let minutes = match annotated.map(|text| annotated_minutes(text)) {
            None => configured,
            Some(annotated) if has(&self.keep.annotation_namespaces) => annotated,
            Some(annotated) => annotated.min(configured),
        };
        minutes.min(self.max_minutes())
    }

    /// Reads and checks the part that ADD needs.
    ///
    /// # Errors
    /// A value is wrong.
    pub fn request(&self, arguments: &Arguments) -> Result<Request, Failure> {
        let default = Ipam::default();
        let ipam = self.document.ipam.as_ref().unwrap_or(&default);
        let requested = self
            .document
            .args
            .iter()
            .flat_map(|args| &args.cni.ips)
            .chain(&self.document.runtime_config.ips);
        let mut wanted: Vec<IpAddr> = arguments.address.into_iter().collect();
        for text in requested.filter(|text| !text.is_empty()) {
            let (address, _) =
                parse_cidr(text).ok_or_else(|| invalid(format!("invalid IP address {text}")))?;
            wanted.push(address);
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut routes = ipam.routes.clone();
        for route in &mut routes {
            check_route(route)?;
        }
        Ok(Request {
            sets: self.sets(ipam)?,
            wanted,
            routes,
            resolv_conf: (!ipam.resolv_conf.is_empty()).then(|| ipam.resolv_conf.clone().into()),
        })
    }

    /// The runtime's ranges first, then the single one of old configurations, then the others.
    fn sets(&self, ipam: &Ipam) -> Result<Vec<RangeSet>, Failure> {
        let single = (!ipam.range.subnet.is_empty()).then(|| vec![ipam.range.clone()]);
        let texts: Vec<_> = self
            .document
            .runtime_config
            .ip_ranges
            .iter()
            .chain(&single)
            .chain(&ipam.ranges)
            .collect();
        if texts.is_empty() {
            return Err(invalid("no IP ranges specified"));
        }
        let mut sets = Vec::with_capacity(texts.len());
        for (index, text) in texts.into_iter().enumerate() {
            sets.push(set(text, index)?);
        }
        let v4 = sets.iter().filter(|set| set.is_ipv4()).count();
        if (v4 > 1 || sets.len() - v4 > 1) && !self.is_at_least("0.3.0") {
            return Err(invalid(format!(
                "CNI version {} does not support more than 1 address per family",
                self.document.cni_version
            )));
        }
        for (index, set) in sets.iter().enumerate() {
            if let Some(other) = (index + 1..sets.len())
                .find(|other| sets.get(*other).is_some_and(|o| set.overlaps(o)))
            {
                return Err(invalid(format!("range set {index} overlaps with {other}")));
            }
        }
        Ok(sets)
    }
}

/// A text that is no number keeps nothing. A number that is too large for the type is still a
/// number, and above any maximum.
fn annotated_minutes(text: &str) -> u32 {
    match text.trim().parse::<u32>() {
        Ok(minutes) => minutes,
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => u32::MAX,
        Err(_) => 0,
    }
}

fn set(texts: &[RangeText], index: usize) -> Result<RangeSet, Failure> {
    let address = |text: &str| {
        let parsed = (!text.is_empty()).then(|| text.parse().map(canonical));
        parsed
            .transpose()
            .map_err(|_| invalid(format!("invalid IP address: {text}")))
    };
    let mut ranges = Vec::with_capacity(texts.len());
    for text in texts {
        let subnet = text
            .subnet
            .contains('/')
            .then(|| parse_cidr(&text.subnet))
            .flatten();
        let subnet =
            subnet.ok_or_else(|| invalid(format!("invalid CIDR address: {}", text.subnet)))?;
        let (start, end) = (address(&text.range_start)?, address(&text.range_end)?);
        let range = Range::new(subnet, start, end, address(&text.gateway)?);
        ranges.push(range.map_err(|why| invalid(format!("invalid range set {index}: {why}")))?);
    }
    RangeSet::new(ranges).map_err(|why| invalid(format!("invalid range set {index}: {why}")))
}

fn check_route(route: &mut Route) -> Result<(), Failure> {
    let cidr = route
        .dst
        .contains('/')
        .then(|| parse_cidr(&route.dst))
        .flatten();
    let (address, length) =
        cidr.ok_or_else(|| invalid(format!("invalid CIDR address: {}", route.dst)))?;
    route.dst = format!("{address}/{length}");
    route.gw = route.gw.take().filter(|gateway| !gateway.is_empty());
    match route.gw.as_ref().map(|gateway| gateway.parse::<IpAddr>()) {
        Some(Err(_)) => Err(invalid(format!(
            "invalid IP address: {}",
            route.gw.as_deref().unwrap_or_default()
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
