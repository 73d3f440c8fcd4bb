//! Claims per pod: a volume that lives as long as it should, and no longer.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use berth_api::names::label;
use berth_cluster::Image;
use berth_e2e::objects::{self, kind};
use berth_e2e::record::Moment;
use berth_e2e::watch::PodWatch;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::world::{Case, PATIENCE, ensure_in_place};

pub(crate) const SET: &str = "web";
pub(crate) const REPLICAS: usize = 2;

/// Claims by name: uid, owner's kind.
type Claims = BTreeMap<String, (String, String)>;

pub(crate) async fn claims_stay_in_place_and_go_with_a_pod(case: &Case) -> Result<()> {
    let (one, two) = (image(case, "v1").await?, image(case, "v2").await?);
    case.create(&clone_set(
        &one,
        &json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}),
    ))
    .await?;
    case.done(SET).await?;
    let (before, pods) = (claims(case).await?, case.pods(SET).await?);
    ensure!(
        before.len() == REPLICAS && before.values().all(|(_, owner)| owner == "CloneSet"),
        "{before:?}"
    );
    for pod in pods.keys() {
        ensure!(
            before.contains_key(&format!("data-{pod}")),
            "{pod} has no claim of its name: {before:?}"
        );
        shell(case, pod, &format!("echo {pod} >/data/file")).await?;
    }

    case.set_image(SET, &two).await?;
    case.done(SET).await?;
    ensure_in_place(&pods, &case.pods(SET).await?, 1)?;
    for pod in pods.keys() {
        let kept = shell(case, pod, "cat /data/file").await?;
        ensure!(kept.trim() == pod, "{pod} finds {kept:?} in its volume");
    }
    ensure!(
        claims(case).await? == before,
        "the update changed claims: before {before:?}"
    );

    // In v1beta1 claims are reused only if the spec says so: when a user deletes the pod, its claim
    // is deleted with it.
    let first = pods.keys().next().context("no pods")?;
    let watch = case.watch(SET).await?;
    case.kubectl(&["delete", "pod", "-n", &case.namespace, first])
        .await?;
    until(case, "the deleted pod's claim is replaced", |now| {
        now.len() == REPLICAS && !now.contains_key(&format!("data-{first}"))
    })
    .await?;
    others_serve(&watch, first).await?;
    for pod in case
        .pods(SET)
        .await?
        .values()
        .filter(|pod| !pod.terminating && !pods.contains_key(&pod.name))
    {
        let found = shell(case, &pod.name, "ls /data").await?;
        ensure!(
            found.trim().is_empty(),
            "the volume of a new claim has {found:?}"
        );
    }
    case.patch(kind::CLONE_SET, SET, json!({"spec": {"replicas": 1}}))
        .await?;
    case.done(SET).await?;
    until(case, "the claim goes with the pod", |now| now.len() == 1).await?;
    case.kubectl(&["delete", "cloneset", "-n", &case.namespace, SET])
        .await?;
    until(case, "the claims go with the CloneSet", Claims::is_empty).await?;
    Ok(())
}

