//! Lifecycle hooks: their owner holds pods by labels and finalizers, and releases them.

use anyhow::{Context, Result, ensure};
use berth_api::names::{annotation, condition, label, lifecycle_state};
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use serde_json::{Value, json};

use crate::world::{Case, ensure_in_place};

const LABEL: &str = "example.com/in-use";
const FINALIZER: &str = "example.com/in-use";

fn state(pod: &Value) -> &str {
    pod["metadata"]["labels"][label::LIFECYCLE_STATE]
        .as_str()
        .unwrap_or_default()
}

fn is_true(pod: &Value, type_: &str) -> bool {
    condition_of(pod, type_).is_some_and(|condition| condition["status"] == "True")
}

fn condition_of<'a>(pod: &'a Value, type_: &str) -> Option<&'a Value> {
    pod["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == type_)
}

async fn pods(case: &Case) -> Result<Vec<Value>> {
    objects::list(
        case.client(),
        &case.namespace,
        kind::POD,
        &format!("{APP}=web"),
    )
    .await
}

/// Waits until one pod is in this state, and returns it.
async fn one_in(case: &Case, wanted: &str) -> Result<Value> {
    let deadline = tokio::time::Instant::now() + crate::world::PATIENCE;
    loop {
        let pods = pods(case).await?;
        if let Some(pod) = pods.iter().find(|pod| state(pod) == wanted) {
            return Ok(pod.clone());
        }
        let states: Vec<_> = pods.iter().map(state).collect();
        ensure!(
            tokio::time::Instant::now() < deadline,
            "no pod is in state {wanted}: {states:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

fn name(pod: &Value) -> Result<&str> {
    pod["metadata"]["name"]
        .as_str()
        .context("a pod without a name")
}

async fn set_label(case: &Case, pod: &Value, value: Value) -> Result<()> {
    case.patch(
        kind::POD,
        name(pod)?,
        json!({"metadata": {"labels": {LABEL: value}}}),
    )
    .await
    .map(|_| ())
}

async fn set_finalizers(case: &Case, pod: &Value, finalizers: Value) -> Result<()> {
    case.patch(
        kind::POD,
        name(pod)?,
        json!({"metadata": {"finalizers": finalizers}}),
    )
    .await
    .map(|_| ())
}

async fn scale(case: &Case, replicas: usize) -> Result<()> {
    case.patch(
        kind::CLONE_SET,
        "web",
        json!({"spec": {"replicas": replicas}}),
    )
    .await
    .map(|_| ())
}

/// The manifest of the page on CloneSets, with an image of the test's registry.
async fn apply_page(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let blocks = include_str!("../../../../docs/clonesets.md")
        .split("```yaml\n")
        .skip(1);
    let blocks = blocks.filter_map(|text| text.split("```").next());
    let manifest = blocks
        .into_iter()
        .find(|block| block.contains("preDelete"))
        .context("docs/clonesets.md has no hooks")?;
    let file = std::env::temp_dir().join(format!("{}-{}.yaml", case.namespace, std::process::id()));
    std::fs::write(&file, manifest.replace("web:1", &image))?;
    let path = file.to_string_lossy().into_owned();
    let applied = case
        .kubectl(&["apply", "-n", &case.namespace, "-f", &path])
        .await;
    std::fs::remove_file(&file)?;
    applied.map(|_| ())
}

pub(crate) async fn a_pod_is_deleted_when_its_hook_lets_it_go(case: &Case) -> Result<()> {
    apply_page(case).await?;
    case.done("web").await?;
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["availableReplicas"] == 3
    })
    .await?;
    let before = case.pods("web").await?;

    scale(case, 2).await?;
    let held = one_in(case, lifecycle_state::PREPARING_DELETE).await?;
    ensure!(
        held["metadata"]["annotations"][annotation::LIFECYCLE_TIMESTAMP].is_string(),
        "{}",
        held["metadata"]
    );
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["availableReplicas"] == 2
    })
    .await?;
    let set = case.get(kind::CLONE_SET, "web").await?;
    ensure!(
        set["status"]["readyReplicas"] == 3,
        "it serves until it goes: {}",
        set["status"]
    );
    let waits = format!(
        "{}: waits for hook preDelete: as long as the pod has label {LABEL}=true",
        name(&held)?
    );
    case.explained("web", "text", |text| text.contains(&waits))
        .await?;
    case.told("web", |event| event.starts_with("PreparingDelete: "))
        .await?;

    scale(case, 3).await?;
    case.until(kind::POD, name(&held)?, |pod| {
        state(pod) == lifecycle_state::NORMAL
    })
    .await?;
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["availableReplicas"] == 3
    })
    .await?;
    ensure_in_place(&before, &case.pods("web").await?, 0)?;

    scale(case, 2).await?;
    let held = one_in(case, lifecycle_state::PREPARING_DELETE).await?;
    set_label(case, &held, Value::Null).await?;
    case.done("web").await?;
    let left = case.pods("web").await?;
    ensure!(
        left.values()
            .filter(|pod| !pod.terminating)
            .all(|pod| pod.name != held["metadata"]["name"]),
        "{left:?}"
    );
    Ok(())
}

