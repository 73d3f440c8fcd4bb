//! Pods of a tenant that try to run without the containers of a SidecarSet, or with others in their
//! place.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::kind;
use serde_json::{Value, json};

use super::attack_by_tenant;
use super::tenant::Tenant;
use crate::pulls;
use crate::world::{Case, PATIENCE};

const STATE: &str = "kruise.io/sidecarset-inplace-update-state";

/// A pod of the tenant that the SidecarSet selects by the label `app`.
fn pod(name: &str, app: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}, "annotations": {}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

fn agent(pod: &Value) -> Value {
    let mut all = pod["spec"]["containers"].as_array().into_iter().flatten();
    all.find(|container| container["name"] == "agent")
        .cloned()
        .unwrap_or_default()
}

/// The fields that decide about the container's behaviour, without those that the apiserver adds to
/// each container.
fn meant(container: &Value) -> Value {
    let of = |field: &str| container[field].clone();
    json!([
        of("image"),
        of("env"),
        of("command"),
        of("securityContext"),
        of("resources"),
        of("readinessProbe")
    ])
}

/// A selected pod gets the SidecarSet's own container, or it is refused. A pod that is selected
/// after its creation is no member because of its annotations.
pub(crate) async fn no_pod_gets_rid_of_its_sidecar(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    attack_by_tenant(case, async |tenant| {
        let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}});
        let agent = json!({
            "name": "agent", "image": image, "env": [{"name": "PORT", "value": "8081"}], "resourcesPolicy": policy,
            "securityContext": {"runAsUser": 65534}, "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        });
        let spec = json!({
            "selector": {"matchLabels": {"app": "mandatory"}}, "containers": [agent],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.namespace}},
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        });
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": tenant.namespace}, "spec": spec,
        });
        case.create(&set).await?;
        let attacked = attacked(case, tenant, &image).await;
        let deleted = case.kubectl(&["delete", "sidecarset", &tenant.namespace]).await.map(drop);
        super::all([attacked, deleted])
    })
    .await
}

async fn attacked(case: &Case, tenant: &Tenant, image: &str) -> Result<()> {
    let honest = injected(tenant, image).await?;
    for (what, forged) in without(image)
        .into_iter()
        .chain(counterfeits(&honest, image))
    {
        let got = tenant.create(&forged).await.with_context(|| what.clone())?;
        ensure!(
            meant(&agent(&got)) == meant(&agent(&honest)),
            "{what}: {:#} in place of {honest:#}",
            got["spec"]
        );
    }
    let meshed = mesh(case, tenant, &honest, image).await;
    let plural = "mutatingadmissionpolicies,mutatingadmissionpolicybindings";
    let deleted = case
        .kubectl(&["delete", "--ignore-not-found", plural, &tenant.namespace])
        .await
        .map(drop);
    super::all([meshed, deleted])?;
    let mut init = pod("init", "mandatory", image);
    init["spec"]["initContainers"] = json!([{"name": "agent", "image": image}]);
    let refused = tenant
        .create(&init)
        .await
        .err()
        .context("a pod with an init container of that name is created")?;
    let says = format!("{refused:#}");
    ensure!(
        says.contains("cannot give the pod its containers") && says.contains("spec.initContainers"),
        "{says}"
    );
    for (name, says) in [
        ("long", "its review has more than"),
        ("fat", "annotations of kruise.io"),
    ] {
        let refused = tenant.create(&unreadable(name, image)).await.err();
        let refused = refused.with_context(|| format!("the unreadable pod {name} is created"))?;
        ensure!(format!("{refused:#}").contains(says), "{name}: {refused:#}");
    }
    unselected(case, tenant, &honest, image).await
}

/// A pod that Berth could not read: in a review `<` takes six bytes, and 64 KiB of annotations are
/// kept.
fn unreadable(name: &str, image: &str) -> Value {
    let mut pod = pod(name, "mandatory", image);
    if name == "long" {
        let variable = |at: u8| json!({"name": format!("V{at}"), "value": "<".repeat(112_000)});
        pod["spec"]["containers"][0]["env"] = (0..13).map(variable).collect();
    } else {
        pod["metadata"]["annotations"]["x.kruise.io/y"] = "y".repeat(70_000).into();
    }
    pod
}

