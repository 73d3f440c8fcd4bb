//! The kinds of reviews, and the limits of each.

use berth_http::{Bodies, BodyLimits};

use super::admission::Asker;
use crate::server::turns::{Turns, WAIT};

/// The most bytes of a review that is read.
pub(in crate::server) const LARGEST: usize = 8 << 20;

/// The limits of bodies of one kind of review. The apiserver converts each object by itself, as it
/// decodes it from etcd, also those of a list. So [`LARGEST`], far above one object's limit (1.5
/// MiB), is far above every review. A byte is charged when it arrives, and once more for each text
/// of about its size that is made from it.
const fn bodies(factor: usize, total: usize) -> BodyLimits {
    BodyLimits {
        largest: LARGEST,
        factor,
        total,
        wait: WAIT,
        deadline: WAIT,
    }
}

/// The kinds of reviews. Each has memory and turns of its own, so that a flood of one kind delays
/// no other.
pub(crate) struct Kinds {
    pub(in crate::server) conversions: Kind,
    pub(in crate::server) validations: Kind,
    /// Conversions and validations for unknown clients.
    pub(in crate::server) strangers: Kind,
    pub(in crate::server) new_pods: Kind,
    /// Disruptions of pods, and deletions of namespaces and definitions.
    pub(in crate::server) disruptions: Kind,
}

/// The limits that reviews of a kind share.
pub(in crate::server) struct Kind {
    pub(in crate::server) bodies: Bodies,
    /// Of reviews above [`SMALL`] one is read and handled at a time, on a thread apart from the
    /// other tasks. Their namespaces take turns.
    pub(in crate::server) turns: Turns,
}

impl Kind {
    fn new(limits: BodyLimits) -> Self {
        Self {
            bodies: Bodies::new(limits),
            turns: Turns::new(1),
        }
    }
}

impl Kinds {
    pub(in crate::server) fn new() -> Self {
        Self {
            conversions: Kind::new(bodies(3, 24 << 20)),
            validations: Kind::new(bodies(2, 16 << 20)),
            strangers: Kind::new(bodies(3, 24 << 20)),
            new_pods: Kind::new(bodies(2, 16 << 20)),
            disruptions: Kind::new(bodies(1, 8 << 20)),
        }
    }

    pub(in crate::server) fn of(&self, handler: Handler, is_apiserver: bool) -> &Kind {
        match handler {
            Handler::Convert | Handler::Validate(_) if !is_apiserver => &self.strangers,
            Handler::Convert => &self.conversions,
            Handler::Validate(_) => &self.validations,
            Handler::Pin | Handler::Inject | Handler::Gate => &self.new_pods,
            Handler::Recreate | Handler::Evict | Handler::Disrupt | Handler::Guard => {
                &self.disruptions
            }
        }
    }
}

/// The handler of a path.
#[derive(Clone, Copy)]
pub(in crate::server) enum Handler {
    Convert,
    Validate(Asker),
    Pin,
    Inject,
    Gate,
    Recreate,
    Evict,
    Disrupt,
    Guard,
}

impl Handler {
    /// Whether only the apiserver knows the path.
    pub(in crate::server) fn is_secret(self) -> bool {
        !matches!(self, Self::Convert | Self::Validate(Asker::Anybody))
    }
}
