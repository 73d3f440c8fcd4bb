//! The chart itself.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use berth_api::kinds::{KINDS, Kind};
use berth_webhook::places;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{CHART, NAMESPACE, REGISTRY, Stage, helm};

/// The output of `helm template` with these values; it needs no cluster.
pub(crate) fn rendered(values: &[&str]) -> Result<String> {
    rendered_from(CHART, values)
}

fn rendered_from(chart: &str, values: &[&str]) -> Result<String> {
    let mut arguments = vec![
        "template",
        "berth",
        chart,
        "--namespace",
        NAMESPACE,
        "--kube-version",
        "1.34",
    ];
    arguments.extend(values.iter().flat_map(|value| ["--set", *value]));
    helm(&arguments)
}

fn refusal(values: &[&str]) -> Result<String> {
    match rendered(values) {
        Ok(_) => anyhow::bail!("{values:?} was accepted"),
        Err(error) => Ok(error.to_string()),
    }
}

/// Applies the manifests as a dry run of the apiserver.
fn dry_run(stage: &Stage, manifests: &str) -> Result<String> {
    let arguments = ["apply", "--dry-run=server", "--filename=-"];
    stage.kubectl(&arguments, Some(manifests))
}

#[test]
fn apiserver_accepts_the_chart_and_its_reinstall() -> Result<()> {
    let stage = Stage::bare()?;
    stage.kubectl(&["create", "namespace", NAMESPACE], None)?;
    let applied = dry_run(&stage, &rendered(&[REGISTRY])?)?;
    for name in KINDS
        .iter()
        .map(Kind::crd)
        .chain([places::VALIDATING.to_owned()])
    {
        ensure!(
            applied.contains(&name),
            "{name} is not in the chart:\n{applied}"
        );
    }
    each_pinning_is_accepted(&stage)?;
    uninstall_keeps_objects_and_reinstall_adopts_them(&stage)
}

fn each_pinning_is_accepted(stage: &Stage) -> Result<()> {
    let mut versions = vec![
        "--kube-version=1.34",
        "--api-versions=admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy",
    ];
    // Where both are served, as on request from Kubernetes 1.36 on, v1beta1 is deprecated.
    let group = ["get", "--raw", "/apis/admissionregistration.k8s.io/v1"];
    if stage
        .kubectl(&group, None)?
        .contains("\"MutatingAdmissionPolicy\"")
    {
        versions.push("--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy");
    }
    let digest = digest();
    let other = "daemon.criSocket=/opt/runtime/cri.sock,daemon.imageStore=,controller.replicas=0";
    for (by, more) in [("policy", hardened(&digest)), ("none", vec![other])] {
        let pinning = format!("podPinning.by={by}");
        let values = [&[REGISTRY, &pinning], &more[..]].concat();
        let values: Vec<_> = values.iter().flat_map(|value| ["--set", *value]).collect();
        let chart = ["template", "berth", CHART, "--namespace", NAMESPACE];
        let arguments = [&chart[..], &versions, &values].concat();
        let right = "resources: [mutatingwebhookconfigurations]";
        for unused in [
            "controller.customResourceEnable=CloneSet\\,StatefulSet",
            "controller.featureGates=PodWebhook=false",
        ] {
            let manifests = helm(&[&arguments[..], &["--set", unused]].concat())?;
            ensure!(
                !manifests.contains(right),
                "{by}, {unused}: a right to mutating webhooks is left"
            );
        }
        let manifests = helm(&arguments)?;
        ensure!(
            manifests.contains(right),
            "{by}: no right to what SidecarSets need"
        );
        ensure!(
            manifests.contains("kind: MutatingAdmissionPolicy\n") == (by == "policy"),
            "{by}"
        );
        dry_run(stage, &manifests)?;
    }
    Ok(())
}

#[test]
fn manifests_leave_bundles_and_pod_webhooks_open() -> Result<()> {
    helm(&["lint", CHART, "--strict", "--set", REGISTRY])?;
    let manifests = rendered(&[REGISTRY])?;
    let webhook = "kind: MutatingWebhookConfiguration\nmetadata:\n  name: kruise-mutating-webhook-configuration";
    ensure!(
        manifests.contains(webhook)
            && !manifests.contains("failurePolicy: Fail\n    timeoutSeconds"),
        "no webhook for pods yet"
    );
    ensure!(
        !manifests.contains("caBundle:"),
        "a caBundle in a manifest is taken away by the next upgrade"
    );
    let keep = manifests.matches("helm.sh/resource-policy: keep").count();
    ensure!(keep == KINDS.len(), "{keep} objects are kept on uninstall");
    Ok(())
}

