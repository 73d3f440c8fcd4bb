//! An update ends when, and only when, the exact image is proven to run.

use anyhow::{Result, ensure};
use berth_cluster::Component;
use berth_e2e::objects::{self, CONTAINER, image_patch, kind};
use berth_e2e::record::{ContainerView, PodView};
use serde_json::{Value, json};

use crate::pulls::restored;
use crate::world::{Case, PATIENCE, ensure_in_place};

fn in_place() -> Value {
    json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"})
}

fn container(pod: &PodView) -> &ContainerView {
    &pod.containers[CONTAINER]
}

pub(crate) async fn two_tags_of_one_digest(case: &Case) -> Result<()> {
    let [one, two] = case.images("same", ["one", "two"]).await?;
    case.clone_set("web", 3, &one, in_place()).await?;
    let before = case.pods("web").await?;
    case.set_image("web", &two).await?;
    case.done("web").await?;
    let after = case.pods("web").await?;
    ensure_in_place(&before, &after, 1)?;
    for pod in after.values() {
        ensure!(
            container(pod).wanted == two,
            "{} wants {}",
            pod.name,
            container(pod).wanted
        );
        ensure!(
            container(pod).image_id == container(&before[&pod.name]).image_id,
            "the two tags are two images"
        );
        let state = case.state(&pod.name).await?;
        ensure!(
            state["berthVerifiedBy"] == "node",
            "only the node can tell two tags of one digest apart: {state}"
        );
    }
    Ok(())
}

pub(crate) async fn a_rollback_in_the_grace_period(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let mut strategy = in_place();
    // Longer than the test needs to roll back, so that the test never waits for its end.
    strategy["inPlaceUpdateStrategy"] = json!({"gracePeriodSeconds": 60});
    case.clone_set("web", 3, &one, strategy).await?;
    let before = case.pods("web").await?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    watch
        .until("all pods are in their grace period", PATIENCE, |now| {
            now.pods.values().all(|s| !s.pod.gates)
        })
        .await?;
    case.set_image("web", &one).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 0)?;
    let record = watch.record()?;
    let ever_patched = record
        .moments()
        .any(|now| now.pods.values().any(|s| container(s.pod).wanted == two));
    ensure!(
        !ever_patched,
        "an image was changed within the grace period"
    );
    watch
        .until("all pods are back in service", PATIENCE, |now| {
            now.pods.values().all(|s| s.pod.serves())
        })
        .await?;
    Ok(())
}

pub(crate) async fn back_before_the_kubelet_saw_it(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set("web", 3, &one, in_place()).await?;
    let before = case.pods("web").await?;
    let watch = case.watch("web").await?;
    kubelets(case, |cluster, kubelet| cluster.stop(kubelet)).await?;
    let back = async {
        case.set_image("web", &two).await?;
        watch
            .until("all pods want B", PATIENCE, |now| {
                now.pods.values().all(|s| container(s.pod).wanted == two)
            })
            .await?;
        case.set_image("web", &one).await?;
        watch
            .until("all pods want A", PATIENCE, |now| {
                now.pods.values().all(|s| container(s.pod).wanted == one)
            })
            .await?;
        Ok(())
    };
    restored(
        back,
        kubelets(case, |cluster, kubelet| cluster.start(kubelet)),
    )
    .await?;
    case.done("web").await?;
    let after = case.pods("web").await?;
    ensure_in_place(&before, &after, 0)?;
    for (before, after) in before.values().zip(after.values()) {
        ensure!(
            container(before) == container(after),
            "the container was replaced: {before:?} {after:?}"
        );
        ensure!(after.serves(), "{} does not serve", after.name);
    }
    Ok(())
}

pub(crate) async fn back_after_the_kubelet_saw_it(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set("web", 3, &one, in_place()).await?;
    let before = case.pods("web").await?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    let changed =
        |pod: &PodView| container(pod).container_id != container(&before[&pod.name]).container_id;
    watch
        .until("a container was replaced", PATIENCE, |now| {
            now.pods.values().any(|s| changed(s.pod))
        })
        .await?;
    case.set_image("web", &one).await?;
    case.done("web").await?;
    let after = case.pods("web").await?;
    for (before, after) in before.values().zip(after.values()) {
        ensure!(
            before.uid == after.uid && after.serves(),
            "{before:?} {after:?}"
        );
        let (old, new) = (container(before), container(after));
        ensure!(
            new.wanted == one && new.image_id == old.image_id,
            "{} does not run A: {new:?}",
            after.name
        );
    }
    Ok(())
}