/// The hook holds by a finalizer, and marks the pod not ready. Its owner has to release the pod and
/// hold it again.
pub(crate) async fn an_update_waits_for_its_hook_before_and_after(case: &Case) -> Result<()> {
    let (one, two, three) = (
        case.image("v1").await?,
        case.image("v2").await?,
        case.image("v3").await?,
    );
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    let mut set = objects::clone_set("web", 2, &one, &rolling);
    set["spec"]["lifecycle"] =
        json!({"inPlaceUpdate": {"finalizersHandler": [FINALIZER], "markPodNotReady": true}});
    set["spec"]["template"]["metadata"]["finalizers"] = json!([FINALIZER]);
    case.create(&set).await?;
    case.done("web").await?;
    let before = case.pods("web").await?;
    let tested = hold_and_let_go(case, &two, &three).await;
    let after = case.pods("web").await?;
    // No finalizer may remain when the namespace is deleted.
    case.kubectl(&[
        "delete",
        "cloneset",
        "web",
        "-n",
        &case.namespace,
        "--wait=false",
    ])
    .await?;
    for pod in pods(case).await? {
        set_finalizers(case, &pod, Value::Null).await?;
    }
    tested?;
    ensure!(
        before.keys().eq(after.keys()),
        "other pods: {before:?}, {after:?}"
    );
    ensure!(
        after
            .values()
            .all(|pod| pod.containers[CONTAINER].wanted == three),
        "{after:?}"
    );
    Ok(())
}

async fn hold_and_let_go(case: &Case, two: &str, three: &str) -> Result<()> {
    case.set_image("web", two).await?;
    let held = one_in(case, lifecycle_state::PREPARING_UPDATE).await?;
    let pod = name(&held)?;
    let reason = condition_of(&held, condition::KRUISE_POD_READY)
        .map(|c| (c["status"].clone(), c["message"].clone()));
    let wanted = (
        json!("False"),
        json!(r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#),
    );
    ensure!(reason == Some(wanted), "{}", held["status"]["conditions"]);
    ensure!(
        !is_true(&held, "Ready"),
        "state, reason and Ready are one write: {}",
        held["status"]["conditions"]
    );
    ensure!(
        held["spec"]["containers"][0]["image"] != two,
        "updated while it was held"
    );
    let waits =
        format!("waits for hook inPlaceUpdate: as long as the pod has finalizer {FINALIZER}");
    case.explained("web", "text", |text| text.contains(&waits))
        .await?;

    set_finalizers(case, &held, Value::Null).await?;
    let is_updated = |pod: &Value| state(pod) == lifecycle_state::UPDATED && is_true(pod, "Ready");
    let updated = case.until(kind::POD, pod, is_updated).await?;
    ensure!(
        updated["spec"]["containers"][0]["image"] == two,
        "{}",
        updated["spec"]
    );
    let set = case
        .until(kind::CLONE_SET, "web", |set| {
            set["status"]["readyReplicas"] == 2
        })
        .await?;
    ensure!(
        set["status"]["availableReplicas"] == 1,
        "the hook holds it still: {}",
        set["status"]
    );

    // Another update before the hook held it again: it holds again.
    case.set_image("web", three).await?;
    let again = |pod: &Value| state(pod) == lifecycle_state::PREPARING_UPDATE;
    let again = case.until(kind::POD, pod, again).await?;
    ensure!(
        again["metadata"]["finalizers"] == json!([FINALIZER]),
        "{}",
        again["metadata"]
    );
    // Both pods, one after the other: released before, held again after.
    for _ in 0..2 {
        let held = one_in(case, lifecycle_state::PREPARING_UPDATE).await?;
        set_finalizers(case, &held, Value::Null).await?;
        let updated = case.until(kind::POD, name(&held)?, is_updated).await?;
        set_finalizers(case, &updated, json!([FINALIZER])).await?;
        case.until(kind::POD, name(&held)?, |pod| {
            state(pod) == lifecycle_state::NORMAL
        })
        .await?;
    }
    case.done("web").await?;
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["availableReplicas"] == 2
    })
    .await?;
    Ok(())
}

