use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_cluster::Component;
use berth_runtime::feed::{self, Options};
use berth_runtime::metrics::Metrics;
use berth_runtime::object::{Resource, compare_versions};
use berth_runtime::{CancellationToken, Object, Store, client};
use berth_workload::objects::pod::Pod;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use crate::relay::{Relay, Wire};
use crate::support::*;

fn options<T: Object>(namespace: &str) -> Options<T> {
    Options {
        namespace: namespace.to_owned(),
        ..Options::default()
    }
}

fn start<T: Object>(
    client: &Client,
    store: &Arc<Store<T>>,
    options: Options<T>,
) -> tokio_util::sync::DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn(feed::run(
        client.clone(),
        store.clone(),
        options,
        stop.clone(),
    ));
    stop.drop_guard()
}

#[tokio::test(flavor = "multi_thread")]
async fn feed_shows_changes_and_wakes_owner_of_deleted_pod() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    for streaming in [true, false] {
        let owner = uid();
        let before = create_pod(&client, &namespace, "before", &owner).await;
        let store = Store::<Pod>::with_owners(&[]);
        let mut told = Told::by(&store);
        let _feed = start(
            &client,
            &store,
            Options {
                streaming,
                ..options(&namespace)
            },
        );
        let (none, shown) = told.applied("before").await;
        assert!(none.is_none());
        assert_eq!(*shown, before);
        told.synced().await;

        let after = create_pod(&client, &namespace, "after", &owner).await;
        assert_eq!(*told.applied("after").await.1, after);
        let changed = label(&client, &after, "yes").await;
        let (old, new) = told.applied("after").await;
        assert_eq!((old.as_deref(), &*new), (Some(&after), &changed));
        assert_eq!(store.owned_by(&clone_set(&namespace, &owner)).len(), 2);
        for pod in [&before, &after] {
            delete(&client, pod).await;
            let deleted = told.deleted(pod.name()).await;
            assert_eq!(&*deleted.metadata.controller().unwrap().uid, owner.as_str());
        }
        assert!(store.is_empty());
        let newest = store.newest_version().unwrap();
        let is_newer =
            compare_versions(&newest, new.resource_version()).is_some_and(Ordering::is_gt);
        assert!(
            is_newer,
            "the version for the next leader includes deletions: {newest} {}",
            new.resource_version()
        );
    }
}

