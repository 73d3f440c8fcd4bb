//! Reads kinds, objects and scales. All callers share one read of each a second.

use std::sync::Arc;

use berth_api::kinds;
use berth_api::name::{Name, Namespace, is_dns_label, is_dns_subdomain};
use berth_runtime::client::{self, Failed};
use kube::core::GroupVersionKind;
use kube::discovery::{self, ApiCapabilities, ApiResource, Scope};
use tokio::time::Instant;

use super::wants::{DaemonSet, Says, Scale, Wants};
use super::{
    ExpectedPods, Kind, MOST_KINDS, Object, REMEDY, Read, Uncounted, fault, is_not_served, silent,
};

impl ExpectedPods {
    /// Where a kind is served.
    pub(super) async fn kind(
        &self,
        api_version: &str,
        kind: &str,
        said: &str,
    ) -> Result<Kind, Uncounted> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // Our own kinds are read in their stored version: a webhook converts other versions, and it
        // may not answer yet.
        let own = kinds::named(kind).filter(|own| own.version(api_version).is_some());
        let version = own.map_or(version, |own| own.stored.name());
        let is_name = (group.is_empty() || is_dns_subdomain(group)) && is_dns_label(version);
        let name = GroupVersionKind::gvk(group, version, kind);
        if !is_name {
            return fault(format!(
                "{said} is of {api_version:?}, which is no group and version: {REMEDY}"
            ));
        }
        if let Some(known) = self
            .kinds()
            .iter()
            .find(|known| known.name == name && known.is_current())
        {
            return Ok(known.clone());
        }
        let found = discovery::pinned_kind(&self.client, &name).await;
        let (resource, capabilities): (ApiResource, ApiCapabilities) = match found {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.code != 404 => {
                return Err(Uncounted::Silent(silent(status.code, &status.message)));
            }
            Err(kube::Error::Api(_) | kube::Error::Discovery(_)) => {
                return fault(format!(
                    "{said} is of {api_version}, which the apiserver does not know: {REMEDY}"
                ));
            }
            Err(error) => return Err(Uncounted::Silent(silent(0, &error.to_string()))),
        };
        if capabilities.scope != Scope::Namespaced || !is_dns_label(&resource.plural) {
            return fault(format!(
                "{said} is of a kind that is in no namespace: {REMEDY}"
            ));
        }
        let has_scale = capabilities
            .subresources
            .iter()
            .any(|(sub, _)| sub.plural.ends_with("/scale") || sub.plural == "scale");
        let says = Says::of(group, kind, has_scale);
        let kind = Kind {
            name,
            plural: resource.plural,
            says,
            since: Instant::now(),
        };
        let mut kinds = self.kinds();
        kinds.retain(|known| known.name != kind.name);
        if kinds.len() < MOST_KINDS {
            kinds.push(kind.clone());
        }
        Ok(kind)
    }

    pub(super) fn kinds(&self) -> parking_lot::MutexGuard<'_, Vec<Kind>> {
        self.kinds.lock()
    }

    pub(super) async fn object(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        said: &str,
    ) -> Read<Arc<Object>> {
        let read = async {
            Ok(self
                .read(kind, namespace, name, "", said)
                .await?
                .map(Arc::new))
        };
        self.objects
            .or(&kind.cache_key(namespace, name, said), read)
            .await
    }

    /// How many pods a workload wants; `None` if it is gone, or nothing says so.
    pub(super) async fn wants(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        said: &str,
    ) -> Read<Wants> {
        let read = async {
            match kind.says {
                Says::Scale => {
                    let scale: Option<Scale> =
                        self.read(kind, namespace, name, "/scale", said).await?;
                    Ok(scale.map(|scale| scale.wants()))
                }
                Says::Nodes => {
                    let set = self
                        .read::<DaemonSet>(kind, namespace, name, "", said)
                        .await?;
                    let Some(set) = set else { return Ok(None) };
                    let uncounted = || {
                        let message = format!(
                            "the controller of {said} has not counted its nodes since its spec changed"
                        );
                        Uncounted::Silent(silent(0, &message))
                    };
                    set.wants().map(Some).ok_or_else(uncounted)
                }
                Says::Nothing => Ok(None),
            }
        };
        self.wants
            .or(&kind.cache_key(namespace, name, said), read)
            .await
    }

    pub(super) async fn read<T: serde::de::DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        subresource: &str,
        said: &str,
    ) -> Read<T> {
        let (Ok(namespace), Ok(name)) = (Namespace::parse(namespace), Name::parse(name)) else {
            return Ok(None);
        };
        let path = |Kind {
                        name: GroupVersionKind { group, version, .. },
                        plural,
                        ..
                    }: &Kind| {
            let root = if group.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{group}/{version}")
            };
            format!("{root}/namespaces/{namespace}/{plural}/{name}{subresource}")
        };
        let mut read: Result<T, Failed> = client::get(&self.client, &path(kind)).await;
        if read.as_ref().is_err_and(is_not_served) {
            // The path of the kind may have changed since it was read.
            self.kinds().retain(|known| known.name != kind.name);
            let now = self
                .kind(&kind.name.api_version(), &kind.name.kind, said)
                .await?;
            read = client::get(&self.client, &path(&now)).await;
        }
        match read {
            Ok(read) => Ok(Some(read)),
            Err(failed) if failed.is_not_found() => Ok(None),
            // Not known whether it exists: it may be served in another version.
            Err(failed) if is_not_served(&failed) => fault(format!(
                "{said} is of {}, which the apiserver does not serve: {REMEDY}",
                kind.name.api_version()
            )),
            Err(failed) if failed.code == 403 => fault(kind.unreadable(said)),
            Err(failed) => Err(Uncounted::Silent(failed)),
        }
    }
}
