//! The token that the apiserver shows beside the secret paths.

use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::secret_path::is_same;

/// The time between two warnings.
const WARNS_EVERY: Duration = Duration::from_secs(60);
/// How long a refused call counts, even if others show a token: one of several apiservers may lack
/// the token.
const COUNTS_FOR: Duration = Duration::from_secs(60);

/// Why calls are refused, and the remedy.
pub const NO_TOKEN: &str = "webhook calls show no valid token, so each of them fails: the Secret that the chart's value webhookTokenSecret names and \
     the kubeconfig that an apiserver reads for webhooks have different tokens, or the apiserver reads none: give both the same token, or set \
     webhookTokenSecret to nothing until the apiservers have it";

/// The token that the apiserver shows besides the secret paths, and whether callers show it.
pub struct Token {
    /// `None` if the path is enough.
    expected: Option<String>,
    calls: Mutex<Calls>,
    is_missing: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Calls {
    refused: Option<Instant>,
    warned: Option<Instant>,
}

impl Default for Token {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Token {
    pub(crate) fn new(expected: Option<String>) -> Self {
        Self {
            expected,
            calls: Mutex::default(),
            is_missing: watch::channel(false).0,
        }
    }

    /// Whether a request shows the token, if one is required.
    pub(super) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers
            .get(AUTHORIZATION)
            .and_then(|shown| shown.to_str().ok()?.strip_prefix("Bearer "));
        self.expected
            .as_ref()
            .is_none_or(|token| shown.is_some_and(|shown| is_same(token, shown)))
    }

    /// Whether an apiserver calls without a valid token; the receiver sees changes.
    pub(crate) fn is_missing(&self) -> watch::Receiver<bool> {
        self.is_missing.subscribe()
    }

    /// Notes a call that shows the token.
    pub(super) fn shown(&self, now: Instant) {
        if !*self.is_missing.borrow() {
            return;
        }
        let refused = self.calls.lock().refused;
        if refused.is_none_or(|refused| now.duration_since(refused) >= COUNTS_FOR) {
            self.is_missing.send_replace(false);
        }
    }

    /// Notes a call without a valid token. True at most once a minute, for a warning.
    pub(super) fn refused(&self, now: Instant) -> bool {
        let mut calls = self.calls.lock();
        calls.refused = Some(now);
        let warns = calls
            .warned
            .is_none_or(|warned| now.duration_since(warned) >= WARNS_EVERY);
        if warns {
            calls.warned = Some(now);
        }
        drop(calls);
        self.is_missing
            .send_if_modified(|is_missing| !std::mem::replace(is_missing, true));
        warns
    }
}

#[cfg(test)]
mod tests;
