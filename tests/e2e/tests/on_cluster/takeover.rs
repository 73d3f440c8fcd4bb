//! CloneSets that OpenKruise ran until now, and may run again: the tests create their objects in
//! the form of OpenKruise 1.9, while no controller runs.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, APP, CONTAINER, image_patch, kind};
use serde_json::{Value, json};

use crate::no_controller::scale;
use crate::world::{Case, ensure_in_place};

const REVISION: &str = "apps/v1/ControllerRevision";

/// The template as OpenKruise's webhook stores it, with defaults, and with values that are
/// sensitive in bytes.
fn template(name: &str, image: &str) -> Value {
    let mut template = objects::clone_set(name, 0, image, &json!({}))["spec"]["template"].take();
    template["metadata"]["creationTimestamp"] = Value::Null;
    template["metadata"]["annotations"] = json!({"note": "a < b & c"});
    let spec = &mut template["spec"];
    for (field, value) in [
        ("dnsPolicy", json!("ClusterFirst")),
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
    ] {
        spec[field] = value;
    }
    let container = &mut spec["containers"][0];
    container["imagePullPolicy"] = json!("Always");
    container["resources"] = json!({});
    container["terminationMessagePath"] = json!("/dev/termination-log");
    container["terminationMessagePolicy"] = json!("File");
    container["ports"][0]["protocol"] = json!("TCP");
    for (field, value) in [
        ("failureThreshold", 3),
        ("successThreshold", 1),
        ("timeoutSeconds", 1),
    ] {
        container["readinessProbe"][field] = json!(value);
    }
    template
}

fn owner(set: &Value, version: &str) -> Value {
    json!([{
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "name": set["metadata"]["name"],
        "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }])
}

fn revision(set: &Value, number: i64, hash: &str, image: &str) -> Value {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let mut template = template(name, image);
    template["$patch"] = json!("replace");
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{name}-{hash}"), "ownerReferences": owner(set, "v1beta1"),
            "labels": {APP: name, "controller.kubernetes.io/hash": hash},
        },
        "revision": number,
        "data": {"spec": {"template": template}},
    })
}

/// A pod of a revision; `gated` is OpenKruise's form since it has readiness gates.
fn pod(set: &Value, id: &str, hash: &str, image: &str, version: &str, gated: bool) -> Value {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let mut pod = template(name, image);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    let metadata = &mut pod["metadata"];
    metadata["name"] = json!(format!("{name}-{id}"));
    metadata["generateName"] = json!(format!("{name}-"));
    metadata["ownerReferences"] = owner(set, version);
    metadata["annotations"]["lifecycle.apps.kruise.io/timestamp"] = json!("2026-01-01T00:00:00Z");
    let labels = &mut metadata["labels"];
    labels["apps.kruise.io/cloneset-instance-id"] = json!(id);
    labels["controller-revision-hash"] = json!(format!("{name}-{hash}"));
    labels["pod-template-hash"] = json!(hash);
    labels["lifecycle.apps.kruise.io/state"] = json!("Normal");
    if gated {
        pod["spec"]["readinessGates"] =
            json!([{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}]);
    }
    pod
}

