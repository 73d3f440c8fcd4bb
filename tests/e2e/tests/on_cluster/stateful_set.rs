//! Advanced StatefulSets: order, identity, claims, updates, and the migration from Kubernetes' own
//! kind.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use berth_e2e::objects::{self, kind};
use berth_e2e::record::PodView;
use serde_json::{Value, json};

use crate::rollout::ensure_images;
use crate::world::Case;

const SET: &str = "db";

/// A set whose pods each have a claim.
fn stateful_set(replicas: usize, image: &str, fields: &Value) -> Value {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    let template = objects::clone_set(SET, replicas, image, &json!({}))["spec"]["template"].clone();
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": {"name": SET},
        "spec": {
            "replicas": replicas, "serviceName": SET, "selector": {"matchLabels": {objects::APP: SET}},
            "template": template, "volumeClaimTemplates": [claim],
        },
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        set["spec"][field] = value.clone();
    }
    set
}

/// Waits until the status is of the present spec and so many pods are updated and available.
async fn done(case: &Case, updated: usize) -> Result<Value> {
    case.until(kind::STATEFUL_SET, SET, |set| {
        objects::is_stateful_set_done(set, updated)
    })
    .await
}

async fn names(case: &Case) -> Result<Vec<String>> {
    Ok(case.pods(SET).await?.into_keys().collect())
}

