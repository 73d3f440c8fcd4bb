//! Advanced DaemonSets: one pod on each node, each way of an update, nodes that join, leave and do
//! not fit any more, and the migration from Kubernetes' own kind.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_api::names::annotation::RESTARTED_AT;
use berth_cluster::{Component, Place};
use berth_e2e::objects::{self, kind};
use berth_e2e::record::PodView;
use serde_json::{Value, json};

use crate::pulls;
use crate::world::Case;

const SET: &str = "log";
const NODES: usize = 3;
/// The node of the events.
pub(crate) const NODE: u8 = 2;

/// A set with this rolling update, and these additional fields of the pods' spec.
fn daemon_set(image: &str, rolling: &Value, spec: &Value) -> Value {
    let mut template = objects::clone_set(SET, 1, image, &json!({}))["spec"]["template"].take();
    for (field, value) in spec.as_object().into_iter().flatten() {
        template["spec"][field] = value.clone();
    }
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": SET},
        "spec": {
            "selector": {"matchLabels": {objects::APP: SET}}, "template": template,
            "updateStrategy": {"rollingUpdate": rolling},
        },
    })
}

/// Waits until the status is of the present spec, and so many nodes want a pod, have an available
/// one, and an updated one.
async fn done(case: &Case, desired: usize, updated: usize) -> Result<Value> {
    let is_so = |set: &Value| {
        let status = &set["status"];
        let counts =
            |field: &str, count: usize| status[field].as_u64().unwrap_or(0) == count as u64;
        status["observedGeneration"] == set["metadata"]["generation"]
            && counts("desiredNumberScheduled", desired)
            && counts("numberAvailable", desired)
            && counts("updatedNumberScheduled", updated)
    };
    case.until(kind::DAEMON_SET, SET, is_so).await
}

async fn set_image(case: &Case, image: &str) -> Result<()> {
    let set = case.get(kind::DAEMON_SET, SET).await?;
    case.patch(kind::DAEMON_SET, SET, objects::image_patch(&set, image))
        .await
        .map(drop)
}

/// The pods by their nodes, of which each has one.
async fn by_node(case: &Case) -> Result<BTreeMap<String, PodView>> {
    let pods = case.pods(SET).await?;
    let count = pods.len();
    let by_node: BTreeMap<_, _> = pods
        .into_values()
        .map(|pod| (pod.node.clone(), pod))
        .collect();
    ensure!(by_node.len() == count, "two pods on one node: {by_node:?}");
    Ok(by_node)
}

fn node(number: u8) -> String {
    Place::Node(number).to_string()
}

pub(crate) async fn a_change_goes_in_place_node_by_node(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let rolling = json!({"rollingUpdateType": "InPlaceIfPossible", "partition": 2});
    case.create(&daemon_set(&one, &rolling, &json!({}))).await?;
    done(case, NODES, NODES).await?;
    let before = by_node(case).await?;
    set_image(case, &two).await?;
    done(case, NODES, 1).await?;
    let last = node(3);
    ensure!(
        by_node(case).await?[&last].restarts() == 1,
        "the last node is updated first"
    );
    the_rest_follows_in_place(case, &before).await?;
    let text = case
        .kubectl(&["get", "ads", "-n", &case.namespace, SET])
        .await?;
    let columns: Vec<_> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(
        columns
            == [
                "NAME",
                "DESIRED",
                "CURRENT",
                "READY",
                "UP-TO-DATE",
                "AVAILABLE",
                "AGE"
            ],
        "{text}"
    );
    // A rollback by new pods.
    let standard =
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"rollingUpdateType": "Standard"}}}});
    case.patch(kind::DAEMON_SET, SET, standard).await?;
    set_image(case, &one).await?;
    done(case, NODES, NODES).await?;
    let after = by_node(case).await?;
    ensure!(
        before.iter().all(|(name, was)| was.uid != after[name].uid),
        "{after:?}"
    );
    case.told(SET, |event| event.contains("SuccessfulUpdatePodInPlace"))
        .await
        .map(drop)
}

