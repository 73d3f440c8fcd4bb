//! UnitedDeployments: one application over several domains.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use crate::rollout::ensure_images;
use crate::world::Case;

const UNITED: &str = "web";

/// A UnitedDeployment of this kind of workloads.
pub(crate) fn united(field: &str, replicas: usize, image: &str, topology: &Value) -> Value {
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

/// The replicas of each subset, in order, from the status.
fn division(united: &Value) -> Vec<i64> {
    let subsets = united["status"]["subsetStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    subsets
        .map(|subset| subset["replicas"].as_i64().unwrap_or(-1))
        .collect()
}

/// Whether the status is of the present spec, all pods are ready, and so many are updated.
pub(crate) fn is_at_rest(united: &Value, updated: i64) -> bool {
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

/// The message of a condition that is True.
fn condition<'a>(united: &'a Value, type_: &str) -> Option<&'a str> {
    let mut conditions = united["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions.find(|it| it["type"] == type_ && it["status"] == "True")?["message"].as_str()
}

/// How many requests the apiserver counts that match all of these labels.
async fn requests(case: &Case, labels: &[&str]) -> Result<u64> {
    let metrics = case.kubectl(&["get", "--raw", "/metrics"]).await?;
    let counts = |line: &str| {
        line.starts_with("apiserver_request_total{") && labels.iter().all(|it| line.contains(it))
    };
    let counted = metrics
        .lines()
        .filter(|line| counts(line))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    Ok(counted.map(|count| count as u64).sum())
}

/// A field that a StatefulSet cannot change: the condition names it, and further reconciles do not
/// repeat the request.
pub(crate) async fn refused_change_is_reported_once(case: &Case) -> Result<()> {
    let topology = json!({"subsets": [{"name": "a"}]});
    case.create(&united("statefulSetTemplate", 0, "none", &topology))
        .await?;
    case.until(kind::UNITED_DEPLOYMENT, UNITED, |it| is_at_rest(it, 0))
        .await?;
    let refused = [
        r#"code="422""#,
        r#"group="apps""#,
        r#"resource="statefulsets""#,
        r#"verb="PATCH""#,
    ];
    let before = requests(case, &refused).await?;
    let spec = json!({"serviceName": "other"});
    case.patch(
        kind::UNITED_DEPLOYMENT,
        UNITED,
        json!({"spec": {"template": {"statefulSetTemplate": {"spec": spec}}}}),
    )
    .await?;
    // The apiserver names the field and its value since Kubernetes 1.37, and the controller does
    // before.
    let is_told = |it: &Value| {
        condition(it, "Blocked").is_some_and(|message| {
            message.contains("serviceName") && message.contains(r#""other""#)
        })
    };
    case.until(kind::UNITED_DEPLOYMENT, UNITED, is_told).await?;
    let sets = objects::list(
        case.client(),
        &case.namespace,
        kind::NATIVE_STATEFUL_SET,
        "",
    )
    .await?;
    ensure!(sets.len() == 1, "{sets:?}");
    let name = sets[0]["metadata"]["name"].as_str().unwrap_or_default();
    for number in 0..10 {
        let wake = json!({"metadata": {"labels": {"wakes": number.to_string()}}});
        case.patch(kind::NATIVE_STATEFUL_SET, name, wake).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let after = requests(case, &refused).await?;
    ensure!(
        after - before <= 2,
        "{} refused writes for one change",
        after - before
    );
    case.patch(
        kind::UNITED_DEPLOYMENT,
        UNITED,
        json!({"spec": {"template": {"statefulSetTemplate": {"spec": {"serviceName": null}}}}}),
    )
    .await?;
    case.until(kind::UNITED_DEPLOYMENT, UNITED, |it| {
        condition(it, "Blocked").is_none()
    })
    .await?;
    Ok(())
}

/// Writes of the controller to the CloneSets of subsets and to the status of UnitedDeployments.
async fn writes(case: &Case) -> Result<[u64; 2]> {
    // Statuses of CloneSets have a subresource, and no other test writes CloneSets meanwhile.
    let to_subsets = [r#"resource="clonesets""#, r#"subresource="""#];
    let to_status = [r#"resource="uniteddeployments""#, r#"subresource="status""#];
    let mut all = [0, 0];
    for verb in [
        r#"verb="PATCH""#,
        r#"verb="POST""#,
        r#"verb="PUT""#,
        r#"verb="APPLY""#,
    ] {
        all[0] += requests(case, &[&to_subsets[..], &[verb]].concat()).await?;
        all[1] += requests(case, &[&to_status[..], &[verb]].concat()).await?;
    }
    Ok(all)
}

/// For each change of the spec, each workload is written three times at most, and the status once a
/// second at most; while a partition holds, nothing is written.
pub(crate) async fn spec_change_costs_few_writes(case: &Case) -> Result<()> {
    const SUBSETS: u64 = 2;
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let topology = json!({"subsets": [{"name": "a"}, {"name": "b"}]});
    let created = united("cloneSetTemplate", 4, &one, &topology);
    let mut image = json!({"spec": {"template": created["spec"]["template"]}});
    image["spec"]["updateStrategy"] = json!({"manualUpdate": {"partitions": {"a": 1, "b": 2}}});
    image["spec"]["template"]["cloneSetTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!(two);
    let changes = [
        ("scale", json!({"spec": {"replicas": 6}}), 6),
        ("back", json!({"spec": {"replicas": 4}}), 4),
        ("image", image, 1),
        (
            "partitions",
            json!({"spec": {"updateStrategy": {"manualUpdate": null}}}),
            4,
        ),
    ];
    case.create(&created).await?;
    case.until(kind::UNITED_DEPLOYMENT, UNITED, |it| is_at_rest(it, 4))
        .await?;
    for (what, patch, updated) in changes {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = writes(case).await?;
        case.patch(kind::UNITED_DEPLOYMENT, UNITED, patch).await?;
        case.until(kind::UNITED_DEPLOYMENT, UNITED, |it| {
            is_at_rest(it, updated)
        })
        .await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let [subsets, status] = writes(case).await?;
        let (subsets, status) = (subsets - before[0], status - before[1]);
        println!("{what}: {subsets} writes to {SUBSETS} workloads, {status} to the status");
        ensure!(
            subsets <= 3 * SUBSETS && status <= 3,
            "{what}: {subsets} writes to workloads, {status} to the status"
        );
        tokio::time::sleep(Duration::from_secs(3)).await;
        let later = writes(case).await?;
        ensure!(
            later == [before[0] + subsets, before[1] + status],
            "{what}: writes at rest: {before:?} {later:?}"
        );
    }
    Ok(())
}
