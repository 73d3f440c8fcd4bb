//! Output of an apiserver: lines of a watch, pages of a list, refusals.

use berth_api::weight::{DEFAULT_MAX_BYTES, Limits};
use berth_runtime::client::refusal;
use berth_runtime::store::event::{Event, event, page};
use berth_workload::objects::claim::Claim;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::update::revision::Revision;
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde::de::DeserializeOwned;

use crate::objects::followed;

const LIMITS: Limits = Limits::of_specs(DEFAULT_MAX_BYTES);

pub(crate) fn watch(data: &[u8]) {
    read::<Pod>(data);
    read::<Claim>(data);
    read::<Revision>(data);
    read::<Node>(data);
    followed(data);
    refused(data);
}

pub(crate) fn read<T: DeserializeOwned>(data: &[u8]) {
    if let Ok(Event::Odd(odd)) = event::<T>(data, Some(&LIMITS)) {
        assert!(!odd.error.is_empty());
    }
    if let Ok(page) = page::<T>(data, Some(&LIMITS)) {
        assert!(page.odd.iter().all(|odd| !odd.error.is_empty()));
    }
}

/// The bytes as an answer's body, and as its Retry-After header.
fn refused(data: &[u8]) {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(data) {
        headers.insert(RETRY_AFTER, value);
    }
    let failed = refusal(429, &headers, data);
    assert!(!failed.message.is_empty());
    let now = tokio::time::Instant::now();
    assert!(
        failed
            .retry_after
            .is_none_or(|wait| now.checked_add(wait).is_some()),
        "{:?}",
        failed.retry_after
    );
}
