//! Runs the commands of the pages as they are written, twice, on the page's own manifests. The
//! apiserver warns of none of the manifests.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_api::names::label::DELETE_PROTECTION;
use berth_cluster::Image;
use berth_e2e::install::{NAMESPACE, RELEASE};
use berth_e2e::pages::{self, Page, Part, why_not_run};

use crate::world::{Case, PATIENCE};

/// Pages use no namespace, or this one.
const WHERE: &str = "default";
/// A warning of the apiserver is an error of kubectl.
const STRICT: &str = r#"kubectl() {
  # kubectl takes no flags before the name of a plugin.
  if [ "$1" = berth ]; then command kubectl "$@"; else command kubectl --warnings-as-errors "$@"; fi
}"#;
/// Workloads that many pages mention, for a page that creates none of this name.
const BASE: [(&str, &str); 2] = [
    (
        "web",
        r#"apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: "web:1"}, {name: log, image: "log:1", env: [{name: PORT, value: "8081"}]}]"#,
    ),
    (
        "db",
        r#"apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: db, image: "db:1"}]}"#,
    ),
];

/// The pages that a new user reads first.
pub(crate) async fn each_command_of_readme_runs(case: &Case) -> Result<()> {
    let mut pages = pages::all()?;
    pages.retain(|page| page.name.ends_with("README.md"));
    ensure!(!pages.is_empty(), "there is no README");
    run_all(case, pages).await
}

pub(crate) async fn each_command_of_a_page_runs_twice(case: &Case) -> Result<()> {
    run_all(case, pages::all()?).await
}

