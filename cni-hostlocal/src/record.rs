//! The records beside the leases: the addresses of an attachment, and the pod that an address is
//! kept for.
//!
//! Both are one line of `name=value`. The store keeps a line as the target of a symbolic link: the
//! kernel makes such a link with its content in one step, so that no half-written line can exist.

use std::{fmt::Write as _, net::IpAddr};

use crate::lease::Owner;

/// A pod's identity, which stays the same when the pod is created anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The record of an attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attachment {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The path of its network namespace; empty when it is not known.
    pub netns: String,
    /// The pod, when the runtime named it.
    pub pod: Option<Pod>,
    /// How many minutes after its DEL the addresses are kept for the pod; 0 keeps nothing.
    pub minutes: u32,
}

/// Addresses that are kept for a pod: in use by one of its sandboxes, or released and waiting for
/// the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The pod.
    pub pod: Pod,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The attachment that has them, or had them last. Their leases name it too.
    pub owner: Owner,
    /// The attachment before that: leases that a crash left with its name belong to this
    /// reservation as well.
    pub before: Option<String>,
    /// The network namespace of `owner`; empty when it is not known.
    pub netns: String,
    /// How many minutes they are kept.
    pub minutes: u32,
    /// When they were released, in seconds since 1970. `None`: in use.
    pub released: Option<u64>,
}

impl Pod {
    /// `namespace/name`.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        (!namespace.is_empty() && !name.is_empty()).then(|| Self {
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    /// The name of the file with its reservation for this interface.
    pub fn file_name(&self, interface: &str) -> String {
        crate::lease::file_name(&[&self.namespace, &self.name, interface])
    }
}

impl std::fmt::Display for Pod {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl Attachment {
    /// The record as a line.
    pub fn line(&self) -> String {
        let mut line = Line::default();
        line.addresses(&self.addresses);
        line.field("netns", &self.netns);
        line.pod(self.pod.as_ref());
        line.number("minutes", u64::from(self.minutes));
        line.0
    }

    /// Reads a line. A missing value is empty.
    pub fn parse(line: &str) -> Self {
        Self {
            addresses: addresses(line),
            netns: value(line, "netns").unwrap_or_default(),
            pod: value(line, "pod").and_then(|pod| Pod::parse(&pod)),
            minutes: number(line, "minutes").unwrap_or_default(),
        }
    }
}

impl Reservation {
    /// The reservation as a line.
    pub fn line(&self) -> String {
        let mut line = Line::default();
        line.addresses(&self.addresses);
        line.pod(Some(&self.pod));
        line.field("container", &self.owner.container);
        line.field("interface", &self.owner.interface);
        line.field("before", self.before.as_deref().unwrap_or_default());
        line.field("netns", &self.netns);
        line.number("minutes", u64::from(self.minutes));
        if let Some(released) = self.released {
            line.number("released", released);
        }
        line.0
    }

    /// Reads a line.
    pub fn parse(line: &str) -> Option<Self> {
        Some(Self {
            pod: Pod::parse(&value(line, "pod")?)?,
            addresses: addresses(line),
            owner: Some(Owner::new(
                &value(line, "container")?,
                &value(line, "interface")?,
            ))
            .filter(|owner| !owner.container.is_empty() && !owner.interface.is_empty())?,
            before: value(line, "before").filter(|before| !before.is_empty()),
            netns: value(line, "netns").unwrap_or_default(),
            minutes: number(line, "minutes").unwrap_or_default(),
            released: number(line, "released"),
        })
    }

    /// Whether a lease with this owner is one of the reservation's.
    pub fn holds(&self, found: &Owner) -> bool {
        self.owner.is(found)
            || self.before.as_ref().is_some_and(|before| {
                *before == found.container
                    && (found.interface.is_empty() || found.interface == self.owner.interface)
            })
    }

    /// When it ends, in seconds since 1970. `None` while it is in use.
    pub fn ends(&self) -> Option<u64> {
        Some(self.released?.saturating_add(60 * u64::from(self.minutes)))
    }
}

#[derive(Default)]
struct Line(String);

impl Line {
    /// An empty value is left out.
    fn field(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(name);
        self.0.push('=');
        for byte in value.bytes() {
            match byte {
                b'%' | 0..=b' ' | 127.. => _ = write!(self.0, "%{byte:02x}"),
                byte => self.0.push(char::from(byte)),
            }
        }
    }

    fn number(&mut self, name: &str, value: u64) {
        self.field(name, &value.to_string());
    }

    fn pod(&mut self, pod: Option<&Pod>) {
        self.field("pod", &pod.map(ToString::to_string).unwrap_or_default());
    }

    fn addresses(&mut self, addresses: &[IpAddr]) {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        self.field("addresses", &addresses.join(","));
    }
}

fn value(line: &str, name: &str) -> Option<String> {
    let raw = line
        .split(' ')
        .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))?;
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%')
            .then(|| {
                tail.get(..2)
                    .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok())
            })
            .flatten();
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            tail.get(2..).unwrap_or_default()
        } else {
            tail
        };
    }
    String::from_utf8(bytes).ok()
}

fn number<T: std::str::FromStr>(line: &str, name: &str) -> Option<T> {
    value(line, name)?.parse().ok()
}

fn addresses(line: &str) -> Vec<IpAddr> {
    value(line, "addresses")
        .unwrap_or_default()
        .split(',')
        .filter_map(|address| address.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests;
