//! The cluster itself fails in the middle of a rollout: its history goes backwards, rights and a
//! definition vanish, an admission policy refuses one pod. No more pods are out of service than
//! allowed, none is replaced, and the rollout ends as without the fault.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_cluster::{Cluster, Component};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use berth_e2e::record::{Moment, Record, Standing};
use berth_e2e::watch::PodWatch;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::pulls;
use crate::world::{Case, PATIENCE, ensure_in_place, two_at_a_time};

const PODS: usize = 6;
const MAX_UNAVAILABLE: usize = 2;
/// Long enough for the controller to notice.
const WHILE: Duration = Duration::from_secs(15);

/// A CloneSet `web` of six pods, of which two may be out of service.
async fn web(case: &Case, image: &str) -> Result<()> {
    case.clone_set("web", PODS, image, two_at_a_time(1))
        .await
        .map(drop)
}

/// Begins an update, and waits until half of the pods are patched.
async fn half_updated(case: &Case, image: &str) -> Result<Arc<PodWatch>> {
    let watch = case.watch("web").await?;
    case.set_image("web", image).await?;
    let wants = |s: &&Standing<'_>| s.pod.containers.values().any(|c| c.wanted == image);
    let patched = |now: &Moment<'_>| now.pods.values().filter(wants).count() >= PODS / 2;
    watch
        .until("half of the pods are patched", PATIENCE, patched)
        .await?;
    Ok(watch)
}

/// Never were more pods out of service than the limit allows.
fn ensure_limit(record: &Record) -> Result<()> {
    for moment in record.moments() {
        let out = moment.pods.values().filter(|s| !s.pod.serves()).count();
        ensure!(
            out <= MAX_UNAVAILABLE,
            "{out} pods were out of service: {}",
            moment.describe()
        );
    }
    Ok(())
}

/// The controller's rights are removed, and restored.
pub(crate) async fn rights_vanish_in_a_rollout(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    web(case, &one).await?;
    let before = case.pods("web").await?;
    const BINDING: &str = "rbac.authorization.k8s.io/v1/ClusterRoleBinding";
    let binding = objects::get(case.client(), "", BINDING, "kruise-manager").await?;
    let watch = half_updated(case, &two).await?;
    case.kubectl(&["delete", "clusterrolebinding", "kruise-manager"])
        .await?;
    sleep(WHILE).await;
    objects::create(case.client(), "", &objects::again(&binding))
        .await
        .context("the rights cannot be given back")?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    ensure_limit(&watch.record()?)
}

/// The definition of NodeImages is deleted with all of them, and comes back.
pub(crate) async fn the_definition_of_node_images_vanishes(case: &Case) -> Result<()> {
    // Two tags of one digest, so that the rollout needs the nodes' reports.
    let [one, two] = case.images("same", ["one", "two"]).await?;
    web(case, &one).await?;
    let before = case.pods("web").await?;
    const NAME: &str = "nodeimages.apps.kruise.io";
    let definition = objects::get(
        case.client(),
        "",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        NAME,
    )
    .await?;
    let watch = half_updated(case, &two).await?;
    let away = async {
        case.kubectl(&["delete", "crd", NAME, "--timeout=60s"])
            .await?;
        sleep(WHILE).await;
        Ok(())
    };
    let back = async {
        objects::create(case.client(), "", &objects::again(&definition))
            .await
            .map(drop)
    };
    pulls::restored(away, back).await?;
    for node in 1..=3 {
        pulls::until_node(case, node, |_| true).await?;
    }
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    ensure_limit(&watch.record()?)?;
    // NodeImages get pulls as before.
    case.create(&pulls::job("after", &two, json!({}))).await?;
    pulls::succeeded(case, "after").await.map(drop)
}

const POLICY: &str = "one-pod-keeps-its-image";

