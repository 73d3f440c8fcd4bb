//! The result of each scenario, for any injected fault.

use crate::stateful_set::manifest::{LARGER, SIZE, START};
use crate::stateful_set::{REPLICAS, Stateful};
use crate::world::{ONE, TWO};

/// The result of a scenario.
pub(super) struct Expected {
    /// Ordinals of the pods.
    pub(super) pods: &'static [usize],
    /// Ordinals of the claims.
    pub(super) claims: &'static [usize],
    /// Claims of each of them.
    pub(super) templates: usize,
    /// The size that each claim requests.
    pub(super) size: &'static str,
    pub(super) image: &'static str,
    /// Pods that the controller makes and deletes.
    pub(super) makes: usize,
    pub(super) deletes: usize,
    /// Claims that it enlarges.
    pub(super) grows: usize,
    /// The minimum number of pods that serve at every moment, and the maximum number of pods.
    pub(super) serve: usize,
    pub(super) most: usize,
}

/// Three pods of the first image, without any change.
const REST: Expected = Expected {
    pods: &[0, 1, 2],
    claims: &[0, 1, 2],
    templates: 1,
    size: SIZE,
    image: ONE,
    makes: 0,
    deletes: 0,
    grows: 0,
    serve: REPLICAS,
    most: REPLICAS,
};
const NOTHING: Expected = Expected {
    pods: &[],
    claims: &[],
    ..REST
};
/// The pods begin at [`START`].
const MOVED: Expected = Expected {
    pods: &[2, 3, 4],
    claims: &[2, 3, 4],
    ..REST
};
/// The pods are replaced one after the other.
const REPLACED: Expected = Expected {
    makes: REPLICAS,
    deletes: REPLICAS,
    serve: REPLICAS - 1,
    ..REST
};

impl Stateful {
    pub(super) fn expected(self) -> Expected {
        let smaller = Expected {
            pods: &[0],
            claims: &[0],
            deletes: 2,
            serve: 1,
            ..REST
        };
        let is_moved = Expected {
            makes: START,
            deletes: START,
            most: REPLICAS + START,
            ..REST
        };
        match self {
            Stateful::Created | Stateful::CreatedAtOnce => Expected {
                makes: REPLICAS,
                serve: 0,
                ..REST
            },
            Stateful::Adopted | Stateful::Generated => REST,
            Stateful::Bigger => Expected {
                pods: &[0, 1, 2, 3],
                claims: &[0, 1, 2, 3],
                makes: 1,
                most: REPLICAS + 1,
                ..REST
            },
            Stateful::SpecifiedDelete => Expected {
                makes: 1,
                deletes: 1,
                serve: REPLICAS - 1,
                ..REST
            },
            Stateful::ClaimTemplateAdded => Expected {
                templates: 2,
                ..REPLACED
            },
            Stateful::Smaller | Stateful::Guarded => smaller,
            Stateful::SmallerAtOnce => Expected {
                claims: &[0, 1, 2],
                ..smaller
            },
            Stateful::Replaced => Expected {
                image: TWO,
                ..REPLACED
            },
            Stateful::InPlace | Stateful::Hooked => Expected {
                image: TWO,
                serve: REPLICAS - 1,
                ..REST
            },
            Stateful::Reserved => Expected {
                pods: &[0, 2, 3],
                claims: &[0, 1, 2, 3],
                makes: 1,
                deletes: 1,
                most: REPLICAS + 1,
                ..REST
            },
            Stateful::Recorded => Expected {
                makes: 1,
                serve: REPLICAS - 1,
                ..REST
            },
            Stateful::Resized => Expected {
                image: TWO,
                size: LARGER,
                grows: REPLICAS,
                ..REPLACED
            },
            Stateful::MovedUp => Expected {
                pods: MOVED.pods,
                claims: MOVED.claims,
                ..is_moved
            },
            Stateful::MovedDown => is_moved,
        }
    }

    /// The state before the change.
    pub(super) fn before(self) -> Expected {
        match self {
            Stateful::Created | Stateful::CreatedAtOnce => NOTHING,
            Stateful::MovedDown => MOVED,
            _ => REST,
        }
    }
}