/// Creates a pod, with its gates open, or with the gate of updates closed.
async fn make(case: &Case, pod: &Value, open: bool) -> Result<()> {
    let name = case.create(pod).await?["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if pod["spec"]["readinessGates"].is_array() {
        let condition = |type_: &str, open: bool, reason: &str| {
            let status = if open { "True" } else { "False" };
            json!({"type": type_, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let closed = if open { "" } else { "StartInPlaceUpdate" };
        let conditions = json!([
            condition("KruisePodReady", true, ""),
            condition("InPlaceUpdateReady", open, closed)
        ]);
        let patch = json!({"status": {"conditions": conditions}}).to_string();
        let namespace = ["-n", &case.namespace, "--subresource=status"];
        case.kubectl(&[&["patch", "pod", &name, "-p", &patch], &namespace[..]].concat())
            .await?;
    }
    let wanted = if open { "Ready" } else { "ContainersReady" };
    case.until(kind::POD, &name, |pod| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .into_iter()
            .any(|c| c["type"] == wanted && c["status"] == "True")
    })
    .await?;
    Ok(())
}

/// A CloneSet of three pods, as OpenKruise stores it.
async fn make_set(case: &Case, name: &str, image: &str, rolling_update: Value) -> Result<Value> {
    let mut set = objects::clone_set(name, 3, image, &rolling_update);
    set["spec"]["template"] = template(name, image);
    set["spec"]["revisionHistoryLimit"] = json!(10);
    case.create(&set).await
}

async fn set_status(case: &Case, name: &str, updated: i32, current: &str) -> Result<()> {
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": updated,
        "updatedReadyReplicas": updated, "updatedAvailableReplicas": updated, "expectedUpdatedReplicas": updated,
        "updateRevision": format!("{name}-22"), "currentRevision": format!("{name}-{current}"), "collisionCount": 0,
        "labelSelector": format!("app={name}"),
    }});
    let arguments = [
        "patch",
        "cloneset",
        name,
        "-n",
        &case.namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    case.kubectl(&[&arguments[..], &[&status.to_string()]].concat())
        .await
        .map(|_| ())
}

