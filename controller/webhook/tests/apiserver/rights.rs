//! Each right of the controller's role to write, against the policies: who owns the object, in which namespace it is, which field is
//! written, and whether that is allowed. A right without a row fails the test.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use berth_api::kinds::{CLONE_SET, KINDS, Kind};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::policy_controller::Caller;
use crate::stage::{CHART, NAMESPACE, REGISTRY, Stage, until};

/// API group, resource and verb.
type Right = (String, String, String);

/// Rights that no policy bounds, and why.
const UNBOUND: [(&str, &str, &str, &str); 3] = [
    ("", "events", "create", "no program believes an event"),
    ("", "events", "patch", "no program believes an event"),
    ("authentication.k8s.io", "tokenreviews", "create", "it stores nothing"),
];
const READS: [&str; 3] = ["get", "list", "watch"];
const ALLOWED: &str = "";
const PROTECTED: &str = "controller.protectedNamespaces";

/// One request, as a dry run, and what the refusal says; nothing where it is allowed.
struct Row {
    right: Right,
    path: String,
    what: &'static str,
    body: Value,
    says: &'static str,
}

/// Verb, namespace and name, what, body, and the words of the refusal.
type Try<'a> = (&'a str, (&'a str, &'a str), &'static str, Value, &'static str);

/// The rows of one resource; its subresource stands behind a slash.
struct Rows<'a> {
    all: &'a mut Vec<Row>,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

impl Rows<'_> {
    /// `at` is a namespace, if there is one, and the object's name, if it has one.
    fn add(&mut self, verb: &str, at: (&str, &str), what: &'static str, body: Value, says: &'static str) {
        let Self { group, version, resource, .. } = *self;
        let (namespace, name) = at;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let inside = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let (plural, sub) = resource.split_once('/').map_or((resource, ""), |parts| parts);
        let parts: Vec<_> = [plural, name, sub].into_iter().filter(|part| !part.is_empty()).collect();
        let path = format!("{root}/{version}{inside}/{}?dryRun=All", parts.join("/"));
        // Options in the body of a deletion take the place of those in its path.
        let body = if verb == "delete" { json!({"dryRun": ["All"]}) } else { body };
        let right = (group.to_owned(), resource.to_owned(), verb.to_owned());
        self.all.push(Row { right, path, what, body, says });
    }
}

/// The objects that the rows are about.
struct World {
    owner: Value,
    pod: Value,
    lease: Value,
}

fn named(name: &str, owners: &Value, more: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    for (field, value) in more.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

fn pod(name: &str, owners: &Value) -> Value {
    let resources = json!({"requests": {"cpu": "10m"}});
    let container = json!({"name": "main", "image": "web:1", "resources": resources});
    let gates = json!([{"conditionType": "InPlaceUpdateReady"}]);
    named(name, owners, &json!({"spec": {"containers": [container], "readinessGates": gates}}))
}

fn claim(name: &str, owners: &Value) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
    named(name, owners, &json!({"spec": spec}))
}

fn of_set(name: &str, owners: &Value) -> Value {
    let mut claim = claim(name, owners);
    claim["metadata"]["labels"] = json!({"apps.kruise.io/cloneset-instance-id": "abcde"});
    claim
}

fn budget(name: &str, owners: &Value) -> Value {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    named(name, owners, &json!({"spec": spec}))
}

fn of_budget(version: &str) -> Value {
    json!([{"apiVersion": format!("policy.kruise.io/{version}"), "kind": "PodUnavailableBudget", "name": "web", "uid": "u", "controller": true}])
}

/// The spec of an object of a kind that the apiserver takes.
fn spec(kind: &Kind) -> Value {
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "web:1"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let mut ending = template.clone();
    ending["spec"]["restartPolicy"] = json!("Never");
    match kind.kind {
        "CloneSet" | "StatefulSet" => json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template}),
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
        _ => json!({"selector": {"matchLabels": labels}, "maxUnavailable": 1}),
    }
}