/// Removes the partition: then each remaining pod restarts once, in its place.
async fn the_rest_follows_in_place(case: &Case, before: &BTreeMap<String, PodView>) -> Result<()> {
    let rest = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    case.patch(kind::DAEMON_SET, SET, rest).await?;
    done(case, NODES, NODES).await?;
    for (name, after) in by_node(case).await? {
        let was = &before[&name];
        ensure!(
            was.uid == after.uid && was.ip == after.ip && after.restarts() == 1,
            "{was:?} is now {after:?}"
        );
    }
    Ok(())
}

pub(crate) async fn another_time_restarts_containers_node_by_node(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let rolling = json!({"rollingUpdateType": "InPlaceIfPossible", "partition": 2});
    case.create(&daemon_set(&image, &rolling, &json!({})))
        .await?;
    done(case, NODES, NODES).await?;
    let before = by_node(case).await?;
    let at = json!({RESTARTED_AT: "2026-11-26T12:00:00Z"});
    case.patch(
        kind::DAEMON_SET,
        SET,
        json!({"spec": {"template": {"metadata": {"annotations": at}}}}),
    )
    .await?;
    done(case, NODES, 1).await?;
    for (name, pod) in by_node(case).await? {
        ensure!(
            pod.restarts() == i32::from(name == node(3)),
            "the last node alone is its turn: {pod:?}"
        );
    }
    the_rest_follows_in_place(case, &before).await?;
    case.told(SET, |event| event.contains("SuccessfulUpdatePodInPlace"))
        .await
        .map(drop)
}

pub(crate) async fn a_surge_never_leaves_a_node_without_a_ready_pod(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.create(&daemon_set(&one, &json!({"maxSurge": 1}), &json!({})))
        .await?;
    done(case, NODES, NODES).await?;
    let watch = case.watch(SET).await?;
    let began = watch.began().elapsed();
    set_image(case, &two).await?;
    done(case, NODES, NODES).await?;
    let record = watch.record()?.since(began);
    for moment in record.moments() {
        let mut ready = BTreeMap::<&str, usize>::new();
        let mut active = BTreeMap::<&str, usize>::new();
        for pod in moment
            .pods
            .values()
            .map(|standing| standing.pod)
            .filter(|pod| !pod.node.is_empty())
        {
            *ready.entry(&pod.node).or_default() += usize::from(pod.serves());
            *active.entry(&pod.node).or_default() += usize::from(!pod.terminating);
        }
        ensure!(
            ready.values().all(|ready| *ready > 0),
            "a node is without a ready pod: {}",
            moment.describe()
        );
        ensure!(
            active.values().all(|active| *active <= 2),
            "a node has three pods: {}",
            moment.describe()
        );
    }
    Ok(())
}

pub(crate) async fn a_native_set_becomes_an_advanced_one_with_its_pods(case: &Case) -> Result<()> {
    const NATIVE: &str = "apps/v1/DaemonSet";
    let image = case.image("v1").await?;
    let mut native = daemon_set(&image, &json!({"maxUnavailable": 1}), &json!({}));
    native["apiVersion"] = "apps/v1".into();
    case.create(&native).await?;
    let is_ready = |set: &Value| {
        set["status"]["numberReady"] == NODES && set["status"]["updatedNumberScheduled"] == NODES
    };
    case.until(NATIVE, SET, is_ready).await?;
    let before = by_node(case).await?;
    let native = case.get(NATIVE, SET).await?;
    let mut advanced = objects::again(&native);
    advanced["apiVersion"] = "apps.kruise.io/v1beta1".into();
    case.kubectl(&[
        "delete",
        "daemonset.apps",
        "-n",
        &case.namespace,
        SET,
        "--cascade=orphan",
    ])
    .await?;
    case.create(&advanced).await?;
    done(case, NODES, NODES).await?;
    // And back. Kubernetes' own controller counts pods as deleted that it has not seen yet.
    case.kubectl(&[
        "delete",
        "ads",
        "-n",
        &case.namespace,
        SET,
        "--cascade=orphan",
    ])
    .await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    case.create(&objects::again(&native)).await?;
    let is_back = |set: &Value| {
        is_ready(set) && set["status"]["observedGeneration"] == set["metadata"]["generation"]
    };
    case.until(NATIVE, SET, is_back).await?;
    for (name, after) in by_node(case).await? {
        ensure!(
            before[&name].uid == after.uid && after.restarts() == 0,
            "{:?} is now {after:?}",
            before[&name]
        );
    }
    Ok(())
}