fn contents(store: &Store<Pod>) -> BTreeMap<String, (String, String)> {
    let pods = store.all();
    pods.iter()
        .map(|pod| {
            (
                pod.name().into(),
                (pod.uid().into(), pod.resource_version().into()),
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_and_paged_lists_give_the_same() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    for n in 0..25 {
        create_pod(&client, &namespace, &format!("pod-{n}"), &uid()).await;
    }
    let (paged, streamed) = (Store::<Pod>::new(&[]), Store::<Pod>::new(&[]));
    feed::load(
        client.clone(),
        paged.clone(),
        Options {
            page: 7,
            ..options(&namespace)
        },
    )
    .await
    .unwrap();
    let metrics = Metrics::new(|_| {});
    let mut told = Told::by(&streamed);
    let _feed = start(
        &client,
        &streamed,
        Options {
            metrics: metrics.feed("Pod"),
            ..options(&namespace)
        },
    );
    told.synced().await;
    assert_eq!(contents(&paged).len(), 25);
    assert_eq!(contents(&paged), contents(&streamed));
    // Watch events and not pages: the list really was streamed.
    assert!(
        metrics
            .encode()
            .contains("berth_feed_events_total{kind=\"Pod\"} 25"),
        "{}",
        metrics.encode()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_and_filters_choose() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let [kept, other] = [
        create_pod(&client, &namespace, "kept", &uid()).await,
        create_pod(&client, &namespace, "other", &uid()).await,
    ];
    let fields = format!("metadata.name={}", kept.name());
    let by_field = Store::<Pod>::new(&[]);
    feed::load(
        client.clone(),
        by_field.clone(),
        Options {
            fields,
            ..options(&namespace)
        },
    )
    .await
    .unwrap();
    assert_eq!(
        contents(&by_field).into_keys().collect::<Vec<_>>(),
        ["kept"]
    );

    // A filter of the feed, and a label selector: an object that leaves either is reported as
    // deleted.
    let filtered = Store::<Pod>::new(&[]);
    let mut told = Told::by(&filtered);
    let keep = |pod: &Pod| pod.metadata.label("changed") != Some("hidden");
    let _feed = start(
        &client,
        &filtered,
        Options {
            keep,
            labels: "app=web".into(),
            ..options(&namespace)
        },
    );
    told.synced().await;
    assert_eq!(filtered.len(), 2);
    label(&client, &kept, "hidden").await;
    told.deleted("kept").await;
    label(&client, &kept, "shown").await;
    told.applied("kept").await;
    let patch = json!({"metadata": {"labels": {"app": null}}});
    request(
        &client,
        Method::PATCH,
        &Pod::RESOURCE.path(&namespace, other.name()).unwrap(),
        &patch,
    )
    .await
    .unwrap();
    told.deleted("other").await;
}

#[derive(Debug, Deserialize)]
struct Switch {
    metadata: berth_workload::objects::pod::Metadata,
    data: State,
}

#[derive(Debug, Deserialize)]
struct State {
    power: Power,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Power {
    On,
    Off,
}

impl Object for Switch {
    const RESOURCE: Resource = Resource::new("", "v1", "configmaps", "ConfigMap");

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
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_object_does_not_stop_the_others() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let set = async |name: &str, power: &str| {
        let body = json!({"metadata": {"name": name, "labels": {"switch": "yes"}}, "data": {"power": power}});
        request(
            &client,
            Method::POST,
            &Switch::RESOURCE.collection(&namespace).unwrap(),
            &body,
        )
        .await
        .unwrap();
    };
    set("a", "on").await;
    set("b", "sideways").await;
    set("c", "off").await;
    for streaming in [true, false] {
        let store = Store::<Switch>::new(&[]);
        let mut told = Told::by(&store);
        let _feed = start(
            &client,
            &store,
            Options {
                streaming,
                labels: "switch".into(),
                ..options(&namespace)
            },
        );
        told.synced().await;
        assert_eq!(store.get(&namespace, "a").unwrap().data.power, Power::On);
        assert!(
            store.get(&namespace, "b").is_none() && store.unreadable(&namespace, "b").is_some()
        );
        assert_eq!(store.get(&namespace, "c").unwrap().data.power, Power::Off);
        let late = format!("late-{streaming}");
        set(&format!("odd-{streaming}"), "sideways").await;
        set(&late, "on").await;
        told.applied(&late).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_deletion_is_reported_after_server_restart() {
    let cluster = own_cluster();
    let direct = connect(&cluster).await;
    let namespace = namespace(&direct).await;
    let mut config = config(&cluster.kubeconfig()).await;
    let relay = Relay::before(&mut config).await;
    let metrics = Metrics::new(|_| {});
    let client = client::connect(config, metrics.clone()).unwrap();
    let [stays, goes] = [
        create_pod(&direct, &namespace, "stays", &uid()).await,
        create_pod(&direct, &namespace, "goes", &uid()).await,
    ];
    let store = Store::<Pod>::new(&[]);
    let mut told = Told::by(&store);
    let _feed = start(
        &client,
        &store,
        Options {
            metrics: metrics.feed("Pod"),
            ..options(&namespace)
        },
    );
    told.synced().await;
    let lists = |n: u32| {
        metrics
            .encode()
            .contains(&format!("berth_feed_lists_total{{kind=\"Pod\"}} {n}\n"))
    };
    assert!(lists(1));

    // A cut connection alone resumes at its last version.
    relay.set(Wire::Cut);
    let stays = label(&direct, &stays, "1").await;
    relay.set(Wire::Open);
    told.applied("stays").await;
    assert!(lists(1), "{}", metrics.encode());

    // A new apiserver knows nothing from before its start.
    relay.set(Wire::Cut);
    delete(&direct, &goes).await;
    create_pod(&direct, &namespace, "new", &uid()).await;
    cluster.restart(Component::Apiserver).unwrap();
    relay.set(Wire::Open);
    told.deleted("goes").await;
    told.synced().await;
    assert!(lists(2), "{}", metrics.encode());
    assert_eq!(
        contents(&store).into_keys().collect::<Vec<_>>(),
        ["new", "stays"]
    );
    let again = label(&direct, &stays, "2").await;
    assert_eq!(*told.applied("stays").await.1, again);
}

#[tokio::test(flavor = "multi_thread")]
async fn silently_dead_connection_is_detected() {
    let cluster = cluster();
    let direct = connect(&cluster).await;
    let namespace = namespace(&direct).await;
    let mut config = config(&cluster.kubeconfig()).await;
    let relay = Relay::before(&mut config).await;
    let client = client::connect(config, Metrics::new(|_| {})).unwrap();
    let store = Store::<Pod>::new(&[]);
    let mut told = Told::by(&store);
    let _feed = start(
        &client,
        &store,
        Options {
            idle: Duration::from_secs(2),
            ..options(&namespace)
        },
    );
    told.synced().await;
    relay.set(Wire::Frozen);
    create_pod(&direct, &namespace, "a", &uid()).await;
    // Long enough for the event to run into the frozen wire.
    tokio::time::sleep(Duration::from_millis(300)).await;
    relay.set(Wire::Open);
    told.applied("a").await;
}
