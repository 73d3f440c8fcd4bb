//! The results of calls, in each version of CNI.

use std::{io::Write, net::IpAddr, path::Path};

use serde::Serialize;

use crate::{
    config::{VERSIONS, document::Route},
    failure::Failure,
};

/// An address that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The address.
    pub address: IpAddr,
    /// The length of its subnet's prefix.
    pub prefix: u8,
    /// The subnet's gateway.
    pub gateway: IpAddr,
}

/// The content of a `resolv.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Dns {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nameservers: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    domain: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    search: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
}

impl Dns {
    /// Reads a `resolv.conf`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::from(error).with(format!("resolvConf {}", path.display())))?;
        Ok(Self::parse(&text))
    }

    /// Reads the text of one.
    pub fn parse(text: &str) -> Self {
        let mut dns = Self::default();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with(['#', ';']))
        {
            let mut words = line.split_whitespace();
            let (Some(key), rest) = (words.next(), words.map(ToString::to_string)) else {
                continue;
            };
            let mut rest = rest.peekable();
            if rest.peek().is_none() {
                continue;
            }
            match key {
                "nameserver" => dns.nameservers.extend(rest.next()),
                "domain" => dns.domain = rest.next().unwrap_or_default(),
                "search" => dns.search.extend(rest),
                "options" => dns.options.extend(rest),
                _ => {}
            }
        }
        dns
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    cni_version: &'a str,
    ips: Vec<Address>,
    #[serde(skip_serializing_if = "<[Route]>::is_empty")]
    routes: &'a [Route],
    dns: &'a Dns,
}

#[derive(Serialize)]
struct Address {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    address: String,
    gateway: IpAddr,
}

/// The form of 0.1.0 and 0.2.0.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OldAnswer<'a> {
    cni_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip4: Option<OldAddress<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip6: Option<OldAddress<'a>>,
    dns: &'a Dns,
}

#[derive(Serialize)]
struct OldAddress<'a> {
    ip: String,
    gateway: IpAddr,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<&'a Route>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Error<'a> {
    cni_version: &'a str,
    code: u32,
    msg: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    details: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions<'a> {
    cni_version: &'a str,
    supported_versions: &'a [&'a str],
}

/// ADD's answer.
pub fn added(version: &str, given: &[Given], routes: &[Route], dns: &Dns) -> String {
    let cidr = |given: &Given| format!("{}/{}", given.address, given.prefix);
    if matches!(version, "0.1.0" | "0.2.0") {
        let family = |v4: bool| {
            let given = given.iter().find(|given| given.address.is_ipv4() == v4)?;
            let routes = routes
                .iter()
                .filter(|route| route.dst.contains(':') != v4)
                .collect();
            Some(OldAddress {
                ip: cidr(given),
                gateway: given.gateway,
                routes,
            })
        };
        return pretty(&OldAnswer {
            cni_version: version,
            ip4: family(true),
            ip6: family(false),
            dns,
        });
    }
    // 1.0.0 dropped the family, because the address shows it.
    let family = |given: &Given| {
        Some(if given.address.is_ipv4() { "4" } else { "6" }).filter(|_| version.starts_with("0."))
    };
    let ips = given.iter().map(|given| Address {
        version: family(given),
        address: cidr(given),
        gateway: given.gateway,
    });
    pretty(&Answer {
        cni_version: version,
        ips: ips.collect(),
        routes,
        dns,
    })
}

/// The answer of a call that failed.
pub fn failed(version: &str, failure: &Failure) -> String {
    pretty(&Error {
        cni_version: version,
        code: failure.code,
        msg: &failure.message,
        details: &failure.details,
    })
}

/// VERSION's answer.
pub fn versions(requested: &str) -> String {
    let [.., newest] = VERSIONS;
    let known = VERSIONS.iter().find(|version| **version == requested);
    pretty(&Versions {
        cni_version: known.unwrap_or(&newest),
        supported_versions: &VERSIONS,
    })
}

fn pretty(answer: &impl Serialize) -> String {
    let mut out = Vec::with_capacity(512);
    let mut json = serde_json::Serializer::with_formatter(
        &mut out,
        serde_json::ser::PrettyFormatter::with_indent(b"    "),
    );
    // Writing to memory does not fail, and every key is a string.
    _ = answer.serialize(&mut json);
    _ = out.write_all(b"\n");
    String::from_utf8(out).unwrap_or_default()
}
