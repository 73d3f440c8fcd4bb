//! Writes the bundle to every place that lacks it.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ObjectMeta, Patch};
use kube::core::ClusterResourceScope;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::pass::WebhookConfigurator;
use super::published::Published;
use crate::Error;
use crate::apiserver::{crds, patching, posting};
use crate::certs::store::CA_CERT;
use crate::places;
use crate::pods::{Added, Asks, DISRUPTIONS, Disruptions, MUTATING};

/// The shortest time between two overwrites of paths of another seed. While a build with other
/// seeds is replaced, its replicas write their paths back at once, and each write would trigger the
/// other.
const RESEED_AT_MOST_EVERY: Duration = Duration::from_secs(5);

impl WebhookConfigurator {
    /// Writes the bundle to every place that lacks it; says what is missing if there is no place at
    /// all.
    ///
    /// Call it with the bundle of a Secret that was read just before: each write fails when its
    /// place has changed since it was read, and it is read after the Secret. So a replica that
    /// slept never reverts what another one has published.
    pub(super) async fn publish(&mut self, bundle: &str) -> Result<Published, Error> {
        let mut there = 0;
        for name in places::crds() {
            there += usize::from(self.publish_to_crd(&name, bundle).await?);
            // A pod may be created right after the object that asks for the webhook, and a pass
            // over all definitions takes a while.
            self.publish_pods_ahead().await;
        }
        // Some of them are enough: a kind may be left out on purpose, and a later pass handles a
        // definition that comes later.
        let names = || places::crds().collect::<Vec<_>>().join(", ");
        let missing =
            (there == 0).then(|| format!("none of {} is there: install the chart's CRDs", names()));
        let paths_in = if self.validating {
            self.publish_to_validating(bundle).await?
        } else {
            None
        };
        self.publish_to_config_map(bundle).await?;
        let pods_failed = match self.publish_entries(bundle).await {
            Err(error) if error.is_conflict() => return Err(error),
            Err(error) => {
                warn!(%error, "for whose pods the pod webhook is called cannot be written: tried again");
                true
            }
            Ok(()) => false,
        };
        Ok(Published {
            missing,
            pods_failed,
            paths_in,
        })
    }

    async fn publish_to_crd(&self, name: &str, bundle: &str) -> Result<bool, Error> {
        let failed = |verb, source| Error::api(verb, "CustomResourceDefinition", name, source);
        let api = crds(&self.client);
        let Some(crd) = api
            .get_opt(name)
            .await
            .map_err(|source| failed("read", source))?
        else {
            return Ok(false);
        };
        if let Some(patch) = places::crd_patch(&crd.spec, &self.endpoint, bundle) {
            let patch = Patch::Merge(preconditioned(patch, &crd.metadata));
            api.patch(name, &patching(), &patch)
                .await
                .map_err(|source| failed("patch", source))?;
            info!(
                crd = name,
                "wrote spec.conversion of the CustomResourceDefinition"
            );
        }
        Ok(true)
    }

    /// Writes the ValidatingWebhookConfiguration, if it exists. Says how long its paths are left
    /// alone.
    async fn publish_to_validating(&mut self, bundle: &str) -> Result<Option<Duration>, Error> {
        let name = places::VALIDATING;
        let failed =
            |verb, source| Error::api(verb, "ValidatingWebhookConfiguration", name, source);
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let Some(found) = api
            .get_opt(name)
            .await
            .map_err(|source| failed("read", source))?
        else {
            return Ok(None);
        };
        let webhooks = found.webhooks.unwrap_or_default();
        let seed = self.secret_path.newest().unwrap_or_default();
        if let Some(patch) = places::validating_patch(&webhooks, &self.endpoint, (bundle, &seed)) {
            let (is_seed_alone, now) = (
                places::differ_by_seed_alone(&webhooks, &self.endpoint, (bundle, &seed)),
                Instant::now(),
            );
            if let Some(wait) = reseeds_in(self.reseeded, now).filter(|_| is_seed_alone) {
                return Ok(Some(wait));
            }
            let patch = Patch::Strategic(preconditioned(patch, &found.metadata));
            api.patch(name, &patching(), &patch)
                .await
                .map_err(|source| failed("patch", source))?;
            info!(name, "wrote webhooks of the ValidatingWebhookConfiguration");
            if is_seed_alone {
                self.reseeded = Some(now);
            }
        }
        Ok(None)
    }

