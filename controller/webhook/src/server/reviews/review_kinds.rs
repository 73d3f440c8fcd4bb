//! The kinds of reviews, and what each may cost.

use berth_http::{Bodies, BodyLimits};

use super::admission::Asker;
use crate::server::turns::{Turns, WAIT};

/// The most bytes of a review that is read.
pub(in crate::server) const LARGEST: usize = 8 << 20;

/// What bodies of one kind of review may cost. The apiserver converts each object by itself, as it decodes it from etcd, also those of a
/// list: far above one object's limit (1.5 MiB) is far above every review. A byte is charged as it came, and once more for each text
/// of about its size that is made of it.
const fn bodies(factor: usize, total: usize) -> BodyLimits {
    BodyLimits {
        largest: LARGEST,
        factor,
        total,
        wait: WAIT,
        deadline: WAIT,
    }
}

/// The kinds of reviews. Each has memory and a turn of its own, so that a flood of one holds up no other.
pub(crate) struct Kinds {
    pub(in crate::server) conversions: Kind,
    pub(in crate::server) validations: Kind,
    /// Conversions and validations for who may be anybody.
    pub(in crate::server) strangers: Kind,
    pub(in crate::server) new_pods: Kind,
    /// What becomes of pods and namespaces that exist.
    pub(in crate::server) disruptions: Kind,
}

/// What reviews of a kind share.
pub(in crate::server) struct Kind {
    pub(in crate::server) bodies: Bodies,
    /// Of reviews above [`SMALL`] one is read and worked on at a time, beside the other tasks, not among them. Their namespaces
    /// take turns.
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

/// What a path leads to.
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