/// The names of objects of a CloneSet, after checking that the controller wrote none of them.
async fn untouched(case: &Case, kind: &str, name: &str) -> Result<Vec<String>> {
    let objects = objects::list(
        case.client(),
        &case.namespace,
        kind,
        &format!("{APP}={name}"),
    )
    .await?;
    for object in &objects {
        let writers = object["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten();
        let ours = writers
            .into_iter()
            .find(|writer| writer["manager"] == "berth-controller");
        ensure!(
            ours.is_none(),
            "{} was written: {ours:?}",
            object["metadata"]["name"]
        );
    }
    Ok(objects
        .iter()
        .map(|object| object["metadata"]["name"].to_string())
        .collect())
}

/// The data of a revision, byte for byte, which only the server's binary form shows.
async fn raw_data(case: &Case, name: &str) -> Result<Vec<u8>> {
    let path = format!(
        "/apis/apps/v1/namespaces/{}/controllerrevisions/{name}",
        case.namespace
    );
    let request = http::Request::get(path).header("Accept", "application/vnd.kubernetes.protobuf");
    let answer = case
        .client()
        .send(request.body(kube::client::Body::empty())?)
        .await?;
    Ok(answer.into_body().collect_bytes().await?.to_vec())
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

pub(crate) async fn from_openkruise_and_back(case: &Case) -> Result<()> {
    let images = [
        case.image("v1").await?,
        case.image("v2").await?,
        case.image("v3").await?,
    ];
    scale(case, 0).await?;
    let made = make_all(case, &images).await;
    let pods = (
        case.pods("rest").await?,
        case.pods("part").await?,
        case.pods("grace").await?,
    );
    scale(case, 2).await?;
    made?;

    // The update that was in its grace period is finished, and nothing else is done.
    case.done("grace").await?;
    ensure!(
        case.pods("grace")
            .await?
            .values()
            .all(|pod| pod.containers[CONTAINER].wanted == images[1]),
        "not updated"
    );
    ensure!(
        case.pods("grace").await?.keys().eq(pods.2.keys()),
        "other pods"
    );
    for name in pods.2.keys() {
        // OpenKruise writes the pod again and again if the condition is not in OpenKruise's words.
        let pod = case.get(kind::POD, name).await?;
        let open = pod["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|c| c["type"] == "InPlaceUpdateReady");
        ensure!(
            open.is_some_and(|c| c["status"] == "True" && c["reason"].is_null()),
            "{open:?}"
        );
    }
    case.explained("rest", "text", |text| text.contains("Now: nothing to do."))
        .await?;
    ensure_in_place(&pods.0, &case.pods("rest").await?, 0)?;
    ensure_in_place(&pods.1, &case.pods("part").await?, 0)?;
    for name in ["rest", "part"] {
        untouched(case, kind::POD, name).await?;
        let revisions = untouched(case, REVISION, name).await?;
        ensure!(revisions.len() == 2, "{revisions:?}");
    }

    // An image changes in place, although kubectl leaves the defaults out, and in a pod from before
    // the gates.
    for name in ["rest", "part"] {
        let bare = objects::clone_set(name, 3, "", &json!({}));
        let mut patch = image_patch(&bare, &images[2]);
        patch["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 0}});
        case.patch(kind::CLONE_SET, name, patch).await?;
    }
    let set = case.done("rest").await?;
    case.done("part").await?;
    ensure_in_place(&pods.0, &case.pods("rest").await?, 1)?;
    ensure_in_place(&pods.1, &case.pods("part").await?, 1)?;

    // And the written revision is the one that OpenKruise would write for the template as it is
    // stored now.
    let name = set["status"]["updateRevision"]
        .as_str()
        .context("no updateRevision")?;
    let (image, probe) = (
        &images[2],
        r#""readinessProbe":{"periodSeconds":1,"tcpSocket":{"port":8080}}"#,
    );
    let data = format!(
        r#"{{"spec":{{"template":{{"$patch":"replace","metadata":{{"annotations":{{"note":"a \u003c b \u0026 c"}},"creationTimestamp":null,"labels":{{"app":"rest"}}}},"spec":{{"automountServiceAccountToken":false,"containers":[{{"image":"{image}","name":"main","ports":[{{"containerPort":8080}}],{probe},"resources":{{}}}}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{{}},"terminationGracePeriodSeconds":5}}}}}}}}"#
    );
    let raw = raw_data(case, name).await?;
    ensure!(
        contains(&raw, &data),
        "not in OpenKruise's bytes: {}\nbut {data}",
        String::from_utf8_lossy(&raw)
    );
    Ok(())
}

async fn make_all(case: &Case, [one, two, _]: &[String; 3]) -> Result<()> {
    let in_place = |partition: i32| {
        json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%", "maxSurge": 0, "partition": partition,
               "inPlaceUpdateStrategy": {}})
    };
    for (name, partition) in [("rest", 0), ("part", 2), ("grace", 0)] {
        let set = make_set(case, name, two, in_place(partition)).await?;
        case.create(&revision(&set, 1, "11", one)).await?;
        case.create(&revision(&set, 2, "22", two)).await?;
        let at = |updated: bool| if updated { ("22", two) } else { ("11", one) };
        for (id, version, gated) in [
            ("aaaaa", "v1beta1", true),
            ("bbbbb", "v1alpha1", true),
            ("ccccc", "v1alpha1", false),
        ] {
            let (hash, image) = at(name == "rest" || id == "aaaaa");
            if name != "grace" || id == "aaaaa" {
                make(case, &pod(&set, id, hash, image, version, gated), true).await?;
            } else {
                let mut pod = pod(&set, id, "22", one, version, true);
                begin(&mut pod, two);
                make(case, &pod, false).await?;
            }
        }
        let (updated, current) = if name == "rest" { (3, "22") } else { (1, "11") };
        set_status(case, name, updated, current).await?;
    }
    Ok(())
}

/// The update of a pod to revision 22 has begun, and waits for the end of its grace period.
fn begin(pod: &mut Value, image: &str) {
    let revision = pod["metadata"]["labels"]["controller-revision-hash"].clone();
    let record = json!({
        "revision": revision, "updateTimestamp": "2026-01-01T00:00:00Z", "lastContainerStatuses": null, "updateImages": true,
    });
    let left =
        json!({"revision": revision, "containerImages": {CONTAINER: image}, "graceSeconds": 5});
    let annotations = &mut pod["metadata"]["annotations"];
    annotations["apps.kruise.io/inplace-update-state"] = json!(record.to_string());
    annotations["apps.kruise.io/inplace-update-grace"] = json!(left.to_string());
    pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] = json!("Updating");
}
