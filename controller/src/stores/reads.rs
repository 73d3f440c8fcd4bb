//! The reads of controllers. Each controller declares them once, by type. From that follow the
//! feeds, the stores that must be complete before it decides, the stores in which its writes are
//! awaited, and the reads of `explain`.

use std::any::Any;
use std::sync::Arc;

use berth_runtime::client::Failed;
use berth_runtime::events::Owner;
use berth_runtime::events::Recorder;
use berth_runtime::expectations::Expectations;
use berth_runtime::metrics::Metrics;
use berth_runtime::store::SyncState;
use berth_runtime::store::event::Odd;
use berth_runtime::supervisor::Supervisor;
use berth_runtime::{Resource, Store, feed, object};
use berth_workload::plan::Event;
use futures::future::{BoxFuture, FutureExt};
use kube::Client;

use crate::stores::custom_workloads::CustomWorkloads;
pub(crate) use crate::stores::read::Read;
use crate::stores::unread::Unread;

/// One store for each kind that any controller reads.
#[derive(Default)]
pub(crate) struct Stores(Vec<Box<dyn Fed>>);

impl Stores {
    /// Hands out stores to one controller.
    pub(crate) fn reader(&mut self) -> Reader<'_> {
        Reader {
            stores: self,
            synced: Vec::new(),
        }
    }

    /// Starts the feed of each store. Register every hook before.
    pub(crate) fn follow(&self, follow: &Follow<'_>) {
        self.0.iter().for_each(|fed| fed.follow(follow));
    }

    /// Reads all objects of these resources once: in the namespace of the explained object, or in
    /// the cluster for resources without a namespace. Returns the resources that the client may not
    /// read.
    ///
    /// # Errors
    /// The server's answer, but for a refusal of a right.
    pub(crate) async fn look(
        &self,
        client: &Client,
        namespaces: &Namespaces,
        resources: impl Fn(Resource) -> bool,
    ) -> Result<Vec<Unread>, Failed> {
        let mut unread = Vec::new();
        for fed in self.0.iter().filter(|fed| resources(fed.resource())) {
            match fed.load(client, namespaces).await {
                Err(failed) if failed.code == 403 => unread.push(Unread {
                    resource: fed.resource(),
                    message: failed.message,
                }),
                result => result?,
            }
        }
        Ok(unread)
    }
}

/// The namespaces that `explain` reads.
pub(crate) struct Namespaces {
    /// Our own, with the list of other kinds.
    pub(crate) own: String,
    /// The namespace of the explained object.
    pub(crate) explained: String,
}

/// Hands out stores to one controller, and notes them.
pub(crate) struct Reader<'a> {
    stores: &'a mut Stores,
    synced: Vec<SyncState>,
}

impl Reader<'_> {
    /// The store of a kind.
    pub(crate) fn read<T: Read>(&mut self) -> Arc<Store<T>> {
        let store = self.shared(T::store);
        self.synced.push(store.sync_state());
        store
    }

    /// The workloads of other controllers.
    pub(crate) fn custom_workloads(&mut self) -> Arc<CustomWorkloads> {
        self.shared(Arc::default)
    }

    /// The store that another controller was given, or a new one.
    fn shared<F: Fed + Clone + 'static>(&mut self, make: impl FnOnce() -> F) -> F {
        let existing = self
            .stores
            .0
            .iter()
            .find_map(|fed| fed.any().downcast_ref::<F>().cloned());
        existing.unwrap_or_else(|| {
            let new = make();
            self.stores.0.push(Box::new(new.clone()));
            new
        })
    }

    /// Set for each store that was handed out once it holds everything. A decision on an incomplete
    /// store would take objects for gone that the store has not seen yet. A kind that the server
    /// does not know delays nothing: it has no objects.
    pub(crate) fn sync_states(self) -> Vec<SyncState> {
        self.synced
    }
}

/// A store of any kind.
trait Fed {
    fn any(&self) -> &dyn Any;
    fn resource(&self) -> Resource;
    fn follow(&self, follow: &Follow<'_>);
    fn load<'a>(
        &'a self,
        client: &'a Client,
        namespaces: &'a Namespaces,
    ) -> BoxFuture<'a, Result<(), Failed>>;
}

