//! Installs the chart, and uninstalls it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use berth_api::kinds::{KINDS, Kind};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;

use crate::images;
use crate::site::Site;

/// The namespace that the chart is installed into.
pub const NAMESPACE: &str = "kruise-system";
/// The release's name.
pub const RELEASE: &str = "berth";

fn chart() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../charts/berth")
        .display()
        .to_string()
}

/// The chart keeps its CRDs when it is uninstalled: a test that installed them for a while removes
/// them.
fn crd_names() -> impl Iterator<Item = String> {
    KINDS.iter().map(Kind::crd)
}

/// Refuses a cluster that has Berth or OpenKruise already, because neither must be changed or
/// removed.
///
/// # Errors
/// Names the objects that exist.
pub async fn check_free(site: &Site) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(site.client().clone());
    for name in crd_names() {
        if crds.get_opt(&name).await?.is_some() {
            bail!(
                "the cluster has the CustomResourceDefinition {name} already, so OpenKruise or Berth is or was installed \
                 in it: use a cluster without, or delete it if it is a leftover"
            );
        }
    }
    Ok(())
}

/// Installs the chart with images that were pushed before, and waits until it is ready.
///
/// # Errors
/// When helm fails; the error has its own words.
pub fn install(site: &Site, values: &[&str]) -> Result<()> {
    let registry = format!("image.registry={}", site.registry());
    let tag = format!("image.tag={}", images::TAG);
    let chart = chart();
    let mut arguments = vec![
        "install",
        RELEASE,
        &chart,
        "--namespace",
        NAMESPACE,
        "--create-namespace",
    ];
    arguments.extend([
        "--wait",
        "--timeout",
        "3m",
        "--set",
        &registry,
        "--set",
        &tag,
    ]);
    arguments.extend(values.iter().flat_map(|value| ["--set", value]));
    site.helm(&arguments)
        .context("cannot install the chart")
        .map(|_| ())
}

/// Renders the chart's manifests with these values, without installing them.
///
/// # Errors
/// When the chart refuses a value; the error has its words.
pub fn template(site: &Site, values: &[&str]) -> Result<String> {
    let (chart, registry) = (chart(), format!("image.registry={}", site.registry()));
    let mut arguments = vec![
        "template",
        RELEASE,
        &chart,
        "--kube-version",
        "1.34",
        "--namespace",
        NAMESPACE,
    ];
    arguments.extend(["--set", &registry]);
    arguments.extend(values.iter().flat_map(|value| ["--set", value]));
    site.helm(&arguments)
}

/// Sets values of the release, leaves all others, and waits until it is ready.
///
/// # Errors
/// When helm fails; the error has its own words.
pub fn set(site: &Site, values: &[&str]) -> Result<()> {
    let chart = chart();
    let mut arguments = vec![
        "upgrade",
        RELEASE,
        &chart,
        "--namespace",
        NAMESPACE,
        "--reuse-values",
    ];
    arguments.extend(["--wait", "--timeout", "3m"]);
    arguments.extend(values.iter().flat_map(|value| ["--set", value]));
    site.helm(&arguments)
        .context("cannot upgrade the release")
        .map(|_| ())
}

/// Removes the release, its CRDs and its namespace.
///
/// # Errors
/// When one of them cannot be removed; the others are, as far as possible.
pub async fn uninstall(site: &Site) -> Result<()> {
    let released = site.helm(&[
        "uninstall",
        RELEASE,
        "--namespace",
        NAMESPACE,
        "--wait",
        "--ignore-not-found",
    ]);
    let crds: Api<CustomResourceDefinition> = Api::all(site.client().clone());
    for name in crd_names() {
        delete(&crds, &name).await?;
    }
    delete(
        &Api::<k8s_openapi::api::core::v1::Namespace>::all(site.client().clone()),
        NAMESPACE,
    )
    .await?;
    released.map(|_| ())
}

/// Deletes an object; a missing object is no error.
///
/// # Errors
/// When the server refuses.
pub async fn delete<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: kube::Resource + Clone + k8s_openapi::serde::de::DeserializeOwned + std::fmt::Debug,
{
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot delete {name}")),
    }
}
