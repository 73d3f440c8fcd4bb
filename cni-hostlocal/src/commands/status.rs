//! STATUS.

use std::io;

use super::{add::exhausted, open};
use crate::{
    allocator::offers,
    call::{Call, Command},
    config::{Config, document::WhenExhausted},
    failure::{Failure, INCOMPATIBLE_VERSION, NOT_AVAILABLE},
};

/// STATUS: whether an ADD would find addresses and could record them.
///
/// # Errors
/// An ADD would fail.
pub fn status(call: &Call, config: &Config) -> Result<(), Failure> {
    debug_assert_eq!(call.command, Command::Status);
    if !config.is_at_least("1.1.0") {
        return Err(Failure::new(
            INCOMPATIBLE_VERSION,
            "config version does not allow STATUS",
        ));
    }
    let request = config.request(&call.arguments)?;
    let unavailable = |error: io::Error| Failure::new(NOT_AVAILABLE, error.to_string());
    let mut store = open(config).map_err(unavailable)?;
    store.settle().map_err(unavailable)?;
    let held = store.held().map_err(unavailable)?;
    for set in &request.sets {
        let free = offers(set, None).any(|offer| !held.contains(&offer.address));
        let gives_way = config.keep.when_exhausted == WhenExhausted::TakeOldest
            && !free
            && store
                .next_to_give_way(|address| set.range_of(address).is_some())
                .map_err(unavailable)?
                .is_some();
        if !free && !gives_way {
            return Err(Failure {
                code: NOT_AVAILABLE,
                ..exhausted(&store, config, set)
            });
        }
    }
    store.finish().map_err(unavailable)
}