pub(crate) async fn the_next_pod_takes_over_the_claims(case: &Case) -> Result<()> {
    let one = image(case, "v1").await?;
    // In v1alpha1 claims are reused unless the spec says otherwise.
    let mut set = clone_set(&one, &json!({}));
    set["apiVersion"] = "apps.kruise.io/v1alpha1".into();
    set["spec"]["updateStrategy"] = json!({"type": "ReCreate", "maxUnavailable": "100%"});
    case.create(&set).await?;
    case.done(SET).await?;
    let (before, pods) = (claims(case).await?, case.pods(SET).await?);
    for pod in pods.keys() {
        shell(case, pod, &format!("echo {pod} >/data/file")).await?;
    }

    for pod in pods.keys() {
        case.kubectl(&["delete", "pod", "-n", &case.namespace, pod])
            .await?;
    }
    for (pod, old) in &pods {
        case.until(kind::POD, pod, |now| {
            now["metadata"]["uid"] != *old.uid && is_ready(now)
        })
        .await?;
        let kept = shell(case, pod, "cat /data/file").await?;
        ensure!(
            kept.trim() == pod,
            "the next pod {pod} finds {kept:?} in its volume"
        );
    }
    ensure!(
        claims(case).await? == before,
        "other claims than before: {before:?}"
    );

    // Requested by label, the pod is deleted for good, and its claim with it.
    let asked = pods.keys().next().context("no pods")?;
    case.patch(
        kind::POD,
        asked,
        json!({"metadata": {"labels": {label::SPECIFIED_DELETE: "true"}}}),
    )
    .await?;
    until(case, "the pod's claim goes with it", |now| {
        now.len() == REPLICAS && !now.contains_key(&format!("data-{asked}"))
    })
    .await?;
    case.done(SET).await?;

    // An update by new pods does the same.
    let before = claims(case).await?;
    let mut containers =
        case.get(kind::CLONE_SET, SET).await?["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["env"] = json!([{"name": "A", "value": "B"}]);
    let template = json!({"spec": {"containers": containers}});
    case.patch(
        kind::CLONE_SET,
        SET,
        json!({"spec": {"template": template}}),
    )
    .await?;
    case.done(SET).await?;
    until(case, "each pod has a new claim", |now| {
        now.len() == REPLICAS && now.keys().all(|name| !before.contains_key(name))
    })
    .await?;
    Ok(())
}

/// Kubernetes' own workloads adopt their orphans again; OpenKruise creates new pods beside them.
pub(crate) async fn a_set_that_is_applied_again_has_its_orphans_back(case: &Case) -> Result<()> {
    let (one, two) = (image(case, "v1").await?, image(case, "v2").await?);
    let set = clone_set(
        &one,
        &json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}),
    );
    case.create(&set).await?;
    case.done(SET).await?;
    let (pods, claims_before) = (case.pods(SET).await?, claims(case).await?);
    case.kubectl(&[
        "delete",
        "cloneset",
        "-n",
        &case.namespace,
        SET,
        "--cascade=orphan",
    ])
    .await?;
    let applied = case.create(&set).await?;
    case.done(SET).await?;
    case.told(SET, |event| event.starts_with("PodAdopted"))
        .await?;
    let events = case.events(SET).await?;
    ensure_in_place(&pods, &case.pods(SET).await?, 0).with_context(|| format!("{events:?}"))?;
    ensure!(
        !events.iter().any(|event| event.starts_with("Failed")),
        "not all was allowed: {events:?}"
    );
    for (kind, count) in [
        (kind::POD, REPLICAS),
        (kind::CLAIM, REPLICAS),
        ("apps/v1/ControllerRevision", 1),
    ] {
        let objects = objects::list(case.client(), &case.namespace, kind, "").await?;
        let is_its = |object: &&Value| {
            object["metadata"]["ownerReferences"][0]["uid"] == applied["metadata"]["uid"]
        };
        let owned = objects.iter().filter(is_its).count();
        ensure!(
            (owned, objects.len()) == (count, count),
            "{owned} of {} {kind} are its own: {objects:?}",
            objects.len()
        );
    }
    ensure!(
        claims(case).await? == claims_before,
        "other claims than before: {claims_before:?}"
    );

    case.set_image(SET, &two).await?;
    case.done(SET).await?;
    ensure_in_place(&pods, &case.pods(SET).await?, 1)
}

pub(crate) async fn a_pod_out_of_the_selector_is_released_with_its_claims(
    case: &Case,
) -> Result<()> {
    let one = image(case, "v1").await?;
    case.create(&clone_set(&one, &json!({}))).await?;
    case.done(SET).await?;
    let pods = case.pods(SET).await?;
    let (stray, old) = pods.iter().next().context("no pods")?;
    shell(case, stray, "echo mine >/data/file").await?;
    let watch = case.watch(SET).await?;
    case.kubectl(&[
        "label",
        "pod",
        "-n",
        &case.namespace,
        stray,
        "app=debug",
        "--overwrite",
    ])
    .await?;
    let is_replaced = |now: &Claims| now.len() == REPLICAS + 1;
    until(
        case,
        "another pod takes its place, with a claim of its own",
        is_replaced,
    )
    .await?;
    others_serve(&watch, stray).await?;
    case.done(SET).await?;
    let owned: Vec<_> = case.pods(SET).await?.into_keys().collect();
    ensure!(
        owned.len() == REPLICAS && !owned.contains(stray),
        "the CloneSet's pods are {owned:?}"
    );

    // It runs on without an owner; the pod owns its claim.
    let now = case.get(kind::POD, stray).await?;
    ensure!(
        now["metadata"]["uid"] == *old.uid && is_ready(&now),
        "the pod does not run on: {}",
        now["status"]
    );
    ensure!(
        now["metadata"]["ownerReferences"].is_null(),
        "it is still owned: {}",
        now["metadata"]
    );
    let kept = shell(case, stray, "cat /data/file").await?;
    ensure!(kept.trim() == "mine", "it finds {kept:?} in its volume");
    let claims = claims(case).await?;
    let owner = claims
        .get(&format!("data-{stray}"))
        .map(|(_, owner)| owner.as_str());
    ensure!(owner == Some("Pod"), "its claim is not its own: {claims:?}");
    case.told(SET, |event| event.starts_with("PodReleased"))
        .await?;

    // With its label back, it keeps its state; it is not deleted with the CloneSet.
    case.kubectl(&[
        "label",
        "pod",
        "-n",
        &case.namespace,
        stray,
        &format!("app={SET}"),
        "--overwrite",
    ])
    .await?;
    case.kubectl(&["delete", "cloneset", "-n", &case.namespace, SET])
        .await?;
    until(case, "the CloneSet's claims go with it", |now| {
        now.len() == 1
    })
    .await?;
    ensure!(
        case.get(kind::POD, stray).await?["metadata"]["deletionTimestamp"].is_null(),
        "it went, too"
    );
    case.kubectl(&["delete", "pod", "-n", &case.namespace, stray])
        .await?;
    until(case, "the claim goes with the pod", Claims::is_empty)
        .await
        .map(|_| ())
}