/// Containers crash and restart on their own while they are updated: a new container of the old
/// image is no proof.
pub(crate) async fn a_crash_loop_is_left_by_an_update(case: &Case) -> Result<()> {
    let two = case.image("v2").await?;
    let [broken, same] = case.images("crash", ["crash-one", "crash-two"]).await?;
    let mut set = objects::clone_set("web", 2, &broken, &in_place());
    // The server ends at once, with any image.
    set["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "PORT", "value": "none"}]);
    case.create(&set).await?;
    let watch = case.watch("web").await?;
    let crashed = |pod: &PodView| pod.restarts() > 0;
    watch
        .until("both containers crash", PATIENCE, |now| {
            now.pods.len() == 2 && now.pods.values().all(|s| crashed(s.pod))
        })
        .await?;
    let before = case.pods("web").await?;
    for image in [&same, &two] {
        case.set_image("web", image).await?;
        let updated = |set: &Value| {
            set["status"]["observedGeneration"] == set["metadata"]["generation"]
                && set["status"]["updatedReplicas"] == 2
        };
        case.until(kind::CLONE_SET, "web", updated).await?;
        for pod in before.keys() {
            // The update is exact whether the pod is ready or not: the image causes the crash loop.
            let settled = |pod: &Value| {
                let state = &pod["metadata"]["annotations"]
                    [berth_api::names::annotation::INPLACE_UPDATE_STATE];
                let wanted = pod["spec"]["containers"][0]["image"] == **image;
                wanted
                    && state
                        .as_str()
                        .is_some_and(|state| state.contains("berthVerifiedBy"))
            };
            case.until(kind::POD, pod, settled).await?;
        }
    }
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

/// A tag is moved in the registry, and the nodes pull it again, while pods still run its earlier
/// image.
pub(crate) async fn a_moved_tag_is_reported(case: &Case) -> Result<()> {
    let [moving] = case.images("before", ["moving"]).await?;
    let other = case.image("other").await?;
    let mut strategy = in_place();
    strategy["inPlaceUpdateStrategy"] = json!({"gracePeriodSeconds": 60});
    case.clone_set("web", 3, &moving, strategy).await?;
    let before = case.pods("web").await?;

    case.images("after", ["moving"]).await?;
    let job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": "again"},
        "spec": {"image": moving, "parallelism": 3, "imagePullPolicy": "Always", "completionPolicy": {"type": "Always"}},
    });
    case.create(&job).await?;
    let job = case
        .until(kind::IMAGE_PULL_JOB, "again", |job| {
            !job["status"]["completionTime"].is_null()
        })
        .await?;
    ensure!(job["status"]["succeeded"] == 3, "{}", job["status"]);

    // Kubelets are stopped, so that the change and its rollback leave the containers alone.
    kubelets(case, |cluster, kubelet| cluster.stop(kubelet)).await?;
    let there_and_back = async {
        case.set_strategy(
            "web",
            json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 0}}),
        )
        .await?;
        let watch = case.watch("web").await?;
        for image in [&other, &moving] {
            case.set_image("web", image).await?;
            watch
                .until("all pods want it", PATIENCE, |now| {
                    now.pods.values().all(|s| container(s.pod).wanted == *image)
                })
                .await?;
        }
        Ok(())
    };
    restored(
        there_and_back,
        kubelets(case, |cluster, kubelet| cluster.start(kubelet)),
    )
    .await?;
    case.done("web").await?;

    let after = case.pods("web").await?;
    ensure_in_place(&before, &after, 0)?;
    for pod in after.keys() {
        let state = case.state(pod).await?;
        ensure!(
            state["berthMovedTags"] == json!([CONTAINER]),
            "pod {pod} does not say that the tag moved: {state}"
        );
    }
    case.told("web", |event| event.starts_with("ImageTagMoved"))
        .await?;

    // A node that has pulled the moved tag gives the new image to a new pod.
    let set = case.get(kind::CLONE_SET, "web").await?;
    case.patch(kind::CLONE_SET, "web", image_patch(&set, &other))
        .await?;
    case.done("web").await?;
    case.set_image("web", &moving).await?;
    case.done("web").await?;
    for (name, pod) in case.pods("web").await? {
        ensure!(
            container(&pod).image_id != container(&before[&name]).image_id,
            "{name} runs what the tag was before"
        );
    }
    Ok(())
}

async fn kubelets(
    case: &Case,
    act: impl Fn(&berth_cluster::Cluster, Component) -> Result<()> + Send + 'static,
) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        let mut kubelets = cluster
            .components()
            .into_iter()
            .filter(|c| matches!(c, Component::Kubelet(_)));
        kubelets.try_for_each(|kubelet| act(&cluster, kubelet))
    })
    .await
}
