//! Two replicas at once: one Secret, both ready only when conversion works, both serving the same
//! certificate.

use anyhow::{Context, Result, ensure};
use berth_cluster::Component;
use berth_cluster::address::CONTROL_PLANE;
use berth_webhook::pods::Asks;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::rotation::handshake;
use crate::stage::{
    CHART, EARLY_ENDPOINTS, LONG, NAMESPACE, PATIENCE, Replica, SECRET, Stage, config, node_image,
    node_images, tag_of, until,
};

#[test]
fn starting_replicas_get_ready_and_convert() -> Result<()> {
    let stage = Stage::with_chart()?;
    two_starting_replicas_agree_on_one_secret(&stage)?;
    stage.remove_replicas()?;
    a_replica_alone_is_an_endpoint_only_until_kubernetes_has_it(&stage)?;
    stage.remove_replicas()?;
    replica_is_ready_before_all_definitions_exist(&stage)?;
    stage.remove_replicas()?;
    disabled_webhook_configurations_need_no_rights(&stage)
}

fn two_starting_replicas_agree_on_one_secret(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let before = node_images(&admin, "v1alpha1")
            .create(
                &PostParams::default(),
                &node_image("v1alpha1", "early", "1"),
            )
            .await;
        ensure!(
            before.is_err(),
            "v1alpha1 must not work before there is a webhook"
        );
        let (first, second) = tokio::join!(
            Replica::start(stage, &admin, 9876, LONG),
            Replica::start(stage, &admin, 9976, LONG)
        );
        let (mut first, mut second) = (first?, second?);
        // As soon as either is ready, v1alpha1 works at the first try.
        tokio::select! { done = first.ready() => done?, done = second.ready() => done? }
        node_images(&admin, "v1alpha1")
            .create(&PostParams::default(), &node_image("v1alpha1", "one", "1"))
            .await?;
        let read = node_images(&admin, "v1beta1").get("one").await?;
        ensure!(
            tag_of(&read) == Some("1"),
            "the object lost its tag: {read:?}"
        );

        let secrets: Api<Secret> = Api::namespaced(admin.clone(), NAMESPACE);
        let secret = secrets.get(SECRET).await?;
        let bundle = secret
            .data
            .as_ref()
            .and_then(|data| data.get("ca.crt"))
            .cloned()
            .unwrap_or_default();
        let cert = secret
            .data
            .as_ref()
            .and_then(|data| data.get("tls.crt"))
            .cloned()
            .unwrap_or_default();
        for replica in [&first, &second] {
            let served = until("both serve the Secret's certificate", async || {
                let served = handshake(
                    replica.handle.address(),
                    &String::from_utf8_lossy(&bundle.0),
                )
                .await?;
                Ok(served)
            })
            .await?;
            let expected = pem::parse(&cert.0)?;
            ensure!(
                served == expected.contents(),
                "a replica serves another certificate than the Secret's"
            );
        }
        first.end().await?;
        second.end().await
    })
}

fn a_replica_alone_is_an_endpoint_only_until_kubernetes_has_it(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let slices: Api<EndpointSlice> = Api::namespaced(admin.clone(), NAMESPACE);
        let ours = ListParams::default().labels(EARLY_ENDPOINTS);
        let owners = async || -> Result<Vec<String>> {
            let list = slices.list(&ours).await?;
            Ok(list
                .items
                .iter()
                .flat_map(|slice| slice.owner_references())
                .map(|owner| owner.name.clone())
                .collect())
        };
        let mut replica = Replica::start(stage, &admin, 9876, LONG).await?;
        let seen = until(
            "the first replica adds an endpoint of its own",
            async || {
                let owners = owners().await?;
                ensure!(owners == ["replica-9876"], "{owners:?}");
                Ok(())
            },
        );
        let (seen, ready) = tokio::join!(seen, replica.ready());
        seen.and(ready)?;
        // The second replica finds a working conversion, and adds nothing.
        let mut second = Replica::start(stage, &admin, 9976, LONG).await?;
        second.ready().await?;
        ensure!(
            !owners().await?.contains(&"replica-9976".to_owned()),
            "a second replica needs no early endpoint"
        );
        second.end().await?;
        // As its kubelet would: a pod that has ended gets requests as long as it exists and is
        // called ready.
        let pods: Api<Pod> = Api::namespaced(admin.clone(), NAMESPACE);
        pods.delete("replica-9976", &DeleteParams::default().grace_period(0))
            .await?;
        until("the early endpoint is taken away", async || {
            let left = owners().await?;
            ensure!(left.is_empty(), "{left:?} are left");
            Ok(())
        })
        .await?;
        until(
            "v1alpha1 works by the endpoint that Kubernetes made",
            async || {
                let one = node_image("v1alpha1", "alone", "1");
                Ok(node_images(&admin, "v1alpha1")
                    .create(&PostParams::default(), &one)
                    .await?)
            },
        )
        .await?;
        replica.end().await
    })
}

fn replica_is_ready_before_all_definitions_exist(stage: &Stage) -> Result<()> {
    // Without NodeImage another kind proves that conversion works.
    let left_out = [
        "imagelistpulljobs.apps.kruise.io",
        "nodeimages.apps.kruise.io",
    ];
    stage.kubectl(&[&["delete", "crd"], &left_out[..]].concat(), None)?;
    stage.run(async |admin| {
        let mut replica = Replica::start(stage, &admin, 9876, LONG).await?;
        replica.ready().await?;
        stage.upgrade(&[])?;
        until("v1alpha1 of a kind that came later works", async || {
            let one = node_image("v1alpha1", "later", "1");
            Ok(node_images(&admin, "v1alpha1")
                .create(&PostParams::default(), &one)
                .await?)
        })
        .await?;
        replica.end().await
    })
}