/// In the older version of the API.
pub(crate) async fn a_new_pod_is_available_when_its_hook_says_so(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let mut set = objects::clone_set("web", 2, &image, &json!({}));
    set["apiVersion"] = "apps.kruise.io/v1alpha1".into();
    set["spec"]["updateStrategy"] = json!({"type": "InPlaceIfPossible"});
    set["spec"]["lifecycle"] = json!({"preNormal": {"labelsHandler": {LABEL: "true"}}});
    case.create(&set).await?;
    let set = case
        .until(kind::CLONE_SET, "web", |set| {
            set["status"]["readyReplicas"] == 2
        })
        .await?;
    ensure!(set["status"]["availableReplicas"] == 0, "{}", set["status"]);
    let pods = pods(case).await?;
    for pod in &pods {
        ensure!(
            state(pod) == lifecycle_state::PREPARING_NORMAL && is_true(pod, "Ready"),
            "{}",
            pod["metadata"]
        );
    }
    let waits = format!("waits for hook preNormal: until the pod has label {LABEL}=true");
    case.explained("web", "text", |text| text.contains(&waits))
        .await?;
    for pod in &pods {
        set_label(case, pod, json!("true")).await?;
    }
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["availableReplicas"] == 2
    })
    .await?;
    for pod in &pods {
        case.until(kind::POD, name(pod)?, |pod| {
            state(pod) == lifecycle_state::NORMAL
        })
        .await?;
    }
    Ok(())
}

/// With `excludePreparingDelete`, by its label in the older version, a pod that its hook holds is
/// replaced at once.
pub(crate) async fn held_pods_may_be_left_out_of_the_count(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    for version in ["v1beta1", "v1alpha1"] {
        let mut set = objects::clone_set("web", 2, &image, &json!({}));
        if version == "v1alpha1" {
            set["apiVersion"] = "apps.kruise.io/v1alpha1".into();
            set["spec"]["updateStrategy"] = json!({"type": "ReCreate"});
            set["metadata"]["labels"] =
                json!({label::CLONESET_SCALING_EXCLUDE_PREPARING_DELETE: "true"});
        } else {
            set["spec"]["scaleStrategy"] = json!({"excludePreparingDelete": true});
        }
        set["spec"]["lifecycle"] = json!({"preDelete": {"labelsHandler": {LABEL: "true"}}});
        set["spec"]["template"]["metadata"]["labels"][LABEL] = json!("true");
        case.create(&set).await?;
        case.done("web").await?;
        let pods = pods(case).await?;
        let asked = name(&pods[0])?;
        case.patch(
            kind::POD,
            asked,
            json!({"metadata": {"labels": {label::SPECIFIED_DELETE: "true"}}}),
        )
        .await?;
        let held = one_in(case, lifecycle_state::PREPARING_DELETE).await?;
        ensure!(name(&held)? == asked, "{version}: another pod goes");
        // Two pods besides the one that the hook holds.
        let counted = |status: &Value| status["replicas"] == 3 && status["availableReplicas"] == 2;
        case.until(kind::CLONE_SET, "web", |set| counted(&set["status"]))
            .await?;
        let now = case.pods("web").await?;
        ensure!(
            now.len() == 3 && now.contains_key(asked),
            "{version}: {:?}",
            now.keys()
        );
        set_label(case, &held, Value::Null).await?;
        case.gone(kind::POD, asked).await?;
        let now = case.pods("web").await?;
        ensure!(now.len() == 2, "{version}: {:?}", now.keys());
        case.kubectl(&["delete", "cloneset", "web", "-n", &case.namespace])
            .await?;
        for pod in now.keys() {
            case.gone(kind::POD, pod).await?;
        }
    }
    Ok(())
}
