//! Workloads of other controllers whose pods have ordinals: the kinds that a ConfigMap lists are
//! watched, as long as it lists them. The other settings in the ConfigMap are read here, too.

use std::sync::Arc;
use std::time::Duration;

use berth_runtime::client::Failed;
use berth_runtime::metrics::FeedMetrics;
use berth_runtime::{CancellationToken, Change, Key, Resource, Store, feed, object};
use berth_workload::objects::untyped_workload::stateful::StatefulWorkload;
use futures::FutureExt;
use kube::Client;
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::stores::configuration::Configuration;
use crate::stores::watched::Watched;

/// The ConfigMap, in our own namespace.
const CONFIGURATION: &str = "kruise-configuration";
/// The key in it: `{"workloads": [{"group": …, "version": …, "kind": …}]}`.
const LIST: &str = "PPS_Watch_Custom_Workload_WhiteList";
/// The most kinds.
const MOST: usize = 16;
/// The most kinds in the life of a process: their names are kept for ever.
const MOST_EVER: usize = 256;
/// The wait before the server is checked again for a kind that it does not know.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

type Workloads = Store<Watched<StatefulWorkload>>;
type Hook = Box<dyn Fn(Option<&Key>) + Send + Sync>;

/// The feeds of the kinds, and their stores.
pub(crate) struct CustomWorkloads {
    /// The ConfigMap, if it was read.
    configuration: Arc<Store<Watched<Configuration>>>,
    followed: RwLock<Vec<Followed>>,
    /// Every kind that was ever watched.
    known: Mutex<Vec<Resource>>,
    hooks: Arc<RwLock<Vec<Hook>>>,
}

struct Followed {
    resource: Resource,
    store: Arc<Workloads>,
    stop: CancellationToken,
}

#[derive(Deserialize)]
struct List {
    #[serde(default, alias = "Workloads")]
    workloads: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default, alias = "Group")]
    group: String,
    #[serde(alias = "Version")]
    version: String,
    #[serde(alias = "Kind")]
    kind: String,
}

/// The kinds that the list names, without those that are watched anyway.
///
/// # Errors
/// Why it cannot be read, for the author of the ConfigMap.
fn listed(list: &str) -> Result<Vec<GroupVersionKind>, String> {
    let List { workloads } = serde_json::from_str(list).map_err(|error| {
        format!("{LIST} of ConfigMap {CONFIGURATION} is not read: {error}; write {{\"workloads\": [{{\"group\": …, \"version\": …, \"kind\": …}}]}}")
    })?;
    let kinds = workloads
        .into_iter()
        .map(|entry| GroupVersionKind::gvk(&entry.group, &entry.version, &entry.kind));
    let is_known = |kind: &GroupVersionKind| {
        kind.kind == "StatefulSet"
            && [
                object::STATEFUL_SETS.group,
                object::NATIVE_STATEFUL_SETS.group,
            ]
            .contains(&&*kind.group)
    };
    Ok(kinds.filter(|kind| !is_known(kind)).take(MOST).collect())
}

impl Default for CustomWorkloads {
    fn default() -> Self {
        let configuration = Store::new(&[]);
        Self {
            configuration,
            followed: RwLock::default(),
            known: Mutex::default(),
            hooks: Arc::default(),
        }
    }
}

impl CustomWorkloads {
    /// The value of a key in the ConfigMap.
    pub(crate) fn configured(&self, key: &str) -> Option<String> {
        self.configuration.all().first()?.0.data.get(key).cloned()
    }

    /// Whether the content of the ConfigMap is known, or that there is none.
    pub(crate) fn is_known(&self) -> bool {
        self.configuration.is_synced()
    }

    /// Adds a hook, called for each workload that changes, and with `None` when kinds come or go.
    pub(crate) fn on_change(&self, hook: impl Fn(Option<&Key>) + Send + Sync + 'static) {
        self.hooks.write().push(Box::new(hook));
    }

    /// The workloads of a kind, if it is watched.
    pub(crate) fn of(&self, group: &str, kind: &str) -> Option<(Resource, Arc<Workloads>)> {
        let followed = self.followed.read();
        let found = followed
            .iter()
            .find(|it| it.resource.group == group && it.resource.kind == kind)?;
        Some((found.resource, found.store.clone()))
    }

    /// The workloads of this name.
    pub(crate) fn of_name(&self, key: &Key) -> Vec<(Resource, Arc<Watched<StatefulWorkload>>)> {
        let followed = self.followed.read();
        followed
            .iter()
            .filter_map(|it| Some((it.resource, it.store.get(&key.namespace, &key.name)?)))
            .collect()
    }