#[test]
fn controller_outside_the_cluster_converts() -> Result<()> {
    let stage = Stage::bare()?;
    stage.kubectl(&["create", "namespace", NAMESPACE], None)?;
    stage.kubectl(
        &["apply", "--filename", &format!("{CHART}/files/crds")],
        None,
    )?;
    controller_is_reached_by_its_address(&stage)?;
    oversized_list_is_converted_object_by_object(&stage)
}

fn controller_is_reached_by_its_address(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let (shutdown, stop) = tokio::sync::oneshot::channel();
        let config = berth_webhook::Config {
            host: Some(CONTROL_PLANE.to_string()),
            ..config(0, LONG, None)
        };
        let handle = berth_webhook::run(config, admin.clone(), async move {
            drop::<Result<(), _>>(stop.await)
        })
        .await?;
        let readiness = handle.readiness();
        until("it is ready", async || {
            readiness.check().map_err(anyhow::Error::msg)
        })
        .await?;
        node_images(&admin, "v1alpha1")
            .create(&PostParams::default(), &node_image("v1alpha1", "one", "1"))
            .await?;
        let _ = shutdown.send(());
        Ok(handle.join().await?)
    })
}

fn disabled_webhook_configurations_need_no_rights(stage: &Stage) -> Result<()> {
    let kinds = "controller.customResourceEnable=NodeImage";
    stage.upgrade(&["validatingWebhook.install=false", kinds])?;
    let user = format!("--as=system:serviceaccount:{NAMESPACE}:kruise-manager");
    stage.run(async |admin| {
        for (verb, right) in [
            (
                "patch",
                "validatingwebhookconfigurations/kruise-validating-webhook-configuration",
            ),
            (
                "get",
                "mutatingwebhookconfigurations/kruise-mutating-webhook-configuration",
            ),
        ] {
            // kubectl ends with an error if the answer is no. The apiserver learns of other rights
            // with a delay.
            let ask = ["auth", "can-i", verb, right, &user];
            until(&format!("no right to {verb} {right}"), async || {
                ensure!(stage.kubectl(&ask, None).is_err(), "the right is there");
                Ok(())
            })
            .await?;
        }
        let settings = berth_webhook::Config {
            validating: false,
            ..config(9876, LONG, None)
        };
        let mut replica = Replica::start_with(stage, &admin, settings).await?;
        replica.ready().await?;
        node_images(&admin, "v1alpha1")
            .create(&PostParams::default(), &node_image("v1alpha1", "old", "1"))
            .await?;
        let mut ends = replica.handle.pods();
        ends.wanted.send_replace(Some(Asks::default()));
        let written = tokio::time::timeout(PATIENCE, ends.written.wait_for(Option::is_some)).await;
        written.context("the empty rules could not be written")??;
        replica.end().await
    })
}

/// The size of a list: more in all than the largest body that the webhook reads.
const LARGE: (usize, usize) = (60, 200_000);

fn clone_sets(client: &Client, version: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("apps.kruise.io", version, "CloneSet");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&gvk))
}

/// A CloneSet that is mostly the value of a variable.
fn large(number: usize) -> DynamicObject {
    let name = format!("large-{number}");
    let env = json!([{"name": "A", "value": "x".repeat(LARGE.1)}]);
    let template = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
    });
    let spec =
        json!({"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template});
    let gvk = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "CloneSet");
    DynamicObject::new(&name, &ApiResource::from_gvk(&gvk)).data(json!({"spec": spec}))
}

/// Lists all CloneSets in v1alpha1, by a webhook that runs for as long.
async fn list_by_webhook(admin: &Client) -> Result<usize> {
    let (shutdown, stop) = tokio::sync::oneshot::channel();
    let config = berth_webhook::Config {
        host: Some(CONTROL_PLANE.to_string()),
        ..config(0, LONG, None)
    };
    let handle = berth_webhook::run(config, admin.clone(), async move {
        drop::<Result<(), _>>(stop.await)
    })
    .await?;
    let readiness = handle.readiness();
    until("it is ready", async || {
        readiness.check().map_err(anyhow::Error::msg)
    })
    .await?;
    let found = until("CloneSets are listed", async || {
        Ok(clone_sets(admin, "v1alpha1")
            .list(&ListParams::default())
            .await?
            .items
            .len())
    })
    .await?;
    let _ = shutdown.send(());
    handle.join().await?;
    Ok(found)
}

fn oversized_list_is_converted_object_by_object(stage: &Stage) -> Result<()> {
    let found = stage.run(async |admin| {
        let stored = clone_sets(&admin, "v1beta1");
        for number in 0..LARGE.0 {
            until("it is created", async || {
                Ok(stored
                    .create(&PostParams::default(), &large(number))
                    .await?)
            })
            .await?;
        }
        list_by_webhook(&admin).await
    })?;
    ensure!(found == LARGE.0, "{found} were listed");
    // With caches that have to be filled from etcd.
    stage.cluster.restart(Component::Apiserver)?;
    let found = stage.run(async |admin| list_by_webhook(&admin).await)?;
    ensure!(
        found == LARGE.0,
        "{found} were listed by an apiserver that has just started"
    );
    Ok(())
}
