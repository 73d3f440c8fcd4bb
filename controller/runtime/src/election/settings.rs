//! The settings of a candidate, and the lease that it has taken.

use std::time::Duration;

use crate::expectations::Versions;

/// The lease and its times.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// The candidate's identity: a readable name and a random part, so that no two starts share it.
    /// A restarted process must not continue its own earlier lease, because writes of the earlier
    /// process may be under way.
    pub identity: String,
    /// How long other candidates leave a lease alone that is not renewed (4 s). Written in whole
    /// seconds, rounded up.
    pub lease: Duration,
    /// How long a leader acts without a renewal (3 s); less than `lease`, because clocks differ.
    pub renew: Duration,
    /// How often a lease is renewed (1 s); `renew` must be more than 1.2 times this. A watch shows
    /// a candidate when the lease is given back. How often a candidate reads the lease without a
    /// watch also follows from this value.
    pub retry: Duration,
    /// How long one write may take (10 s). If writes need more time than `renew` leaves, the lease
    /// becomes that much longer for some minutes.
    pub write: Duration,
}

impl Settings {
    /// The usual times for this lease.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: Duration::from_secs(4),
            renew: Duration::from_secs(3),
            retry: Duration::from_secs(1),
            write: Duration::from_secs(10),
        }
    }
}

/// The lease as this process took it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Taken {
    /// The version of the lease from which on the old leader writes no more: newer than all of its
    /// writes.
    pub(crate) version: Box<str>,
    /// The versions that the old leader had seen and written when it gave the lease back
    /// ([`Expectations::newest_versions`]); empty if it did not give the lease back or left no
    /// record.
    ///
    /// [`Expectations::newest_versions`]: crate::expectations::Expectations::newest_versions
    pub(crate) seen: Versions,
}