pub(crate) async fn bad_sets_are_refused(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    for (rolling, words) in [
        (
            json!({"maxUnavailable": 1, "maxSurge": 1}),
            ["maxSurge", "set one of them to 0"],
        ),
        (
            json!({"maxUnavailable": "0%"}),
            ["maxUnavailable", "at least 1"],
        ),
        (
            json!({"rollingUpdateType": "InPlaceIfPossible", "maxSurge": 1}),
            ["maxSurge", "in place"],
        ),
        (
            json!({"maxUnavailable": "101%"}),
            ["maxUnavailable", "100%"],
        ),
        (
            json!({"selector": {"matchLabels": {"a b": "c"}}}),
            ["rollingUpdate.selector", "is no label key"],
        ),
    ] {
        match case.create(&daemon_set(&image, &rolling, &json!({}))).await {
            Ok(_) => bail!("{rolling} was accepted"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(
                    words.iter().all(|word| text.contains(word)),
                    "{rolling}: {text}"
                );
            }
        }
    }
    Ok(())
}

/// The events of the node, and whether it has a pod then.
fn events(name: &str) -> Vec<(&'static str, Vec<String>, bool)> {
    let words = |text: &str| {
        text.split(' ')
            .map(|word| word.replace("NODE", name))
            .collect::<Vec<_>>()
    };
    vec![
        ("cordoned", words("cordon NODE"), true),
        (
            "drained",
            words(
                "drain NODE --ignore-daemonsets=false --force --delete-emptydir-data --timeout=60s --pod-selector=app=log",
            ),
            true,
        ),
        ("uncordoned", words("uncordon NODE"), true),
        (
            "tainted NoSchedule",
            words("taint node NODE berth.test/away=yes:NoSchedule"),
            true,
        ),
        (
            "tainted NoExecute",
            words("taint node NODE berth.test/away=yes:NoExecute"),
            false,
        ),
        (
            "free of taints",
            words("taint node NODE berth.test/away-"),
            true,
        ),
        (
            "without its label",
            words("label node NODE berth.test/daemons-"),
            false,
        ),
        (
            "labelled again",
            words("label node NODE berth.test/daemons=yes"),
            true,
        ),
    ]
}