async fn world(admin: &Client) -> Result<World> {
    let admin = Caller(admin.clone());
    let set = until("CloneSets are served", async || {
        let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web"}, "spec": spec(&CLONE_SET)});
        Ok(admin.create("/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets", &set).await?)
    })
    .await?;
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web",
                       "uid": set["metadata"]["uid"], "controller": true});
    let owners = json!([owner]);
    let unknown = json!([{"apiVersion": "none.example/v1", "kind": "X", "name": "x", "uid": "u", "controller": true}]);
    let mut made = Value::Null;
    for namespace in ["default", "kube-system"] {
        let core = format!("/api/v1/namespaces/{namespace}");
        // A CloneSet of that namespace would be another: nobody collects what a dry run is about.
        let owners = if namespace == "default" { &owners } else { &unknown };
        let ours = admin.create(&format!("{core}/pods"), &pod("ours", owners)).await?;
        admin.create(&format!("{core}/pods"), &pod("theirs", &unknown)).await?;
        admin.create(&format!("{core}/persistentvolumeclaims"), &of_set("ours", owners)).await?;
        admin.create(&format!("{core}/persistentvolumeclaims"), &claim("data-db-0", &json!([]))).await?;
        let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        admin.create(&budgets, &budget("theirs", &json!([]))).await?;
        let revisions = format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions");
        let revision = |owners: &Value, name: &str| named(name, owners, &json!({"revision": 1, "data": {}}));
        admin.create(&revisions, &revision(owners, "ours")).await?;
        admin.create(&revisions, &revision(&unknown, "theirs")).await?;
        if namespace == "default" {
            let barrier = json!({"apiVersion": "v1", "kind": "Pod", "name": "ours", "uid": ours["metadata"]["uid"]});
            admin.create(&format!("{core}/configmaps"), &named("ours-barrier", &json!([barrier]), &json!({}))).await?;
            made = ours;
        }
        admin.create(&format!("{core}/configmaps"), &named("theirs", &json!([]), &json!({}))).await?;
    }
    let of_release = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let lease = admin
        .create(&of_release, &named("kruise-manager", &json!([]), &json!({"spec": {"holderIdentity": "x"}})))
        .await?;
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    admin
        .create(&format!("{core}/secrets"), &named("kruise-webhook-certs", &json!([]), &json!({"type": "Opaque"})))
        .await?;
    admin.create(&format!("{core}/configmaps"), &named("kruise-ca", &json!([]), &json!({}))).await?;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    admin.create(&slices, &named("theirs", &json!([]), &json!({"addressType": "IPv4", "endpoints": []}))).await?;
    let taint = json!([{"key": "apps.kruise.io/images-not-ready", "effect": "NoSchedule"}]);
    let node = named("n", &json!([]), &json!({"spec": {"taints": taint, "unschedulable": true}}));
    admin.create("/api/v1/nodes", &node).await?;
    for kind in KINDS.iter().filter(|kind| kind.kind != "CloneSet") {
        let inside = if kind.namespaced { "/namespaces/default" } else { "" };
        let (version, plural) = (kind.stored.name(), kind.plural);
        let object = json!({"apiVersion": kind.api_version(kind.stored), "kind": kind.kind, "metadata": {"name": "web"}, "spec": spec(kind)});
        let path = format!("/apis/{}/{version}{inside}/{plural}", kind.group);
        admin.create(&path, &object).await.with_context(|| kind.kind)?;
    }
    Ok(World { owner, pod: made, lease })
}