async fn claims(case: &Case) -> Result<Vec<String>> {
    let all = objects::list(case.client(), &case.namespace, kind::CLAIM, "").await?;
    let mut names: Vec<_> = all
        .iter()
        .map(|claim| claim["metadata"]["name"].as_str().unwrap_or("").to_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn same(before: &PodView, after: &PodView) -> Result<()> {
    ensure!(
        before.uid == after.uid && before.ip == after.ip,
        "{} is another pod: {before:?} {after:?}",
        before.name
    );
    Ok(())
}

pub(crate) async fn pods_come_change_and_go_in_order(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let rolling =
        json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": 2}});
    let retention = json!({"whenScaled": "Delete"});
    let fields = json!({
        "updateStrategy": rolling, "reserveOrdinals": [1], "persistentVolumeClaimRetentionPolicy": retention,
    });
    case.create(&stateful_set(3, &one, &fields)).await?;
    done(case, 3).await?;
    let before = case.pods(SET).await?;
    ensure!(
        before
            .keys()
            .map(String::as_str)
            .eq(["db-0", "db-2", "db-3"]),
        "{:?}",
        before.keys()
    );
    ensure!(claims(case).await? == ["data-db-0", "data-db-2", "data-db-3"]);
    let pod = case.get(kind::POD, "db-2").await?;
    ensure!(
        pod["spec"]["hostname"] == "db-2" && pod["spec"]["subdomain"] == SET,
        "{}",
        pod["spec"]
    );
    ensure!(
        pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "2",
        "{}",
        pod["metadata"]["labels"]
    );

    // The highest is updated in place, and two stay.
    let set = case.get(kind::STATEFUL_SET, SET).await?;
    case.patch(kind::STATEFUL_SET, SET, objects::image_patch(&set, &two))
        .await?;
    done(case, 1).await?;
    let after = case.pods(SET).await?;
    for (name, pod) in &before {
        same(pod, &after[name])?;
        let restarts = after[name].restarts() - pod.restarts();
        ensure!(
            restarts == i32::from(name == "db-3"),
            "{name} restarted {restarts} times"
        );
    }
    let rest = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    case.patch(kind::STATEFUL_SET, SET, rest).await?;
    let set = done(case, 3).await?;
    ensure!(
        set["status"]["currentRevision"] == set["status"]["updateRevision"],
        "{}",
        set["status"]
    );

    // Another pod is created for the reserved ordinal before its pod is deleted; its claim is
    // deleted with it.
    case.patch(
        kind::STATEFUL_SET,
        SET,
        json!({"spec": {"reserveOrdinals": [1, "3-9"]}}),
    )
    .await?;
    case.gone(kind::POD, "db-3").await?;
    done(case, 3).await?;
    ensure!(
        names(case).await? == ["db-0", "db-10", "db-2"],
        "{:?}",
        names(case).await?
    );
    case.gone(kind::CLAIM, "data-db-3").await?;
    let text = case
        .kubectl(&["get", "asts", "-n", &case.namespace, SET])
        .await?;
    let columns: Vec<_> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(
        columns == ["NAME", "DESIRED", "CURRENT", "UPDATED", "READY", "AGE"],
        "{text}"
    );

    case.kubectl(&["scale", "asts", "-n", &case.namespace, SET, "--replicas=1"])
        .await?;
    done(case, 1).await?;
    case.gone(kind::CLAIM, "data-db-2").await?;
    ensure!(
        claims(case).await? == ["data-db-0"],
        "{:?}",
        claims(case).await?
    );
    Ok(())
}

pub(crate) async fn partition_keeps_image_over_zero_pods(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let rolling =
        json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": 2}});
    case.create(&stateful_set(3, &one, &json!({"updateStrategy": rolling})))
        .await?;
    let set = done(case, 3).await?;
    case.patch(kind::STATEFUL_SET, SET, objects::image_patch(&set, &two))
        .await?;
    done(case, 1).await?;
    for (replicas, updated) in [(0, 0), (3, 1)] {
        case.patch(
            kind::STATEFUL_SET,
            SET,
            json!({"spec": {"replicas": replicas}}),
        )
        .await?;
        done(case, updated).await?;
    }
    ensure_images(case, SET, (&one, 2), (&two, 1)).await
}

pub(crate) async fn a_native_set_becomes_an_advanced_one_with_its_pods(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let native_update = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    let mut native = stateful_set(3, &image, &native_update);
    native["apiVersion"] = "apps/v1".into();
    let asks = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
    });
    native["metadata"]["annotations"] = asks.clone();
    case.create(&native).await?;
    case.until(kind::NATIVE_STATEFUL_SET, SET, |set| {
        set["status"]["readyReplicas"] == 3
    })
    .await?;
    let has_records = |api_version: &'static str| {
        move |state: &Value| {
            let records = state["status"]["podStates"]
                .as_object()
                .map_or(0, |records| records.len());
            records == 3 && state["spec"]["targetRef"]["apiVersion"] == api_version
        }
    };
    case.until(kind::PERSISTENT_POD_STATE, SET, has_records("apps/v1"))
        .await?;
    let before = case.pods(SET).await?;
    case.kubectl(&[
        "delete",
        "statefulset.apps",
        "-n",
        &case.namespace,
        SET,
        "--cascade=orphan",
    ])
    .await?;
    let rolling =
        json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2}});
    let mut advanced = stateful_set(3, &image, &json!({"updateStrategy": rolling}));
    advanced["metadata"]["annotations"] = asks;
    case.create(&advanced).await?;
    let set = done(case, 3).await?;
    ensure!(
        set["status"]["currentRevision"] == set["status"]["updateRevision"],
        "{}",
        set["status"]
    );
    case.until(
        kind::PERSISTENT_POD_STATE,
        SET,
        has_records("apps.kruise.io/v1beta1"),
    )
    .await?;
    for (name, pod) in case.pods(SET).await? {
        same(&before[&name], &pod)?;
        ensure!(pod.restarts() == 0, "{name} restarted");
    }
    // And back.
    case.kubectl(&[
        "delete",
        "asts",
        "-n",
        &case.namespace,
        SET,
        "--cascade=orphan",
    ])
    .await?;
    case.create(&native).await?;
    case.until(kind::NATIVE_STATEFUL_SET, SET, |set| {
        set["status"]["updatedReplicas"] == 3
            && set["status"]["observedGeneration"] == set["metadata"]["generation"]
    })
    .await?;
    for (name, pod) in case.pods(SET).await? {
        same(&before[&name], &pod)?;
    }
    case.until(kind::PERSISTENT_POD_STATE, SET, has_records("apps/v1"))
        .await?;
    Ok(())
}

