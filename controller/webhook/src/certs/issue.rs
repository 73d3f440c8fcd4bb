//! Making authorities and serving certificates.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::plan::{Policy, Span};

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub cert: String,
    /// Its private key, PKCS #8.
    pub key: String,
}

/// Makes a self-signed authority that is valid for `validity` from now. It is also valid some time
/// before, because clocks of clients may be behind this one.
///
/// # Errors
/// When the validity leaves the calendar or no key can be made.
pub fn authority(now: Timestamp, validity: SignedDuration) -> Result<Issued, rcgen::Error> {
    let mut params = CertificateParams::default();
    // The name contains the time, so that two authorities that overlap have different subjects.
    params
        .distinguished_name
        .push(DnType::CommonName, format!("berth webhook CA {:.3}", now));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    span_of(now, validity, None).write(&mut params);
    let key = KeyPair::generate()?;
    Ok(Issued {
        cert: params.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}

/// Makes a serving certificate for `policy.names`, signed by the authority, valid no longer than
/// `authority_end`.
///
/// # Errors
/// When the authority's PEM cannot be read, a name is neither a DNS name nor an address, or no key
/// can be made.
pub fn leaf(
    now: Timestamp,
    policy: &Policy,
    ca: &Issued,
    authority_end: Timestamp,
) -> Result<Issued, rcgen::Error> {
    let issuer = Issuer::from_ca_cert_pem(&ca.cert, KeyPair::from_pem(&ca.key)?)?;
    let mut params = CertificateParams::new(policy.names.iter().cloned().collect::<Vec<_>>())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "berth webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    span_of(now, policy.cert_validity, Some(authority_end)).write(&mut params);
    let key = KeyPair::generate()?;
    Ok(Issued {
        cert: params.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
    })
}

fn span_of(now: Timestamp, validity: SignedDuration, end: Option<Timestamp>) -> Span {
    let not_before = now.checked_sub(Policy::backdate(validity)).unwrap_or(now);
    let not_after = now.checked_add(validity).unwrap_or(Timestamp::MAX);
    Span {
        not_before,
        not_after: end.map_or(not_after, |end| not_after.min(end)),
    }
}

impl Span {
    fn write(&self, params: &mut CertificateParams) {
        let epoch = date_time_ymd(1970, 1, 1);
        let since =
            |at: Timestamp| Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
        params.not_before = epoch + since(self.not_before);
        params.not_after = epoch + since(self.not_after);
    }
}

/// The names of the serving certificate: each Service's, in every form that clients use, and the
/// host of a controller that runs outside the cluster.
pub fn names(namespace: &str, services: &[String], host: Option<&str>) -> BTreeSet<String> {
    let of_service = |service: &String| {
        [
            service.clone(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ]
    };
    services
        .iter()
        .flat_map(of_service)
        .chain(host.map(str::to_owned))
        .collect()
}
