//! The examples of the API's documentation, with real pods: how many are updated, which are deleted
//! on request, and in which order.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, CONTAINER, kind};
use berth_e2e::record::{PodView, Record};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::world::{Case, PATIENCE};

/// A CloneSet whose pods end at once when they are deleted; returns when all of them are ready.
async fn make(
    case: &Case,
    name: &str,
    replicas: usize,
    image: &str,
    rolling_update: &Value,
) -> Result<Value> {
    let mut set = objects::clone_set(name, replicas, image, rolling_update);
    set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(0);
    case.create(&set).await?;
    case.done(name).await
}

fn wants(pod: &PodView, image: &str) -> bool {
    pod.containers
        .get(CONTAINER)
        .is_some_and(|container| container.wanted == image)
}

/// Waits until so many pods are updated and all are available.
async fn updated(case: &Case, count: usize) -> Result<Value> {
    let reached = |set: &Value| {
        let (status, replicas) = (&set["status"], &set["spec"]["replicas"]);
        status["observedGeneration"] == set["metadata"]["generation"]
            && status["updatedReadyReplicas"] == count
            && status["replicas"] == *replicas
            && status["availableReplicas"] == *replicas
    };
    case.until(kind::CLONE_SET, "web", reached).await
}

pub(crate) async fn a_partition_with_surge_alone(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let strategy = json!({"podUpdatePolicy": "ReCreate", "partition": 3, "maxUnavailable": 0, "maxSurge": "20%"});
    make(case, "web", 5, &one, &strategy).await?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    let done = updated(case, 2).await?;
    let status = &done["status"];
    ensure!(
        status["updatedReplicas"] == 2 && status["expectedUpdatedReplicas"] == 2,
        "{status}"
    );
    let revision = status["updateRevision"]
        .as_str()
        .context("there is no updateRevision")?;
    Limits {
        available: 5,
        active: 6,
        kept: Some((revision.to_owned(), 3)),
        ..Limits::default()
    }
    .ensure_kept(&watch.record()?)
}

pub(crate) async fn a_percentage_under_100_updates_one_pod(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let strategy = json!({"podUpdatePolicy": "InPlaceIfPossible", "partition": "90%", "maxUnavailable": "50%"});
    make(case, "web", 8, &one, &strategy).await?;
    case.set_image("web", &two).await?;
    let done = updated(case, 1).await?;
    ensure!(
        done["status"]["expectedUpdatedReplicas"] == 1,
        "{}",
        done["status"]
    );
    // Over 100% means all, and a condition says so at once.
    case.set_strategy("web", json!({"partition": "150%"}))
        .await?;
    let none = |set: &Value| {
        set["status"]["observedGeneration"] == set["metadata"]["generation"]
            && set["status"]["expectedUpdatedReplicas"].is_null()
    };
    case.until(kind::CLONE_SET, "web", none).await?;
    let pods = case.pods("web").await?;
    let count = pods.values().filter(|pod| wants(pod, &two)).count();
    ensure!(count == 1, "{count} pods are updated: {pods:?}");
    Ok(())
}

/// A request to delete a pod, with its limits and its result.
struct Asked {
    max_unavailable: usize,
    max_surge: usize,
    /// Is one of the three pods down before?
    down: bool,
    /// The unavailable pod itself is named.
    itself: bool,
    /// Does a new pod come first?
    replaced_first: bool,
    /// Is the pod named in the CloneSet's list instead of by the pod's label?
    by_name: bool,
}