impl<T: Read> Fed for Arc<Store<T>> {
    fn any(&self) -> &dyn Any {
        self
    }

    fn resource(&self) -> Resource {
        T::RESOURCE
    }

    fn follow(&self, follow: &Follow<'_>) {
        let name = name_of_feed(T::RESOURCE);
        let metrics = follow.metrics.feed(name);
        let odd = Some(say_unreadable(T::RESOURCE, follow.recorder.clone()));
        let options = feed::Options {
            odd,
            metrics,
            object_max_bytes: follow.object_max_bytes,
            ..options()
        };
        follow.expectations.follow(self);
        let feed = feed::run(
            follow.client.clone(),
            self.clone(),
            options,
            follow.tasks.stop().clone(),
        );
        follow.tasks.spawn(format!("feed of {name}"), feed);
    }

    fn load<'a>(
        &'a self,
        client: &'a Client,
        namespaces: &'a Namespaces,
    ) -> BoxFuture<'a, Result<(), Failed>> {
        let namespace = if T::RESOURCE.namespaced {
            namespaces.explained.clone()
        } else {
            String::new()
        };
        feed::load(
            client.clone(),
            self.clone(),
            feed::Options {
                namespace,
                ..options()
            },
        )
        .boxed()
    }
}

impl Fed for Arc<CustomWorkloads> {
    fn any(&self) -> &dyn Any {
        self
    }

    fn resource(&self) -> Resource {
        object::CONFIG_MAPS
    }

    fn follow(&self, follow: &Follow<'_>) {
        let metrics = follow.metrics.feed("CustomWorkload");
        let (custom, client, stop) = (
            self.clone(),
            follow.client.clone(),
            follow.tasks.stop().clone(),
        );
        let namespace = follow.namespace.to_owned();
        let feeds = async move { custom.run(client, namespace, metrics, stop).await };
        follow.tasks.spawn("feeds of custom workloads", feeds);
    }

    fn load<'a>(
        &'a self,
        client: &'a Client,
        namespaces: &'a Namespaces,
    ) -> BoxFuture<'a, Result<(), Failed>> {
        CustomWorkloads::load(self, client, &namespaces.own, &namespaces.explained).boxed()
    }
}

fn options<T: Read>() -> feed::Options<T> {
    feed::Options {
        keep: T::is_kept,
        ..feed::Options::default()
    }
}

/// The kind's name; with the group if a kind of ours has the same name.
fn name_of_feed(resource: Resource) -> &'static str {
    if resource == object::NATIVE_STATEFUL_SETS {
        "StatefulSet.apps"
    } else {
        resource.kind
    }
}

/// The dependencies of every feed.
pub(crate) struct Follow<'a> {
    /// The apiserver.
    pub(crate) client: &'a Client,
    /// Our own namespace.
    pub(crate) namespace: &'a str,
    /// The metrics of feeds.
    pub(crate) metrics: &'a Metrics,
    /// Publishes the event of an object that cannot be read.
    pub(crate) recorder: &'a Recorder,
    /// The writes that the feeds confirm.
    pub(crate) expectations: &'a Expectations,
    /// The most bytes that the spec of an object of ours may have, as JSON text.
    pub(crate) object_max_bytes: usize,
    /// The tasks of the feeds.
    pub(crate) tasks: &'a Supervisor,
}

/// The message about an object that cannot be read, for its event and its condition.
pub(crate) fn unreadable_message(resource: &Resource, odd: &Odd) -> String {
    format!(
        "{} {} cannot be read, and what Berth last read of it stays in force until it changes: {}",
        resource.kind, odd.name, odd.error
    )
}

/// Publishes that nothing is done for an object, because the schema accepts it and the types do
/// not.
fn say_unreadable(resource: Resource, recorder: Recorder) -> feed::OddHook {
    Arc::new(move |odd: &Odd| {
        let event = Event {
            warning: true,
            reason: "Unreadable",
            message: unreadable_message(&resource, odd),
        };
        let Odd {
            namespace,
            name,
            uid,
            ..
        } = odd.clone();
        recorder.record(
            &Owner {
                resource,
                namespace,
                name,
                uid,
            },
            &event,
        );
    })
}
