//! The demo's second half: pods of StatefulSets, Kubernetes' own and an Advanced one, that are
//! created anew, and the node, volume and IP that each gets back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::report::aligned;
use crate::install;
use crate::objects::{self, APP, kind};
use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(180);
const PODS: usize = 3;
/// The kinds, and the names of the sets.
const SETS: [(&str, &str); 2] = [
    (kind::NATIVE_STATEFUL_SET, "native"),
    (kind::STATEFUL_SET, "advanced"),
];
const INJECTED: &str = "kruise.io/injected-persistent-pod-state";

/// The identity of a pod, for comparisons.
#[derive(Debug, Clone, PartialEq)]
struct Pod {
    uid: String,
    node: String,
    ip: String,
    /// Its claim's name and uid.
    claim: (String, String),
    pinned_by: String,
}

/// Creates both sets, deletes their pods, updates them by new ones, and shows each pod before and
/// after.
///
/// # Errors
/// A pod did not come back to its node, with its claim, and, on a cluster of the demo's own, with
/// its IP.
pub(super) async fn show(site: &Site, namespace: &str, images: &[String]) -> Result<()> {
    let keeps_ips = site.cluster().is_some();
    if keeps_ips {
        install::set(site, &["cni.install=true"])?;
        let wait = [
            "rollout",
            "status",
            "daemonset/kruise-daemon",
            "-n",
            install::NAMESPACE,
            "--timeout=180s",
        ];
        site.kubectl(&wait)?;
    }
    println!(
        "\nTwo StatefulSets, Kubernetes' own and an Advanced one, whose pods are to go back to their nodes:"
    );
    for (of_kind, name) in SETS {
        objects::create(
            site.client(),
            namespace,
            &manifest(of_kind, name, &images[0]),
        )
        .await?;
    }
    let mut rows = vec![
        [
            "POD",
            "MADE ANEW BY",
            "UID",
            "NODE",
            "IP",
            "CLAIM",
            "PINNED BY",
        ]
        .map(str::to_owned),
    ];
    for (of_kind, name) in SETS {
        let first = recorded(site, namespace, (of_kind, name), &BTreeMap::new()).await?;
        let selector = format!("{APP}={name}");
        // A check below waits for their end: kubectl itself would wait for the new pod's end if it
        // takes that for the old one.
        site.kubectl(&[
            "delete",
            "pod",
            "-n",
            namespace,
            "-l",
            &selector,
            "--grace-period=1",
            "--wait=false",
        ])?;
        let second = recorded(site, namespace, (of_kind, name), &first).await?;
        rows.extend(compared("deletion", &first, &second, keeps_ips)?);
        let set = objects::get(site.client(), namespace, of_kind, name).await?;
        objects::patch(
            site.client(),
            namespace,
            of_kind,
            name,
            &objects::image_patch(&set, &images[1]),
        )
        .await?;
        let third = recorded(site, namespace, (of_kind, name), &second).await?;
        rows.extend(compared("update", &second, &third, keeps_ips)?);
    }
    println!("{}", aligned(&rows));
    Ok(())
}

fn manifest(of_kind: &str, name: &str, image: &str) -> Value {
    let clone_set = objects::clone_set(name, PODS, image, &json!({}));
    let mut template = clone_set["spec"]["template"].clone();
    // The pods' processes need no time to end.
    template["spec"]["terminationGracePeriodSeconds"] = 1.into();
    template["metadata"]["annotations"] = json!({"io.kubernetes.cri/reserved-ip-duration": "10"});
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    let (api_version, _) = of_kind.rsplit_once('/').unwrap_or_default();
    json!({
        "apiVersion": api_version, "kind": "StatefulSet",
        "metadata": {"name": name, "annotations": {
            "kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
        }},
        "spec": {
            "replicas": PODS, "serviceName": name, "podManagementPolicy": "Parallel",
            "selector": clone_set["spec"]["selector"], "template": template, "volumeClaimTemplates": [claim],
        },
    })
}

