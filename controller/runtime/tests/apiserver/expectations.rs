use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_runtime::election::Leadership;
use berth_runtime::expectations::{Expectations, Standing};
use berth_runtime::feed::{self, Options};
use berth_runtime::metrics::Metrics;
use berth_runtime::{CancellationToken, Object, Store, client};
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Body, Target};

use crate::executor::{executor, owner, plan};
use crate::relay::{Relay, Wire};
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn workload_waits_until_its_writes_are_seen() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let pods = Store::<Pod>::with_owners(&[]);
    let expectations = Expectations::new(Duration::from_secs(30));
    expectations.follow(&pods);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(feed::run(
        client.clone(),
        pods.clone(),
        Options {
            namespace: namespace.clone(),
            ..Options::default()
        },
        stop,
    ));
    let executor = executor(&client, Leadership::always(), expectations.clone());
    let owner = owner(&namespace, &uid());
    let ready = async || {
        while expectations
            .ready(&client, &owner.uid)
            .await
            .unwrap()
            .is_some()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let names = || {
        pods.owned_by(&clone_set(&namespace, &owner.uid))
            .iter()
            .map(|pod| pod.name().to_owned())
            .collect::<BTreeSet<_>>()
    };
    for round in 0..5 {
        let created: BTreeSet<_> = (0..20).map(|n| format!("pod-{round}-{n}")).collect();
        let creates = created.iter().map(|name| Action::CreatePod {
            body: Body::from(&pod_body(&namespace, name, &owner.uid)),
        });
        assert!(
            executor
                .act(&plan(creates), &owner)
                .await
                .failures
                .is_empty()
        );
        ready().await;
        assert_eq!(names(), created);
        let targets = pods.owned_by(&clone_set(&namespace, &owner.uid));
        let deletes = targets.iter().map(|pod| Action::DeletePod {
            target: Target {
                namespace: namespace.clone(),
                name: pod.name().into(),
                uid: pod.uid().into(),
                resource_version: None,
            },
        });
        assert!(
            executor
                .act(&plan(deletes), &owner)
                .await
                .failures
                .is_empty()
        );
        ready().await;
        assert!(
            pods.owned_by(&clone_set(&namespace, &owner.uid))
                .iter()
                .all(|pod| pod.terminating())
        );
        eventually("the pods are gone", async || names().is_empty()).await;
    }
}

/// One pod's creation was never answered, and one never arrived. In the end the store is right
/// about both.
#[tokio::test(flavor = "multi_thread")]
async fn doubt_ends_by_reading() {
    let cluster = cluster();
    let direct = connect(&cluster).await;
    let namespace = namespace(&direct).await;
    let pods = Store::<Pod>::new(&[]);
    // A feed that hangs from the start: nothing but reading can settle anything.
    feed::load(
        direct.clone(),
        pods.clone(),
        Options {
            namespace: namespace.clone(),
            ..Options::default()
        },
    )
    .await
    .unwrap();
    let expectations = Expectations::new(Duration::from_secs(30));
    expectations.follow(&pods);
    let owner = owner(&namespace, &uid());
    for (wire, arrives) in [(Wire::Mute, true), (Wire::Frozen, false)] {
        let mut config = config(&cluster.kubeconfig()).await;
        let relay = Relay::before(&mut config).await;
        let client = client::connect(config, Metrics::new(|_| {})).unwrap();
        // A connection that is open already, so that the request is all that is sent.
        client::get::<serde_json::Value>(&client, "/version")
            .await
            .unwrap();
        relay.set(wire);
        let name = if arrives { "arrived" } else { "lost" };
        let executor = Arc::new(executor(
            &client,
            Leadership::always(),
            expectations.clone(),
        ));
        let create = Action::CreatePod {
            body: Body::from(&pod_body(&namespace, name, &owner.uid)),
        };
        let failures = executor.act(&plan([create]), &owner).await.failures;
        assert_eq!(
            (failures[0].code, failures[0].permanent),
            (0, false),
            "{failures:?}"
        );
        // The server has given it up by now, too: what is true stays true.
        eventually("in doubt", async || {
            expectations.standing(&owner.uid) == Standing::Doubtful
        })
        .await;
        assert_eq!(expectations.ready(&direct, &owner.uid).await.unwrap(), None);
        assert_eq!(pods.get(&namespace, name).is_some(), arrives);
    }
}
