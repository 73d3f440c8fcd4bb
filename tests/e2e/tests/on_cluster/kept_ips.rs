//! Pods of a native StatefulSet keep their IP on their node, with Berth's host-local in place of
//! Debian's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use berth_cluster::{Component, Place};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use crate::pulls;
use crate::world::{Case, PATIENCE, gates};

const DURATION: &str = "io.kubernetes.cri/reserved-ip-duration";
const PLUGIN: &str = "/opt/cni/bin/host-local";

pub(crate) async fn a_stateful_set_keeps_its_ips(case: &Case) -> Result<()> {
    install_plugin(case).await?;
    create(case, "web", 3, "node-2", "10").await?;
    let first = ips(case, "web", 3, &[]).await?;

    for round in 0..2 {
        let before = uids(case, "web").await?;
        case.kubectl(&[
            "delete",
            "pod",
            "-n",
            &case.namespace,
            "-l",
            "app=web",
            "--wait=false",
        ])
        .await?;
        let now = ips(case, "web", 3, &before).await?;
        ensure!(
            now == first,
            "after deletion {round}: {now:?} instead of {first:?}"
        );
    }

    let before = uids(case, "web").await?;
    case.kubectl(&[
        "rollout",
        "restart",
        "-n",
        &case.namespace,
        "statefulset/web",
    ])
    .await?;
    let now = ips(case, "web", 3, &before).await?;
    ensure!(
        now == first,
        "after a rolling restart: {now:?} instead of {first:?}"
    );

    // Without a daemon on any node.
    let before = uids(case, "web").await?;
    let daemons = [
        "delete",
        "pod",
        "-n",
        install::NAMESPACE,
        "-l",
        "app.kubernetes.io/component=daemon",
    ];
    case.kubectl(
        &[
            &daemons[..],
            &["--force", "--grace-period=0", "--wait=false"],
        ]
        .concat(),
    )
    .await?;
    case.kubectl(&[
        "delete",
        "pod",
        "-n",
        &case.namespace,
        "web-0",
        "web-1",
        "--wait=false",
    ])
    .await?;
    let kept: Vec<_> = before
        .into_iter()
        .filter(|uid| !uid.0.ends_with('2'))
        .collect();
    let now = ips(case, "web", 3, &kept).await?;
    ensure!(
        now == first,
        "without daemons: {now:?} instead of {first:?}"
    );

    reboot(case, 2, "web").await?;
    let now = ips(case, "web", 3, &[]).await?;
    ensure!(now == first, "after a reboot: {now:?} instead of {first:?}");
    only_pods_have_leases(case, 2, "node-2").await
}

/// Berth's host-local in place of Debian's, on every node.
pub(crate) async fn install_plugin(case: &Case) -> Result<()> {
    case.blocking(|site| install::set(site, &["cni.install=true", "cni.reclaimAfterSeconds=20"]))
        .await?;
    // Helm waits only for the minimum number of available daemons: the last node's may start later.
    let status = [
        "rollout",
        "status",
        "daemonset/kruise-daemon",
        "-n",
        install::NAMESPACE,
        "--timeout=180s",
    ];
    case.kubectl(&status).await.map(drop)
}

