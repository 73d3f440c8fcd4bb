//! Names of objects and namespaces, checked before they become part of a URL.
//!
//! A name with `/`, `?`, `#` or `%` in it would change the request: a fragment cuts off
//! `dryRun=All`, a slash selects another resource. So functions that build a request from a user's
//! name take a [`Name`] or a [`Namespace`], and only their check can make these.

use std::fmt;

/// An invalid name, with the form that it must have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is no {what}: use at most {longest} of a-z, 0-9, -{dots}, with a letter or digit at both ends{parts}",
    dots = if *.dotted { " and ." } else { "" }, parts = if *.dotted { " of each part" } else { "" })]
pub struct InvalidName {
    what: &'static str,
    value: String,
    longest: usize,
    dotted: bool,
}

/// The name of an object: a DNS subdomain, as all kinds that Berth reads or writes require.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

/// The name of a namespace: a DNS label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(Box<str>);

/// The longest DNS subdomain, in bytes.
const LONGEST_SUBDOMAIN: usize = 253;
/// The longest DNS label, in bytes.
const LONGEST_LABEL: usize = 63;
/// How much of a wrong value an error repeats, in characters.
const SHOWN: usize = 80;

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// It is not a DNS subdomain.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if is_dns_subdomain(text) {
            return Ok(Self(text.into()));
        }
        Err(InvalidName {
            what: "object's name",
            value: shown(text),
            longest: LONGEST_SUBDOMAIN,
            dotted: true,
        })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Namespace {
    /// Checks the name of a namespace.
    ///
    /// # Errors
    /// It is not a DNS label.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if is_dns_label(text) {
            return Ok(Self(text.into()));
        }
        Err(InvalidName {
            what: "namespace",
            value: shown(text),
            longest: LONGEST_LABEL,
            dotted: false,
        })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The beginning of a value, which may be of any length.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Whether a text is a DNS subdomain (RFC 1123): DNS labels with dots between them, at most 253
/// bytes.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_dns_part)
}

/// Whether a text is a DNS label (RFC 1123): 63 bytes at most.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_dns_part(text)
}

fn is_dns_part(part: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    part.bytes().next().is_some_and(inner)
        && part.bytes().last().is_some_and(inner)
        && part.bytes().all(|byte| inner(byte) || byte == b'-')
}

#[cfg(test)]
mod tests;
