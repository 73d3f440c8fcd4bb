//! Containers that restart for another reason than an image, and the order in which they start.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_api::env_hash;
use berth_api::inplace::RuntimeContainerMetaSet;
use berth_api::names::annotation::RUNTIME_CONTAINERS_META;
use berth_e2e::objects::{self, CONTAINER, kind};
use serde_json::{Value, json};

use crate::world::Case;

/// A CloneSet whose first container reads the label `tier`; the second reads nothing and listens elsewhere.
fn reading(image: &str) -> Value {
    let strategy = json!({"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": "100%"});
    let mut set = objects::clone_set("web", 2, image, &strategy);
    let template = &mut set["spec"]["template"];
    template["metadata"]["labels"]["tier"] = json!("a");
    let spec = &mut template["spec"];
    let tier = json!({"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}});
    spec["containers"][0]["env"] = json!([tier]);
    let side = json!({"name": "side", "image": image, "env": [{"name": "PORT", "value": "9090"}]});
    if let Some(containers) = spec["containers"].as_array_mut() {
        containers.push(side);
    }
    set
}

/// What the annotation says about the containers of a pod.
async fn meta(case: &Case, pod: &str) -> Result<RuntimeContainerMetaSet> {
    let pod = case.get(kind::POD, pod).await?;
    let text = pod["metadata"]["annotations"][RUNTIME_CONTAINERS_META].as_str();
    Ok(serde_json::from_str(text.context("the pod has no annotation about its containers")?)?)
}

pub(crate) async fn a_label_restarts_the_container_that_reads_it(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.create(&reading(&one)).await?;
    case.done("web").await?;
    let mut before = case.pods("web").await?;
    let patch = |labels: Value| json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    // Its own container alone; nobody reads the second; back again; and together with an image, once.
    let changes = [
        (patch(json!({"tier": "b"})), "b", 1),
        (patch(json!({"other": "x"})), "b", 0),
        (patch(json!({"tier": "a"})), "a", 1),
    ];
    for (change, tier, restarts) in changes {
        case.patch(kind::CLONE_SET, "web", change).await?;
        before = restarted(case, before, tier, restarts).await?;
    }
    let mut set = case.get(kind::CLONE_SET, "web").await?;
    let template = &mut set["spec"]["template"];
    template["spec"]["containers"][0]["image"] = json!(two);
    template["metadata"]["labels"]["tier"] = json!("c");
    let both = json!({"spec": {"template": template}});
    case.patch(kind::CLONE_SET, "web", both).await?;
    restarted(case, before, "c", 1).await?;
    Ok(())
}

type Pods = BTreeMap<String, berth_e2e::record::PodView>;

/// Waits for the end of an update that restarts the first container so many times, and the second never.
async fn restarted(case: &Case, before: Pods, tier: &str, restarts: i32) -> Result<Pods> {
    case.done("web").await?;
    let after = case.pods("web").await?;
    ensure!(before.keys().eq(after.keys()), "other pods: {:?} {:?}", before.keys(), after.keys());
    for (before, after) in before.values().zip(after.values()) {
        ensure!(before.uid == after.uid && after.serves(), "{} is another or does not serve", after.name);
        let more = |name: &str| after.containers[name].restarts - before.containers[name].restarts;
        let counts = (more(CONTAINER), more("side"));
        // A kubelet that is late may create it with the old variables once more.
        let as_often = if restarts == 0 { counts.0 == 0 } else { counts.0 >= restarts };
        ensure!(as_often && counts.1 == 0, "{}: restarts {counts:?}, not {restarts} and 0", after.name);
        if restarts == 0 {
            continue;
        }
        let meta = meta(case, &after.name).await?;
        let found = meta.containers.iter().find(|c| c.name == CONTAINER).context("not all containers are told of")?;
        ensure!(found.container_id == after.containers[CONTAINER].container_id, "of another container: {found:?}");
        let wanted = env_hash::of_all(&[("TIER", tier)].into());
        let hash = found.hashes.extracted_env_from_metadata_hash;
        ensure!(hash == u64::from(wanted), "{}: TIER is not {tier}: {found:?}", after.name);
        let state = case.state(&after.name).await?;
        ensure!(state["berthVerifiedBy"] == "node" && state["updateEnvFromMetadata"] == true, "{state}");
    }
    Ok(after)
}
