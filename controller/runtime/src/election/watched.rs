//! A watch of the lease, so that candidates need not poll whether it is free.

use berth_workload::objects::pod::Metadata;
use kube::Client;
use serde::Deserialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::feed;
use crate::metrics::FeedMetrics;
use crate::object::{LEASES, Object, Resource};
use crate::store::Store;

/// The existence and version of the lease. A candidate reads its content when it tries to take it.
#[derive(Debug, Deserialize)]
struct Lease {
    metadata: Metadata,
}

impl Object for Lease {
    const RESOURCE: Resource = LEASES;

    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }
    fn name(&self) -> &str {
        &self.metadata.name
    }
    fn uid(&self) -> &str {
        &self.metadata.uid
    }
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
    fn terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Signals every change of the lease on `changed`, until `stop`.
pub(super) fn follow(
    client: Client,
    settings: &Settings,
    metrics: FeedMetrics,
    changed: watch::Sender<()>,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let store = Store::<Lease>::new(&[]);
    store.on_change(move |_| _ = changed.send(()));
    let fields = format!("metadata.name={}", settings.name);
    let options = feed::Options {
        namespace: settings.namespace.clone(),
        fields,
        metrics,
        ..feed::Options::default()
    };
    feed::run(client, store, options, stop)
}
