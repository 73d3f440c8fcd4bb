//! What `kubectl berth` takes from this crate: the plan for an object, as its controller makes it,
//! and what the object waits for. The plugin prints both instead of carrying the plan out.

use anyhow::{Context, bail};
use berth_runtime::Resource;
use kube::Client;
use tracing::subscriber::NoSubscriber;

use crate::controllers::{self, ExplainedKind};
use crate::explain::look::Look;
pub use crate::explain::printed::{Explained, NodeDrain};
use crate::settings::gates;
use crate::settings::published::Published;
use crate::start::resize;
use crate::stores::reads::Namespaces;
pub use crate::stores::unread::NoPlan;

/// The object to explain.
#[derive(Debug, Clone, Copy)]
pub struct ExplainedObject<'a> {
    /// The kind: its name, its plural or a short name.
    pub kind: &'a str,
    /// The namespace; unused for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// Of a budget: the node for which the result of a drain is shown.
    pub node: Option<&'a str>,
}

/// The kinds that have a plan, each with its names in commands.
pub fn explained_kinds() -> impl Iterator<Item = (Resource, Vec<String>)> {
    controllers::all_explained().map(|kind| (kind.resource, kind.names()))
}

/// The plan for an object, as a controller of these settings would carry it out now. Reads with the
/// rights of the client.
///
/// # Errors
/// The object does not exist, its kind has no plan, or the apiserver did not answer.
pub async fn explain(
    client: &Client,
    settings: &Published,
    object: ExplainedObject<'_>,
) -> anyhow::Result<Explained> {
    let Some(ExplainedKind {
        resource, explain, ..
    }) = controllers::explained(object.kind)
    else {
        bail!("kind {:?} has no plan", object.kind);
    };
    // The controller's own log reports feature gates without effect.
    let gates = tracing::subscriber::with_default(NoSubscriber::default(), || {
        gates::parse(&settings.feature_gates).map_err(anyhow::Error::msg)
    })?;
    let resize = resize::ability(client, gates)
        .await
        .context("cannot read whether the cluster resizes pods")?;
    let explained = if resource.namespaced {
        object.namespace.to_owned()
    } else {
        String::new()
    };
    let look = Look {
        client: client.clone(),
        namespaces: Namespaces {
            own: settings.namespace.clone(),
            explained,
        },
        settings,
        name: object.name,
        node: object.node,
        gates,
        resize,
    };
    explain(&look).await
}