#[test]
fn refused_values_get_a_helpful_error() -> Result<()> {
    for (values, says) in [
        (vec![], "make images REGISTRY="),
        (vec!["image.registry=https://registry.test"], "no scheme"),
        (
            vec![REGISTRY, "controller.replica=1"],
            "'replica' not allowed",
        ),
        (
            vec![REGISTRY, "controller.certificates.certValidity=1y"],
            "certValidity",
        ),
        (
            vec![REGISTRY, "controller.certificates.certValidity=9m"],
            "certValidity",
        ),
        (
            vec![REGISTRY, "controller.certificates.caValidity=1h"],
            "caValidity 1h is shorter than certValidity 8760h",
        ),
        (
            vec![REGISTRY, "controller.leaderElection.renewDeadline=10s"],
            "is not shorter than leaseDuration 4s",
        ),
        (
            vec![REGISTRY, "controller.leaderElection.retryPeriod=2500ms"],
            "is not shorter than renewDeadline 3s",
        ),
        (
            vec![REGISTRY, "budgets.apiserverRequestTimeout=60"],
            "apiserverRequestTimeout",
        ),
        (
            vec![REGISTRY, "budgets.apiserverRequestTimeout=4999ms"],
            "is not between 5s and 1h",
        ),
        (
            vec![REGISTRY, "budgets.apiserverRequestTimeout=2h"],
            "is not between 5s and 1h",
        ),
        (
            vec![REGISTRY, "budgets.exempt={system:authenticated}"],
            "budgets.exempt: system:authenticated has everybody",
        ),
        (vec![REGISTRY, "budgets.exempt={oncall,oncall}"], "exempt"),
        (vec![REGISTRY, "budgets.exempt[0]=on\\,call"], "exempt"),
        (
            vec![REGISTRY, "daemon.criSocket=run/containerd.sock"],
            "criSocket",
        ),
        (vec![REGISTRY, "controller.replicas=-1"], "replicas"),
        (
            vec![REGISTRY, "controller.protectedNamespaces={a_b}"],
            "protectedNamespaces",
        ),
        (vec![REGISTRY, "image.digests.daemon=sha256:abc"], "digests"),
        (
            vec![REGISTRY, "networkPolicy.apiserverCIDRs={10.0.0.1}"],
            "apiserverCIDRs",
        ),
        (
            vec![REGISTRY, "podPinning.by=policy"],
            "set it to auto, which takes the webhook",
        ),
        (vec![REGISTRY, "podPinning.by=hook"], "podPinning"),
        (
            vec![REGISTRY, "deletionProtection.crdGroups={apps}"],
            "crdGroups",
        ),
        (
            vec![REGISTRY, "deletionProtection.crdGroups={*}"],
            "crdGroups",
        ),
        (
            vec![REGISTRY, "deletionProtection.crdGroups={,example.com}"],
            "crdGroups",
        ),
    ] {
        let error = refusal(&values)?;
        ensure!(
            error.contains(says),
            "{values:?}: {error:?} does not say {says:?}"
        );
    }
    Ok(())
}

#[test]
fn the_budgets_webhook_is_there_where_one_of_their_gates_is_on() -> Result<()> {
    let (budget, distributed) = ("PodUnavailableBudget", "DistributedPodDisruptionBudget");
    let no_deletions = "PodUnavailableBudgetDeleteGate=false";
    let also = |gate: &str| format!("{no_deletions}\\,{gate}");
    for (kinds, gates, is_there) in [
        ("", no_deletions.to_owned(), true),
        ("CloneSet", String::new(), false),
        (budget, String::new(), true),
        (budget, no_deletions.to_owned(), false),
        (budget, also("PodUnavailableBudgetUpdateGate=true"), true),
        (
            distributed,
            also("PodUnavailableBudgetUpdateGate=true"),
            true,
        ),
        (budget, also("AllAlpha=true"), true),
        (
            budget,
            also("AllAlpha=true\\,PodUnavailableBudgetUpdateGate=false"),
            false,
        ),
        (
            budget,
            also("PodUnavailableBudgetUpdateGate=true\\,PodWebhook=false"),
            false,
        ),
    ] {
        let kinds = format!("controller.customResourceEnable={kinds}");
        let gates = format!("controller.featureGates={gates}");
        let manifests = rendered(&[REGISTRY, "podPinning.by=none", &kinds, &gates])?;
        let found = manifests.contains("\n  name: kruise-budget-webhook-configuration\n");
        ensure!(found == is_there, "{kinds} {gates}: {found}");
        let has_right = manifests.contains("resourceNames: [kruise-budget-webhook-configuration]");
        ensure!(
            has_right == is_there,
            "{kinds} {gates}: the right to it: {has_right}"
        );
    }
    Ok(())
}

