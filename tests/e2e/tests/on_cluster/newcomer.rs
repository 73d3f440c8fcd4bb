//! The first hour: a user with the role `edit` of one namespace, README's first CloneSet, and each
//! namespaced kind.

use anyhow::{Context, Result, ensure};
use berth_api::kinds::{KINDS, Kind};
use berth_e2e::objects::kind;
use serde_json::json;

use crate::world::{Case, ensure_in_place};

const USER: &str = "alice";

/// The part of README between the first of these two texts and the next occurrence of the second.
fn between(from: &str, to: &str) -> Result<&'static str> {
    let readme = include_str!("../../../../README.md");
    let found = readme
        .split_once(from)
        .and_then(|(_, rest)| rest.split_once(to));
    found
        .map(|(text, _)| text)
        .with_context(|| format!("README.md has nothing between {from:?} and {to:?}"))
}

/// Applies a manifest as the user.
async fn apply(case: &Case, manifest: &str) -> Result<()> {
    let file = std::env::temp_dir().join(format!("{}-{}.yaml", case.namespace, std::process::id()));
    std::fs::write(&file, manifest)?;
    let path = file.to_string_lossy().into_owned();
    let applied = as_user(case, &["apply", "-f", &path]).await;
    std::fs::remove_file(&file)?;
    applied.map(|_| ())
}

async fn as_user(case: &Case, arguments: &[&str]) -> Result<String> {
    case.kubectl(&[arguments, &["-n", &case.namespace, "--as", USER]].concat())
        .await
}

async fn bind(case: &Case, role: &str) -> Result<()> {
    let binding = format!("{USER}-{role}");
    let arguments = [
        "create",
        "rolebinding",
        &binding,
        "--clusterrole",
        role,
        "--user",
        USER,
        "-n",
        &case.namespace,
    ];
    case.kubectl(&arguments).await.map(|_| ())
}

/// Whether the user may write or read objects of a kind in the namespace, or in the cluster for a
/// cluster-scoped kind. kubectl ends with 1 for "no".
async fn may(case: &Case, verb: &str, kind: &Kind, subresource: &str) -> bool {
    let resource = format!("{}.{}", kind.plural, kind.group);
    let mut arguments = vec!["auth", "can-i", verb, &resource, "--as", USER];
    if !subresource.is_empty() {
        arguments.extend(["--subresource", subresource]);
    }
    if kind.namespaced {
        arguments.extend(["-n", &case.namespace])
    } else {
        arguments.push("-A")
    }
    case.kubectl(&arguments)
        .await
        .is_ok_and(|answer| answer.lines().any(|line| line.trim() == "yes"))
}

pub(crate) async fn edit_reaches_each_namespaced_kind(case: &Case) -> Result<()> {
    bind(case, "view").await?;
    for kind in &KINDS {
        ensure!(
            may(case, "list", kind, "").await == kind.namespaced,
            "view: list {}",
            kind.plural
        );
        ensure!(
            !may(case, "create", kind, "").await,
            "view: create {}",
            kind.plural
        );
    }
    bind(case, "edit").await?;
    for kind in &KINDS {
        for verb in ["create", "patch", "delete"] {
            ensure!(
                may(case, verb, kind, "").await == kind.namespaced,
                "edit: {verb} {}",
                kind.plural
            );
        }
        ensure!(
            !may(case, "patch", kind, "status").await,
            "edit: patch the status of {}",
            kind.plural
        );
    }
    Ok(())
}

pub(crate) async fn edit_follows_readme_to_a_restart(case: &Case) -> Result<()> {
    bind(case, "edit").await?;
    let (one, two) = (case.image("1.28").await?, case.image("1.29").await?);
    let own = |text: &str| text.replace("nginx:1.28", &one).replace("nginx:1.29", &two);
    apply(case, &own(between("<<'YAML'\n", "\nYAML\n")?)).await?;
    case.until(kind::CLONE_SET, "web", |set| {
        set["status"]["updatedAvailableReplicas"] == 3
    })
    .await?;
    let before = case.pods("web").await?;
    let patch = between(" -p '", "'\n")?;
    as_user(
        case,
        &["patch", "cloneset", "web", "--type=json", "-p", &own(patch)],
    )
    .await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)?;
    as_user(case, &["scale", "cloneset", "web", "--replicas=2"]).await?;
    case.done("web").await?;

    let pods = case.pods("web").await?;
    let pod = &pods
        .values()
        .find(|pod| !pod.terminating)
        .context("web has no pod that runs")?
        .name;
    let request = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ContainerRecreateRequest",
        "metadata": {"name": "restart-web"},
        "spec": {"podName": pod, "containers": [{"name": "web"}]},
    });
    apply(case, &request.to_string()).await?;
    let completed = "--for=jsonpath={.status.phase}=Completed";
    as_user(
        case,
        &[
            "wait",
            "containerrecreaterequest/restart-web",
            completed,
            "--timeout=120s",
        ],
    )
    .await
    .map(|_| ())
}