    /// Watches the ConfigMap of this namespace, and the kinds that it lists, until `stop`.
    pub(crate) async fn run(
        &self,
        client: Client,
        namespace: String,
        metrics: FeedMetrics,
        stop: CancellationToken,
    ) {
        let configuration = self.configuration.clone();
        let changed = Arc::new(Notify::new());
        let notify = changed.clone();
        configuration.on_change(move |_| notify.notify_one());
        let options = feed::Options {
            namespace: namespace.clone(),
            fields: format!("metadata.name={CONFIGURATION}"),
            metrics: metrics.clone(),
            ..feed::Options::default()
        };
        let mut feeds = JoinSet::new();
        feeds.spawn(feed::run(
            client.clone(),
            configuration.clone(),
            options,
            stop.clone(),
        ));
        while !stop.is_cancelled() {
            let list = configuration
                .get(&namespace, CONFIGURATION)
                .and_then(|found| found.0.data.get(LIST).cloned());
            let wanted = list.map_or(Ok(Vec::new()), |list| listed(&list));
            let complete = match wanted {
                Ok(wanted) => {
                    self.bring_to(&client, &wanted, &metrics, &mut feeds, &stop)
                        .await
                }
                Err(error) => {
                    tracing::warn!(error, "the kinds that were listed before stay");
                    true
                }
            };
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN), if !complete => {}
                () = stop.cancelled() => {}
            }
        }
        for followed in self.followed.read().iter() {
            followed.stop.cancel();
        }
        feeds.join_all().await;
    }

    /// Lists the workloads of a namespace once, for commands that read and exit. Without the right
    /// to the ConfigMap there are none.
    pub(crate) async fn load(
        &self,
        client: &Client,
        own: &str,
        namespace: &str,
    ) -> Result<(), Failed> {
        let path = object::CONFIG_MAPS.path(own, CONFIGURATION)?;
        let Ok(found) = berth_runtime::client::get::<Configuration>(client, &path).await else {
            return Ok(());
        };
        let wanted = found
            .data
            .get(LIST)
            .map_or(Ok(Vec::new()), |list| listed(list))
            .map_err(Failed::unsent)?;
        for kind in wanted {
            let Some(resource) = self.discover(client, &kind).await else {
                continue;
            };
            let store = Workloads::new(&[]);
            let options = feed::Options {
                resource,
                namespace: namespace.to_owned(),
                ..feed::Options::default()
            };
            feed::load(client.clone(), store.clone(), options).await?;
            self.all().push(Followed {
                resource,
                store,
                stop: CancellationToken::new(),
            });
        }
        Ok(())
    }

    /// Starts and ends feeds; `false` if the server does not know a kind yet.
    async fn bring_to(
        &self,
        client: &Client,
        wanted: &[GroupVersionKind],
        metrics: &FeedMetrics,
        feeds: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> bool {
        let is = |resource: &Resource, kind: &GroupVersionKind| {
            (resource.group, resource.version, resource.kind)
                == (&*kind.group, &*kind.version, &*kind.kind)
        };
        let gone = self
            .all()
            .extract_if(.., |it| !wanted.iter().any(|kind| is(&it.resource, kind)))
            .collect::<Vec<_>>();
        gone.iter().for_each(|it| it.stop.cancel());
        let mut news = !gone.is_empty();
        let mut complete = true;
        for kind in wanted {
            if self.all().iter().any(|it| is(&it.resource, kind)) {
                continue;
            }
            let Some(resource) = self.discover(client, kind).await else {
                complete = false;
                continue;
            };
            let (store, stop) = (Workloads::new(&[]), stop.child_token());
            let hooks = self.hooks.clone();
            store.on_change(move |change| tell(&hooks, change));
            let options = feed::Options {
                resource,
                metrics: metrics.clone(),
                ..feed::Options::default()
            };
            feeds.spawn(feed::run(client.clone(), store.clone(), options, stop.clone()).boxed());
            tracing::info!(
                kind = resource.kind,
                group = resource.group,
                "records are kept of this kind, too"
            );
            self.all().push(Followed {
                resource,
                store,
                stop,
            });
            news = true;
        }
        if news {
            self.hooks.read().iter().for_each(|hook| hook(None));
        }
        complete
    }

    /// Where the server serves the kind.
    async fn discover(&self, client: &Client, kind: &GroupVersionKind) -> Option<Resource> {
        let (found, capabilities) = match discovery::pinned_kind(client, kind).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(?kind, %error, "the server does not know a kind that {LIST} names");
                return None;
            }
        };
        if capabilities.scope != Scope::Namespaced {
            tracing::warn!(?kind, "{LIST} names a kind that is in no namespace");
            return None;
        }
        let mut known = self.known.lock();
        let names = [&*found.group, &*found.version, &*found.plural, &*found.kind];
        let same = known
            .iter()
            .find(|it| [it.group, it.version, it.plural, it.kind] == names)
            .copied();
        same.or_else(|| {
            if known.len() >= MOST_EVER {
                tracing::warn!(
                    ?kind,
                    "{LIST} has named too many kinds: start this process again"
                );
                return None;
            }
            let [group, version, plural, kind] =
                names.map(|name| &*Box::leak(Box::<str>::from(name)));
            let resource = Resource::new(group, version, plural, kind);
            known.push(resource);
            Some(resource)
        })
    }

    fn all(&self) -> parking_lot::RwLockWriteGuard<'_, Vec<Followed>> {
        self.followed.write()
    }
}

fn tell(hooks: &RwLock<Vec<Hook>>, change: &Change<Watched<StatefulWorkload>>) {
    let hooks = hooks.read();
    let tell = |key: Option<&Key>| hooks.iter().for_each(|hook| hook(key));
    match change {
        Change::Applied { new: workload, .. } | Change::Deleted { old: workload } => {
            tell(Some(&Key::of(&**workload)))
        }
        Change::Synced => tell(None),
    }
}

#[cfg(test)]
mod tests;
