//! UnitedDeployments: one application over several domains.

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use crate::rollout::ensure_images;
use crate::world::Case;

const UNITED: &str = "web";

fn united(field: &str, replicas: usize, image: &str, topology: &Value) -> Value {
    let set = objects::clone_set(UNITED, replicas, image, &json!({}));
    let mut spec = json!({"template": set["spec"]["template"]});
    if field == "cloneSetTemplate" {
        spec["updateStrategy"] = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}});
    } else {
        spec["template"]["spec"]["terminationGracePeriodSeconds"] = json!(0);
    }
    let labels = json!({objects::APP: UNITED});
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "metadata": {"name": UNITED},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels}, "topology": topology,
            "template": {field: {"metadata": {"labels": labels}, "spec": spec}},
        },
    })
}

/// The replicas of each subset, in order, as the status has them.
fn division(united: &Value) -> Vec<i64> {
    let subsets = united["status"]["subsetStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    subsets
        .map(|subset| subset["replicas"].as_i64().unwrap_or(-1))
        .collect()
}

/// Whether the status speaks of this spec, all pods are ready, and so many are updated.
fn is_at_rest(united: &Value, updated: i64) -> bool {
    let status = &united["status"];
    status["observedGeneration"] == united["metadata"]["generation"]
        && status["replicas"] == united["spec"]["replicas"]
        && status["readyReplicas"] == united["spec"]["replicas"]
        && status["updatedReadyReplicas"] == updated
}

pub(crate) async fn subsets_roll_out_in_place_by_partition(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let topology = json!({"subsets": [{"name": "a", "maxReplicas": 2}, {"name": "b"}]});
    case.create(&united("cloneSetTemplate", 4, &one, &topology))
        .await?;
    let object = case
        .until(kind::UNITED_DEPLOYMENT, UNITED, |it| is_at_rest(it, 4))
        .await?;
    ensure!(division(&object) == [2, 2], "{}", object["status"]);
    let before = case.pods(UNITED).await?;

    let path = [
        "spec",
        "template",
        "cloneSetTemplate",
        "spec",
        "template",
        "spec",
        "containers",
    ];
    let mut containers = path
        .iter()
        .fold(&object, |value, field| &value[field])
        .clone();
    containers[0]["image"] = json!(two);
    let template = path[1..]
        .iter()
        .rev()
        .fold(containers, |value, field| json!({*field: value}));
    let mut patch = json!({"spec": {"updateStrategy": {"manualUpdate": {"partitions": {"a": 1}}}}});
    patch["spec"]["template"] = template["template"].clone();
    case.patch(kind::UNITED_DEPLOYMENT, UNITED, patch).await?;
    case.until(kind::UNITED_DEPLOYMENT, UNITED, |it| is_at_rest(it, 3))
        .await?;
    ensure_images(case, UNITED, (&one, 1), (&two, 3)).await?;
    let rest = json!({"spec": {"updateStrategy": {"manualUpdate": {"partitions": {"a": 0}}}}});
    case.patch(kind::UNITED_DEPLOYMENT, UNITED, rest).await?;
    let object = case
        .until(kind::UNITED_DEPLOYMENT, UNITED, |it| is_at_rest(it, 4))
        .await?;
    let status = &object["status"];
    ensure!(
        status["currentRevision"] == status["updatedRevision"],
        "{status}"
    );
    let after = case.pods(UNITED).await?;
    ensure!(
        before.keys().eq(after.keys()),
        "pods were replaced: {before:?} {after:?}"
    );

    case.kubectl(&["scale", "ud", "-n", &case.namespace, UNITED, "--replicas=1"])
        .await?;
    let object = case
        .until(kind::UNITED_DEPLOYMENT, UNITED, |it| is_at_rest(it, 1))
        .await?;
    ensure!(division(&object) == [1, 0], "{}", object["status"]);
    let text = case
        .kubectl(&["get", "ud", "-n", &case.namespace, UNITED])
        .await?;
    let columns: Vec<_> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(
        columns == ["NAME", "DESIRED", "CURRENT", "UPDATED", "READY", "AGE"],
        "{text}"
    );
    Ok(())
}

pub(crate) async fn reserved_pods_have_substitutes(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let zone = format!("berth.test/{}", case.namespace);
    let adaptive = json!({"rescheduleCriticalSeconds": 1, "unschedulableDuration": 1, "reserveUnschedulablePods": true});
    let term = json!({"matchExpressions": [{"key": zone, "operator": "In", "values": ["on"]}]});
    let topology = json!({
        "scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive},
        "subsets": [{"name": "a", "nodeSelectorTerm": term}, {"name": "b"}],
    });
    case.create(&united("deploymentTemplate", 2, &image, &topology))
        .await?;
    let reserved =
        |it: &Value, count: i64| it["status"]["reservedPods"] == count && is_at_rest(it, 2);
    let object = case
        .until(kind::UNITED_DEPLOYMENT, UNITED, |it| reserved(it, 2))
        .await?;
    ensure!(division(&object) == [2, 2], "{}", object["status"]);
    case.kubectl(&["label", "node", "node-1", &format!("{zone}=on")])
        .await?;
    let object = case
        .until(kind::UNITED_DEPLOYMENT, UNITED, |it| {
            reserved(it, 0) && division(it) == [2, 0]
        })
        .await;
    case.kubectl(&["label", "node", "node-1", &format!("{zone}-")])
        .await?;
    let conditions = object?["status"]["subsetStatuses"].clone();
    let schedulable = |at: usize| conditions[at]["conditions"][0]["status"] == "True";
    ensure!(schedulable(0) && schedulable(1), "{conditions}");
    Ok(())
}