    /// Writes the entries of the pod webhook as the leader wants them; other replicas only read
    /// them.
    pub(super) async fn publish_entries(&self, bundle: &str) -> Result<(), Error> {
        let (wanted, written) = &self.pods;
        let Some(asks) = to_publish(wanted, written) else {
            return self.look_at_entries().await;
        };
        let seed = self.secret_path.newest().unwrap_or_default();
        let mutates = |found: MutatingWebhookConfiguration| {
            let webhooks = found.webhooks.unwrap_or_default();
            self.learn(Added::of(&webhooks));
            (
                asks.patch(&webhooks, &self.endpoint, (bundle, &seed)),
                found.metadata,
            )
        };
        let mutated = self
            .write_entries(MUTATING, asks != Asks::default(), mutates)
            .await;
        let validates = |found: ValidatingWebhookConfiguration| {
            let webhooks = found.webhooks.unwrap_or_default();
            (
                asks.patch_validating(&webhooks, &self.endpoint, (bundle, &seed)),
                found.metadata,
            )
        };
        // Also if the first write failed.
        let is_wanted = asks.disruptions != Disruptions::default();
        let validated = self.write_entries(DISRUPTIONS, is_wanted, validates).await;
        written.send_if_modified(|old| {
            let now = now_written(
                old.as_ref(),
                &asks,
                (mutated.as_ref().ok(), validated.as_ref().ok()),
            );
            let is_other = *old != now;
            *old = now;
            is_other
        });
        mutated.and(validated).map(drop)
    }

    /// Every replica, leader or not, must know what other writers have added to the entries.
    pub(super) async fn look_at_entries(&self) -> Result<(), Error> {
        if self.serves_pods {
            self.learn(Added::read(&self.client).await?);
        }
        Ok(())
    }

    fn learn(&self, added: Added) {
        self.added.send_if_modified(|old| {
            let is_other = old.as_ref() != Some(&added);
            *old = Some(added);
            is_other
        });
    }

    /// Writes the entries of a configuration; false if the configuration does not exist. If no
    /// entry is wanted, the chart may have left out the configuration and the right to read it.
    async fn write_entries<K>(
        &self,
        name: &str,
        is_wanted: bool,
        entries: impl FnOnce(K) -> (Option<Value>, ObjectMeta),
    ) -> Result<bool, Error>
    where
        K: kube::Resource<Scope = ClusterResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let kind = K::kind(&());
        let failed = |verb, source| Error::api(verb, &kind, name, source);
        let api: Api<K> = Api::all(self.client.clone());
        let found = match api.get_opt(name).await {
            Err(kube::Error::Api(status)) if !is_wanted && status.is_forbidden() => None,
            found => found.map_err(|source| failed("read", source))?,
        };
        let Some(found) = found else {
            if is_wanted {
                warn!(
                    name,
                    "a webhook configuration of the chart is missing, so the apiserver does not call the webhook: install the chart again"
                );
            }
            return Ok(false);
        };
        if let (Some(patch), metadata) = entries(found) {
            let patch = Patch::Merge(preconditioned(patch, &metadata));
            api.patch(name, &patching(), &patch)
                .await
                .map_err(|source| failed("patch", source))?;
            info!(name, "wrote for which pods the webhook is called");
        }
        Ok(true)
    }

    /// The paths by which the apiserver is to call, of all configurations.
    pub(super) async fn called_paths(&self) -> Result<Vec<String>, Error> {
        let validating = ApiResource::erase::<ValidatingWebhookConfiguration>(&());
        let mutating = ApiResource::erase::<MutatingWebhookConfiguration>(&());
        let all = [
            (self.validating, &validating, places::VALIDATING),
            (self.serves_pods, &mutating, MUTATING),
            (self.serves_pods, &validating, DISRUPTIONS),
        ];
        let mut paths = Vec::new();
        for (_, resource, name) in all.into_iter().filter(|(is_kept, ..)| *is_kept) {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
            let found = match api.get_opt(name).await {
                // The chart may have left out the configuration and the right to read it.
                Err(kube::Error::Api(status)) if status.is_forbidden() => None,
                found => {
                    found.map_err(|source| Error::api("read", &resource.kind, name, source))?
                }
            };
            let webhooks = found
                .map(|found| found.data["webhooks"].clone())
                .unwrap_or_default();
            paths.extend(
                webhooks
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(called_path),
            );
        }
        Ok(paths)
    }

    async fn publish_to_config_map(&self, bundle: &str) -> Result<(), Error> {
        let name = places::CA_CONFIG_MAP;
        let failed = |verb, source| {
            Error::api(
                verb,
                "ConfigMap",
                &format!("{}/{name}", self.namespace),
                source,
            )
        };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(found) = api
            .get_opt(name)
            .await
            .map_err(|source| failed("read", source))?
        else {
            let data = Some([(CA_CERT.to_owned(), bundle.to_owned())].into());
            let map = ConfigMap {
                metadata: self.metadata(name),
                data,
                ..ConfigMap::default()
            };
            return api
                .create(&posting(), &map)
                .await
                .map(drop)
                .map_err(|source| failed("create", source));
        };
        let held = found.data.as_ref().and_then(|data| data.get(CA_CERT));
        if held.map(String::as_str) != Some(bundle) {
            let patch = preconditioned(json!({"data": {CA_CERT: bundle}}), &found.metadata);
            api.patch(name, &patching(), &Patch::Merge(patch))
                .await
                .map_err(|source| failed("patch", source))?;
        }
        Ok(())
    }
}