/// From the documentation: maxUnavailable and maxSurge against pods that are unavailable already.
pub(crate) async fn max_unavailable_and_surge_select_pods_to_delete(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let asked = |max_unavailable, max_surge, down, itself, replaced_first, by_name| Asked {
        max_unavailable,
        max_surge,
        down,
        itself,
        replaced_first,
        by_name,
    };
    let mixes = [
        asked(2, 1, true, false, false, false),
        asked(1, 1, true, false, true, true),
        asked(1, 1, true, true, false, false),
        asked(1, 0, false, false, false, true),
        asked(0, 1, false, false, true, false),
    ];
    let image = &image;
    try_join_all(mixes.into_iter().enumerate().map(|(at, mix)| async move {
        let name = format!("web-{at}");
        mix.holds(case, &name, image).await.with_context(|| {
            format!(
                "maxUnavailable {}, maxSurge {}, down {}",
                mix.max_unavailable, mix.max_surge, mix.down
            )
        })
    }))
    .await
    .map(|_| ())
}

impl Asked {
    async fn holds(&self, case: &Case, name: &str, image: &str) -> Result<()> {
        let strategy = json!({"maxUnavailable": self.max_unavailable, "maxSurge": self.max_surge});
        make(case, name, 3, image, &strategy).await?;
        let pods: Vec<_> = case.pods(name).await?.into_keys().collect();
        if self.down {
            break_pod(case, &pods[0]).await?;
            case.until(kind::CLONE_SET, name, |set| {
                set["status"]["availableReplicas"] == 2
            })
            .await?;
        }
        let goes = &pods[usize::from(!self.itself)];
        let watch = case.watch(name).await?;
        if self.by_name {
            let list = json!({"spec": {"scaleStrategy": {"podsToDelete": [goes]}}});
            case.patch(kind::CLONE_SET, name, list).await?;
        } else {
            let label = json!({"metadata": {"labels": {berth_api::names::label::SPECIFIED_DELETE: "true"}}});
            case.patch(kind::POD, goes, label).await?;
        }
        let serving = if self.down && !self.itself { 2 } else { 3 };
        watch
            .until("the pod is replaced", PATIENCE, |now| {
                let there = now.pods.values().any(|standing| standing.pod.name == *goes);
                !there && now.active() == 3 && now.available(std::time::Duration::ZERO) == serving
            })
            .await?;
        let record = watch.record()?;
        let most = record
            .moments()
            .map(|moment| moment.active())
            .max()
            .unwrap_or_default();
        ensure!(
            most == 3 + usize::from(self.replaced_first),
            "there were {most} pods at most"
        );
        Limits {
            available: 3 - self.max_unavailable,
            active: 3 + self.max_surge,
            ..Limits::default()
        }
        .ensure_kept(&record)
    }
}

/// The pod's container cannot start again, because its image does not exist.
async fn break_pod(case: &Case, name: &str) -> Result<()> {
    let pod = case.get(kind::POD, name).await?;
    let mut containers = pod["spec"]["containers"].clone();
    containers[0]["image"] = case.site.image(&format!("{}:gone", case.namespace)).into();
    case.patch(kind::POD, name, json!({"spec": {"containers": containers}}))
        .await?;
    let is_down = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        status["ready"] == false && status["state"]["waiting"].is_object()
    };
    case.until(kind::POD, name, is_down).await.map(|_| ())
}

/// The pods in the order in which the record shows them to get the image.
fn order(record: &Record, image: &str) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for moment in record.moments() {
        let new = moment
            .pods
            .values()
            .map(|standing| standing.pod)
            .filter(|pod| wants(pod, image));
        let new: Vec<_> = new
            .filter(|pod| !order.contains(&pod.name))
            .map(|pod| pod.name.clone())
            .collect();
        order.extend(new);
    }
    order
}

