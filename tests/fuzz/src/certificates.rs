//! The Secret of the webhooks' certificates, which any user with rights in the namespace may have
//! written.

use std::collections::BTreeMap;

use berth_webhook::certs::store::{CA_CERT, CA_KEY, Material, TLS_CERT, TLS_KEY};
use jiff::SignedDuration;
use k8s_openapi::ByteString;

pub(crate) fn certificate(data: &[u8]) {
    let keys = [CA_CERT, CA_KEY, TLS_CERT, TLS_KEY];
    let secret: BTreeMap<_, _> = keys
        .map(|key| (key.to_owned(), ByteString(data.to_vec())))
        .into();
    let material = Material::from_data(&secret);
    let facts = material.facts();
    assert_eq!(
        facts.authorities.len(),
        material.authorities.len(),
        "an authority that can be read has its times"
    );
    for span in &facts.authorities {
        for validity in [
            SignedDuration::ZERO,
            SignedDuration::from_hours(1),
            SignedDuration::MAX,
        ] {
            assert!(
                span.due(validity) <= span.not_after,
                "a successor comes before the end"
            );
        }
    }
    let again = Material::from_data(&material.to_data());
    assert!(again == material, "what is written is read as the same");
}
