//! The one Secret: reading it, and its content after each change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rcgen::{KeyPair, PublicKeyData};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::issue::{self, Issued};
use super::plan::{Change, Leaf, Policy, Span, Stored};

/// Key of the bundle of authorities, newest first.
pub const CA_CERT: &str = "ca.crt";
/// Key of the newest authority's private key.
pub const CA_KEY: &str = "ca.key";
/// Key of the serving certificate.
pub const TLS_CERT: &str = "tls.crt";
/// Key of the serving certificate's private key.
pub const TLS_KEY: &str = "tls.key";
/// Key of the number of the secret paths.
const PATHS: &str = "paths";

/// The PEM texts of the Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Material {
    /// The authorities, newest first; what every caBundle must hold.
    pub authorities: Vec<String>,
    /// The newest authority's key.
    pub ca_key: String,
    /// The serving certificate.
    pub tls_cert: String,
    /// The serving certificate's key.
    pub tls_key: String,
    /// How often the secret paths have rotated; 0 where an earlier build has written the Secret.
    pub paths: u64,
}

impl Material {
    /// Reads a Secret's data. A value that is missing or no PEM reads as empty: the plan replaces
    /// it.
    pub fn from_data(data: &BTreeMap<String, ByteString>) -> Self {
        let text = |key: &str| {
            data.get(key)
                .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
                .unwrap_or_default()
        };
        let authorities = pem::parse_many(text(CA_CERT)).unwrap_or_default();
        let readable = authorities
            .iter()
            .filter(|entry| parse(entry.contents()).is_some());
        Self {
            authorities: readable.map(encode).collect(),
            ca_key: text(CA_KEY),
            tls_cert: text(TLS_CERT),
            tls_key: text(TLS_KEY),
            paths: text(PATHS).parse().unwrap_or_default(),
        }
    }

    /// The Secret's data.
    pub fn to_data(&self) -> BTreeMap<String, ByteString> {
        [
            (CA_CERT, self.bundle()),
            (CA_KEY, self.ca_key.clone()),
            (TLS_CERT, self.tls_cert.clone()),
            (TLS_KEY, self.tls_key.clone()),
            (PATHS, self.paths.to_string()),
        ]
        .into_iter()
        .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
        .collect()
    }

    /// The bundle that every client must trust: all authorities, newest first.
    pub fn bundle(&self) -> String {
        self.authorities.concat()
    }

    /// The facts that the plan reads.
    pub fn facts(&self) -> Stored {
        let ders: Vec<Vec<u8>> = self
            .authorities
            .iter()
            .filter_map(|text| der(text))
            .collect();
        let authorities: Vec<X509Certificate<'_>> =
            ders.iter().filter_map(|der| parse(der)).collect();
        let can_sign = authorities
            .first()
            .is_some_and(|newest| key_belongs(&self.ca_key, newest));
        let leaf_der = der(&self.tls_cert);
        let leaf = leaf_der.as_deref().and_then(parse).map(|leaf| Leaf {
            span: span(&leaf),
            issuer: signer(&leaf, &authorities).filter(|_| key_belongs(&self.tls_key, &leaf)),
            names: names(&leaf),
        });
        Stored {
            authorities: authorities.iter().map(span).collect(),
            can_sign,
            leaf,
        }
    }

    /// The content of the Secret after one more rotation of the secret paths.
    pub fn with_next_paths(&self) -> Self {
        Self {
            paths: self.paths.saturating_add(1),
            ..self.clone()
        }
    }

    /// The content of the Secret after a change.
    ///
    /// # Errors
    /// When a certificate cannot be made.
    pub fn after(
        &self,
        change: Change,
        now: Timestamp,
        policy: &Policy,
    ) -> Result<Self, rcgen::Error> {
        let mut next = self.clone();
        match change {
            Change::Begin => {
                let ca = issue::authority(now, policy.ca_validity)?;
                next = Self {
                    authorities: vec![ca.cert],
                    ca_key: ca.key,
                    ..Self::default()
                }
                .with_next_paths();
                next.issue_leaf(now, policy)?;
            }
            Change::AddAuthority => {
                let ca = issue::authority(now, policy.ca_validity)?;
                next.authorities
                    .retain(|old| authority_span(old).is_some_and(|span| span.not_after > now));
                next.authorities.insert(0, ca.cert);
                next.ca_key = ca.key;
            }
            Change::IssueLeaf => next.issue_leaf(now, policy)?,
            Change::DropOldAuthorities => next.authorities.truncate(1),
        }
        Ok(next)
    }

    fn issue_leaf(&mut self, now: Timestamp, policy: &Policy) -> Result<(), rcgen::Error> {
        let cert = self.authorities.first().cloned().unwrap_or_default();
        let end = authority_span(&cert).map_or(now, |span| span.not_after);
        // Names that another controller put there stay, so that two controllers with different
        // hosts do not replace each other's certificates for ever.
        let kept = self.facts().leaf.map(|leaf| leaf.names).unwrap_or_default();
        let policy = Policy {
            names: policy.names.union(&kept).cloned().collect(),
            ..policy.clone()
        };
        let issued = issue::leaf(
            now,
            &policy,
            &Issued {
                cert,
                key: self.ca_key.clone(),
            },
            end,
        )?;
        self.tls_cert = issued.cert;
        self.tls_key = issued.key;
        Ok(())
    }
}

fn encode(entry: &pem::Pem) -> String {
    pem::encode_config(
        entry,
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    )
}

fn der(text: &str) -> Option<Vec<u8>> {
    pem::parse(text).ok().map(pem::Pem::into_contents)
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der)
        .ok()
        .map(|(_, certificate)| certificate)
}

fn authority_span(text: &str) -> Option<Span> {
    der(text)
        .as_deref()
        .and_then(parse)
        .map(|certificate| span(&certificate))
}

fn span(certificate: &X509Certificate<'_>) -> Span {
    let validity = certificate.validity();
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    Span {
        not_before: at(validity.not_before.timestamp()),
        not_after: at(validity.not_after.timestamp()),
    }
}

fn signer(leaf: &X509Certificate<'_>, authorities: &[X509Certificate<'_>]) -> Option<usize> {
    authorities.iter().position(|ca| {
        leaf.issuer() == ca.subject() && leaf.verify_signature(Some(ca.public_key())).is_ok()
    })
}

fn key_belongs(key: &str, certificate: &X509Certificate<'_>) -> bool {
    KeyPair::from_pem(key)
        .is_ok_and(|key| key.subject_public_key_info() == certificate.public_key().raw)
}

fn names(leaf: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = leaf.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    extension
        .value
        .general_names
        .iter()
        .filter_map(name)
        .collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}
