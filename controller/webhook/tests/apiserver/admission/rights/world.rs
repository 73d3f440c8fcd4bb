//! The objects of the test rows, and objects that a thief of the token would write.

use anyhow::{Context, Result};
use berth_api::kinds::{
    BROADCAST_JOB, CLONE_SET, KINDS, Kind, PERSISTENT_POD_STATE, UNITED_DEPLOYMENT,
};
use kube::Client;
use serde_json::{Value, json};

use crate::admission::controller::Caller;
use crate::stage::{NAMESPACE, until};

/// The objects of the test rows.
pub(super) struct World {
    pub(super) owner: Value,
    pub(super) pod: Value,
    pub(super) lease: Value,
    /// The uid of the pod to which the token is bound.
    pub(super) replica: String,
    /// The UnitedDeployment of `default` as an owner, and that of `kube-system`.
    pub(super) united: [Value; 2],
    /// The SidecarSet as an owner.
    pub(super) sidecars: Value,
}

/// The labels of a UnitedDeployment's pods.
pub(super) const SUBSET: &str = "apps.kruise.io/subset-name";
const REVISION: &str = "apps.kruise.io/controller-revision-hash";

pub(super) fn named(name: &str, owners: &Value, more: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    for (field, value) in more.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

pub(super) fn pod(name: &str, owners: &Value) -> Value {
    let resources = json!({"requests": {"cpu": "10m"}});
    let container = json!({"name": "main", "image": "web:1", "resources": resources});
    let gates = json!([{"conditionType": "InPlaceUpdateReady"}]);
    named(
        name,
        owners,
        &json!({"spec": {"containers": [container], "readinessGates": gates}}),
    )
}

pub(super) fn claim(name: &str, owners: &Value) -> Value {
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
    named(name, owners, &json!({"spec": spec}))
}

pub(super) fn of_set(name: &str, owners: &Value) -> Value {
    let mut claim = claim(name, owners);
    claim["metadata"]["labels"] = json!({"apps.kruise.io/cloneset-instance-id": "abcde"});
    claim
}

pub(super) fn budget(name: &str, owners: &Value) -> Value {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    named(name, owners, &json!({"spec": spec}))
}

pub(super) fn of_budget(version: &str, name: &str) -> Value {
    let api_version = format!("policy.kruise.io/{version}");
    json!([{"apiVersion": api_version, "kind": "PodUnavailableBudget", "name": name, "uid": "u", "controller": true}])
}

/// The spec of an object of a kind, which the apiserver accepts.
pub(super) fn spec(kind: &Kind) -> Value {
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "web:1"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let mut ending = template.clone();
    ending["spec"]["restartPolicy"] = json!("Never");
    match kind.kind {
        "CloneSet" | "StatefulSet" => {
            json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template})
        }
        "DaemonSet" => json!({"selector": {"matchLabels": labels}, "template": template}),
        "BroadcastJob" => {
            json!({"template": ending, "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 1}})
        }
        "SidecarSet" => json!({"selector": {"matchLabels": labels}, "containers": containers}),
        "ContainerRecreateRequest" => json!({"podName": "ours", "containers": [{"name": "main"}]}),
        "ImagePullJob" => json!({"image": "web:1"}),
        "ImageListPullJob" => json!({"images": ["web:1"]}),
        "PersistentPodState" => {
            let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
            json!({"targetRef": target, "requiredPersistentTopology": {"keys": ["host"]}})
        }
        "NodeImage" => json!({}),
        "UnitedDeployment" => {
            let workload = json!({"metadata": {"labels": labels}, "spec": {"template": template}});
            json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": {"deploymentTemplate": workload}})
        }
        _ => json!({"selector": {"matchLabels": labels}, "maxUnavailable": 1}),
    }
}

pub(super) async fn world(admin: &Client) -> Result<World> {
    let admin = Caller(admin.clone());
    let set = until("CloneSets are served", async || {
        let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web"}, "spec": spec(&CLONE_SET)});
        Ok(admin.create("/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets", &set).await?)
    })
    .await?;
    let owner = owned_by(&set);
    let owners = json!([owner]);
    let unknown = unknown();
    let mut made = Value::Null;
    for namespace in ["default", "kube-system"] {
        let core = format!("/api/v1/namespaces/{namespace}");
        // In the other namespace the owner would be another CloneSet, and does not exist. The
        // garbage collector leaves pods of the unknown controller alone.
        let owners = if namespace == "default" {
            &owners
        } else {
            &unknown
        };
        let ours = admin
            .create(&format!("{core}/pods"), &pod("ours", owners))
            .await?;
        admin
            .create(&format!("{core}/pods"), &pod("theirs", &unknown))
            .await?;
        admin
            .create(
                &format!("{core}/persistentvolumeclaims"),
                &of_set("ours", owners),
            )
            .await?;
        admin
            .create(
                &format!("{core}/persistentvolumeclaims"),
                &claim("data-db-0", &json!([])),
            )
            .await?;
        let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        admin
            .create(&budgets, &budget("theirs", &json!([])))
            .await?;
        let revisions = format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions");
        let revision =
            |owners: &Value, name: &str| named(name, owners, &json!({"revision": 1, "data": {}}));
        admin.create(&revisions, &revision(owners, "ours")).await?;
        admin
            .create(&revisions, &revision(&unknown, "theirs"))
            .await?;
        if namespace == "default" {
            let barrier = json!({"apiVersion": "v1", "kind": "Pod", "name": "ours", "uid": ours["metadata"]["uid"]});
            admin
                .create(
                    &format!("{core}/configmaps"),
                    &named("ours-barrier", &json!([barrier]), &json!({})),
                )
                .await?;
            made = ours;
        }
        admin
            .create(
                &format!("{core}/configmaps"),
                &named("theirs", &json!([]), &json!({})),
            )
            .await?;
    }
    let of_release = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let lease = admin
        .create(
            &of_release,
            &named(
                "kruise-manager",
                &json!([]),
                &json!({"spec": {"holderIdentity": "x"}}),
            ),
        )
        .await?;
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    admin
        .create(
            &format!("{core}/secrets"),
            &named(
                "kruise-webhook-certs",
                &json!([]),
                &json!({"type": "Opaque"}),
            ),
        )
        .await?;
    admin
        .create(
            &format!("{core}/configmaps"),
            &named("kruise-ca", &json!([]), &json!({})),
        )
        .await?;
    let replica = json!({"metadata": {"name": "replica"}, "spec": {
        "serviceAccountName": "kruise-manager", "containers": [{"name": "manager", "image": "none"}]}});
    let replica = admin.create(&format!("{core}/pods"), &replica).await?;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    for name in ["theirs", "kruise-webhook-service-early-u"] {
        admin
            .create(
                &slices,
                &named(
                    name,
                    &json!([]),
                    &json!({"addressType": "IPv4", "endpoints": []}),
                ),
            )
            .await?;
    }
    let taint = json!([{"key": "apps.kruise.io/images-not-ready", "effect": "NoSchedule"}]);
    let node = named(
        "n",
        &json!([]),
        &json!({"spec": {"taints": taint, "unschedulable": true}}),
    );
    admin.create("/api/v1/nodes", &node).await?;
    let (mut united, mut sidecars) = (Value::Null, Value::Null);
    for kind in KINDS.iter().filter(|kind| kind.kind != "CloneSet") {
        let inside = if kind.namespaced {
            "/namespaces/default"
        } else {
            ""
        };
        let (version, plural) = (kind.stored.name(), kind.plural);
        let object = own_object(kind, "web", spec(kind));
        let path = format!("/apis/{}/{version}{inside}/{plural}", kind.group);
        let made = admin
            .create(&path, &object)
            .await
            .with_context(|| kind.kind)?;
        match kind.kind {
            "UnitedDeployment" => united = owned_by(&made),
            "SidecarSet" => sidecars = owned_by(&made),
            _ => {}
        }
        if kind.kind == "PodUnavailableBudget" {
            let mut owners = of_budget(version, "web");
            owners[0]["uid"] = made["metadata"]["uid"].clone();
            admin
                .create(
                    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
                    &budget("web", &owners),
                )
                .await?;
        }
    }
    what_stays(&admin).await?;
    let united = subsets(&admin, united).await?;
    revisions(&admin, (&united[0], &sidecars)).await?;
    let replica = replica["metadata"]["uid"]
        .as_str()
        .context("a pod has a uid")?
        .to_owned();
    Ok(World {
        owner,
        pod: made,
        lease,
        replica,
        united,
        sidecars,
    })
}

/// The object as a controlling owner.
fn owned_by(object: &Value) -> Value {
    let (name, uid) = (&object["metadata"]["name"], &object["metadata"]["uid"]);
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": name, "uid": uid, "controller": true})
}

/// A controller that the garbage collector does not know.
fn unknown() -> Value {
    json!([{"apiVersion": "none.example/v1", "kind": "X", "name": "x", "uid": "u", "controller": true}])
}

/// A workload without replicas that may be a subset's.
pub(super) fn workload(of: &Workload, name: &str, owners: &Value, subset: Option<&str>) -> Value {
    let (group, version, _, kind) = of;
    let more =
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "spec": spec(&CLONE_SET)});
    let mut workload = named(name, owners, &more);
    workload["metadata"]["labels"] =
        subset.map_or_else(|| json!({}), |subset| json!({SUBSET: subset}));
    workload
}