pub(crate) async fn a_claim_template_that_cannot_be_is_refused(case: &Case) -> Result<()> {
    let refused = |set: Value, parts: &'static [&'static str]| async move {
        let Err(error) = case.create(&set).await else {
            bail!("it was not refused: {set}")
        };
        let error = format!("{error:#}");
        for part in parts {
            ensure!(error.contains(part), "{part:?} is not in {error}");
        }
        Ok(())
    };
    let of = |template: Value| {
        let mut set = clone_set("web:1", &json!({}));
        set["spec"]["volumeClaimTemplates"] = template;
        set
    };
    let (spec, other) = (
        claim_template()["spec"].clone(),
        json!({"metadata": {"name": "other"}}),
    );
    refused(
        of(json!([{"spec": spec}])),
        &["spec.volumeClaimTemplates[0].metadata: Required value"],
    )
    .await?;
    let mut sizeless = claim_template();
    sizeless["spec"]["resources"] = json!({});
    refused(
        of(json!([sizeless])),
        &["spec.volumeClaimTemplates[0].spec.resources.requests: Required value"],
    )
    .await?;
    refused(
        of(json!([claim_template(), claim_template()])),
        &[
            "spec.volumeClaimTemplates[1].metadata.name",
            "another claim template has this name",
        ],
    )
    .await?;
    let mut elsewhere = claim_template();
    elsewhere["metadata"] = other["metadata"].clone();
    refused(
        of(json!([elsewhere])),
        &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""],
    )
    .await
}

/// The kubelet ends a pod whose deadline has passed: the pod fails, and none of its containers is
/// started again.
pub(crate) async fn ended_pods_go_with_their_claims(case: &Case) -> Result<()> {
    let one = image(case, "v1").await?;
    case.create(&clone_set(&one, &json!({}))).await?;
    case.done(SET).await?;
    for reuse in [false, true] {
        let scale = json!({"spec": {"scaleStrategy": {"enablePVCReuse": reuse}}});
        case.patch(kind::CLONE_SET, SET, scale).await?;
        case.done(SET).await?;
        let (pods, before) = (case.pods(SET).await?, claims(case).await?);
        let (first, old) = pods.iter().next().context("no pods")?;
        let watch = case.watch(SET).await?;
        case.patch(
            kind::POD,
            first,
            json!({"spec": {"activeDeadlineSeconds": 1}}),
        )
        .await?;
        let event = format!(
            "RecreatingFailedPod: pod {first} on node {} has failed (DeadlineExceeded): ",
            old.node
        );
        case.told(SET, |told| told.starts_with(&event)).await?;
        until(case, "its claim is the next one's, or goes", |now| {
            (*now == before) == reuse && now.len() == REPLICAS
        })
        .await?;
        let is_over = |moment: &Moment<'_>| {
            let next = moment
                .pods
                .values()
                .filter(|at| at.pod.serves() && at.pod.uid != old.uid)
                .count();
            next == REPLICAS && moment.pods.len() == REPLICAS
        };
        watch
            .until(
                "another pod has its place, and it is gone",
                PATIENCE,
                is_over,
            )
            .await?;
        let (last, kept) = pods.iter().next_back().context("no pods")?;
        ensure!(
            case.pods(SET)
                .await?
                .get(last)
                .is_some_and(|pod| pod.uid == kept.uid),
            "{last} was touched"
        );
    }
    Ok(())
}