/// A mesh changes the image and probe of sidecars before and after Berth's webhook. Both changes
/// stay, and all else is the SidecarSet's, also if the pod brings a counterfeit.
async fn mesh(case: &Case, tenant: &Tenant, honest: &Value, image: &str) -> Result<()> {
    let mirrored = case.image("v2").await?;
    let at =
        "'/spec/containers/' + string(object.spec.containers.map(one, one.name).indexOf('agent'))";
    let probe = "dyn({'exec': {'command': ['true']}})";
    let changes = format!(
        "object.spec.containers.exists(one, one.name == 'agent') ? \
         [JSONPatch{{op: 'replace', path: {at} + '/image', value: '{mirrored}'}}, \
         JSONPatch{{op: 'add', path: {at} + '/livenessProbe', value: {probe}}}] : []"
    );
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let namespaces = json!({"matchLabels": {"kubernetes.io/metadata.name": tenant.namespace}});
    let is_meshed =
        json!({"name": "mesh", "expression": "'mesh' in object.metadata.?labels.orValue({})"});
    let spec = json!({
        "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded", "matchConditions": [is_meshed],
        "matchConstraints": {"namespaceSelector": namespaces, "resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": changes}}],
    });
    let create = async |version: &str, kind: &str, spec: &Value| {
        let version = format!("admissionregistration.k8s.io/{version}");
        let metadata = json!({"name": tenant.namespace});
        case.create(
            &json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}),
        )
        .await
    };
    let newest = create("v1", "MutatingAdmissionPolicy", &spec).await;
    let version = if newest.is_ok() { "v1" } else { "v1beta1" };
    if newest.is_err() {
        create(version, "MutatingAdmissionPolicy", &spec).await?;
    }
    create(
        version,
        "MutatingAdmissionPolicyBinding",
        &json!({"policyName": tenant.namespace}),
    )
    .await?;
    let began = Instant::now();
    for number in 0.. {
        let mut meshed = pod(&format!("meshed-{number}"), "mandatory", image);
        meshed["metadata"]["labels"]["mesh"] = json!("yes");
        meshed["metadata"]["annotations"] = honest["metadata"]["annotations"].clone();
        let counterfeit = json!({"name": "agent", "image": "evil:1", "env": [{"name": "IS_INJECTED", "value": "true"}]});
        meshed["spec"]["containers"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(counterfeit.clone()));
        let got = agent(&tenant.create(&meshed).await?);
        if got["image"] == mirrored {
            ensure!(
                got["livenessProbe"]["exec"]["command"] == json!(["true"]),
                "the mesh's probe is gone: {got:#}"
            );
            let mut wanted = agent(honest);
            wanted["image"] = json!(mirrored);
            ensure!(
                meant(&got) == meant(&wanted),
                "{got:#} in place of {wanted:#}"
            );
            return Ok(());
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "the mesh's image is taken back: {got:#}"
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// A pod with the container, as soon as the apiserver calls the webhook for it.
async fn injected(tenant: &Tenant, image: &str) -> Result<Value> {
    let began = Instant::now();
    for number in 0.. {
        let created = tenant
            .create(&pod(&format!("honest-{number}"), "mandatory", image))
            .await?;
        if agent(&created).is_object() {
            return Ok(created);
        }
        ensure!(began.elapsed() < PATIENCE, "new pods get no sidecar");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    anyhow::bail!("no number is left")
}

/// Pods with texts that cannot be read.
fn without(image: &str) -> Vec<(String, Value)> {
    let annotations = [
        ("kruise.io/sidecarset-hash", "{"),
        ("kruise.io/sidecarset-hash-without-image", "[1"),
        ("kruise.io/sidecarset-injected-list", "{"),
    ];
    let annotated = annotations.iter().enumerate().map(|(number, (key, text))| {
        let mut forged = pod(&format!("unreadable-{number}"), "mandatory", image);
        forged["metadata"]["annotations"][*key] = json!(text);
        (format!("{key}: {text}"), forged)
    });
    annotated.collect()
}

/// Pods with the records of another pod, and with a container of their own in place of the
/// SidecarSet's.
fn counterfeits(honest: &Value, image: &str) -> Vec<(String, Value)> {
    let mark = json!({"name": "IS_INJECTED", "value": "true"});
    let changes = [
        ("image", json!("evil:1")),
        ("env", json!([mark, {"name": "PORT", "value": "9999"}])),
        ("securityContext", json!({"runAsUser": 0})),
        ("resources", json!({"limits": {"cpu": "1m"}})),
        ("readinessProbe", json!({"exec": {"command": ["true"]}})),
        ("command", json!(["sleep", "inf"])),
    ];
    let counterfeit = |(number, (field, value)): (usize, (&str, Value))| {
        let mut forged = pod(&format!("counterfeit-{number}"), "mandatory", image);
        forged["metadata"]["annotations"] = honest["metadata"]["annotations"].clone();
        let mut agent = agent(honest);
        agent["volumeMounts"] = json!([]);
        agent[field] = value;
        forged["spec"]["containers"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(agent.clone()));
        (format!("another {field}"), forged)
    };
    changes.into_iter().enumerate().map(counterfeit).collect()
}

/// A pod with copied records and a container of the sidecar's name, which is labelled after its
/// creation.
async fn unselected(case: &Case, tenant: &Tenant, honest: &Value, image: &str) -> Result<()> {
    let set = || case.get(kind::SIDECAR_SET, &tenant.namespace);
    let mut forged = pod("later", "other", image);
    forged["metadata"]["annotations"] = honest["metadata"]["annotations"].clone();
    let last = json!({"agent": {"imageID": "x"}});
    let state = json!({"revision": "r", "updateTimestamp": "2026-01-01T00:00:00Z", "lastContainerStatuses": last});
    forged["metadata"]["annotations"][STATE] = json!(json!({&tenant.namespace: state}).to_string());
    forged["spec"]["nodeName"] = json!("node-1");
    forged["spec"]["containers"] =
        json!([{"name": "c", "image": image}, {"name": "agent", "image": image}]);
    let created = tenant.create(&forged).await?;
    let count = set().await?["status"]["injection"]["drifted"]
        .as_i64()
        .unwrap_or_default();
    case.kubectl(&[
        "label",
        "--overwrite",
        "pod",
        "later",
        "app=mandatory",
        "-n",
        &tenant.namespace,
    ])
    .await?;
    let told = case.until(kind::SIDECAR_SET, &tenant.namespace, |set| {
        set["status"]["injection"]["drifted"]
            .as_i64()
            .unwrap_or_default()
            > count
    });
    let status = told
        .await
        .context("no status says that the pod has another container")?["status"]
        .clone();
    let (members, selected) = (
        status["matchedPods"].as_i64(),
        status["injection"]["selected"].as_i64(),
    );
    ensure!(
        members < selected,
        "the pod counts as one that the SidecarSet updates: {status:#}"
    );
    let node = pulls::until_node(case, 1, |_| true).await?;
    let is_asked = node
        .spec
        .inspect_pods
        .iter()
        .any(|asked| created["metadata"]["uid"] == *asked.uid);
    ensure!(!is_asked, "NodeImage node-1 asks for the pod");
    Ok(())
}