pub(crate) async fn pods_follow_their_nodes(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let name = node(NODE);
    let tested = async {
        case.kubectl(&["label", "nodes", "--all", "berth.test/daemons=yes"])
            .await?;
        let selects = json!({"nodeSelector": {"berth.test/daemons": "yes"}});
        // In the middle of a rollout, too: two nodes stay at the old revision.
        case.create(&daemon_set(&one, &json!({"partition": 2}), &selects))
            .await?;
        done(case, NODES, NODES).await?;
        set_image(case, &two).await?;
        done(case, NODES, 1).await?;
        let others = |pods: &BTreeMap<String, PodView>| {
            pods.iter()
                .filter(|(node, _)| **node != name)
                .map(|(_, pod)| pod.uid.clone())
                .collect::<Vec<_>>()
        };
        let before = others(&by_node(case).await?);
        for (what, arguments, has_pod) in events(&name) {
            case.kubectl(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
                .await?;
            until_on_node(case, &name, has_pod)
                .await
                .with_context(|| format!("the node is {what}"))?;
            let pods = by_node(case).await?;
            ensure!(
                others(&pods) == before,
                "the node is {what}, and pods of others are not the same: {pods:?}"
            );
        }
        lost(case, &name).await
    };
    pulls::restored(tested, restored(case)).await
}

/// Waits until the node has a pod that serves, or none.
async fn until_on_node(case: &Case, name: &str, has_pod: bool) -> Result<()> {
    let is_so = |set: &Value| {
        let desired = if has_pod { NODES } else { NODES - 1 };
        set["status"]["currentNumberScheduled"]
            .as_u64()
            .unwrap_or(0)
            <= desired as u64
    };
    for _ in 0..300 {
        case.until(kind::DAEMON_SET, SET, is_so).await?;
        let pods = case.pods(SET).await?;
        let mut here = pods.values().filter(|pod| pod.node == name);
        if if has_pod {
            here.any(PodView::serves)
        } else {
            here.next().is_none()
        } {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("after a minute: {:?}", case.pods(SET).await?)
}

/// The kubelet dies, the node is deleted, and returns under its name.
async fn lost(case: &Case, name: &str) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| cluster.kill(Component::Kubelet(NODE)))
        .await?;
    case.kubectl(&["delete", "node", name]).await?;
    let is_without = |set: &Value| set["status"]["desiredNumberScheduled"] == NODES - 1;
    case.until(kind::DAEMON_SET, SET, is_without).await?;
    back(case).await?;
    case.kubectl(&["label", "node", name, "berth.test/daemons=yes"])
        .await?;
    case.until(kind::DAEMON_SET, SET, |set| {
        set["status"]["numberAvailable"] == NODES
    })
    .await
    .map(drop)
}

/// Nodes with frozen kubelets.
const AWAY: [u8; 2] = [2, 3];

pub(crate) async fn a_rollout_leaves_two_dead_nodes_alone(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.create(&daemon_set(&one, &json!({"maxUnavailable": 2}), &json!({})))
        .await?;
    done(case, NODES, NODES).await?;
    let names = AWAY.map(node);
    let tested = async {
        let cluster = case.cluster()?;
        case.blocking(move |_| {
            AWAY.into_iter()
                .try_for_each(|node| cluster.stop(Component::Kubelet(node)))
        })
        .await?;
        // With its taint, each of them is a node without a pod of the set.
        case.until(kind::DAEMON_SET, SET, |set| {
            set["status"]["desiredNumberScheduled"] == 1
        })
        .await?;
        let others = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": names});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [others]}]});
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let set = case.get(kind::DAEMON_SET, SET).await?;
        let mut patch = objects::image_patch(&set, &two);
        patch["spec"]["template"]["spec"]["affinity"] = affinity;
        case.patch(kind::DAEMON_SET, SET, patch).await?;
        done(case, 1, 1).await?;
        for (name, pod) in by_node(case).await? {
            ensure!(
                pod.terminating == names.contains(&name),
                "those of the dead nodes alone go: {pod:?}"
            );
        }
        Ok(())
    };
    let restored = async {
        let cluster = case.cluster()?;
        let start = move |node| {
            let kubelet = Component::Kubelet(node);
            if cluster.runs(kubelet) {
                Ok(())
            } else {
                cluster.start(kubelet)
            }
        };
        case.blocking(move |_| AWAY.into_iter().try_for_each(start))
            .await?;
        case.kubectl(&[
            "wait",
            "--for=condition=Ready",
            "nodes",
            "--all",
            "--timeout=180s",
        ])
        .await
        .map(drop)
    };
    pulls::restored(tested, restored).await?;
    for name in &names {
        until_on_node(case, name, false).await?;
    }
    let pods = by_node(case).await?;
    ensure!(
        pods.len() == 1 && pods.values().all(PodView::serves),
        "{pods:?}"
    );
    Ok(())
}

/// The node registers again.
pub(crate) async fn back(case: &Case) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        if cluster.runs(Component::Kubelet(NODE)) {
            Ok(())
        } else {
            cluster.start(Component::Kubelet(NODE))
        }
    })
    .await?;
    pulls::until_node(case, NODE, |_| true).await?;
    let name = format!("node/{}", node(NODE));
    case.kubectl(&["wait", "--for=condition=Ready", &name, "--timeout=180s"])
        .await
        .map(drop)
}

async fn restored(case: &Case) -> Result<()> {
    back(case).await?;
    let name = node(NODE);
    case.kubectl(&["uncordon", &name]).await?;
    // It is missing if all went well.
    drop(
        case.kubectl(&["taint", "node", &name, "berth.test/away-"])
            .await,
    );
    case.kubectl(&["label", "nodes", "--all", "berth.test/daemons-"])
        .await
        .map(drop)
}
