//! The dependencies of the handlers of reviews.

use kube::Client;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::token::Token;
use crate::deletions::RefusedDeletions;
use crate::pods::{Budgets, Injector, Records};
use crate::secret_path::SecretPath;
use crate::server::latency::ReviewMetrics;

/// How far the shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Serve.
    Serving,
    /// Serve, but ask clients to come back over a new connection, which then leads to another
    /// replica.
    Draining,
    /// Accept no more, finish what is under way.
    Ending,
}

/// The dependencies of the validation of an object.
pub struct Judge {
    /// To ask the apiserver about pod templates.
    pub client: Client,
    /// Resources whose objects are refused, with the reason.
    pub closed: BTreeMap<&'static str, String>,
    /// The most bytes that the spec of an object may have.
    pub object_max_bytes: usize,
    /// Knows where new pods are to run.
    pub records: Option<Arc<dyn Records>>,
    /// Knows which containers new pods get.
    pub injector: Option<Arc<dyn Injector>>,
    /// Knows the budgets of pods.
    pub budgets: Option<Arc<dyn Budgets>>,
    /// The secret paths by which the apiserver calls. Answers there may contain data of other
    /// objects.
    pub secret_path: SecretPath,
    /// The token that the apiserver shows besides the path.
    pub token: Token,
    /// Counts the reviews.
    pub reviews: ReviewMetrics,
    /// Counts the deletions that are refused here.
    pub refused_deletions: RefusedDeletions,
}

#[cfg(test)]
impl Judge {
    /// Accepts all kinds, and calls the apiserver with this client.
    pub(crate) fn asking(client: Client) -> Self {
        let (closed, reviews) = (BTreeMap::new(), ReviewMetrics::default());
        Self {
            client,
            closed,
            object_max_bytes: 256 << 10,
            records: None,
            injector: None,
            budgets: None,
            secret_path: SecretPath::default(),
            token: Token::default(),
            reviews,
            refused_deletions: RefusedDeletions::default(),
        }
    }
}