pub(crate) async fn what_takes_a_name_is_named(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let template = objects::clone_set(SET, 1, &image, &json!({}))["spec"]["template"].clone();
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-1"}, "spec": template["spec"]});
    pod["metadata"]["labels"] = json!({"somebody": "else"});
    case.create(&pod).await?;
    case.create(&stateful_set(
        2,
        &image,
        &json!({"podManagementPolicy": "Parallel"}),
    ))
    .await?;
    let blocked = |set: &Value| {
        let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .find(|c| c["type"] == "Blocked")
            .cloned()
            .unwrap_or_default()
    };
    let set = case
        .until(kind::STATEFUL_SET, SET, |set| {
            blocked(set)["reason"] == "NameTaken"
        })
        .await?;
    let said = blocked(&set)["message"].to_string();
    ensure!(
        said.contains("pod db-1 cannot be made") && said.contains("delete it"),
        "{said}"
    );
    let why = ["why", "asts", SET, "-n", &case.namespace];
    let text = case.plugin(&why).await?;
    ensure!(
        text.contains("Blocked (NameTaken)") && text.contains("another pod has this name"),
        "{text}"
    );
    case.kubectl(&[
        "delete",
        "pod",
        "-n",
        &case.namespace,
        "db-1",
        "--grace-period=1",
    ])
    .await?;
    let set = done(case, 2).await?;
    ensure!(blocked(&set).is_null(), "{}", blocked(&set));
    Ok(())
}

