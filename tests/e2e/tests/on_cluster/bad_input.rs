//! Bad input and bad luck: each gets an error or a condition that names object, field, value and
//! remedy. Nothing else stops, and when the cause is gone the work continues by itself.

use anyhow::{Result, ensure};
use berth_cluster::Component;
use berth_e2e::objects::{self, CONTAINER, image_patch, kind};
use serde_json::{Value, json};

use crate::world::{Case, ensure_in_place};

/// The fault, and words that the answer must have.
type Refusal = (&'static str, fn(&mut Value), &'static [&'static str]);

const REFUSED: &[Refusal] = &[
    (
        "an unknown update type",
        |set| set["spec"]["updateStrategy"]["type"] = "Sideways".into(),
        &["spec.updateStrategy.type", "Sideways", "RollingUpdate"],
    ),
    (
        "an unknown update policy",
        |set| rolling_update(set)["podUpdatePolicy"] = "InPlaceMaybe".into(),
        &["podUpdatePolicy", "InPlaceMaybe", "InPlaceIfPossible"],
    ),
    (
        "a selector that does not match the template",
        |set| set["spec"]["selector"]["matchLabels"]["app"] = "other".into(),
        &["spec.template.metadata.labels", "other"],
    ),
    (
        "an empty selector",
        |set| set["spec"]["selector"] = json!({}),
        &["spec.selector", "every pod of the namespace", "matchLabels"],
    ),
    (
        "a negative partition",
        |set| rolling_update(set)["partition"] = (-1).into(),
        &["partition", "-1", "from 0"],
    ),
    (
        "a broken percentage",
        |set| rolling_update(set)["partition"] = "many".into(),
        &["partition", "many", "25%"],
    ),
    (
        "maxSurge with InPlaceOnly",
        |set| *rolling_update(set) = json!({"podUpdatePolicy": "InPlaceOnly", "maxSurge": 2}),
        &["maxSurge", "InPlaceOnly", "set it to 0"],
    ),
    (
        "no way to update a pod",
        |set| *rolling_update(set) = json!({"maxUnavailable": 0}),
        &["maxUnavailable", "maxSurge", "at least 1"],
    ),
    (
        "a restart policy other than Always",
        |set| set["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into(),
        &["restartPolicy", "OnFailure", "Always"],
    ),
    (
        "negative replicas",
        |set| set["spec"]["replicas"] = (-1).into(),
        &["spec.replicas", "-1"],
    ),
];

fn rolling_update(set: &mut Value) -> &mut Value {
    &mut set["spec"]["updateStrategy"]["rollingUpdate"]
}

pub(crate) async fn refused_by_the_server(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    for (what, spoil, words) in REFUSED {
        let mut set = objects::clone_set("bad", 1, &image, &json!({}));
        spoil(&mut set);
        match case.create(&set).await {
            Ok(_) => anyhow::bail!("{what} was accepted"),
            Err(error) => has_words(what, &format!("{error:#}"), words)?,
        }
    }
    case.clone_set("good", 1, &image, json!({})).await?;
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    match case.patch(kind::CLONE_SET, "good", selector).await {
        Ok(_) => anyhow::bail!("a changed selector was accepted"),
        Err(error) => has_words(
            "a changed selector",
            &format!("{error:#}"),
            &["spec.selector", "cannot be changed"],
        ),
    }
}

pub(crate) fn has_words(what: &str, text: &str, words: &[&str]) -> Result<()> {
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
    ensure!(
        missing.is_empty(),
        "the answer to {what} does not say {missing:?}: {text}"
    );
    Ok(())
}

/// The reason and message of a CloneSet's condition.
fn condition(set: &Value, type_: &str) -> Option<String> {
    let conditions = set["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|c| c["type"] == type_ && c["status"] == "True")?;
    Some(format!(
        "{}: {}",
        found["reason"].as_str()?,
        found["message"].as_str()?
    ))
}

pub(crate) async fn an_invalid_pod_template(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let mut bad = objects::clone_set("bad", 2, &image, &json!({}));
    bad["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 123_456}]);
    let created = case.create(&bad).await;
    // The webhook may refuse it; otherwise the controller must.
    let said = match created {
        Err(error) => format!("{error:#}"),
        Ok(_) => {
            let told = |set: &Value| condition(set, "Blocked");
            let set = case
                .until(kind::CLONE_SET, "bad", |set| told(set).is_some())
                .await?;
            case.told("bad", |event| event.contains("containerPort"))
                .await?;
            told(&set).unwrap_or_default()
        }
    };
    has_words("an invalid template", &said, &["containerPort", "123456"])?;
    ensure!(
        case.pods("bad").await?.is_empty(),
        "pods were made from an invalid template"
    );
    // Another CloneSet does not wait for it, and the bad one continues once it is fixed.
    case.clone_set("good", 1, &image, json!({})).await?;
    if case.get(kind::CLONE_SET, "bad").await.is_ok() {
        let mended = image_patch(&objects::clone_set("bad", 2, &image, &json!({})), &image);
        case.patch(kind::CLONE_SET, "bad", mended).await?;
        let done = case.done("bad").await?;
        let left = condition(&done, "Blocked");
        ensure!(left.is_none(), "the condition is left: {left:?}");
    }
    Ok(())
}

pub(crate) async fn in_place_only_names_the_field(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let set = case
        .clone_set("web", 2, &image, json!({"podUpdatePolicy": "InPlaceOnly"}))
        .await?;
    let before = case.pods("web").await?;
    let mut change = image_patch(&set, &image);
    change["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "B"}]);
    case.patch(kind::CLONE_SET, "web", change).await?;
    let set = case
        .until(kind::CLONE_SET, "web", |set| {
            condition(set, "Blocked").is_some()
        })
        .await?;
    let words = [
        "CloneSet",
        "/web",
        "env",
        "InPlaceOnly",
        "InPlaceIfPossible",
    ];
    has_words(
        "a change that cannot be made in place",
        &condition(&set, "Blocked").unwrap_or_default(),
        &words,
    )?;
    case.told("web", |event| event.contains("env")).await?;
    ensure_in_place(&before, &case.pods("web").await?, 0)?;
    case.patch(
        kind::CLONE_SET,
        "web",
        image_patch(&objects::clone_set("web", 2, &image, &json!({})), &image),
    )
    .await?;
    let done = case.done("web").await?;
    ensure!(
        condition(&done, "Blocked").is_none(),
        "the condition is left: {}",
        done["status"]
    );
    Ok(())
}

pub(crate) async fn an_image_that_does_not_exist(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let strategy = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    case.clone_set("web", 3, &one, strategy).await?;
    let before = case.pods("web").await?;
    let nowhere = case.site.image(&format!("{}:nowhere", case.namespace));
    case.set_image("web", &nowhere).await?;
    let set = case
        .until(kind::CLONE_SET, "web", |set| {
            condition(set, "Blocked").is_some()
        })
        .await?;
    has_words(
        "a missing image",
        &condition(&set, "Blocked").unwrap_or_default(),
        &[&nowhere, "web"],
    )?;
    let serving = case
        .pods("web")
        .await?
        .values()
        .filter(|pod| pod.serves())
        .count();
    ensure!(
        serving == 2,
        "{serving} pods serve; maxUnavailable is 1 of 3"
    );
    // Another image fixes it; the stuck pod is updated first.
    case.set_image("web", &two).await?;
    let done = case.done("web").await?;
    ensure!(
        condition(&done, "Blocked").is_none(),
        "the condition is left: {}",
        done["status"]
    );
    let after = case.pods("web").await?;
    ensure!(
        before
            .values()
            .map(|p| &p.uid)
            .eq(after.values().map(|p| &p.uid)),
        "other pods: {after:?}"
    );
    Ok(())
}

/// Returns the node of a job that fails, and the job's message.
pub(crate) async fn a_wrong_secret(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": "pull"},
        "spec": {
            "image": image,
            "imagePullPolicy": "Always",
            "pullSecrets": ["missing"],
            "pullPolicy": {"timeoutSeconds": 30, "backoffLimit": 1},
            "completionPolicy": {"type": "Always"},
            "parallelism": 3,
        },
    });
    case.create(&job).await?;
    let repository = image
        .rsplit_once(':')
        .map_or(image.as_str(), |(repository, _)| repository);
    let said = |statuses: &Value| statuses[repository].to_string().contains("missing");
    let nodes = objects::list(case.client(), "", kind::NODE_IMAGE, "").await?;
    let name = nodes[0]["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let node = objects::until(
        case.client(),
        "",
        kind::NODE_IMAGE,
        &name,
        crate::world::PATIENCE,
        |node| said(&node["status"]["imageStatuses"]),
    )
    .await?;
    has_words(
        "a missing secret",
        &node["status"]["imageStatuses"].to_string(),
        &["missing", &case.namespace],
    )
}

pub(crate) async fn a_registry_that_is_down(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set(
        "web",
        2,
        &one,
        json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}),
    )
    .await?;
    let before = case.pods("web").await?;
    let cluster = case.cluster()?;
    let stopping = std::sync::Arc::clone(&cluster);
    case.blocking(move |_| stopping.stop(Component::Registry))
        .await?;
    case.set_image("web", &two).await?;
    let told = async {
        let set = case
            .until(kind::CLONE_SET, "web", |set| {
                condition(set, "Blocked").is_some()
            })
            .await?;
        let pods = case.pods("web").await?;
        ensure!(
            pods.values().filter(|pod| pod.serves()).count() == 1,
            "maxUnavailable is 1 of 2: {pods:?}"
        );
        has_words(
            "a registry that is down",
            &condition(&set, "Blocked").unwrap_or_default(),
            &[&two],
        )
    };
    let told = told.await;
    case.blocking(move |_| cluster.start(Component::Registry))
        .await?;
    told?;
    case.done("web").await?;
    let after = case.pods("web").await?;
    ensure!(
        before
            .values()
            .map(|p| &p.uid)
            .eq(after.values().map(|p| &p.uid)),
        "other pods: {after:?}"
    );
    ensure!(
        after
            .values()
            .all(|pod| pod.containers[CONTAINER].wanted == two),
        "{after:?}"
    );
    Ok(())
}