fn of_pods(all: &mut Vec<Row>, World { owner, pod: ours, .. }: &World) {
    let owners = json!([owner]);
    let (here, there) = ("default", "kube-system");
    let mut rows = |resource: &'static str, rows: Vec<Try<'_>>| {
        let mut of = Rows { all: &mut *all, group: "", version: "v1", resource };
        rows.into_iter().for_each(|(verb, at, what, body, says)| of.add(verb, at, what, body, says));
    };
    let mut unserved = owner.clone();
    unserved["apiVersion"] = json!("apps.kruise.io/v9");
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "web:2"}]);
    let label = json!([{"op": "add", "path": "/metadata/labels", "value": {"pod-template-hash": "released-x"}}]);
    let tolerate = json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}}]);
    rows(
        "pods",
        vec![
            ("create", (here, ""), "of a CloneSet", pod("new", &owners), ALLOWED),
            ("create", (here, ""), "of nobody", pod("new", &json!([])), "controls"),
            ("create", (here, ""), "of a version that is not served", pod("new", &json!([unserved])), "controls"),
            ("create", (there, ""), "of a CloneSet", pod("new", &owners), PROTECTED),
            ("patch", (here, "ours"), "an image", image.clone(), ALLOWED),
            ("patch", (here, "ours"), "a toleration", tolerate, "its containers alone"),
            ("patch", (here, "theirs"), "an image", image.clone(), "controls"),
            ("patch", (here, "theirs"), "a label of its release", label, "controls"),
            ("patch", (there, "ours"), "an image", image, PROTECTED),
            ("delete", (here, "ours"), "", json!({}), ALLOWED),
            ("delete", (here, "theirs"), "", json!({}), "controls"),
            ("delete", (there, "ours"), "", json!({}), PROTECTED),
        ],
    );
    let status = |status: Value| json!([{"op": "add", "path": "/status/conditions/-", "value": status}]);
    let closed = status(json!({"type": "InPlaceUpdateReady", "status": "False"}));
    let address = json!([{"op": "add", "path": "/status/podIP", "value": "10.0.0.99"}]);
    rows(
        "pods/status",
        vec![
            ("patch", (here, "ours"), "a condition of ours", closed.clone(), ALLOWED),
            (
                "patch",
                (here, "ours"),
                "another condition",
                status(json!({"type": "x", "status": "True"})),
                "may write the conditions",
            ),
            ("patch", (here, "ours"), "its address", address, "may write the conditions"),
            ("patch", (here, "theirs"), "a condition of ours", closed.clone(), "may write conditions of pods that"),
            ("patch", (there, "ours"), "a condition of ours", closed, PROTECTED),
        ],
    );
    let more = json!([{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "20m"}]);
    rows(
        "pods/resize",
        vec![
            ("patch", (here, "ours"), "", more.clone(), ALLOWED),
            ("patch", (here, "theirs"), "", more.clone(), "controls"),
            ("patch", (there, "ours"), "", more, PROTECTED),
        ],
    );
    let evict = |preconditions: Value| {
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ours"},
               "deleteOptions": {"preconditions": preconditions, "dryRun": ["All"]}})
    };
    let uid = json!({"uid": ours["metadata"]["uid"]});
    rows(
        "pods/eviction",
        vec![
            ("create", (here, "ours"), "by its uid", evict(uid.clone()), ALLOWED),
            ("create", (here, "ours"), "by its name", evict(json!({})), "by its uid"),
            ("create", (there, "ours"), "by its uid", evict(uid), PROTECTED),
        ],
    );
    let mut allowed = claim("data-db-9", &json!([]));
    allowed["metadata"]["annotations"] = json!({"apps.kruise.io/owned-by-asts": "db"});
    let false_owner = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [
        {"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "gone"}]}]);
    let consent =
        json!([{"op": "add", "path": "/metadata/annotations", "value": {"apps.kruise.io/owned-by-asts": "db"}}]);
    let label = json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]);
    rows(
        "persistentvolumeclaims",
        vec![
            ("create", (here, ""), "of a StatefulSet", allowed.clone(), ALLOWED),
            ("create", (here, ""), "of any name", claim("x", &json!([])), "claims of StatefulSets"),
            ("create", (there, ""), "of a StatefulSet", allowed, PROTECTED),
            ("patch", (here, "ours"), "a label", label.clone(), ALLOWED),
            ("patch", (here, "data-db-0"), "an owner that is gone", false_owner.clone(), "claims of StatefulSets"),
            ("patch", (here, "data-db-0"), "what allows an owner", consent, "claims of StatefulSets"),
            ("patch", (there, "data-db-0"), "an owner that is gone", false_owner, PROTECTED),
            ("delete", (here, "ours"), "", json!({}), ALLOWED),
            ("delete", (here, "data-db-0"), "", json!({}), "claims of StatefulSets"),
            ("delete", (there, "ours"), "", json!({}), PROTECTED),
        ],
    );
    let its_pod = json!([{"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "u"}]);
    let data = json!([{"op": "add", "path": "/data", "value": {"a": "b"}}]);
    rows(
        "configmaps",
        vec![
            ("create", (here, ""), "of a pod", named("new-barrier", &its_pod, &json!({})), ALLOWED),
            ("create", (here, ""), "of nobody", named("new-barrier", &json!([]), &json!({})), "which its pod owns"),
            ("create", (there, ""), "of a pod", named("new-barrier", &its_pod, &json!({})), "which its pod owns"),
            ("patch", (here, "ours-barrier"), "", data.clone(), ALLOWED),
            ("patch", (NAMESPACE, "kruise-ca"), "", data.clone(), ALLOWED),
            ("patch", (here, "theirs"), "", data.clone(), "which its pod owns"),
            ("patch", (there, "theirs"), "", data, "which its pod owns"),
        ],
    );
}

fn of_others(all: &mut Vec<Row>, World { owner, lease: held, .. }: &World) {
    let owners = json!([owner]);
    let (here, there) = ("default", "kube-system");
    let mut rows = |group: &'static str, version: &'static str, resource: &'static str, rows: Vec<Try<'_>>| {
        let mut of = Rows { all: &mut *all, group, version, resource };
        rows.into_iter().for_each(|(verb, at, what, body, says)| of.add(verb, at, what, body, says));
    };
    let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let revision = |owners: &Value| named("new", owners, &json!({"revision": 1, "data": {}}));
    let number = json!([{"op": "replace", "path": "/revision", "value": 2}]);
    rows(
        "apps",
        "v1",
        "controllerrevisions",
        vec![
            ("create", (here, ""), "of a CloneSet", revision(&owners), ALLOWED),
            ("create", (here, ""), "of nobody", revision(&json!([])), "controls"),
            ("patch", (here, "ours"), "", number.clone(), ALLOWED),
            ("patch", (here, "theirs"), "", number.clone(), "controls"),
            ("patch", (there, "theirs"), "", number, "controls"),
            ("delete", (here, "ours"), "", json!({}), ALLOWED),
            ("delete", (there, "theirs"), "", json!({}), "controls"),
        ],
    );
    let fewer = json!([{"op": "replace", "path": "/spec/minAvailable", "value": 0}]);
    rows(
        "policy",
        "v1",
        "poddisruptionbudgets",
        vec![
            ("create", (here, ""), "of a budget of its name", budget("web", &of_budget("v1beta1")), ALLOWED),
            ("create", (here, ""), "of another name", budget("x", &of_budget("v1beta1")), "may write those"),
            (
                "create",
                (here, ""),
                "of a version that is not served",
                budget("web", &of_budget("v9")),
                "may write those",
            ),
            ("create", (there, ""), "of a budget of its name", budget("web", &of_budget("v1beta1")), PROTECTED),
            ("patch", (here, "theirs"), "", fewer.clone(), "may write those"),
            ("patch", (there, "theirs"), "", fewer, PROTECTED),
            ("delete", (here, "theirs"), "", json!({}), "may write those"),
            ("delete", (there, "theirs"), "", json!({}), PROTECTED),
        ],
    );
    let template = json!({"metadata": {"generateName": "x-"}, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}});
    rows("", "v1", "podtemplates", vec![("create", (there, ""), "as a dry run", template, ALLOWED)]);
    rows(
        "",
        "v1",
        "nodes",
        vec![
            (
                "patch",
                ("", "n"),
                "the taint of images",
                json!([{"op": "test", "path": "/spec/taints/0/key", "value": "apps.kruise.io/images-not-ready"},
                       {"op": "remove", "path": "/spec/taints/0"}]),
                ALLOWED,
            ),
            ("patch", ("", "n"), "its cordon", set("/spec/unschedulable", json!(false)), "of nodes kruise-manager"),
        ],
    );
    let secret = |name: &str, kind: &str| {
        let mut secret = named(name, &json!([]), &json!({"type": kind}));
        secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "kruise-manager"});
        secret
    };
    rows(
        "",
        "v1",
        "secrets",
        vec![
            ("create", (NAMESPACE, ""), "of another name", secret("x", "Opaque"), "of Secrets kruise-manager"),
            (
                "create",
                (NAMESPACE, ""),
                "a token",
                secret("kruise-webhook-certs", "kubernetes.io/service-account-token"),
                "of Secrets kruise-manager",
            ),
            ("update", (NAMESPACE, "kruise-webhook-certs"), "", secret("kruise-webhook-certs", "Opaque"), ALLOWED),
        ],
    );
    let lease = |name: &str| named(name, &json!([]), &json!({"spec": {"holderIdentity": "y"}}));
    rows(
        "coordination.k8s.io",
        "v1",
        "leases",
        vec![
            ("create", (NAMESPACE, ""), "of another name", lease("x"), "of Leases kruise-manager"),
            ("patch", (NAMESPACE, "kruise-manager"), "", set("/spec/holderIdentity", json!("y")), ALLOWED),
            ("update", (NAMESPACE, "kruise-manager"), "", held.clone(), ALLOWED),
        ],
    );
    let slice = json!({"metadata": {"name": "kruise-webhook-service-early-u", "labels": {"kubernetes.io/service-name": "kruise-webhook-service"},
                       "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
                       "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]});
    rows(
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        vec![
            ("create", (NAMESPACE, ""), "by a token of no pod", slice, "to which its token is bound"),
            ("delete", (NAMESPACE, "theirs"), "of Kubernetes", json!({}), "EndpointSlices kruise-manager may create"),
        ],
    );
    let crd = CLONE_SET.crd();
    rows(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        vec![(
            "patch",
            ("", &crd),
            "its versions",
            set("/spec/versions/0/served", json!(false)),
            "may write spec.conversion",
        )],
    );
    rows(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions/status",
        vec![(
            "patch",
            ("", &crd),
            "its conditions",
            set("/status/conditions", json!([])),
            "storedVersions, to v1beta1 alone",
        )],
    );
    let webhook = json!([{"name": "x.y.z", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://x.y/"}}]);
    for (resource, name) in [
        ("mutatingwebhookconfigurations", "kruise-mutating-webhook-configuration"),
        ("validatingwebhookconfigurations", "kruise-validating-webhook-configuration"),
        ("validatingwebhookconfigurations", "kruise-budget-webhook-configuration"),
    ] {
        rows(
            "admissionregistration.k8s.io",
            "v1",
            resource,
            vec![
                ("patch", ("", name), "an address", set("/webhooks", webhook.clone()), "no other Service"),
                (
                    "patch",
                    ("", name),
                    "a label",
                    set("/metadata/labels/a", json!("b")),
                    "of webhook configurations kruise-manager",
                ),
            ],
        );
    }
}

/// Of each of our own kinds.
fn of_kinds(all: &mut Vec<Row>, World { owner, .. }: &World) {
    for kind in &KINDS {
        let (version, namespace) = (kind.stored.name(), if kind.namespaced { "default" } else { "" });
        let statuses = format!("{}/status", kind.plural);
        let mut of = Rows { all: &mut *all, group: kind.group, version, resource: kind.plural };
        let note = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}]);
        let says = if kind.kind == "PersistentPodState" { "kruise-manager may" } else { "of the metadata of" };
        of.add("patch", (namespace, "web"), "an owner", note, says);
        of.add("patch", (namespace, "web"), "nothing", json!([]), ALLOWED);
        let is_free = matches!(
            kind.kind,
            "BroadcastJob" | "ImageListPullJob" | "ContainerRecreateRequest" | "ImagePullJob" | "NodeImage"
        );
        if is_free {
            of.add("delete", (namespace, "web"), "", json!({}), ALLOWED);
        }
        let object = |name: &str, spec: Value| json!({"apiVersion": kind.api_version(kind.stored), "kind": kind.kind, "metadata": {"name": name}, "spec": spec});
        match kind.kind {
            "ImagePullJob" => {
                of.add("create", (namespace, ""), "of nobody", object("x", spec(kind)), "ImagePullJobs that a")
            }
            "NodeImage" => {
                let pulls = json!({"images": {"web": {"tags": [{"tag": "1"}]}}});
                of.add("create", ("", ""), "that pulls, as the proof of conversion", object("x", pulls), ALLOWED);
                let stop = json!([{"request": "x", "namespace": "kube-system", "name": "p", "uid": "u", "container": "c", "containerID": "a", "gracePeriodSeconds": 0}]);
                let stop = json!([{"op": "add", "path": "/spec/stopContainers", "value": stop}]);
                of.add("patch", ("", "web"), "a stop in a protected namespace", stop, PROTECTED);
            }
            "PersistentPodState" => {
                of.add(
                    "create",
                    (namespace, ""),
                    "of nobody",
                    object("x", spec(kind)),
                    "PersistentPodStates that their workload",
                );
                of.add("delete", (namespace, "web"), "of nobody", json!({}), "may delete no");
            }
            _ => {}
        }
        // No policy looks at the statuses of our kinds: their schemas bound them, and no field of them is anybody else's.
        of.resource = &statuses;
        of.add("patch", (namespace, "web"), "", json!([]), ALLOWED);
    }
}

/// The rights to write in the ClusterRole and the Role of the controller's account, as the chart renders them.
fn rights(stage: &Stage) -> Result<BTreeSet<Right>> {
    let manifests = stage.helm(&[
        "template",
        "berth",
        CHART,
        "--namespace",
        NAMESPACE,
        "--kube-version",
        "1.34",
        "--set",
        REGISTRY,
    ])?;
    let mut rights = BTreeSet::new();
    let roles = manifests
        .split("\n---\n")
        .filter(|text| text.contains("\nkind: ClusterRole\n") || text.contains("\nkind: Role\n"));
    for role in roles.map(serde_saphyr::from_str::<Value>) {
        let role = role?;
        let rules =
            role["rules"].as_array().into_iter().flatten().filter(|_| role["metadata"]["name"] == "kruise-manager");
        for rule in rules {
            let texts = |field: &str| -> Vec<String> {
                rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            for (group, resource) in
                texts("apiGroups").iter().flat_map(|g| texts("resources").into_iter().map(move |r| (g, r)))
            {
                rights.extend(texts("verbs").into_iter().map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    // Reads pass no policy, and nothing is written by the name of finalizers.
    rights.retain(|(_, resource, verb)| !READS.contains(&verb.as_str()) && !resource.ends_with("/finalizers"));
    Ok(rights)
}

#[test]
fn each_right_to_write_is_bound_by_a_row() -> Result<()> {
    let stage = Stage::with_chart()?;
    stage.kubectl(&["wait", "--for=create", "serviceaccount/default", "--timeout=120s"], None)?;
    stage.kubectl(&["wait", "--for=create", "serviceaccount/default", "--timeout=120s", "-n", "kube-system"], None)?;
    stage.run(async |admin| {
        let world = world(&admin).await?;
        let mut rows = Vec::new();
        of_pods(&mut rows, &world);
        of_others(&mut rows, &world);
        of_kinds(&mut rows, &world);
        let unbound = UNBOUND.iter().map(|(group, resource, verb, _)| (*group, *resource, *verb));
        let unbound = unbound.map(|(g, r, v)| (g.to_owned(), r.to_owned(), v.to_owned()));
        let known: BTreeSet<_> = rows.iter().map(|row| row.right.clone()).chain(unbound).collect();
        let rights = rights(&stage)?;
        let lacking: Vec<_> = rights.difference(&known).collect();
        ensure!(lacking.is_empty(), "rbac.yaml has rights without a row: {lacking:?}");
        let stale: Vec<_> = known.difference(&rights).collect();
        ensure!(stale.is_empty(), "rows of rights that rbac.yaml lacks: {stale:?}");

        let manager = Caller(stage.manager().await?);
        // A policy is in force some time after it is there.
        until("each row holds", async || {
            let mut wrong = Vec::new();
            for row in &rows {
                wrong.extend(judge(&manager, row).await.err().map(|error| format!("{error:#}")));
            }
            ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
            Ok(())
        })
        .await
    })
}

async fn judge(manager: &Caller, Row { right, path, what, body, says }: &Row) -> Result<()> {
    let (method, content) = match right.2.as_str() {
        "create" => (Method::POST, "application/json"),
        "patch" => (Method::PATCH, "application/json-patch+json"),
        "update" => (Method::PUT, "application/json"),
        _ => (Method::DELETE, "application/json"),
    };
    let row = || format!("{right:?} {what}: {path}");
    match manager.send(method, path, content, body).await {
        Ok(_) => ensure!(says.is_empty(), "{} is allowed", row()),
        Err(kube::Error::Api(status)) => {
            let is_so = !says.is_empty() && status.code == 403 && status.message.contains(says);
            ensure!(is_so, "{}: {} {}", row(), status.code, status.message);
        }
        Err(error) => return Err(error).with_context(row),
    }
    Ok(())
}
