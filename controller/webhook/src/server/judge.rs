//! Who judges reviews.

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
    /// Serve, but ask clients to come back over a new connection, which then leads to another replica.
    Draining,
    /// Accept no more, finish what is under way.
    Ending,
}

/// What the validation of an object needs besides the object.
pub struct Judge {
    /// To ask the apiserver about pod templates.
    pub client: Client,
    /// Resources that are not taken in, with the reason.
    pub closed: BTreeMap<&'static str, String>,
    /// The most bytes that the spec of an object may have.
    pub object_max_bytes: usize,
    /// Who knows where new pods are to run.
    pub records: Option<Arc<dyn Records>>,
    /// Who knows which containers new pods get.
    pub injector: Option<Arc<dyn Injector>>,
    /// Who knows the budgets of pods.
    pub budgets: Option<Arc<dyn Budgets>>,
    /// The paths by which the apiserver asks about what not everybody may know.
    pub secret_path: SecretPath,
    /// What the apiserver shows beside the path.
    pub token: Token,
    /// Who counts the reviews.
    pub reviews: ReviewMetrics,
    /// Who counts the deletions that are refused here.
    pub refused_deletions: RefusedDeletions,
}

#[cfg(test)]
impl Judge {
    /// Takes in all kinds, and asks this client.
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