/// The kind of a workload: group, version, resource and kind.
pub(super) type Workload = (&'static str, &'static str, &'static str, &'static str);

const NATIVE: Workload = ("apps", "v1", "statefulsets", "StatefulSet");
/// The kinds of subsets' workloads.
pub(super) const WORKLOADS: [Workload; 4] = [
    ("apps", "v1", "deployments", "Deployment"),
    NATIVE,
    ("apps.kruise.io", "v1beta1", "clonesets", "CloneSet"),
    ("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet"),
];

/// Workloads and pods of subsets, and others; returns the UnitedDeployments of both namespaces as
/// owners.
async fn subsets(admin: &Caller, here: Value) -> Result<[Value; 2]> {
    let there = "/apis/apps.kruise.io/v1beta1/namespaces/kube-system";
    let made = own_object(&UNITED_DEPLOYMENT, "web", spec(&UNITED_DEPLOYMENT));
    let united = [
        here,
        owned_by(
            &admin
                .create(&format!("{there}/uniteddeployments"), &made)
                .await?,
        ),
    ];
    for (namespace, united) in ["default", "kube-system"].into_iter().zip(&united) {
        for of in &WORKLOADS {
            let (group, version, resource, _) = of;
            let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{resource}");
            for (name, owners, subset) in [
                ("subset", json!([united]), Some("a")),
                ("orphan", json!([]), Some("a")),
                ("others", unknown(), Some("a")),
                ("unlabelled", json!([]), None),
            ] {
                admin
                    .create(&path, &workload(of, name, &owners, subset))
                    .await
                    .with_context(|| path.clone())?;
            }
        }
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let mut of_deployment = pod("of-deployment", &unknown());
        of_deployment["metadata"]["labels"] = json!({SUBSET: "a", REVISION: "web-1"});
        admin.create(&pods, &of_deployment).await?;
        // Kubernetes' own controller makes their pods.
        let both = json!({SUBSET: "a", REVISION: "web-1"});
        for (name, mut labels) in [
            ("stuck", both.clone()),
            ("ready", both),
            ("plain", json!({SUBSET: "a"})),
        ] {
            labels["app"] = json!(name);
            let mut set = workload(&NATIVE, name, &json!([]), None);
            (
                set["spec"]["replicas"],
                set["spec"]["selector"]["matchLabels"],
            ) = (json!(1), labels.clone());
            set["spec"]["template"]["metadata"]["labels"] = labels;
            admin
                .create(
                    &format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"),
                    &set,
                )
                .await?;
            let pod = format!("{pods}/{name}-0");
            until("the StatefulSet has its pod", async || {
                Ok(admin.get(&pod).await.map(drop)?)
            })
            .await?;
        }
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        admin
            .merge(&format!("{pods}/ready-0/status"), &ready)
            .await?;
    }
    Ok(united)
}