/// A policy under which one pod keeps its image.
fn policy(namespace: &str, pod: &str) -> [Value; 2] {
    let version = "admissionregistration.k8s.io/v1";
    let expression = format!(
        "object.metadata.name != '{pod}' || object.spec.containers[0].image == oldObject.spec.containers[0].image"
    );
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]});
    let inside = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    [
        json!({
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": inside},
                "validations": [{"expression": expression, "message": "this pod keeps its image"}],
            },
        }),
        json!({
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        }),
    ]
}

/// Waits until the server enforces the policy.
async fn policy_holds(case: &Case, pod: &str) -> Result<()> {
    for _ in 0..120 {
        let change =
            json!({"spec": {"containers": [{"name": objects::CONTAINER, "image": "other:1"}]}});
        let (change, inside) = (
            change.to_string(),
            ["-n", &case.namespace, "--dry-run=server"],
        );
        if case
            .kubectl(&[&["patch", "pod", pod, "-p", &change][..], &inside[..]].concat())
            .await
            .is_err()
        {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
    anyhow::bail!("the policy never held")
}

/// Runs a test while an admission policy refuses other images for this pod.
async fn with_refusal(
    case: &Case,
    pod: &str,
    test: impl Future<Output = Result<()>>,
) -> Result<()> {
    let refused = async {
        for manifest in policy(&case.namespace, pod) {
            objects::create(case.client(), "", &manifest).await?;
        }
        policy_holds(case, pod).await?;
        test.await
    };
    let lift = async {
        for kind in [
            "validatingadmissionpolicybinding",
            "validatingadmissionpolicy",
        ] {
            case.kubectl(&["delete", kind, POLICY, "--ignore-not-found"])
                .await?;
        }
        Ok(())
    };
    pulls::restored(refused, lift).await
}

/// An admission policy refuses the new image of one pod. The others are updated, and that pod when
/// the policy allows it.
pub(crate) async fn an_admission_refuses_one_pod(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    web(case, &one).await?;
    let before = case.pods("web").await?;
    let pod = before.keys().next().context("no pod")?.clone();
    let watch = case.watch("web").await?;
    let refused = async {
        case.set_image("web", &two).await?;
        let blocked = |set: &Value| {
            let conditions = set["status"]["conditions"].as_array();
            let named = |c: &Value| {
                c["type"] == "Blocked"
                    && c["reason"] == "UpdateRefused"
                    && c["message"]
                        .as_str()
                        .is_some_and(|message| message.contains("keeps its image"))
            };
            let others = set["status"]["updatedReadyReplicas"] == PODS - 1;
            others && conditions.is_some_and(|all| all.iter().any(named))
        };
        case.until(kind::CLONE_SET, "web", blocked).await?;
        let out: Vec<_> = case
            .pods("web")
            .await?
            .into_values()
            .filter(|pod| !pod.serves())
            .collect();
        ensure!(
            out.iter().all(|out| out.name == pod),
            "others are out of service, too: {out:?}"
        );
        Ok(())
    };
    with_refusal(case, &pod, refused).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    ensure_limit(&watch.record()?)
}

/// The same, and then the template is rolled back: that pod returns to service unchanged.
pub(crate) async fn a_refused_pod_returns_with_its_template(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    web(case, &one).await?;
    let before = case.pods("web").await?;
    let pod = before.keys().next().context("no pod")?.clone();
    let refused = async {
        case.set_image("web", &two).await?;
        case.until(kind::CLONE_SET, "web", |set| {
            set["status"]["updatedReadyReplicas"] == PODS - 1
        })
        .await?;
        case.set_image("web", &one).await?;
        case.done("web").await.map(drop)
    };
    with_refusal(case, &pod, refused).await?;
    let after = case.pods("web").await?;
    let restarts = (
        before.get(&pod).map(|pod| pod.restarts()),
        after.get(&pod).map(|pod| pod.restarts()),
    );
    ensure!(
        restarts.0.is_some() && restarts.0 == restarts.1,
        "{pod} was restarted, which kept its image: {restarts:?}"
    );
    Ok(())
}

/// The components that follow the apiserver's history beside Berth. Kubernetes' manual says to
/// restart them when etcd was restored.
const FOLLOWERS: [Component; 9] = [
    Component::ControllerManager,
    Component::Scheduler,
    Component::Dns,
    Component::KubeProxy(1),
    Component::KubeProxy(2),
    Component::KubeProxy(3),
    Component::Kubelet(1),
    Component::Kubelet(2),
    Component::Kubelet(3),
];

/// etcd is restored from a snapshot of before a rollout, which is lost by that.
pub(crate) async fn etcd_comes_back_from_an_old_snapshot(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    web(case, &one).await?;
    let before = case.pods("web").await?;
    let cluster = case.cluster()?;
    case.blocking(move |_| without_etcd(&cluster, copy)).await?;
    case.set_image("web", &two).await?;
    case.done("web").await?;
    let updated = case.pods("web").await?;
    let cluster = case.cluster()?;
    let restore = move |_: &_| {
        without_etcd(&cluster, |data, saved| {
            std::fs::remove_dir_all(data)?;
            copy(saved, data)?;
            Ok(std::fs::remove_dir_all(saved)?)
        })?;
        FOLLOWERS
            .into_iter()
            .try_for_each(|follower| cluster.restart(follower))
    };
    case.blocking(restore).await?;

    // The pods' containers still have the new image; the server's spec is the old one.
    let old = |set: &Value| {
        objects::is_done(set)
            && set["spec"]["template"]["spec"]["containers"][0]["image"] == one.as_str()
    };
    case.until(kind::CLONE_SET, "web", old).await?;
    let watch = case.watch("web").await?;
    let back = |now: &Moment<'_>| {
        now.pods.len() == PODS
            && now.pods.values().all(|s| {
                let restarted = s.pod.restarts()
                    > updated
                        .get(&s.pod.name)
                        .map_or(i32::MAX, |pod| pod.restarts());
                s.pod.serves() && restarted
            })
    };
    watch
        .until("each pod runs the old image again", PATIENCE, back)
        .await?;
    let after = case.pods("web").await?;
    ensure!(
        before
            .values()
            .map(|p| &p.uid)
            .eq(after.values().map(|p| &p.uid)),
        "other pods: {after:?}"
    );
    // The controller leads, and waits for no write of the lost history.
    case.patch(
        kind::CLONE_SET,
        "web",
        json!({"spec": {"replicas": PODS + 1}}),
    )
    .await?;
    case.done("web").await?;
    let logs = [
        "logs",
        "-n",
        install::NAMESPACE,
        "-l",
        "app.kubernetes.io/component=controller",
        "--tail=-1",
    ];
    let logs = case.kubectl(&logs).await?;
    ensure!(
        logs.contains("history went backwards"),
        "no replica noticed that the history went backwards"
    );
    Ok(())
}

/// Runs `work` on etcd's data while neither etcd nor the apiserver runs. Its arguments are the
/// directory of the data, and one for a copy.
fn without_etcd(cluster: &Cluster, work: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<()> {
    let log = cluster.log("etcd");
    let directory = log
        .ancestors()
        .nth(2)
        .context("a log lies in a cluster's directory")?;
    let (data, saved): (PathBuf, PathBuf) = (directory.join("etcd"), directory.join("etcd-saved"));
    cluster.stop(Component::Apiserver)?;
    cluster.stop(Component::Etcd)?;
    let worked = work(&data, &saved);
    cluster.start(Component::Etcd)?;
    cluster.start(Component::Apiserver)?;
    worked
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp")
        .arg("--archive")
        .arg(from)
        .arg(to)
        .status()?;
    ensure!(
        copied.success(),
        "{} cannot be copied to {}",
        from.display(),
        to.display()
    );
    Ok(())
}
