//! What controllers read. Each says so once, by type, and the rest follows: what is fed, which stores must be complete before it
//! decides, where its writes are awaited, and what `explain` looks at.

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

/// One store for each kind that any controller reads.
#[derive(Default)]
pub(crate) struct Stores(Vec<Box<dyn Fed>>);

impl Stores {
    /// For what one controller reads.
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

    /// Looks once at everything of these resources: of the namespace of what is explained, or of the cluster for what is in none.
    ///
    /// # Errors
    /// The server's answer.
    pub(crate) async fn look(
        &self,
        client: &Client,
        namespaces: &Namespaces,
        resources: impl Fn(Resource) -> bool,
    ) -> Result<(), Failed> {
        for fed in self.0.iter().filter(|fed| resources(fed.resource())) {
            fed.load(client, namespaces).await?;
        }
        Ok(())
    }
}

/// Where `explain` looks.
pub(crate) struct Namespaces {
    /// Our own: of the list of other kinds.
    pub(crate) own: String,
    /// Of what is explained.
    pub(crate) explained: String,
}

/// Hands out stores to one controller, and notes which.
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

    /// The one that another controller was given, or a new one.
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

    /// Set for each store that was handed out once it holds everything. A decision made on less would take for gone what is only
    /// not seen yet. A kind that the server does not know holds nothing up: there is none of it.
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

/// Its kind; where another of the same name is ours, with the group.
fn name_of_feed(resource: Resource) -> &'static str {
    if resource == object::NATIVE_STATEFUL_SETS {
        "StatefulSet.apps"
    } else {
        resource.kind
    }
}

/// What every feed needs.
pub(crate) struct Follow<'a> {
    /// The apiserver.
    pub(crate) client: &'a Client,
    /// Our own namespace.
    pub(crate) namespace: &'a str,
    /// Where feeds count.
    pub(crate) metrics: &'a Metrics,
    /// To say of an object that it cannot be read.
    pub(crate) recorder: &'a Recorder,
    /// What is written is awaited in what is fed.
    pub(crate) expectations: &'a Expectations,
    /// The most bytes that the spec of an object of ours may have, as JSON text.
    pub(crate) object_max_bytes: usize,
    /// Where feeds run.
    pub(crate) tasks: &'a Supervisor,
}

/// What is said of an object that cannot be read, in an event and in the condition.
pub(crate) fn unreadable_message(resource: &Resource, odd: &Odd) -> String {
    format!(
        "{} {} cannot be read, and what Berth last read of it stays in force until it changes: {}",
        resource.kind, odd.name, odd.error
    )
}

/// Says of an object that nothing is done for it: what the schema lets through and the types do not.
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
