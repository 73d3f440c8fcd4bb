//! The additions of other writers to the selectors of SidecarSets' entries. The apiserver then
//! calls for fewer pods, and the controller must not inject into the others in another way.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Api, Client};
use serde_json::json;

use super::MUTATING;
use super::entry::hash;
use super::sidecars::entry_named;
use crate::Error;

/// The selectors of entries that differ from those that we wrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Added(BTreeMap<String, Vec<(LabelSelector, LabelSelector)>>);

impl Added {
    /// Reads the additions from the apiserver.
    ///
    /// # Errors
    /// It refuses, or does not answer.
    pub async fn read(client: &Client) -> Result<Self, Error> {
        let failed = |source| Error::api("read", "MutatingWebhookConfiguration", MUTATING, source);
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let found = api.get_opt(MUTATING).await.map_err(failed)?;
        Ok(Self::of(
            &found.and_then(|found| found.webhooks).unwrap_or_default(),
        ))
    }

    /// The additions in these entries. Each entry is named after its own selector of namespaces,
    /// and was written without a selector of pods.
    pub fn of(found: &[MutatingWebhook]) -> Self {
        let mut added = Self::default();
        for webhook in found {
            let Some(entry) = entry_named(&webhook.name) else {
                continue;
            };
            let namespaces = webhook.namespace_selector.clone().unwrap_or_default();
            let pods = webhook.object_selector.clone().unwrap_or_default();
            if pods != LabelSelector::default() || !entry.ends_with(&hash(&json!(namespaces))) {
                added
                    .0
                    .entry(entry.to_owned())
                    .or_default()
                    .push((namespaces, pods));
            }
        }
        added
    }

    /// The selectors of namespaces and of pods of the entries whose names begin so; none if they
    /// are unchanged.
    pub fn to(&self, entry: &str) -> &[(LabelSelector, LabelSelector)] {
        self.0.get(entry).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
