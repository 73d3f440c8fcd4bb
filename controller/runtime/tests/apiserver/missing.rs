//! A kind whose definition is not installed.

use berth_runtime::feed::{self, Options};
use berth_runtime::metrics::Metrics;
use berth_runtime::object::Resource;
use berth_runtime::{CancellationToken, Object, Store};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::*;

#[derive(Debug, Deserialize)]
struct Boat {
    metadata: berth_workload::objects::pod::Metadata,
}

impl Object for Boat {
    const RESOURCE: Resource = Resource::new("harbour.test", "v1", "boats", "Boat");

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

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition() -> Value {
    json!({
        "metadata": {"name": "boats.harbour.test"},
        "spec": {
            "group": "harbour.test", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_kind_is_followed_once_it_is_installed() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let metrics = Metrics::new(|_| {});
    let missing = |value: u8| {
        metrics
            .encode()
            .contains(&format!("berth_feed_missing{{kind=\"Boat\"}} {value}"))
    };
    let store = Store::<Boat>::new(&[]);
    let mut told = Told::by(&store);
    let stop = CancellationToken::new();
    let options = Options {
        namespace: namespace.clone(),
        metrics: metrics.feed("Boat"),
        ..Options::default()
    };
    tokio::spawn(feed::run(
        client.clone(),
        store.clone(),
        options,
        stop.clone(),
    ));

    // The first list ends, and the metric says why the store is empty.
    told.synced().await;
    assert!(
        store.is_missing() && store.is_empty() && missing(1),
        "{}",
        metrics.encode()
    );

    let boat = json!({"apiVersion": "harbour.test/v1", "kind": "Boat", "metadata": {"name": "a"}});
    let create = async || {
        request(
            &client,
            Method::POST,
            &Boat::RESOURCE.collection(&namespace).unwrap(),
            &boat,
        )
        .await
        .is_ok()
    };
    request(&client, Method::POST, DEFINITIONS, &definition())
        .await
        .unwrap();
    eventually("the kind is served", &create).await;
    told.applied("a").await;
    eventually("the store knows it", async || {
        !store.is_missing() && missing(0)
    })
    .await;

    // The definition is deleted, and all objects with it.
    request(
        &client,
        Method::DELETE,
        &format!("{DEFINITIONS}/boats.harbour.test"),
        &Value::Null,
    )
    .await
    .unwrap();
    told.deleted("a").await;
    eventually("the store knows that too", async || {
        store.is_missing() && missing(1)
    })
    .await;
    request(&client, Method::POST, DEFINITIONS, &definition())
        .await
        .unwrap();
    eventually("the kind is served again", &create).await;
    told.applied("a").await;
    stop.cancel();
}