pub(crate) async fn pods_that_end_at_once_are_reported(case: &Case) -> Result<()> {
    let one = image(case, "v1").await?;
    let mut set = clone_set(&one, &json!({}));
    let mut pod = set["spec"]["template"]["spec"].take();
    let mended = json!({"nodeName": null, "containers": pod["containers"]});
    // The pod bypasses the scheduler, and the kubelet refuses it.
    pod["nodeName"] = json!("node-1");
    pod["containers"][0]["resources"] = json!({"requests": {"cpu": "1000"}});
    set["spec"]["template"]["spec"] = pod;
    case.create(&set).await?;
    let blocked = |set: &Value| {
        let conditions = set["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.into_iter().find(|c| c["type"] == "Blocked")
    };
    let is_told = |set: &Value| blocked(set).is_some_and(|told| told["reason"] == "PodsFail");
    let told = case.until(kind::CLONE_SET, SET, is_told).await?;
    let message = blocked(&told).unwrap_or_default()["message"].to_string();
    let words = [
        "CloneSet ",
        "pods fail one after the other; node node-1 says: OutOfcpu",
    ];
    for word in words {
        ensure!(message.contains(word), "{word:?} is not in {message}");
    }
    let there = case.pods(SET).await?;
    ensure!(
        there.len() <= REPLICAS,
        "{} pods are there: {:?}",
        there.len(),
        there.keys()
    );
    case.patch(
        kind::CLONE_SET,
        SET,
        json!({"spec": {"template": {"spec": mended}}}),
    )
    .await?;
    case.until(kind::CLONE_SET, SET, |set| {
        objects::is_done(set) && blocked(set).is_none()
    })
    .await
    .map(|_| ())
}

/// Waits until the wanted number of pods serves, without counting this one. A status may be of
/// before the change, and that was done, too.
async fn others_serve(watch: &PodWatch, besides: &str) -> Result<()> {
    let serving = |moment: &Moment<'_>| {
        moment
            .pods
            .values()
            .filter(|at| at.pod.serves() && at.pod.name != besides)
            .count()
    };
    watch
        .until("the other pods serve", PATIENCE, |moment| {
            serving(moment) == REPLICAS
        })
        .await?;
    Ok(())
}

fn claim_template() -> Value {
    json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    })
}

/// Pods with a shell, each with a volume of its own.
pub(crate) fn clone_set(image: &str, rolling_update: &Value) -> Value {
    let mut set = objects::clone_set(SET, REPLICAS, image, rolling_update);
    set["spec"]["volumeClaimTemplates"] = json!([claim_template()]);
    let container = &mut set["spec"]["template"]["spec"]["containers"][0];
    if let Some(container) = container.as_object_mut() {
        container.remove("readinessProbe");
    }
    container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    container["command"] = json!(["sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]);
    set
}

pub(crate) async fn image(case: &Case, tag: &str) -> Result<String> {
    let (name, tag) = (format!("{}:{tag}", case.namespace), tag.to_owned());
    let pushed = name.clone();
    case.blocking(move |site| site.push(&Image::busybox()?.text("etc/version", &tag), &[&pushed]))
        .await?;
    Ok(case.site.image(&name))
}

async fn shell(case: &Case, pod: &str, script: &str) -> Result<String> {
    case.kubectl(&["exec", "-n", &case.namespace, pod, "--", "sh", "-c", script])
        .await
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    })
}

async fn claims(case: &Case) -> Result<Claims> {
    let all = objects::list(case.client(), &case.namespace, kind::CLAIM, "").await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |claim: Value| {
        let metadata = &claim["metadata"];
        (
            text(&metadata["name"]),
            (
                text(&metadata["uid"]),
                text(&metadata["ownerReferences"][0]["kind"]),
            ),
        )
    };
    Ok(all.into_iter().map(entry).collect())
}

async fn until(case: &Case, what: &str, as_wanted: impl Fn(&Claims) -> bool) -> Result<Claims> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = claims(case).await?;
        if as_wanted(&now) {
            return Ok(now);
        }
        ensure!(
            Instant::now() < deadline,
            "not so after {PATIENCE:?}: {what}; the claims are {now:?}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}
