//! The chart itself.

use anyhow::{Result, ensure};
use berth_webhook::places;

use crate::stage::{CHART, NAMESPACE, REGISTRY, Stage};

/// What `helm template` says about these values; it needs no cluster.
fn rendered(stage: &Stage, values: &[&str]) -> Result<String> {
    let mut arguments = vec!["template", "berth", CHART, "--namespace", NAMESPACE, "--kube-version", "1.34"];
    arguments.extend(values.iter().flat_map(|value| ["--set", *value]));
    stage.helm(&arguments)
}

fn refusal(stage: &Stage, values: &[&str]) -> Result<String> {
    match rendered(stage, values) {
        Ok(_) => anyhow::bail!("{values:?} was accepted"),
        Err(error) => Ok(error.to_string()),
    }
}

#[test]
fn the_chart_is_well_formed_and_its_errors_help() -> Result<()> {
    let stage = Stage::bare()?;
    stage.helm(&["lint", CHART, "--strict", "--set", REGISTRY])?;
    stage.kubectl(&["create", "namespace", NAMESPACE], None)?;
    let manifests = rendered(&stage, &[REGISTRY])?;
    let applied = stage.kubectl(&["apply", "--dry-run=server", "--filename=-"], Some(&manifests))?;
    for name in places::CRDS.iter().chain([&places::VALIDATING]) {
        ensure!(applied.contains(name), "{name} is not in the chart:\n{applied}");
    }
    let other = [REGISTRY, "daemon.criSocket=/opt/runtime/cri.sock", "daemon.imageStore=", "controller.replicas=0"];
    stage.kubectl(&["apply", "--dry-run=server", "--filename=-"], Some(&rendered(&stage, &other)?))?;

    ensure!(!manifests.contains("kind: MutatingWebhookConfiguration"), "nothing is mutated by a webhook");
    ensure!(!manifests.contains("caBundle:"), "a caBundle in a manifest is taken away by the next upgrade");
    let keep = manifests.matches("helm.sh/resource-policy: keep").count();
    ensure!(keep == places::CRDS.len(), "{keep} objects are kept on uninstall");

    for (values, says) in [
        (vec![], "make images REGISTRY="),
        (vec!["image.registry=https://registry.test"], "no scheme"),
        (vec![REGISTRY, "controller.replica=1"], "'replica' not allowed"),
        (vec![REGISTRY, "controller.certificates.certValidity=1y"], "certValidity"),
        (vec![REGISTRY, "daemon.criSocket=run/containerd.sock"], "criSocket"),
        (vec![REGISTRY, "controller.replicas=-1"], "replicas"),
    ] {
        let error = refusal(&stage, &values)?;
        ensure!(error.contains(says), "{values:?}: {error:?} does not say {says:?}");
    }
    Ok(())
}

#[test]
fn uninstalling_keeps_the_objects_and_installing_again_takes_them_over() -> Result<()> {
    let stage = Stage::with_chart()?;
    let object = serde_json::to_string(&crate::stage::node_image("v1beta1", "kept", "1"))?;
    stage.kubectl(&["create", "--filename=-"], Some(&object))?;
    stage.helm(&["uninstall", "berth", "--namespace", NAMESPACE])?;
    stage.kubectl(&["get", "nodeimages.v1beta1.apps.kruise.io", "kept"], None)?;
    stage.helm(&["install", "berth", CHART, "--namespace", NAMESPACE, "--set", REGISTRY])?;
    stage.kubectl(&["get", "nodeimages.v1beta1.apps.kruise.io", "kept"], None)?;
    Ok(())
}