/// Runs the pages and the chart's notes one after the other; the error has the first command of
/// each page that does not run.
async fn run_all(case: &Case, mut pages: Vec<Page>) -> Result<()> {
    let notes = case
        .blocking(|site| site.helm(&["get", "notes", RELEASE, "--namespace", NAMESPACE]))
        .await?;
    pages.push(Page {
        name: "NOTES.txt".to_owned(),
        parts: pages::of_notes(&notes),
    });
    let mut failed = Vec::new();
    pages.retain(|page| {
        page.parts
            .iter()
            .any(|part| is_run(part) || matches!(part, Part::Manifest(_)))
    });
    for page in &pages {
        if let Err(error) = of_page(case, page).await {
            failed.push(format!("{}: {error:#}", page.name));
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

fn is_run(part: &Part) -> bool {
    matches!(part, Part::Command { text, .. } if why_not_run(text).is_none())
}

/// The manifests of a page, after the workloads that it mentions.
fn manifests(page: &Page) -> Vec<&str> {
    let own = page.parts.iter().filter_map(|part| match part {
        Part::Manifest(text) => Some(text.as_str()),
        Part::Command { .. } => None,
    });
    let own: Vec<&str> = own.collect();
    let makes = |name: &str| {
        let is_named = |text: &str| {
            text.contains(&format!("name: {name}}}")) || text.contains(&format!("name: {name}\n"))
        };
        own.iter()
            .flat_map(|text| text.split("---\n"))
            .any(|text| text.contains("template:") && is_named(text))
    };
    let base = BASE
        .iter()
        .filter(|(name, _)| !page.name.ends_with(".yaml") && !makes(name))
        .map(|(_, text)| *text);
    base.chain(own.iter().copied()).collect()
}

async fn of_page(case: &Case, page: &Page) -> Result<()> {
    let manifests = manifests(page);
    images(case, page, &manifests).await?;
    let ran = applied_and_run(case, page, &manifests).await;
    cleaned(case, &manifests)
        .await
        .with_context(|| format!("after {}", page.name))?;
    ran
}

async fn applied_and_run(case: &Case, page: &Page, manifests: &[&str]) -> Result<()> {
    for namespace in namespaces(manifests) {
        case.shell(&format!(
            "kubectl create namespace {namespace} --dry-run=client -o yaml | kubectl apply -f -"
        ))
        .await?;
    }
    for manifest in manifests {
        // Objects that cannot be changed are created anew.
        let apply = "kubectl apply -f - <<'ONE' || kubectl replace --force -f - <<'TWO'";
        until_run(case, &format!("{apply}\n{manifest}\nONE\n{manifest}\nTWO"))
            .await
            .context("a manifest")?;
        if BASE.map(|(_, base)| base).contains(manifest) {
            let pods = "[ $(kubectl get pods -n default -o name | wc -l) -gt 0 ]";
            let ready = "kubectl wait pods -n default --all --for=condition=Ready --timeout=60s";
            until_run(case, &format!("{pods} && {ready}")).await?;
        }
    }
    for part in &page.parts {
        match part {
            Part::Command { text, is_refused } if is_run(part) => {
                runs(case, text, *is_refused)
                    .await
                    .with_context(|| text.clone())?;
            }
            Part::Command { .. } | Part::Manifest(_) => {}
        }
    }
    Ok(())
}

/// Deletes the objects of the page's manifests and commands.
async fn cleaned(case: &Case, manifests: &[&str]) -> Result<()> {
    let protected = "namespaces,deployments,clonesets,services";
    case.shell(&format!(
        "kubectl label {protected} --all -n {WHERE} {DELETE_PROTECTION}-"
    ))
    .await?;
    for manifest in manifests.iter().rev() {
        let delete = format!(
            "kubectl delete --ignore-not-found --timeout=180s -f - <<'YAML'\n{manifest}\nYAML"
        );
        case.shell(&delete).await?;
    }
    let made = "clonesets,statefulsets.apps.kruise.io,persistentpodstates,pods";
    case.shell(&format!(
        "kubectl delete {made} --all -n {WHERE} --timeout=180s"
    ))
    .await?;
    for namespace in namespaces(manifests) {
        case.shell(&format!(
            "kubectl delete namespace {namespace} --ignore-not-found --timeout=180s"
        ))
        .await?;
    }
    Ok(())
}

/// The namespaces in manifests that neither Kubernetes nor the chart makes.
fn namespaces(manifests: &[&str]) -> BTreeSet<String> {
    let lines = manifests.iter().flat_map(|text| text.lines());
    let named = lines.filter_map(|line| line.strip_prefix("  namespace: "));
    named
        .map(|name| name.trim().to_owned())
        .filter(|name| name != WHERE && name != NAMESPACE)
        .collect()
}

/// Runs the command twice. Objects that the first run deletes, mostly a pod, are created anew
/// before the second.
async fn runs(case: &Case, text: &str, is_refused: bool) -> Result<()> {
    if !is_refused {
        until_run(case, text).await?;
        return until_run(case, text).await.context("for the second time");
    }
    let script = real(case, text).await?;
    for _ in 0..2 {
        let refused = case
            .shell(&script)
            .await
            .err()
            .context("the apiserver does not refuse it")?;
        ensure!(format!("{refused:#}").contains("denied"), "{refused:#}");
    }
    Ok(())
}

/// Runs the command until it succeeds, on existing pods. Objects appear a while after their
/// creators. A second try shows no warning.
async fn until_run(case: &Case, text: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE / 3;
    let is_warned = |error: &str| {
        ["warning received", "warnings received"]
            .iter()
            .any(|words| error.contains(words))
    };
    loop {
        let script = format!("{STRICT}\n{}", real(case, text).await?);
        match case.shell(&script).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline || is_warned(&format!("{error:#}")) => {
                return Err(error);
            }
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Replaces each missing pod that a page names by an existing one of the same workload, and returns
/// the text.
async fn real(case: &Case, text: &str) -> Result<String> {
    let pods = case
        .kubectl(&[
            "get",
            "pods",
            "-n",
            WHERE,
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ])
        .await?;
    let pods: Vec<&str> = pods.split_whitespace().collect();
    let words: Vec<&str> = text
        .split([' ', '\n', '}', ','])
        .filter(|word| !word.is_empty())
        .collect();
    let mut real = text.to_owned();
    for pair in words
        .windows(2)
        .filter(|pair| ["pod", "podName:"].contains(&pair[0]) && !pods.contains(&pair[1]))
    {
        let workload = pair[1]
            .rsplit_once('-')
            .map_or(pair[1], |(workload, _)| workload);
        let of_workload = pods
            .iter()
            .find(|pod| pod.rsplit_once('-').is_some_and(|(of, _)| of == workload));
        if let Some(pod) = of_workload {
            real = real.replace(
                &format!("{} {}", pair[0], pair[1]),
                &format!("{} {pod}", pair[0]),
            );
        }
    }
    Ok(real)
}

/// Pushes an image under each name in the page's manifests and commands.
async fn images(case: &Case, page: &Page, manifests: &[&str]) -> Result<()> {
    let commands = page.parts.iter().filter_map(|part| match part {
        Part::Command { text, .. } => Some(text.as_str()),
        Part::Manifest(_) => None,
    });
    let mut names = BTreeSet::new();
    for text in manifests.iter().copied().chain(commands) {
        for rest in text.split("image: ").skip(1) {
            let end = rest
                .find(|c: char| c.is_whitespace() || [',', '}', ']'].contains(&c))
                .unwrap_or(rest.len());
            names.insert(rest[..end].trim_matches(['"', '\'']).to_owned());
        }
    }
    names.retain(|name| !name.is_empty() && !name.contains('@'));
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        for name in names {
            cluster.push_image(&name, &Image::hello(&name)?)?;
        }
        Ok(())
    })
    .await
}