/// Places in the order, with the waves whose pods may have them.
type Promised = &'static [(usize, &'static [&'static str])];

pub(crate) async fn the_order_of_priorities_and_of_scattering(case: &Case) -> Result<()> {
    let images = case.images("v", ["one", "two", "three", "four"]).await?;
    let strategy = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    make(case, "web", 5, &images[0], &strategy).await?;
    let waves = ["w-1", "w-10", "w-2", "", "w-3"];
    let pods: BTreeMap<String, &str> = case.pods("web").await?.into_keys().zip(waves).collect();
    for (pod, wave) in pods.iter().filter(|(_, wave)| !wave.is_empty()) {
        case.patch(
            kind::POD,
            pod,
            json!({"metadata": {"labels": {"wave": wave}}}),
        )
        .await?;
    }
    let weight = |weight: u8, wave: &str| json!({"weight": weight, "matchSelector": {"matchLabels": {"wave": wave}}});
    let by_order = json!({"priorityStrategy": {"orderPriority": [{"orderedKey": "wave"}]}});
    let by_weight = json!({"priorityStrategy": {
        "orderPriority": null, "weightPriority": [weight(30, "w-3"), weight(50, "w-2")],
    }});
    for (pod, wave) in &pods {
        let team = if ["w-1", "w-2"].contains(wave) {
            "red"
        } else {
            "blue"
        };
        case.patch(
            kind::POD,
            pod,
            json!({"metadata": {"labels": {"team": team}}}),
        )
        .await?;
    }
    let scattered =
        json!({"priorityStrategy": null, "scatterStrategy": [{"key": "team", "value": "red"}]});
    let table: [(Value, Promised); 3] = [
        (
            by_order,
            &[
                (0, &[""]),
                (1, &["w-10"]),
                (2, &["w-3"]),
                (3, &["w-2"]),
                (4, &["w-1"]),
            ],
        ),
        (by_weight, &[(0, &["w-2"]), (1, &["w-3"])]),
        (scattered, &[(0, &["w-1", "w-2"]), (4, &["w-1", "w-2"])]),
    ];
    for ((strategy, promised), image) in table.into_iter().zip(&images[1..]) {
        case.set_strategy("web", strategy.clone()).await?;
        let watch = case.watch("web").await?;
        case.set_image("web", image).await?;
        case.done("web").await?;
        let order: Vec<_> = order(&watch.record()?, image)
            .iter()
            .map(|pod| pods[pod])
            .collect();
        ensure!(order.len() == 5, "not every pod was updated: {order:?}");
        for (place, who) in promised {
            ensure!(
                who.contains(&order[*place]),
                "{strategy}: {who:?} is promised place {place}: {order:?}"
            );
        }
    }
    Ok(())
}

/// Two of five pods are broken: they are repaired at once, and no other pod is updated before.
/// Their new image exists only when both want it, so that neither can recover before the update of
/// the other begins, however long a write takes.
pub(crate) async fn broken_pods_are_updated_first(case: &Case) -> Result<()> {
    let one = case.image("v1").await?;
    let two = case.site.image(&format!("{}:v2", case.namespace));
    make(
        case,
        "web",
        5,
        &one,
        &json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}),
    )
    .await?;
    let pods: Vec<_> = case.pods("web").await?.into_keys().collect();
    let broken = [pods[1].clone(), pods[3].clone()];
    for pod in &broken {
        break_pod(case, pod).await?;
    }
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["availableReplicas"] == 3
    })
    .await?;
    let watch = case.watch("web").await?;
    case.set_image("web", &two).await?;
    let both = "both broken pods are begun, and neither is back";
    let begun = |pod: &PodView| broken.contains(&pod.name) && wants(pod, &two);
    watch
        .until(both, PATIENCE, |now| {
            now.pods
                .values()
                .filter(|standing| begun(standing.pod))
                .count()
                == 2
        })
        .await?;
    case.image("v2").await?;
    case.done("web").await?;
    let record = watch.record()?;
    let order = order(&record, &two);
    ensure!(
        order.len() == 5 && order[..2].iter().all(|pod| broken.contains(pod)),
        "{order:?}, broken were {broken:?}"
    );
    // Only the three pods that serve are left: none of them is updated before the broken ones are
    // back.
    Limits {
        available: 3,
        active: 5,
        ..Limits::default()
    }
    .ensure_kept(&record)
}
