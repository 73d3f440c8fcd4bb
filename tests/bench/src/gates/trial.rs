//! One change of a pod's image.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use berth_api::names::condition::INPLACE_UPDATE_READY as GATE;
use berth_e2e::objects::CONTAINER;
use berth_e2e::record::{Change, PodView, Record, seconds};
use berth_e2e::site::Site;
use berth_e2e::watch::PodWatch;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::NAMESPACE;
use super::case::{Case, large};

/// When the gate is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is never closed: the kubelet's own restart, and so the limit.
    Bare,
    /// When the kubelet has reported that it has seen the new image.
    Acknowledged,
    /// The same, and the image changes only after the kubelet itself has reported that the pod is
    /// not Ready.
    Dropped,
    /// When the pod's status shows the new container.
    Shown,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [Way::Bare, Way::Acknowledged, Way::Dropped, Way::Shown];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Bare => "no gate",
            Way::Acknowledged => "opened when seen",
            Way::Dropped => "not Ready first",
            Way::Shown => "opened when it runs",
        }
    }
}

/// The result of a trial.
pub(super) struct Trial {
    /// An instant at which the pod was Ready without the new image, after its gate opened again.
    pub(super) early: Option<String>,
    /// The pod was Ready without the new image behind its closed gate, after it had not been.
    pub(super) repeated: bool,
    /// From the first patch until the kubelet reported that it had seen the image, in seconds.
    pub(super) acknowledged: f64,
    /// From the first patch until the pod was Ready with the new image, in seconds; `None` if it
    /// must not become so.
    pub(super) ready: Option<f64>,
}

const LABEL: &str = "trial";
/// Long enough also for a container in a crash loop's back-off.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long to watch that a pod does not become Ready.
const NEVER: Duration = Duration::from_secs(15);

/// Runs one trial. All trials of a round patch their pods when the last of them is ready for it.
pub(super) async fn run(
    site: &Site,
    (case, way): (Case, Way),
    digests: &BTreeMap<String, String>,
    (number, all): (usize, &Barrier),
    rest: Duration,
) -> Result<Trial> {
    let name = format!("{case:?}-{way:?}-{number}").to_lowercase();
    let image = case.images(number)[1].clone();
    let digest = match case {
        Case::Pulled => site.push(&large(&image)?, &[&image])?,
        _ => digests
            .get(&image)
            .cloned()
            .unwrap_or_else(|| "none".to_owned()),
    };
    let pods: Api<Pod> = Api::namespaced(site.client().clone(), NAMESPACE);
    let pod =
        json!({"metadata": {"name": name, "labels": {LABEL: name}}, "spec": case.spec(site, GATE)});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await?;
    set_status(&pods, &name, json!([{"type": GATE, "status": "True"}])).await?;
    let watch = PodWatch::start(
        site.client(),
        NAMESPACE,
        &format!("{LABEL}={name}"),
        Instant::now(),
    )
    .await?;
    let is = |so: &dyn Fn(&PodView) -> bool, moment: &berth_e2e::record::Moment<'_>| {
        moment.pods.values().any(|standing| so(standing.pod))
    };
    let serves = |pod: &PodView| {
        if case == Case::CrashLoop {
            pod.restarts() > 0
        } else {
            pod.serves()
        }
    };
    watch
        .until("the pod serves", PATIENCE, |moment| is(&serves, moment))
        .await?;

    tokio::time::sleep(rest).await;
    all.wait().await;
    let from = watch.began().elapsed();
    if way != Way::Bare {
        let words =
            format!("the status of pod readiness gate \"{GATE}\" is not \"True\", but False");
        let ready = json!({"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": words});
        let is_ready = watch.pods()?.iter().any(|pod| pod.ready);
        let closed = json!({"type": GATE, "status": "False"});
        let says_so = is_ready && way != Way::Dropped;
        let conditions = if says_so {
            json!([closed, ready])
        } else {
            json!([closed])
        };
        set_status(&pods, &name, conditions).await?;
        if way == Way::Dropped {
            watch
                .until(
                    "the kubelet says that it is not ready",
                    PATIENCE,
                    |moment| is(&|pod| !pod.ready, moment),
                )
                .await?;
        }
    }
    let wanted = site.image(&image);
    let change = json!({"spec": {"containers": [{"name": CONTAINER, "image": wanted}]}});
    pods.patch(&name, &PatchParams::default(), &Patch::Strategic(&change))
        .await?;
    let is_seen = |pod: &PodView| {
        pod.is_seen
            && pod
                .containers
                .get(CONTAINER)
                .is_some_and(|c| c.wanted == wanted)
    };
    let acknowledged = watch
        .until("the image is seen", PATIENCE, |moment| is(&is_seen, moment))
        .await?;
    let runs = |pod: &PodView| {
        is_seen(pod)
            && pod
                .containers
                .get(CONTAINER)
                .is_some_and(|c| c.image_id.contains(&digest))
    };
    if way == Way::Shown {
        watch
            .until("the image runs", PATIENCE, |moment| is(&runs, moment))
            .await?;
    }
    if way != Way::Bare {
        set_status(&pods, &name, json!([{"type": GATE, "status": "True"}])).await?;
    }
    let ready = if case.is_ready_in_the_end() {
        let is_done = |pod: &PodView| runs(pod) && pod.serves();
        Some(
            watch
                .until("the pod serves again", PATIENCE, |moment| {
                    is(&is_done, moment)
                })
                .await?,
        )
    } else {
        tokio::time::sleep(NEVER).await;
        None
    };
    let (early, repeated) = if way == Way::Bare {
        (None, false)
    } else {
        old_in_service(&watch.record()?, from, &digest)
    };
    pods.delete(&name, &DeleteParams::default().grace_period(0))
        .await?;
    let since = |at: Duration| at.saturating_sub(from).as_secs_f64();
    Ok(Trial {
        early: early.map(|why| format!("{name}: {why}")),
        repeated,
        acknowledged: since(acknowledged),
        ready: ready.map(since),
    })
}

async fn set_status(pods: &Api<Pod>, name: &str, conditions: Value) -> Result<()> {
    let patch = json!({"status": {"conditions": conditions}});
    let patched = pods
        .patch_status(name, &PatchParams::default(), &Patch::Strategic(&patch))
        .await;
    patched
        .map(drop)
        .with_context(|| format!("the status of pod {name}"))
}

/// The first instant after the gate was closed at which the gate is open again, the pod Ready, and
/// its container not of this image. Also whether the pod was Ready in this state behind the closed
/// gate, after it had not been Ready.
fn old_in_service(record: &Record, from: Duration, digest: &str) -> (Option<String>, bool) {
    let is_old = |pod: &PodView| {
        !pod.containers
            .get(CONTAINER)
            .is_some_and(|c| c.image_id.contains(digest))
    };
    let (mut closed, mut dropped, mut repeated) = (false, false, false);
    for entry in record.entries().iter().filter(|entry| entry.at >= from) {
        let Change::Is(pod) = &entry.change else {
            continue;
        };
        closed |= !pod.gates;
        dropped |= closed && !pod.ready;
        if !dropped || !pod.ready || !is_old(pod) {
            continue;
        }
        if !pod.gates {
            repeated = true;
            continue;
        }
        let ran = pod
            .containers
            .get(CONTAINER)
            .map(|container| container.image_id.as_str())
            .unwrap_or_default();
        return (
            Some(format!(
                "Ready after {} with {ran}",
                seconds(entry.at.saturating_sub(from))
            )),
            repeated,
        );
    }
    (None, repeated)
}
