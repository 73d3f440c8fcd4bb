//! BroadcastJobs, which run once on each node, and ContainerRecreateRequests, which restart
//! containers in their pods.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::objects::{self, CONTAINER, kind};
use serde_json::{Value, json};

use crate::world::Case;

const JOB: &str = "once";
const SET: &str = "web";
const NODES: usize = 3;

/// A job of this container, with these additional fields of the spec.
fn job(container: &Value, fields: &Value) -> Value {
    let mut spec =
        json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": {"name": JOB}, "spec": spec})
}

fn succeeds(image: &str) -> Value {
    json!({"name": "main", "image": image, "command": ["/hello", "once"]})
}

fn fails(image: &str) -> Value {
    json!({"name": "main", "image": image, "env": [{"name": "PORT", "value": "none"}]})
}

/// The nodes of the job's pods.
async fn nodes(case: &Case) -> Result<Vec<String>> {
    let pods = objects::list(
        case.client(),
        &case.namespace,
        kind::POD,
        &format!("broadcastjob-name={JOB}"),
    )
    .await?;
    Ok(pods
        .iter()
        .map(|pod| {
            pod["spec"]["nodeName"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect())
}

pub(crate) async fn a_job_runs_once_on_each_node_and_goes(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let fields = json!({"parallelism": 2, "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 3}});
    case.create(&job(&succeeds(&image), &fields)).await?;
    let ended = case
        .until(kind::BROADCAST_JOB, JOB, |job| {
            job["status"]["phase"] == "completed"
        })
        .await?;
    let status = &ended["status"];
    ensure!(
        status["desired"] == NODES && status["succeeded"] == NODES && status["active"] == 0,
        "{status}"
    );
    let ran = nodes(case).await?;
    ensure!(
        ran.len() == NODES && ran.iter().collect::<BTreeSet<_>>().len() == NODES,
        "{ran:?}"
    );
    let text = case
        .kubectl(&["get", "bcj", "-n", &case.namespace, JOB])
        .await?;
    ensure!(text.to_uppercase().contains("SUCCEEDED"), "{text}");
    case.gone(kind::BROADCAST_JOB, JOB).await
}

pub(crate) async fn a_job_that_fails_pauses_and_is_resumed(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let fields = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    case.create(&job(&fails(&image), &fields)).await?;
    let paused = case
        .until(kind::BROADCAST_JOB, JOB, |job| {
            job["status"]["phase"] == "paused"
        })
        .await?;
    ensure!(
        paused["spec"]["paused"] == true && paused["status"]["failed"] == 1,
        "{}",
        paused["status"]
    );
    // Nodes that have not begun get the new template.
    let mended = json!({"spec": {"paused": false, "template": {"spec": {"containers": [succeeds(&image)]}}}});
    case.patch(kind::BROADCAST_JOB, JOB, mended).await?;
    let ended = case
        .until(kind::BROADCAST_JOB, JOB, |job| {
            !job["status"]["completionTime"].is_null()
        })
        .await?;
    let status = &ended["status"];
    ensure!(
        status["failed"] == 1 && status["succeeded"] == NODES - 1,
        "{status}"
    );
    let ran = nodes(case).await?;
    ensure!(
        ran.iter().collect::<BTreeSet<_>>().len() == ran.len(),
        "a node's job ran twice: {ran:?}"
    );
    Ok(())
}

pub(crate) async fn bad_jobs_are_refused(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    for (fields, words) in [
        (
            json!({"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 5}}),
            ["completionPolicy", "Never"],
        ),
        (json!({"parallelism": -1}), ["parallelism", "-1"]),
        (
            json!({"failurePolicy": {"type": "Sometimes"}}),
            ["failurePolicy.type", "Sometimes"],
        ),
        (
            json!({"template": {"spec": {"restartPolicy": "Always", "containers": [succeeds(&image)]}}}),
            ["restartPolicy", "Never"],
        ),
    ] {
        match case.create(&job(&succeeds(&image), &fields)).await {
            Ok(_) => bail!("{fields} was accepted"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(
                    words.iter().all(|word| text.contains(word)),
                    "{fields}: {text}"
                );
            }
        }
    }
    Ok(())
}

/// A request for these containers of a pod, with these additional fields of the spec.
pub(crate) fn request(name: &str, pod: &str, containers: &[&str], fields: &Value) -> Value {
    let containers: Vec<_> = containers
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    let mut spec = json!({"podName": pod, "containers": containers});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": name}, "spec": spec,
    })
}

pub(crate) async fn a_container_is_restarted_in_its_pod(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.create(&objects::clone_set(SET, 1, &image, &json!({})))
        .await?;
    case.done(SET).await?;
    let (name, before) = case.pods(SET).await?.pop_first().context("no pod")?;
    let fields =
        json!({"strategy": {"unreadyGracePeriodSeconds": 1}, "ttlSecondsAfterFinished": 30});
    let made = case
        .create(&request("first", &name, &[CONTAINER], &fields))
        .await?;
    let labels = &made["metadata"]["labels"];
    let context = &made["spec"]["containers"][0]["statusContext"];
    ensure!(
        labels["crr.apps.kruise.io/pod-uid"] == before.uid.as_str(),
        "the answer has no labels: {made}"
    );
    ensure!(
        context["containerID"]
            .as_str()
            .is_some_and(|id| id.contains("://")),
        "{made}"
    );
    case.create(&request("second", &name, &[CONTAINER], &json!({})))
        .await?;
    for request in ["first", "second"] {
        let is_active =
            |request: &Value| !request["metadata"]["labels"]["crr.apps.kruise.io/active"].is_null();
        let is_over =
            |request: &Value| request["status"]["phase"] == "Completed" && !is_active(request);
        let ended = case
            .until(kind::CONTAINER_RECREATE_REQUEST, request, is_over)
            .await?;
        let state = &ended["status"]["containerRecreateStates"][0];
        ensure!(state["phase"] == "Succeeded", "{}", ended["status"]);
        let after = case
            .pods(SET)
            .await?
            .remove(&name)
            .context("the pod is gone")?;
        ensure!(
            after.uid == before.uid && after.ip == before.ip,
            "{after:?}"
        );
        ensure!(after.restarts() >= 1, "{request}: not restarted: {after:?}");
    }
    let after = case
        .pods(SET)
        .await?
        .remove(&name)
        .context("the pod is gone")?;
    // The second request named the container that the first had stopped already, or the one after
    // it.
    ensure!(
        (1..=2).contains(&after.restarts()),
        "{} restarts",
        after.restarts()
    );
    case.gone(kind::CONTAINER_RECREATE_REQUEST, "first").await
}

/// The deadline passes during the hook. The request reports the late stop as soon as the pod is
/// ready again.
pub(crate) async fn late_stop_is_reported_at_once(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let mut set = objects::clone_set(SET, 1, &image, &json!({}));
    let template = &mut set["spec"]["template"]["spec"];
    template["terminationGracePeriodSeconds"] = json!(30);
    template["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 8}}});
    case.create(&set).await?;
    case.done(SET).await?;
    let (name, _) = case.pods(SET).await?.pop_first().context("no pod")?;
    case.create(&request(
        "late",
        &name,
        &[CONTAINER],
        &json!({"activeDeadlineSeconds": 3}),
    ))
    .await?;
    let is_over = |request: &Value| request["status"]["phase"] == "Completed";
    let over = case
        .until(kind::CONTAINER_RECREATE_REQUEST, "late", is_over)
        .await?;
    let states = &over["status"]["containerRecreateStates"];
    ensure!(
        states[0]["phase"] == "Pending" && states[0]["isKilled"].is_null(),
        "{states}"
    );
    let is_back = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready = conditions
            .into_iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True");
        pod["status"]["containerStatuses"][0]["restartCount"] == 1 && is_ready
    };
    case.until(kind::POD, &name, is_back).await?;
    let request = case.get(kind::CONTAINER_RECREATE_REQUEST, "late").await?;
    let state = &request["status"]["containerRecreateStates"][0];
    ensure!(
        state["phase"] == "Recreating" && state["isKilled"] == true,
        "the pod is ready, and the request has {state}"
    );
    Ok(())
}

pub(crate) async fn bad_requests_are_refused(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.create(&objects::clone_set(SET, 1, &image, &json!({})))
        .await?;
    case.done(SET).await?;
    let (name, _) = case.pods(SET).await?.pop_first().context("no pod")?;
    for (pod, containers, word) in [
        ("no-such-pod", vec![CONTAINER], "no-such-pod"),
        (name.as_str(), vec!["other"], "other"),
        (name.as_str(), vec![CONTAINER, CONTAINER], CONTAINER),
        (name.as_str(), vec![], "containers"),
    ] {
        match case
            .create(&request("bad", pod, &containers, &json!({})))
            .await
        {
            Ok(made) => bail!("{containers:?} of pod {pod} were accepted: {made}"),
            Err(error) => ensure!(
                format!("{error:#}").contains(word),
                "{containers:?} of {pod}: {error:#}"
            ),
        }
    }
    Ok(())
}