/// Kills all processes of a node and deletes the files that a boot deletes, and containerd's state.
/// Waits for the pods of `name` that exist.
pub(crate) async fn reboot(case: &Case, number: u8, name: &str) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        let sh = |script: &str| cluster.exec(Place::Node(number), &["sh", "-c", script]);
        cluster.kill(Component::Kubelet(number))?;
        sh("for task in $(ctr -n k8s.io tasks ls | awk 'NR>1 {print $2}'); do kill -9 $task || true; done")?;
        cluster.kill(Component::Containerd(number))?;
        sh("for netns in /run/netns/*; do umount -l $netns; rm -f $netns; done
            for mount in $(awk '$2 ~ \"^/(run/containerd|var/lib/containerd)/\" {print $2}' /proc/self/mounts); do umount -l $mount; done
            rm -rf /run/containerd/* /var/lib/containerd/*")?;
        cluster.start(Component::Containerd(number))?;
        cluster.start(Component::Kubelet(number))
    })
    .await?;
    // The pods were ready, and the apiserver does not know of their end yet: wait until it does, or
    // until they run anew.
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let pods = pods(case, name).await?;
        let mut here = pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == Place::Node(number).to_string());
        if here.all(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(0))
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    bail!("the pods of the node did not start anew")
}

/// The addresses of the sandboxes that the reboot killed are released: only pods have leases in the
/// end.
async fn only_pods_have_leases(case: &Case, number: u8, node: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let leases = leases(case, number).await?;
        let selector = format!("spec.nodeName={node}");
        let listed = case
            .kubectl(&[
                "get",
                "pods",
                "-A",
                "--field-selector",
                &selector,
                "-o",
                "json",
            ])
            .await?;
        let listed: Value = serde_json::from_str(&listed)?;
        let pods = listed["items"].as_array().context("no list of pods")?;
        let has = |address: &str| pods.iter().any(|pod| pod["status"]["podIP"] == address);
        let left: Vec<_> = leases.keys().filter(|address| !has(address)).collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "{left:?} are leased to no pod of {node}: {leases:?}"
        );
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

pub(crate) async fn a_pod_that_moves_frees_its_ip(case: &Case) -> Result<()> {
    install_plugin(case).await?;
    create(case, "db", 1, "node-1", "1").await?;
    let first = ips(case, "db", 1, &[]).await?;
    let address = first.values().next().context("no pod")?.clone();
    let before = uids(case, "db").await?;
    let there = json!({"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node-3"}}}}});
    case.patch(kind::NATIVE_STATEFUL_SET, "db", there).await?;
    let moved = ips(case, "db", 1, &before).await?;
    let begun = Instant::now();
    ensure!(moved != first, "the pod did not move");
    let kept = leases(case, 1).await?;
    ensure!(
        kept.get(&address)
            .is_some_and(|lease| lease["state"] == "kept"),
        "{address} is not kept: {kept:?}"
    );
    // A minute after its end, and the node's daemon checks every ten seconds.
    while leases(case, 1).await?.contains_key(&address) {
        ensure!(begun.elapsed() < PATIENCE, "{address} is kept for ever");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    ensure!(
        begun.elapsed() > Duration::from_secs(20),
        "{address} was freed after {:?}",
        begun.elapsed()
    );
    Ok(())
}

pub(crate) async fn the_plugin_that_was_there_comes_back(case: &Case) -> Result<()> {
    let uninstall = [
        "uninstall",
        install::RELEASE,
        "--namespace",
        install::NAMESPACE,
        "--wait",
    ];
    for way in ["cni.install=false", "helm uninstall"] {
        install_plugin(case).await?;
        for number in 1..=3 {
            ensure!(
                is_ours(&plugin(case, number).await?),
                "node-{number} has not Berth's plugin, before {way}"
            );
        }
        if way == "helm uninstall" {
            case.blocking(move |site| site.helm(&uninstall).map(|_| ()))
                .await?;
        } else {
            case.blocking(|site| install::set(site, &["cni.install=false"]))
                .await?;
        }
        debians_is_back(case).await.context(way)?;
    }
    case.blocking(|site| install::install(site, &[&gates()]))
        .await
}

/// Daemons that end without the right to read whether the chart is installed leave the plugin in
/// place.
pub(crate) async fn the_plugin_stays_while_rights_are_away(case: &Case) -> Result<()> {
    install_plugin(case).await?;
    let daemons = ["daemonset/kruise-daemon", "-n", install::NAMESPACE];
    let binding = "rbac.authorization.k8s.io/v1/RoleBinding";
    let binding = objects::get(case.client(), install::NAMESPACE, binding, "kruise-daemon").await?;
    let away = async {
        case.kubectl(&[
            "delete",
            "rolebinding",
            "kruise-daemon",
            "-n",
            install::NAMESPACE,
        ])
        .await?;
        case.kubectl(&[&["rollout", "restart"], &daemons[..]].concat())
            .await?;
        let status = [&["rollout", "status"], &daemons[..], &["--timeout=180s"]].concat();
        let restarted = case.kubectl(&status);
        let looks = async {
            loop {
                for number in 1..=3 {
                    let plugin = plugin(case, number).await?;
                    ensure!(
                        is_ours(&plugin),
                        "node-{number} lost Berth's plugin while its daemon had no rights: {plugin}"
                    );
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::select! {
            restarted = restarted => restarted.map(drop),
            looked = looks => looked,
        }
    };
    let back = async {
        objects::create(case.client(), install::NAMESPACE, &objects::again(&binding)).await?;
        case.blocking(|site| install::set(site, &["cni.install=false"]))
            .await
    };
    pulls::restored(away, back).await
}

fn is_ours(text: &str) -> bool {
    text.contains("kept") || text.contains("doctor")
}

async fn debians_is_back(case: &Case) -> Result<()> {
    let begun = Instant::now();
    for number in 1..=3 {
        while is_ours(&plugin(case, number).await?) {
            ensure!(
                begun.elapsed() < PATIENCE,
                "node-{number} has Berth's plugin still"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let cluster = case.cluster()?;
        let link = case
            .blocking(move |_| cluster.exec(Place::Node(number), &["readlink", PLUGIN]))
            .await?;
        ensure!(
            link.trim() == "/usr/lib/cni/host-local",
            "node-{number} has {link:?}"
        );
    }
    Ok(())
}

/// The version that the node's plugin reports.
async fn plugin(case: &Case, number: u8) -> Result<String> {
    let cluster = case.cluster()?;
    let script = format!("{PLUGIN} help </dev/null 2>&1 || true");
    case.blocking(move |_| cluster.exec(Place::Node(number), &["sh", "-c", &script]))
        .await
}

/// The node's leases by their addresses, from `host-local list`.
async fn leases(case: &Case, number: u8) -> Result<BTreeMap<String, Value>> {
    let cluster = case.cluster()?;
    let text = case
        .blocking(move |_| cluster.exec(Place::Node(number), &[PLUGIN, "list", "--json"]))
        .await?;
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line)?;
        Ok((
            line["address"]
                .as_str()
                .context("a line without an address")?
                .to_owned(),
            line,
        ))
    };
    text.lines().map(line).collect()
}

async fn create(case: &Case, name: &str, replicas: usize, node: &str, minutes: &str) -> Result<()> {
    let image = case.image("one").await?;
    let stateful_set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {DURATION: minutes}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "containers": [{"name": "main", "image": image}],
                },
            },
        },
    });
    case.create(&stateful_set).await.map(|_| ())
}

async fn pods(case: &Case, name: &str) -> Result<Vec<Value>> {
    objects::list(
        case.client(),
        &case.namespace,
        kind::POD,
        &format!("app={name}"),
    )
    .await
}

/// Names and uids of the pods.
async fn uids(case: &Case, name: &str) -> Result<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let uid = |pod: &Value| {
        (
            text(&pod["metadata"]["name"]),
            text(&pod["metadata"]["uid"]),
        )
    };
    Ok(pods(case, name).await?.iter().map(uid).collect())
}

/// The pods' addresses by their names, when all are ready and none is one of `old`.
async fn ips(
    case: &Case,
    name: &str,
    replicas: usize,
    old: &[(String, String)],
) -> Result<BTreeMap<String, String>> {
    let begun = Instant::now();
    loop {
        let pods = pods(case, name).await?;
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let ready = conditions.is_some_and(|all| {
                all.iter()
                    .any(|c| c["type"] == "Ready" && c["status"] == "True")
            });
            ready
                && pod["metadata"]["deletionTimestamp"].is_null()
                && !old
                    .iter()
                    .any(|(_, uid)| pod["metadata"]["uid"] == uid.as_str())
        };
        let ready: BTreeMap<String, String> = pods
            .iter()
            .filter(is_ready)
            .filter_map(|pod| {
                Some((
                    pod["metadata"]["name"].as_str()?.into(),
                    pod["status"]["podIP"].as_str()?.into(),
                ))
            })
            .collect();
        if ready.len() == replicas {
            return Ok(ready);
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "{} of {replicas} pods of {name} are ready: {ready:?}",
            ready.len()
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