/// A fault of a spec, and words that the answer must have.
type Refusal = (&'static str, Value, &'static [&'static str]);

fn refused() -> Vec<Refusal> {
    let rolling = |fields: Value| json!({"updateStrategy": {"rollingUpdate": fields}});
    vec![
        (
            "a start below zero",
            json!({"ordinals": {"start": -1}}),
            &["spec.ordinals.start", "-1"],
        ),
        (
            "a reserved ordinal below zero",
            json!({"reserveOrdinals": [-1]}),
            &["spec.reserveOrdinals[0]", "-1"],
        ),
        (
            "a range that ends before it begins",
            json!({"reserveOrdinals": ["5-2"]}),
            &["reserveOrdinals[0]", "5-2", "lower"],
        ),
        (
            "a range of words",
            json!({"reserveOrdinals": ["a-b"]}),
            &["reserveOrdinals[0]", "a-b"],
        ),
        (
            "no percent",
            rolling(json!({"maxUnavailable": "0%"})),
            &["maxUnavailable", "0%", "at least 1"],
        ),
        (
            "two new pods at a time in order",
            json!({"scaleStrategy": {"maxUnavailable": 2}}),
            &[
                "spec.scaleStrategy.maxUnavailable",
                "Parallel",
                "OrderedReady creates one pod at a time",
                "remove it",
            ],
        ),
        (
            "another order in order",
            rolling(json!({"unorderedUpdate": {}})),
            &[
                "unorderedUpdate",
                "Parallel",
                "OrderedReady updates pods by their ordinals",
                "remove it",
            ],
        ),
        (
            "too long a time",
            rolling(json!({"minReadySeconds": 301})),
            &["minReadySeconds", "301", "300"],
        ),
        (
            "a rolling update with OnDelete",
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
            &["rollingUpdate", "OnDelete", "remove it"],
        ),
        (
            "negative replicas",
            json!({"replicas": -1}),
            &["spec.replicas", "-1"],
        ),
    ]
}

pub(crate) async fn bad_sets_are_refused(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let has_words = |what: &str, error: &anyhow::Error, words: &[&str]| {
        let text = format!("{error:#}");
        let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
        ensure!(
            missing.is_empty(),
            "the answer to {what} does not say {missing:?}: {text}"
        );
        Ok(())
    };
    for (what, fields, words) in refused() {
        match case.create(&stateful_set(1, &image, &fields)).await {
            Ok(_) => bail!("{what} was accepted"),
            Err(error) => has_words(what, &error, words)?,
        }
    }
    for name in ["a".repeat(53), "db.one".to_owned()] {
        let mut set = stateful_set(0, &image, &json!({}));
        set["metadata"]["name"] = name.clone().into();
        match case.create(&set).await {
            Ok(_) => bail!("the name {name} was accepted"),
            Err(error) => has_words(&name, &error, &["52", &name])?,
        }
    }
    // No ordinal is left: accepted, and reported.
    case.create(&stateful_set(
        0,
        &image,
        &json!({"reserveOrdinals": ["0-2147483647"]}),
    ))
    .await?;
    for (field, value) in [
        ("serviceName", json!("other")),
        ("podManagementPolicy", json!("Parallel")),
        ("selector", json!({"matchLabels": {"app": "x"}})),
    ] {
        match case
            .patch(kind::STATEFUL_SET, SET, json!({"spec": {field: value}}))
            .await
        {
            Ok(_) => bail!("a changed {field} was accepted"),
            Err(error) => has_words(field, &error, &[field, "cannot be changed"])?,
        }
    }
    Ok(())
}

pub(crate) async fn an_older_manifest_says_which_ordinals_are_reserved(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let fields = json!({"reserveOrdinals": ["7-9"], "scaleStrategy": {"maxUnavailable": 2}, "podManagementPolicy": "Parallel"});
    case.create(&stateful_set(0, &image, &fields)).await?;
    const OLDER: &str = "apps.kruise.io/v1alpha1/StatefulSet";
    let old = objects::again(&case.get(OLDER, SET).await?);
    ensure!(
        old["spec"]["reserveOrdinals"] == json!(["7-9"]),
        "{}",
        old["spec"]
    );
    match case
        .patch(OLDER, SET, json!({"spec": {"reserveOrdinals": null}}))
        .await
    {
        Ok(_) => bail!("v1alpha1 may leave reserveOrdinals out"),
        Err(error) => crate::bad_input::has_words(
            "reserveOrdinals",
            &format!("{error:#}"),
            &["spec.reserveOrdinals", "is left out", "write"],
        )?,
    }
    case.patch(
        OLDER,
        SET,
        json!({"spec": {"replicas": 1, "reserveOrdinals": [0]}}),
    )
    .await?;
    let new = done(case, 1).await?;
    ensure!(
        new["spec"]["reserveOrdinals"] == json!([0]),
        "{}",
        new["spec"]
    );
    ensure!(
        new["spec"]["scaleStrategy"]["maxUnavailable"] == 2,
        "{}",
        new["spec"]
    );
    Ok(())
}

/// P0 to P4, as in the documentation: with partition 4 the last one alone, then the others, at most
/// three at a time.
pub(crate) async fn five_pods_with_a_partition_go_three_at_a_time(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let rolling = json!({"partition": 4, "maxUnavailable": 3, "podUpdatePolicy": "ReCreate"});
    let fields = json!({"podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
    case.create(&stateful_set(5, &one, &fields)).await?;
    done(case, 5).await?;
    let before = case.pods(SET).await?;
    let set = case.get(kind::STATEFUL_SET, SET).await?;
    case.patch(kind::STATEFUL_SET, SET, objects::image_patch(&set, &two))
        .await?;
    done(case, 1).await?;
    for (name, pod) in case.pods(SET).await? {
        ensure!(
            (pod.uid != before[&name].uid) == (name == "db-4"),
            "{name}: {pod:?}, before {:?}",
            before[&name]
        );
    }
    let watch = case.watch(SET).await?;
    let rest = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    case.patch(kind::STATEFUL_SET, SET, rest).await?;
    done(case, 5).await?;
    let record = watch.record()?;
    let least = record
        .moments()
        .map(|moment| moment.available(Duration::ZERO))
        .min()
        .unwrap_or_default();
    ensure!(
        (2..5).contains(&least),
        "of five pods {least} were available at least"
    );
    let all_new = case
        .pods(SET)
        .await?
        .into_iter()
        .all(|(name, pod)| pod.uid != before[&name].uid);
    ensure!(all_new, "not all pods were replaced");
    Ok(())
}

/// In place, and by new pods: two pods out of service at once, the highest first; new pods come one
/// by one.
pub(crate) async fn ordered_set_updates_two_at_a_time(case: &Case) -> Result<()> {
    let images = [
        case.image("v1").await?,
        case.image("v2").await?,
        case.image("v3").await?,
    ];
    let rolling = |policy: &str| json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2, "podUpdatePolicy": policy}}});
    case.create(&stateful_set(5, &images[0], &rolling("InPlaceIfPossible")))
        .await?;
    let set = done(case, 5).await?;
    ensure!(
        set["spec"]["podManagementPolicy"] == "OrderedReady",
        "{}",
        set["spec"]
    );
    for (policy, image) in [("InPlaceIfPossible", &images[1]), ("ReCreate", &images[2])] {
        let before = case.pods(SET).await?;
        case.patch(kind::STATEFUL_SET, SET, json!({"spec": rolling(policy)}))
            .await?;
        let watch = case.watch(SET).await?;
        case.patch(kind::STATEFUL_SET, SET, objects::image_patch(&set, image))
            .await?;
        done(case, 5).await?;
        let record = watch.record()?;
        let least = record
            .moments()
            .map(|moment| moment.available(Duration::ZERO))
            .min()
            .unwrap_or_default();
        ensure!(
            least == 3,
            "{policy}: of five pods {least} were available at least"
        );
        let (mut taken, mut made) = (Vec::new(), Vec::new());
        for moment in record.moments() {
            for standing in moment.pods.values() {
                let pod = standing.pod;
                let is_old = before[&pod.name].uid == pod.uid;
                let list = if is_old { &mut taken } else { &mut made };
                if (!is_old || !pod.serves()) && !list.contains(&pod.name) {
                    list.push(pod.name.clone());
                }
            }
        }
        // The writes of a batch are made at once, so they arrive in any order.
        taken.chunks_mut(2).for_each(|batch| batch.sort());
        ensure!(
            taken == ["db-3", "db-4", "db-1", "db-2", "db-0"],
            "{policy}: {taken:?} went out of service"
        );
        let expected: &[&str] = if policy == "ReCreate" {
            &["db-3", "db-4", "db-1", "db-2", "db-0"]
        } else {
            &[]
        };
        ensure!(made == expected, "{policy}: {made:?} were made");
    }
    Ok(())
}