#[test]
fn deletion_protection_comes_with_beta_gates() -> Result<()> {
    let beta_without = "AllBeta=true\\,ResourcesDeletionProtection=false";
    for (gates, is_there) in [
        ("", false),
        ("AllAlpha=true", false),
        ("AllBeta=true", true),
        (beta_without, false),
    ] {
        let gates = format!("controller.featureGates={gates}");
        let found = rendered(&[REGISTRY, &gates])?
            .contains("\n  name: kruise-deletion-protection-values\n");
        ensure!(found == is_there, "{gates}: {found}");
    }
    Ok(())
}

#[test]
fn eviction_right_needs_sidecar_sets() -> Result<()> {
    for (kinds, is_there) in [
        ("", true),
        ("SidecarSet", true),
        ("CloneSet\\,SidecarSet", true),
        ("CloneSet", false),
    ] {
        let kinds = format!("controller.customResourceEnable={kinds}");
        let manifests = rendered(&[REGISTRY, &kinds])?;
        let found = manifests.contains("resources: [pods/eviction]\n    verbs: [create]\n");
        ensure!(found == is_there, "{kinds}: {found}");
    }
    Ok(())
}

/// The resources of pods for which a policy is evaluated, for any user.
fn pod_resources(policy: &Value) -> Vec<String> {
    let rules = policy["spec"]["matchConstraints"]["resourceRules"]
        .as_array()
        .into_iter()
        .flatten();
    let excluded = policy["spec"]["matchConstraints"]["excludeResourceRules"]
        .as_array()
        .into_iter()
        .flatten();
    let of_pods = |rule: &Value| -> Vec<String> {
        let in_core = rule["apiGroups"]
            .as_array()
            .is_some_and(|groups| groups.iter().any(|g| g == "" || g == "*"));
        let resources = rule["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let resources = resources.filter(|name| name.starts_with("pods") || name.starts_with('*'));
        resources.filter(|_| in_core).map(str::to_owned).collect()
    };
    let excluded: Vec<String> = excluded.flat_map(of_pods).collect();
    let spares_pods = ["pods", "pods/*"]
        .iter()
        .all(|name| excluded.iter().any(|other| other == name));
    rules.flat_map(of_pods).filter(|_| !spares_pods).collect()
}

/// The apiserver reads both pods for each policy that matches, before it knows the user.
#[test]
fn policies_match_no_pod_resource_without_need() -> Result<()> {
    let versions = "--api-versions=admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy";
    let found = |values: &[&str]| -> Result<BTreeMap<String, Vec<String>>> {
        let head = [
            "template",
            "berth",
            CHART,
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.34",
            versions,
        ];
        let values: Vec<_> = values.iter().flat_map(|value| ["--set", *value]).collect();
        let manifests = helm(&[&head[..], &values].concat())?;
        let policies = manifests
            .split("\n---\n")
            .filter(|text| text.contains("AdmissionPolicy\n"));
        let policies: Vec<Value> = policies
            .map(serde_saphyr::from_str)
            .collect::<Result<_, _>>()?;
        let named = policies.iter().map(|policy| {
            (
                policy["metadata"]["name"].to_string(),
                pod_resources(policy),
            )
        });
        Ok(named
            .filter(|(_, resources)| !resources.is_empty())
            .collect())
    };
    let expected = |all: &[(&str, &[&str])]| -> BTreeMap<String, Vec<String>> {
        let text = |resources: &[&str]| resources.iter().map(|name| (*name).to_owned()).collect();
        all.iter()
            .map(|(name, resources)| (format!("{name:?}"), text(resources)))
            .collect()
    };
    let gates = "controller.featureGates=ResourcesDeletionProtection=true";
    let always: [(&str, &[&str]); 4] = [
        // Only for objects with a label other than Always.
        ("kruise-deletion-protection-values", &["*"]),
        ("kruise-manager-evictions", &["pods/eviction"]),
        ("kruise-manager-owned", &["pods", "pods/resize"]),
        ("kruise-pod-pinning", &["pods"]),
    ];
    let off = found(&[REGISTRY, gates, "policies.podStatus=false"])?;
    ensure!(off == expected(&always), "{off:?}");
    let on = found(&[REGISTRY, gates])?;
    ensure!(
        on == expected(
            &[
                &always[..],
                &[("kruise-manager-pod-status", &["pods/status"])]
            ]
            .concat()
        ),
        "{on:?}"
    );
    Ok(())
}

/// The paths of the host that the daemon mounts, each once.
fn host_paths(manifests: &str) -> Vec<&str> {
    let paths = manifests
        .lines()
        .filter_map(|line| line.trim().strip_prefix("hostPath: {path: "));
    paths
        .map(|rest| rest.split([',', '}']).next().unwrap_or_default())
        .collect()
}

const K3S: &str = "daemon.criSocket=/var/run/k3s/containerd/containerd.sock";

fn digest() -> String {
    format!("image.digests.daemon=sha256:{}", "0a".repeat(32))
}

/// Values of a digest, another socket and closed networks.
fn hardened(digest: &str) -> Vec<&str> {
    let network = "networkPolicy.apiserverCIDRs={10.0.0.0/28,fd00::/64}";
    let scrape = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=metrics";
    vec![digest, K3S, network, scrape]
}

#[test]
fn hardening_values_render_the_expected_manifests() -> Result<()> {
    let plain = rendered(&[REGISTRY])?;
    ensure!(
        plain.contains("priorityClassName: system-cluster-critical"),
        "the controller has no priority"
    );
    ensure!(
        plain.contains("priorityClassName: system-node-critical"),
        "the daemon has no priority"
    );
    ensure!(
        host_paths(&plain) == ["/run", "/var/lib/containerd"],
        "{:?}",
        host_paths(&plain)
    );
    let tokens = plain
        .matches("serviceAccountToken: {expirationSeconds: 3600, path: token}")
        .count();
    ensure!(
        tokens == 2 && plain.matches("automountServiceAccountToken: false").count() == 2,
        "{tokens} tokens end soon"
    );
    let plain_image = "image: \"registry.test/berth/berth-daemon:";
    ensure!(
        plain.contains(plain_image),
        "an image without a digest has its tag"
    );

    let without = rendered(&[
        REGISTRY,
        "validatingWebhook.install=false",
        "podPinning.by=none",
        "controller.featureGates=PodWebhook=false",
    ])?;
    ensure!(
        !without.contains("webhookconfigurations"),
        "a right to webhook configurations is left"
    );
    for kind in [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    ] {
        ensure!(
            !without.contains(&format!("kind: {kind}")),
            "a webhook is left"
        );
    }

    let digest = digest();
    let hard = rendered(&[&[REGISTRY], &hardened(&digest)[..]].concat())?;
    let digest = digest.trim_start_matches("image.digests.daemon=");
    ensure!(
        hard.contains(&format!("registry.test/berth/berth-daemon@{digest}")),
        "the digest is not used"
    );
    ensure!(
        hard.contains("registry.test/berth/berth-controller:"),
        "the controller has a tag"
    );
    ensure!(
        host_paths(&hard) == ["/run/k3s/containerd", "/var/lib/containerd"],
        "{:?}",
        host_paths(&hard)
    );

    // The network namespaces below /run show which leases of the plugin are in use.
    let with_cni = rendered(&[REGISTRY, K3S, "cni.install=true"])?;
    ensure!(
        host_paths(&with_cni).contains(&"/run"),
        "{:?}",
        host_paths(&with_cni)
    );
    let none = rendered(&[REGISTRY, "controller.priorityClassName="]);
    ensure!(
        !none?.contains("system-cluster-critical"),
        "an empty priority class is a class"
    );
    Ok(())
}

/// The ports of each NetworkPolicy that is rendered, with the peers that may reach them: `null` if
/// all peers may.
fn reached(values: &[&str]) -> Result<Value> {
    let mut ports = serde_json::Map::new();
    let manifests = rendered(&[&[REGISTRY], values].concat())?;
    let policies = manifests
        .split("\n---\n")
        .filter(|document| document.contains("\nkind: NetworkPolicy\n"));
    for policy in policies.map(serde_saphyr::from_str::<Value>) {
        let policy = policy?;
        ensure!(
            policy["spec"]["policyTypes"] == json!(["Ingress"]),
            "{policy}"
        );
        let component = policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            .as_str()
            .unwrap_or_default();
        for rule in policy["spec"]["ingress"].as_array().into_iter().flatten() {
            let port = rule["ports"][0]["port"].as_str().unwrap_or_default();
            ports.insert(format!("{component}/{port}"), rule["from"].clone());
        }
    }
    Ok(Value::Object(ports))
}

#[test]
fn network_policies_allow_only_what_values_name() -> Result<()> {
    let pods = |component: &str| {
        let labels =
            json!({"app.kubernetes.io/name": "berth", "app.kubernetes.io/component": component});
        json!({"podSelector": {"matchLabels": labels}})
    };
    let cidrs = "networkPolicy.apiserverCIDRs={10.0.0.0/28,fd00::/64}";
    let scrape = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=metrics";
    let apiserver =
        json!([{"ipBlock": {"cidr": "10.0.0.0/28"}}, {"ipBlock": {"cidr": "fd00::/64"}}]);
    let team = json!({"namespaceSelector": {"matchLabels": {"team": "metrics"}}});
    let of_team = json!([team]);
    for (values, webhook, metrics, http) in [
        (vec![], &Value::Null, &Value::Null, &Value::Null),
        (vec![cidrs], &apiserver, &Value::Null, &Value::Null),
        (vec![scrape], &Value::Null, &of_team, &of_team),
        (vec![cidrs, scrape], &apiserver, &of_team, &of_team),
    ] {
        let expected = json!({
            "controller/webhook": webhook, "controller/grpc": [pods("daemon")], "controller/metrics": metrics, "daemon/http": http,
        });
        let found = reached(&values)?;
        ensure!(found == expected, "{values:?}: {found}, not {expected}");
    }
    ensure!(reached(&["networkPolicy.enabled=false"])? == json!({}));
    Ok(())
}

/// A copy of the chart with the default values of its first version, as with helm's
/// `--reuse-values`.
fn chart_with_first_values() -> Result<TempDir> {
    let copy = TempDir::new()?;
    let copied = Command::new("cp")
        .args(["--recursive", &format!("{CHART}/.")])
        .arg(copy.path())
        .status()?;
    ensure!(copied.success(), "the chart cannot be copied");
    std::fs::write(
        copy.path().join("values.yaml"),
        include_str!("first-values.yaml"),
    )?;
    Ok(copy)
}

#[test]
fn first_version_values_render_like_todays_defaults() -> Result<()> {
    let first = chart_with_first_values()?;
    let chart = first
        .path()
        .to_str()
        .context("the copy has a name that is no text")?;
    // Values of the first version that have another default today keep their old value. The
    // controller has the other defaults itself.
    let kept = [
        "controller.priorityClassName=",
        "daemon.priorityClassName=",
        "controller.objectMaxBytes=null",
        "networkPolicy.enabled=false",
    ];
    for values in [
        vec![REGISTRY],
        vec![REGISTRY, "cni.install=true"],
        vec![REGISTRY, "networkPolicy.enabled=true"],
    ] {
        let reused = rendered_from(chart, &values)?;
        let today = rendered(&[&kept, &values[..]].concat())?;
        let differs = reused
            .lines()
            .zip(today.lines())
            .find(|(reused, today)| reused != today);
        ensure!(reused == today, "{values:?}: {differs:?}");
    }
    Ok(())
}

fn uninstall_keeps_objects_and_reinstall_adopts_them(stage: &Stage) -> Result<()> {
    let install = ["install", "berth", CHART, "--namespace", NAMESPACE];
    let install = [&install[..], &["--set", REGISTRY]].concat();
    stage.helm(&install)?;
    let object = serde_json::to_string(&crate::stage::node_image("v1beta1", "kept", "1"))?;
    stage.kubectl(&["create", "--filename=-"], Some(&object))?;
    stage.helm(&["uninstall", "berth", "--namespace", NAMESPACE])?;
    stage.kubectl(&["get", "nodeimages.v1beta1.apps.kruise.io", "kept"], None)?;
    stage.helm(&install)?;
    stage.kubectl(&["get", "nodeimages.v1beta1.apps.kruise.io", "kept"], None)?;
    Ok(())
}
