//! AdmissionReviews of Namespaces and CustomResourceDefinitions that are to be deleted and have the
//! label `policy.kruise.io/delete-protection: Cascading`. The webhook counts the objects in them;
//! if it cannot count, the deletion is refused.
//!
//! The webhook counts with the controller's own rights, and the answers name pods and claims. So
//! the caller must know the secret path.

mod census;
mod guarded;
mod words;

use std::borrow::Cow;
use std::time::Duration;

use berth_api::names::delete_protection;
use futures::future::try_join_all;
use kube::Client;
use serde::Deserialize;

use super::admission::Look;
use super::pod_review::Answer;
use crate::server::judge::Judge;

use guarded::{Guarded, Kind, Spec};

pub(in crate::server) use census::Unlisted;
pub(in crate::server) use guarded::Counted;

/// Shorter than the apiserver waits for an answer.
pub(in crate::server) const PATIENCE: Duration = Duration::from_millis(4_500);

/// A review that only a count can answer.
pub(in crate::server) struct Question {
    uid: String,
    user: String,
    guarded: Guarded,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    resource: Resource,
    #[serde(default)]
    user_info: User,
    old_object: Object,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Resource {
    group: String,
    resource: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: Labels,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
struct Labels {
    #[serde(rename = "policy.kruise.io/delete-protection")]
    protection: Option<String>,
}

/// Does the part that needs no waiting.
///
/// # Errors
/// The text is no AdmissionReview of a deletion.
pub(in crate::server) fn look(body: &[u8]) -> Result<Look<Question>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Review<'a> {
        #[serde(borrow)]
        request: Raw<'a>,
    }
    let Review {
        request:
            Raw {
                uid,
                resource,
                user_info,
                old_object,
            },
    } = serde_json::from_slice(body)?;
    let Object { metadata, spec } = old_object;
    let kind = match (&*resource.group, &*resource.resource) {
        ("", "namespaces") => Some(Kind::Namespace),
        ("apiextensions.k8s.io", "customresourcedefinitions") => Some(Kind::Definition),
        _ => None,
    };
    let is_guarded = metadata.labels.protection.as_deref() == Some(delete_protection::CASCADING);
    let uid = uid.into_owned();
    match kind.filter(|_| is_guarded && metadata.deletion_timestamp.is_none()) {
        Some(kind) => {
            let guarded = Guarded {
                kind,
                name: metadata.name,
                spec,
            };
            Ok(Look::Asks(Question {
                uid,
                user: user_info.username,
                guarded,
            }))
        }
        None => Answer::to(&uid).written().map(Look::Answer),
    }
}

impl Question {
    /// The namespace that is to be deleted; empty for a definition, which is in none.
    pub(in crate::server) fn namespace(&self) -> &str {
        if self.guarded.kind == Kind::Namespace {
            &self.guarded.name
        } else {
            ""
        }
    }

    /// Counts the objects that forbid the deletion, by sort.
    ///
    /// # Errors
    /// They cannot be counted.
    pub(in crate::server) async fn count(&self, client: &Client) -> Counted {
        let counted = self.guarded.listings()?.into_iter().map(async |listing| {
            let living = listing.count(client).await?;
            Ok((listing, living))
        });
        try_join_all(counted).await
    }

    /// The answer, by the count. It is the same for a dry run.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(in crate::server) fn answer(
        self,
        counted: Counted,
        judge: &Judge,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let mut answer = Answer::to(&self.uid);
        if let Some(message) = words::refusal(&self.guarded, &counted) {
            let refused = match self.guarded.kind {
                Kind::Namespace => &judge.refused_deletions.namespaces,
                Kind::Definition => &judge.refused_deletions.definitions,
            };
            refused.count(&self.guarded.name, &self.user);
            answer.refuse(&message);
        }
        answer.written()
    }
}

#[cfg(test)]
mod tests;