pub(crate) async fn a_recreated_pod_is_on_its_node(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let mut set = stateful_set(3, &one, &json!({"podManagementPolicy": "Parallel"}));
    set["metadata"]["annotations"] = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
    });
    case.create(&set).await?;
    done(case, 3).await?;
    let all_recorded = |state: &Value| {
        state["status"]["podStates"]
            .as_object()
            .is_some_and(|all| all.len() == 3)
    };
    let state = case
        .until(kind::PERSISTENT_POD_STATE, SET, all_recorded)
        .await?;
    let before = case.pods(SET).await?;
    for (name, pod) in &before {
        let record = &state["status"]["podStates"][name];
        ensure!(
            record["nodeName"] == pod.node,
            "{name} is on {}: {record}",
            pod.node
        );
    }
    // A pod is deleted by hand, and by an update.
    case.kubectl(&[
        "delete",
        "pod",
        "-n",
        &case.namespace,
        "-l",
        "app=db",
        "--grace-period=1",
    ])
    .await?;
    done(case, 3).await?;
    let deleted = case.pods(SET).await?;
    let set = case.get(kind::STATEFUL_SET, SET).await?;
    case.patch(kind::STATEFUL_SET, SET, objects::image_patch(&set, &two))
        .await?;
    done(case, 3).await?;
    let updated = case.pods(SET).await?;
    for (name, pod) in &before {
        for (after, earlier) in [(&deleted[name], pod), (&updated[name], &deleted[name])] {
            ensure!(
                after.uid != earlier.uid && after.node == pod.node,
                "{name} was on {}: {after:?}",
                pod.node
            );
        }
    }
    let pod = case.get(kind::POD, "db-0").await?;
    ensure!(
        pod["metadata"]["annotations"]["kruise.io/injected-persistent-pod-state"] == SET,
        "{}",
        pod["metadata"]
    );
    // Records are deleted with their pods, and the object with its annotations.
    case.kubectl(&["scale", "asts", "-n", &case.namespace, SET, "--replicas=1"])
        .await?;
    let one_is_left = |state: &Value| {
        state["status"]["podStates"]
            .as_object()
            .is_some_and(|all| all.len() == 1)
    };
    case.until(kind::PERSISTENT_POD_STATE, SET, one_is_left)
        .await?;
    let none = json!({"metadata": {"annotations": {"kruise.io/auto-generate-persistent-pod-state": null}}});
    case.patch(kind::STATEFUL_SET, SET, none).await?;
    case.gone(kind::PERSISTENT_POD_STATE, SET).await?;
    Ok(())
}