/// Revisions of a UnitedDeployment and of a SidecarSet, and revisions without an owner.
async fn revisions(admin: &Caller, (united, sidecars): (&Value, &Value)) -> Result<()> {
    for (namespace, name, owners) in [
        ("default", "united", json!([united])),
        ("default", "orphan", json!([])),
        (NAMESPACE, "sidecars", json!([sidecars])),
        (NAMESPACE, "orphan", json!([])),
        (NAMESPACE, "theirs", unknown()),
    ] {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions");
        admin
            .create(
                &path,
                &named(name, &owners, &json!({"revision": 1, "data": {}})),
            )
            .await?;
    }
    Ok(())
}

/// A job without a time to live, and a PersistentPodState that its StatefulSet controls.
async fn what_stays(admin: &Caller) -> Result<()> {
    let own = "/apis/apps.kruise.io/v1beta1/namespaces/default";
    let mut job = spec(&BROADCAST_JOB);
    job["completionPolicy"] = json!({"type": "Always"});
    admin
        .create(
            &format!("{own}/broadcastjobs"),
            &own_object(&BROADCAST_JOB, "kept", job),
        )
        .await?;
    let mut set = spec(&CLONE_SET);
    set["serviceName"] = json!("db");
    let set = named("db", &json!([]), &json!({"spec": set}));
    let set = admin
        .create("/apis/apps/v1/namespaces/default/statefulsets", &set)
        .await?;
    admin
        .create(
            &format!("{own}/persistentpodstates"),
            &state_of("db", &set["metadata"]["uid"]),
        )
        .await?;
    let there = own.replace("default", "kube-system");
    let (native, states) = (
        there.replace("apps.kruise.io/v1beta1", "apps/v1"),
        format!("{there}/persistentpodstates"),
    );
    let set = admin
        .create(
            &format!("{native}/statefulsets"),
            &workload(&NATIVE, "db", &json!([]), None),
        )
        .await?;
    admin
        .create(&states, &state_of("db", &set["metadata"]["uid"]))
        .await?;
    admin
        .create(
            &states,
            &own_object(&PERSISTENT_POD_STATE, "web", spec(&PERSISTENT_POD_STATE)),
        )
        .await?;
    Ok(())
}

/// An object of a kind of ours.
pub(super) fn own_object(kind: &Kind, name: &str, spec: Value) -> Value {
    json!({"apiVersion": kind.api_version(kind.stored), "kind": kind.kind, "metadata": {"name": name}, "spec": spec})
}

/// A PersistentPodState that the StatefulSet of its name controls.
pub(super) fn state_of(name: &str, uid: &Value) -> Value {
    let mut spec = spec(&PERSISTENT_POD_STATE);
    spec["targetRef"]["name"] = json!(name);
    let mut state = own_object(&PERSISTENT_POD_STATE, name, spec);
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": true});
    state["metadata"]["ownerReferences"] = json!([owner]);
    state
}