/// The rules to be written; `None` if this replica does not lead. Rules that the write removes
/// count as not written from now on, even if the write gets no answer. They do so before a kind can
/// want them again.
fn to_publish(
    wanted: &watch::Receiver<Option<Asks>>,
    written: &watch::Sender<Option<Asks>>,
) -> Option<Asks> {
    let asks = wanted.borrow();
    written.send_if_modified(|old| {
        let before = old.clone();
        *old = old
            .take()
            .zip(asks.as_ref())
            .map(|(old, asks)| old.within(asks));
        *old != before
    });
    asks.clone()
}

/// The rules in the configurations after a try. For each configuration the argument says whether it
/// exists; `None` if the try failed. Then the earlier rules still stand, without those that the
/// write was about to remove.
fn now_written(
    before: Option<&Asks>,
    asks: &Asks,
    (mutating, validating): (Option<&bool>, Option<&bool>),
) -> Option<Asks> {
    let of = |is_there: Option<&bool>| match is_there {
        Some(true) => Some(asks.clone()),
        Some(false) => Some(Asks::default()),
        None => before.cloned(),
    };
    let (mutating, disruptions) = (of(mutating), of(validating)?.disruptions);
    Some(Asks {
        disruptions,
        ..mutating.unwrap_or_default()
    })
}

/// How long to leave paths of another seed alone; `None` if they are to be overwritten.
fn reseeds_in(last: Option<Instant>, now: Instant) -> Option<Duration> {
    let left = RESEED_AT_MOST_EVERY.checked_sub(now.saturating_duration_since(last?))?;
    (!left.is_zero()).then_some(left)
}

/// The path by which an entry of a configuration is called.
fn called_path(webhook: &Value) -> Option<String> {
    let client = &webhook["clientConfig"];
    let of_url = || {
        client["url"]
            .as_str()?
            .strip_prefix("https://")?
            .split_once('/')
            .map(|(_, path)| format!("/{path}"))
    };
    client["service"]["path"]
        .as_str()
        .map(str::to_owned)
        .or_else(of_url)
}

/// The patch, made to fail when the object has changed since it was read.
fn preconditioned(mut patch: Value, read: &ObjectMeta) -> Value {
    patch["metadata"] = json!({"resourceVersion": read.resource_version});
    patch
}

#[cfg(test)]
mod tests;
