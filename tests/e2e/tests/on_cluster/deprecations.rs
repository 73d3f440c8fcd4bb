//! Berth uses nothing that Kubernetes deprecates or warns of.

use anyhow::{Context, Result, ensure};
use berth_e2e::install::{self, NAMESPACE, RELEASE};

use crate::world::{Case, gates};

/// Deprecated resources that Kubernetes' own components request, on a cluster without Berth too.
const OF_KUBERNETES: [&str; 1] = ["/v1/endpoints"];

/// The apiserver counts since its start, so this runs after all other tests.
pub(crate) async fn no_request_is_for_a_deprecated_api(case: &Case) -> Result<()> {
    const METRIC: &str = "apiserver_requested_deprecated_apis";
    let metrics = case.kubectl(&["get", "--raw", "/metrics"]).await?;
    let labels = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(METRIC)?.strip_prefix('{'));
    let requested: Vec<String> = labels
        .map(|labels| {
            let of = |name: &str| {
                let value = labels
                    .split_once(&format!("{name}=\""))
                    .map(|(_, rest)| rest);
                value
                    .and_then(|rest| rest.split('"').next())
                    .unwrap_or_default()
            };
            format!("{}/{}/{}", of("group"), of("version"), of("resource"))
        })
        .collect();
    let found = OF_KUBERNETES
        .iter()
        .all(|own| requested.iter().any(|one| one == own));
    ensure!(
        found,
        "{METRIC} names {requested:?}, and Kubernetes itself requests {OF_KUBERNETES:?}"
    );
    let ours: Vec<_> = requested
        .iter()
        .filter(|one| !OF_KUBERNETES.contains(&one.as_str()))
        .collect();
    ensure!(
        ours.is_empty(),
        "requests in this run were for deprecated APIs, as GROUP/VERSION/RESOURCE: {ours:?}"
    );
    Ok(())
}

/// The release's manifests, and those with other values.
pub(crate) async fn chart_brings_no_warning(case: &Case) -> Result<()> {
    let installed = case
        .blocking(|site| site.helm(&["get", "manifest", RELEASE, "--namespace", NAMESPACE]))
        .await?;
    ensure_no_warning(case, &installed)
        .await
        .context("the release")?;
    let values = [
        &gates(),
        "networkPolicy.enabled=true",
        "podPinning.by=webhook",
        "cni.install=true",
    ]
    .map(str::to_owned);
    let other = case
        .blocking(move |site| install::template(site, &values.each_ref().map(String::as_str)))
        .await?;
    ensure_no_warning(case, &other)
        .await
        .context("the chart with other values")
}

/// Creates the objects in a dry run. The apiserver warns of objects that exist already, too, before
/// it refuses them.
async fn ensure_no_warning(case: &Case, manifest: &str) -> Result<()> {
    let file = std::env::temp_dir().join(format!("{}.yaml", case.namespace));
    std::fs::write(&file, manifest)?;
    let create = format!(
        "kubectl create --dry-run=server -f {} 2>&1 || true",
        file.display()
    );
    let said = case.shell(&create).await;
    std::fs::remove_file(file)?;
    let said = said?;
    let count = |is_it: fn(&&str) -> bool, text: &str| text.lines().filter(is_it).count();
    let objects = count(|line| line.starts_with("kind: "), manifest);
    let answered =
        |line: &&str| line.contains("created (server dry run)") || line.contains("(AlreadyExists)");
    ensure!(
        objects > 0 && count(answered, &said) == objects,
        "{objects} objects were sent, and the answer is {said}"
    );
    let warnings: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("Warning: "))
        .collect();
    ensure!(
        warnings.is_empty(),
        "the apiserver warns: {}",
        warnings.join("\n")
    );
    Ok(())
}