pub(crate) async fn bad_persistent_pod_states_are_refused(case: &Case) -> Result<()> {
    let state = |spec: Value| {
        let mut state = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "metadata": {"name": SET},
            "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": SET}},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            state["spec"][field] = value.clone();
        }
        state
    };
    let preferred = |weight: i32| json!({"preferredPersistentTopology": [{"weight": weight, "preference": {"keys": ["a"]}}]});
    let refused: [(Value, &[&str]); 4] = [
        (
            json!({}),
            &["requiredPersistentTopology", "set one of them"],
        ),
        (preferred(0), &["weight", "0", "1"]),
        (preferred(101), &["weight", "101", "100"]),
        (
            json!({"requiredPersistentTopology": {"keys": ["a b"]}}),
            &["requiredPersistentTopology.keys[0]", "a b"],
        ),
    ];
    for (spec, words) in refused {
        match case.create(&state(spec.clone())).await {
            Ok(_) => bail!("{spec} was accepted"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(
                    words.iter().all(|word| text.contains(word)),
                    "{spec}: {text}"
                );
            }
        }
    }
    case.create(&state(preferred(1))).await?;
    let older = "apps.kruise.io/v1alpha1/PersistentPodState";
    let old = case.get(older, SET).await?;
    ensure!(
        old["spec"]["preferredPersistentTopology"][0]["preference"]["nodeTopologyKeys"]
            == json!(["a"]),
        "{old}"
    );
    let newer = json!({"spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1"}}});
    case.patch(kind::PERSISTENT_POD_STATE, SET, newer).await?;
    match case
        .patch(
            kind::PERSISTENT_POD_STATE,
            SET,
            json!({"spec": {"targetRef": {"name": "other"}}}),
        )
        .await
    {
        Ok(_) => bail!("another target was accepted"),
        Err(error) => ensure!(
            format!("{error:#}").contains("cannot be changed"),
            "{error:#}"
        ),
    }
    Ok(())
}

/// The test stands in for the program that enlarges volumes.
pub(crate) async fn claims_grow_pod_by_pod(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let standard = case
        .get("storage.k8s.io/v1/StorageClass", "standard")
        .await?;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "allow-volume-expansion"},
        "provisioner": standard["provisioner"], "allowVolumeExpansion": true,
    });
    case.create(&class).await?;
    let templates = |storage: &str| {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "storageClassName": "allow-volume-expansion",
            "resources": {"requests": {"storage": storage}},
        });
        json!([{"metadata": {"name": "data"}, "spec": spec}])
    };
    let fields = json!({
        "volumeClaimTemplates": templates("1Mi"), "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"},
    });
    case.create(&stateful_set(2, &image, &fields)).await?;
    done(case, 2).await?;
    let before = case.pods(SET).await?;
    match case
        .patch(
            kind::STATEFUL_SET,
            SET,
            json!({"spec": {"volumeClaimTemplates": []}}),
        )
        .await
    {
        Ok(_) => bail!("a claim template less was accepted"),
        Err(error) => ensure!(
            format!("{error:#}").contains("cannot be more, fewer or others"),
            "{error:#}"
        ),
    }
    case.patch(
        kind::STATEFUL_SET,
        SET,
        json!({"spec": {"volumeClaimTemplates": templates("2Mi")}}),
    )
    .await?;
    for (claim, other) in [("data-db-1", "data-db-0"), ("data-db-0", "")] {
        let grown = |claim: &Value| claim["spec"]["resources"]["requests"]["storage"] == "2Mi";
        let now = case.until(kind::CLAIM, claim, grown).await?;
        ensure!(
            now["metadata"]["annotations"]["apps.kruise.io/owned-by-asts"] == SET,
            "{}",
            now["metadata"]
        );
        if !other.is_empty() {
            let waits = case.get(kind::CLAIM, other).await?;
            ensure!(!grown(&waits), "{other} did not wait for {claim}");
        }
        let capacity = r#"{"status":{"capacity":{"storage":"2Mi"}}}"#;
        let patch = [
            "patch",
            "pvc",
            "-n",
            &case.namespace,
            claim,
            "--subresource=status",
            "--type=merge",
            "-p",
            capacity,
        ];
        case.kubectl(&patch).await?;
    }
    let all = |set: &Value| {
        let claims = &set["status"]["volumeClaims"][0];
        claims["compatibleReplicas"] == 2 && claims["compatibleReadyReplicas"] == 2
    };
    case.until(kind::STATEFUL_SET, SET, all).await?;
    for (name, pod) in case.pods(SET).await? {
        same(&before[&name], &pod)?;
    }
    case.told(SET, |event| {
        event.starts_with("SuccessfulResize: resize Claim data-db-0")
    })
    .await?;
    case.kubectl(&["delete", "storageclass", "allow-volume-expansion"])
        .await?;
    Ok(())
}
