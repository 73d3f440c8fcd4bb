//! How a replica stands for election, and what it takes over.

use std::time::Duration;

use crate::expectations::Versions;

/// The lease and its times.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who this candidate is: a readable name and something random, so that no two lives share it. A process that starts again
    /// must not take up the lease of its life before, of which writes may be under way.
    pub identity: String,
    /// How long others leave a lease alone that is not renewed (4 s). Written in whole seconds, rounded up.
    pub lease: Duration,
    /// How long a leader goes on without a renewal (3 s); less than `lease`, the difference is for clocks that differ.
    pub renew: Duration,
    /// How often a lease is renewed (1 s); `renew` is more than 1.2 times that. A candidate sees by a watch that it is given
    /// back or not renewed any more; how often it looks without one follows from this, too.
    pub retry: Duration,
    /// How long one write may take (10 s). Where writes turn out to need more than `renew` leaves them, the lease is taken for
    /// so much longer, for some minutes.
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
    /// The version of the lease as of which the leader before writes no more: newer than all that it wrote.
    pub(crate) version: Box<str>,
    /// What the leader before had seen and written when it gave the lease back ([`Expectations::newest_versions`]); empty where it
    /// did not give it back, or did not say.
    ///
    /// [`Expectations::newest_versions`]: crate::expectations::Expectations::newest_versions
    pub(crate) seen: Versions,
}
