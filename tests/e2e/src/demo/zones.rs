//! The demo's part on UnitedDeployments: one application over three nodes that stand for zones.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::report::aligned;
use crate::objects::{self, APP, kind};
use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(180);
const NAME: &str = "zoned";
const PODS: i64 = 6;
const ZONES: usize = 3;

/// Divides pods among nodes, updates one zone after the other, and shows each pod.
///
/// # Errors
/// The division differs, or a pod is another one after the update.
pub(super) async fn show(site: &Site, namespace: &str, images: &[String]) -> Result<()> {
    println!(
        "\nA UnitedDeployment, one CloneSet for each of the nodes, which stand for zones; two zones are held first:"
    );
    let nodes = objects::list(site.client(), "", kind::NODE, "").await?;
    let is_open = |node: &&Value| node["spec"]["taints"].as_array().is_none_or(Vec::is_empty);
    let names: Vec<_> = nodes
        .iter()
        .filter(is_open)
        .filter_map(|node| node["metadata"]["name"].as_str())
        .take(ZONES)
        .collect();
    objects::create(site.client(), namespace, &manifest(&names, &images[0])).await?;
    let zones = i64::try_from(names.len())?;
    let each = PODS / zones;
    done(site, namespace, PODS).await?;
    let first = pods(site, namespace).await?;
    let held: serde_json::Map<_, _> = (1..names.len())
        .map(|zone| (format!("zone-{zone}"), json!(each)))
        .collect();
    let image = json!([{"op": "replace", "path": "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image", "value": images[1]},
        {"op": "add", "path": "/spec/updateStrategy", "value": {"manualUpdate": {"partitions": held}}}]);
    let patch = [
        "patch",
        "ud",
        NAME,
        "-n",
        namespace,
        "--type=json",
        "-p",
        &image.to_string(),
    ]
    .map(str::to_owned);
    site.kubectl(&patch.iter().map(String::as_str).collect::<Vec<_>>())?;
    done(site, namespace, PODS - each * (zones - 1)).await?;
    let second = pods(site, namespace).await?;
    let rest = json!({"spec": {"updateStrategy": {"manualUpdate": null}}});
    objects::patch(
        site.client(),
        namespace,
        kind::UNITED_DEPLOYMENT,
        NAME,
        &rest,
    )
    .await?;
    done(site, namespace, PODS).await?;
    let third = pods(site, namespace).await?;
    let head = [
        "SUBSET",
        "NODE",
        "POD",
        "RESTARTS",
        "ZONE-0 DONE",
        "ALL DONE",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for ((one, two), three) in first.iter().zip(&second).zip(&third) {
        ensure!(
            one.uid == two.uid && two.uid == three.uid,
            "pod {} was made anew",
            one.name
        );
        let restarts = [one, two, three].map(|pod| pod.restarts.to_string());
        let [at_first, then, at_last] = restarts;
        rows.push([
            one.subset.clone(),
            one.node.clone(),
            one.name.clone(),
            at_first,
            then,
            at_last,
        ]);
    }
    println!("{}", aligned(&rows));
    Ok(())
}

fn manifest(nodes: &[&str], image: &str) -> Value {
    let set = objects::clone_set(NAME, 1, image, &json!({}));
    let labels = json!({APP: NAME});
    let subset = |(zone, node): (usize, &&str)| {
        let expression =
            json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        json!({"name": format!("zone-{zone}"), "nodeSelectorTerm": {"matchExpressions": [expression]}})
    };
    let spec = json!({
        "template": set["spec"]["template"],
        "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
    });
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "metadata": {"name": NAME},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": labels},
            "template": {"cloneSetTemplate": {"metadata": {"labels": labels}, "spec": spec}},
            "topology": {"subsets": nodes.iter().enumerate().map(subset).collect::<Vec<_>>()},
        },
    })
}

async fn done(site: &Site, namespace: &str, updated: i64) -> Result<Value> {
    let is_done = |united: &Value| {
        let status = &united["status"];
        status["observedGeneration"] == united["metadata"]["generation"]
            && status["readyReplicas"] == PODS
            && status["updatedReadyReplicas"] == updated
    };
    objects::until(
        site.client(),
        namespace,
        kind::UNITED_DEPLOYMENT,
        NAME,
        PATIENCE,
        is_done,
    )
    .await
}

/// The identity of a pod, for comparisons.
struct Pod {
    subset: String,
    node: String,
    name: String,
    uid: String,
    restarts: i64,
}

/// The pods by subset and name.
async fn pods(site: &Site, namespace: &str) -> Result<Vec<Pod>> {
    let all = objects::list(
        site.client(),
        namespace,
        kind::POD,
        &format!("{APP}={NAME}"),
    )
    .await?;
    let pod = |pod: &Value| {
        let text = |path: &str| {
            pod.pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Pod {
            subset: text("/metadata/labels/apps.kruise.io~1subset-name"),
            node: text("/spec/nodeName"),
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            restarts: pod
                .pointer("/status/containerStatuses/0/restartCount")
                .and_then(Value::as_i64)
                .unwrap_or(0),
        }
    };
    let mut pods: Vec<_> = all.iter().map(pod).collect();
    pods.sort_by(|one, other| (&one.subset, &one.name).cmp(&(&other.subset, &other.name)));
    Ok(pods)
}
