//! Feature gates, and disabled kinds, set in the chart.

use anyhow::{Result, ensure};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use crate::claims;
use crate::world::{Case, ensure_in_place};

const DAEMON_SET: &str = "apps/v1/DaemonSet";

fn pull_job(image: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": "job"},
        "spec": {"image": image, "completionPolicy": {"type": "Always"}},
    })
}

/// Tries until the answer is as wanted, because the apiserver may still call a terminating replica
/// for a moment.
async fn tried(
    case: &Case,
    manifest: &Value,
    as_wanted: impl Fn(&Result<Value>) -> bool,
) -> Result<()> {
    let (kind, name) = (manifest["kind"].as_str().unwrap_or_default(), "job");
    let mut last = None;
    for _ in 0..300 {
        let answer = case.create(manifest).await;
        if as_wanted(&answer) {
            return Ok(());
        }
        if answer.is_ok() {
            case.kubectl(&["delete", kind, name, "-n", &case.namespace])
                .await?;
        }
        last = Some(answer);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("{kind} {name}: the last answer was {last:?}")
}

async fn created(case: &Case, manifest: &Value) -> Result<()> {
    tried(case, manifest, Result::is_ok).await
}

async fn refused(case: &Case, manifest: &Value) -> Result<()> {
    let by_gate = |answer: &Result<Value>| {
        answer
            .as_ref()
            .is_err_and(|error| format!("{error:#}").contains("ImagePullJobGate=true"))
    };
    tried(case, manifest, by_gate).await
}

pub(crate) async fn image_pull_jobs_are_refused(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let mut list = pull_job(&image);
    list["kind"] = "ImageListPullJob".into();
    list["spec"]["images"] = json!([list["spec"]["image"].take()]);
    if let Some(spec) = list["spec"].as_object_mut() {
        spec.remove("image");
    }
    case.with_gates("ImagePullJobGate=false", async || {
        refused(case, &list).await
    })
    .await?;
    created(case, &list).await
}

/// Claim templates of another size do not affect an update in place, unless the gate is on.
pub(crate) async fn changed_claim_templates_need_new_pods(case: &Case) -> Result<()> {
    let [one, two, three] = [
        claims::image(case, "v1"),
        claims::image(case, "v2"),
        claims::image(case, "v3"),
    ];
    let (one, two, three) = (one.await?, two.await?, three.await?);
    let policy = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
    case.create(&claims::clone_set(&one, &policy)).await?;
    case.done(claims::SET).await?;
    let before = case.pods(claims::SET).await?;
    let change = async |image: &str, size: &str| {
        let set = case.get(kind::CLONE_SET, claims::SET).await?;
        let mut spec = json!({"template": set["spec"]["template"], "volumeClaimTemplates": set["spec"]["volumeClaimTemplates"]});
        spec["template"]["spec"]["containers"][0]["image"] = image.into();
        spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = size.into();
        case.patch(kind::CLONE_SET, claims::SET, json!({"spec": spec}))
            .await?;
        case.done(claims::SET).await
    };
    change(&two, "2Mi").await?;
    let now = case.pods(claims::SET).await?;
    ensure_in_place(&before, &now, 1)?;

    case.with_gates(
        "RecreatePodWhenChangeVCTInCloneSetGate=true,ImagePullJobGate=true",
        async || {
            change(&three, "3Mi").await?;
            let after = case.pods(claims::SET).await?;
            let kept = after
                .values()
                .filter(|pod| !pod.terminating && now.contains_key(&pod.name))
                .count();
            ensure!(
                kept == 0,
                "updated in place though their claims differ: {now:?} {after:?}"
            );
            let sizes = objects::list(case.client(), &case.namespace, kind::CLAIM, "").await?;
            let sizes = sizes
                .iter()
                .filter(|claim| claim["spec"]["resources"]["requests"]["storage"] == "3Mi")
                .count();
            ensure!(
                sizes == claims::REPLICAS,
                "{sizes} claims have the new size"
            );
            // A change of only the image is made in place as before.
            let before = after
                .into_iter()
                .filter(|(_, pod)| !pod.terminating)
                .collect();
            case.set_image(claims::SET, &two).await?;
            case.done(claims::SET).await?;
            ensure_in_place(&before, &case.pods(claims::SET).await?, 1)
        },
    )
    .await
}

pub(crate) async fn without_daemons(case: &Case) -> Result<()> {
    // Images that have one name each: a status may show another name, and without a daemon that
    // cannot be checked.
    let ([one], [two]) = (
        case.images("one", ["v1"]).await?,
        case.images("two", ["v2"]).await?,
    );
    let strategy = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let gates = "KruiseDaemon=false,ImagePullJobGate=true,PreDownloadImageForInPlaceUpdate=true";
    let daemons = async || objects::list(case.client(), install::NAMESPACE, DAEMON_SET, "").await;
    case.with_gates(gates, async || {
        ensure!(daemons().await?.is_empty(), "the chart installed daemons");
        refused(case, &pull_job(&one)).await?;
        case.clone_set("web", 4, &one, strategy).await?;
        let before = case.pods("web").await?;
        case.set_image("web", &two).await?;
        case.done("web").await?;
        ensure_in_place(&before, &case.pods("web").await?, 1)?;
        for pod in before.keys() {
            let state = case.state(pod).await?;
            ensure!(
                state["berthVerifiedBy"] == "pod",
                "there is no daemon that could have proven it: {state}"
            );
        }
        Ok(())
    })
    .await?;
    ensure!(daemons().await?.len() == 1, "the daemons did not come back");
    created(case, &pull_job(&one)).await
}

/// Waits until the conditions of a SidecarSet and a budget report that their promises hold, or that
/// they do not.
async fn promised(case: &Case, holds: bool) -> Result<()> {
    let status = if holds { "True" } else { "False" };
    for (kind, type_) in [
        (kind::SIDECAR_SET, "InjectionReady"),
        (kind::POD_UNAVAILABLE_BUDGET, "Enforced"),
    ] {
        let says = |object: &Value| {
            let mut conditions = object["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            conditions.any(|condition| {
                let is_explained = holds || condition["reason"] == "KindSwitchedOff";
                condition["type"] == type_ && condition["status"] == status && is_explained
            })
        };
        case.until(kind, &case.namespace, says).await?;
    }
    Ok(())
}

/// Objects of a kind that is left out stay as they are until it is enabled again, and promise
/// nothing meanwhile.
pub(crate) async fn only_some_kinds(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let selector = json!({"matchLabels": {"app": case.namespace}});
    case.create(&json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": case.namespace},
        "spec": {"selector": selector, "containers": [{"name": "agent", "image": image}]},
    }))
    .await?;
    let tested = async {
        case.create(&json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": case.namespace},
            "spec": {"selector": selector, "minAvailable": 1},
        }))
        .await?;
        promised(case, true).await?;
        case.with_value(
            ["controller.customResourceEnable", "CloneSet", ""],
            async || {
                promised(case, false).await?;
                created(case, &pull_job(&image)).await?;
                case.clone_set("web", 2, &image, json!({})).await?;
                let job = case.get(kind::IMAGE_PULL_JOB, "job").await?;
                ensure!(
                    job["status"].is_null(),
                    "ImagePullJobs are not enabled: {}",
                    job["status"]
                );
                Ok(())
            },
        )
        .await?;
        promised(case, true).await?;
        case.until(kind::IMAGE_PULL_JOB, "job", |job| {
            job["status"]["succeeded"] == 3
        })
        .await
        .map(|_| ())
    };
    let tested = tested.await;
    case.kubectl(&["delete", "sidecarset", &case.namespace])
        .await?;
    tested
}