/// Waits until all pods are new ones of the last template, ready, and recorded on their nodes;
/// returns them by name.
async fn recorded(
    site: &Site,
    namespace: &str,
    (of_kind, name): (&str, &str),
    before: &BTreeMap<String, Pod>,
) -> Result<BTreeMap<String, Pod>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let is_done = |set: &Value| {
            let status = &set["status"];
            let all = |count: &str| status[count] == PODS;
            status["observedGeneration"] == set["metadata"]["generation"]
                && all("readyReplicas")
                && all("updatedReplicas")
        };
        objects::until(site.client(), namespace, of_kind, name, PATIENCE, is_done).await?;
        let pods = pods(site, namespace, name).await?;
        let is_new = |(name, pod): (&String, &Pod)| {
            !pod.ip.is_empty() && before.get(name).is_none_or(|old| old.uid != pod.uid)
        };
        if pods.len() == PODS && pods.iter().all(is_new) {
            let is_recorded = |state: &Value| {
                let records = &state["status"]["podStates"];
                pods.iter()
                    .all(|(name, pod)| records[name]["nodeName"] == pod.node)
            };
            objects::until(
                site.client(),
                namespace,
                kind::PERSISTENT_POD_STATE,
                name,
                PATIENCE,
                is_recorded,
            )
            .await?;
            return Ok(pods);
        }
        ensure!(
            Instant::now() < deadline,
            "StatefulSet {name} has not all its pods again: {pods:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn pods(site: &Site, namespace: &str, name: &str) -> Result<BTreeMap<String, Pod>> {
    let mut pods = BTreeMap::new();
    for pod in objects::list(
        site.client(),
        namespace,
        kind::POD,
        &format!("{APP}={name}"),
    )
    .await?
    {
        let text = |path: &str| {
            pod.pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let name = text("/metadata/name");
        let claim = format!("data-{name}");
        let found = objects::get(site.client(), namespace, kind::CLAIM, &claim).await?;
        let claim_uid = found["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let pinned_by = pod["metadata"]["annotations"][INJECTED]
            .as_str()
            .unwrap_or("-")
            .to_owned();
        let pod = Pod {
            uid: text("/metadata/uid"),
            node: text("/spec/nodeName"),
            ip: text("/status/podIP"),
            claim: (claim, claim_uid),
            pinned_by,
        };
        pods.insert(name, pod);
    }
    Ok(pods)
}

/// One row for each pod.
fn compared(
    by: &str,
    before: &BTreeMap<String, Pod>,
    after: &BTreeMap<String, Pod>,
    keeps_ips: bool,
) -> Result<Vec<[String; 7]>> {
    let row = |(name, old): (&String, &Pod)| {
        let new = after
            .get(name)
            .with_context(|| format!("pod {name} did not come back"))?;
        ensure!(new.uid != old.uid, "pod {name} was not made anew: {new:?}");
        ensure!(
            new.node == old.node && new.claim == old.claim,
            "pod {name} was {old:?} and is {new:?}"
        );
        ensure!(
            new.ip == old.ip || !keeps_ips,
            "pod {name} had {} and has {}",
            old.ip,
            new.ip
        );
        let short = |uid: &str| uid.chars().take(8).collect::<String>();
        let kept = |old: &str, new: &str| {
            if old == new {
                format!("{new}, same")
            } else {
                format!("{old} -> {new}")
            }
        };
        Ok([
            name.clone(),
            by.to_owned(),
            kept(&short(&old.uid), &short(&new.uid)),
            kept(&old.node, &new.node),
            kept(&old.ip, &new.ip),
            kept(&old.claim.0, &new.claim.0),
            format!("PersistentPodState {}", new.pinned_by),
        ])
    };
    before.iter().map(row).collect()
}

#[cfg(test)]
mod tests;
