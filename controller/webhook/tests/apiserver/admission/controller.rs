//! The controller's token: the controller's own writes are allowed, and the writes of a thief of
//! its token are refused.

use anyhow::{Context, Result, ensure};
use berth_api::kinds::{CLONE_SET, KINDS};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::admission::refused;
use crate::stage::{NAMESPACE, Stage, until};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const CLONE_SETS: &str = "/apis/apps.kruise.io/v1beta1/namespaces/objects/clonesets";
const PODS: &str = "/api/v1/namespaces/objects/pods";
const CLAIMS: &str = "/api/v1/namespaces/objects/persistentvolumeclaims";
const REVISIONS: &str = "/apis/apps/v1/namespaces/objects/controllerrevisions";
const CONFIG_MAPS: &str = "/api/v1/namespaces/objects/configmaps";
const JOBS: &str = "/apis/apps.kruise.io/v1beta1/namespaces/objects/imagepulljobs";
const NODE_IMAGES: &str = "/apis/apps.kruise.io/v1beta1/nodeimages";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const INSTANCE: &str = "apps.kruise.io/cloneset-instance-id";

pub(crate) type Answer = Result<Value, kube::Error>;

/// A client that sends requests.
pub(crate) struct Caller(pub(crate) Client);

impl Caller {
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content);
        self.0
            .request(
                request
                    .body(body.to_string().into_bytes())
                    .map_err(kube::Error::HttpError)?,
            )
            .await
    }

    pub(crate) async fn create(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body)
            .await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, MERGE, body).await
    }

    pub(crate) async fn strategic(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, STRATEGIC, body).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", &json!({}))
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", &json!({}))
            .await
    }
}

/// The administrator, the holder of the controller's token, and the owner reference of a CloneSet.
struct Scene {
    admin: Caller,
    manager: Caller,
    owner: Value,
}

fn cloneset(name: &str) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template,
                      "scaleStrategy": {"podsToDelete": ["a", "b"]}});
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": name}, "spec": spec})
}

fn owner(kind: &str, object: &Value, controller: bool) -> Value {
    let metadata = &object["metadata"];
    let mut owner = json!({"apiVersion": object["apiVersion"], "kind": kind, "name": metadata["name"], "uid": metadata["uid"]});
    if controller {
        owner["controller"] = json!(true);
        owner["blockOwnerDeletion"] = json!(true);
    }
    owner
}

fn pod(name: &str, owners: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owners},
           "spec": {"containers": [{"name": "main", "image": "web:1"}], "readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}})
}

fn claim(name: &str, owners: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
           "metadata": {"name": name, "labels": {INSTANCE: "abcde"}, "ownerReferences": owners},
           "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}})
}

fn revision(name: &str, owners: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"spec": {}},
           "metadata": {"name": name, "ownerReferences": owners}})
}

async fn scene(stage: &Stage, admin: Client) -> Result<Scene> {
    stage.namespace("objects")?;
    let (admin, manager) = (Caller(admin), Caller(stage.manager().await?));
    let set = until("CloneSets are served", async || {
        Ok(admin.create(CLONE_SETS, &cloneset("web")).await?)
    })
    .await?;
    let scene = Scene {
        owner: owner("CloneSet", &set, true),
        admin,
        manager,
    };
    // A policy is in force some time after it was created.
    let template = json!({"metadata": {"generateName": "early-"}, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}});
    until("the policies are in force", async || {
        refused(
            "a PodTemplate",
            scene
                .manager
                .create("/api/v1/namespaces/objects/podtemplates", &template)
                .await,
            "dry runs",
        )?;
        let labels = json!({"metadata": {"annotations": {"a": "b"}}});
        let crd = format!("{DEFINITIONS}/{}", CLONE_SET.crd());
        refused(
            "an annotation",
            scene.manager.merge(&crd, &labels).await,
            "may write spec.conversion",
        )?;
        refused(
            "a CloneSet",
            scene
                .manager
                .merge(&format!("{CLONE_SETS}/web"), &labels)
                .await,
            "annotations",
        )?;
        let bare = pod("early", &json!([]));
        refused(
            "a bare pod",
            scene.manager.create(PODS, &bare).await,
            "what a BroadcastJob or CloneSet or DaemonSet or StatefulSet controls",
        )
    })
    .await?;
    Ok(scene)
}

#[test]
fn controller_token_writes_objects_of_clonesets_only() -> Result<()> {
    let stage = Stage::shared()?;
    stage.run(async |admin| {
        let scene = scene(&stage, admin).await?;
        pods_of_clonesets(&scene)
            .await
            .context("what the controller does with pods")?;
        pods_of_others(&scene).await?;
        injection_probes(&scene.manager)
            .await
            .context("probes of the injection")?;
        claims(&scene)
            .await
            .context("what the controller does with claims")?;
        claims_of_others(&scene).await?;
        claims_of_statefulsets(&scene)
            .await
            .context("claims of StatefulSets")?;
        revisions(&scene).await
    })
}

/// Everything that the executor sends for pods.
async fn pods_of_clonesets(
    Scene {
        manager,
        owner,
        admin,
    }: &Scene,
) -> Result<()> {
    let made = manager.create(PODS, &pod("web-1", &json!([owner]))).await?;
    let path = &format!("{PODS}/web-1");
    let uid = &made["metadata"]["uid"];
    let closed = json!({"metadata": {"uid": uid, "labels": {"lifecycle.apps.kruise.io/state": "Updating"}},
                        "status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "False"}]}});
    manager
        .strategic(&format!("{path}/status"), &closed)
        .await
        .context("out of service")?;
    for status in [
        json!({"podIP": "10.0.0.99", "podIPs": [{"ip": "10.0.0.99"}]}),
        json!({"phase": "Failed"}),
        json!({"containerStatuses": [{"name": "main", "image": "web:1", "imageID": "x", "ready": true, "restartCount": 0}]}),
        json!({"conditions": [{"type": "Ready", "status": "True"}]}),
        json!({"conditions": [{"type": "ContainersReady", "status": "True"}]}),
    ] {
        let patch = json!({"status": status});
        let answer = manager.strategic(&format!("{path}/status"), &patch).await;
        refused(
            &patch.to_string(),
            answer,
            "of the status of a pod kruise-manager may write",
        )?;
    }
    let image = json!({"metadata": {"uid": uid, "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/in-use"]},
                       "spec": {"containers": [{"name": "main", "image": "web:2"}]}});
    let patched = manager
        .strategic(path, &image)
        .await
        .context("another image")?;
    ensure!(
        patched["spec"]["containers"][0]["image"] == "web:2",
        "{patched}"
    );
    admin
        .merge(path, &json!({"metadata": {"finalizers": null}}))
        .await?;

    let mut with_sidecar = pod("web-mesh", &json!([owner]));
    with_sidecar["spec"]["initContainers"] = json!([{"name": "mesh", "image": "mesh:1", "restartPolicy": "Always",
                                                     "resources": {"requests": {"cpu": "10m"}}}]);
    manager
        .create(PODS, &with_sidecar)
        .await
        .context("a pod with a sidecar")?;
    let more = json!({"spec": {"initContainers": [{"name": "mesh", "resources": {"requests": {"cpu": "20m"}}}]}});
    let resized = manager
        .strategic(&format!("{PODS}/web-mesh/resize"), &more)
        .await
        .context("resources of a sidecar")?;
    ensure!(
        resized["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "20m",
        "{resized}"
    );
    let other = json!({"spec": {"initContainers": [{"name": "mesh", "image": "evil:1"}]}});
    let answer = manager.strategic(&format!("{PODS}/web-mesh"), &other).await;
    refused("another image of a sidecar", answer, "its containers alone")?;

    // The ConfigMap of a launch order.
    let its_pod = owner_of_pod(&made);
    let barrier =
        json!({"metadata": {"name": "web-1-barrier", "ownerReferences": [its_pod]}, "data": {}});
    manager
        .create(CONFIG_MAPS, &barrier)
        .await
        .context("a barrier")?;
    let keys = json!([{"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": uid},
                      {"op": "add", "path": "/data", "value": {"p_0": "true"}}]);
    manager
        .send(
            Method::PATCH,
            &format!("{CONFIG_MAPS}/web-1-barrier"),
            JSON_PATCH,
            &keys,
        )
        .await
        .context("its keys")?;

    let release =
        json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner["uid"]}]}});
    let released = manager
        .strategic(path, &release)
        .await
        .context("a release")?;
    ensure!(
        released["metadata"]["ownerReferences"].is_null(),
        "{released}"
    );
    refused(
        "the image of a released pod",
        manager.strategic(path, &image).await,
        "what a BroadcastJob or CloneSet or DaemonSet or StatefulSet controls",
    )?;
    let adopted_and_changed = json!({"metadata": {"ownerReferences": [owner]},
                                     "spec": {"containers": [{"name": "main", "image": "evil:1"}]}});
    refused(
        "an adoption with another image",
        manager.strategic(path, &adopted_and_changed).await,
        "containers alone",
    )?;
    manager
        .strategic(path, &json!({"metadata": {"ownerReferences": [owner]}}))
        .await
        .context("an adoption")?;
    let eviction = |preconditions: Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1"}, "deleteOptions": {"preconditions": preconditions}});
    let evict = format!("{path}/eviction");
    refused(
        "an eviction of any pod",
        manager.create(&evict, &eviction(json!({}))).await,
        "by its uid",
    )?;
    let foreign = format!("{}/web-1/eviction", PODS.replace("objects", "kube-system"));
    refused(
        "an eviction",
        manager
            .create(&foreign, &eviction(json!({"uid": uid})))
            .await,
        "may evict no pod",
    )?;
    manager
        .create(
            &format!("{evict}?dryRun=All"),
            &eviction(json!({"uid": uid})),
        )
        .await
        .context("an eviction")?;
    manager.delete(path).await.context("a deletion")?;
    until("the pod has gone", async || {
        ensure!(admin.get(path).await.is_err(), "it is there");
        Ok(())
    })
    .await
}

/// Dry runs of pods' creations, by which the controller checks whether the apiserver calls for
/// containers of SidecarSets.
async fn injection_probes(manager: &Caller) -> Result<()> {
    let says = "what a BroadcastJob or CloneSet or DaemonSet or StatefulSet controls";
    let probe = |name: &str| {
        let mut pod = pod("x", &Value::Null);
        pod["metadata"] = json!({"generateName": name});
        pod
    };
    let (ours, dry) = (
        probe("berth-injection-probe-"),
        format!("{PODS}?dryRun=All"),
    );
    manager.create(&dry, &ours).await.context("a probe")?;
    refused("one that stays", manager.create(PODS, &ours).await, says)?;
    refused(
        "one by another name",
        manager.create(&dry, &probe("web-")).await,
        says,
    )?;
    let foreign = dry.replace("objects", "kube-system");
    refused(
        "one in a protected namespace",
        manager.create(&foreign, &ours).await,
        "may write no pod",
    )
}

/// The writes of a thief for pods.
async fn pods_of_others(
    Scene {
        manager,
        owner,
        admin,
    }: &Scene,
) -> Result<()> {
    let says = "what a BroadcastJob or CloneSet or DaemonSet or StatefulSet controls";
    let mut other = owner.clone();
    other["controller"] = json!(false);
    refused(
        "a pod that does not name it as its controller",
        manager.create(PODS, &pod("x", &json!([other]))).await,
        says,
    )?;
    for (field, value) in [
        ("kind", "Deployment"),
        ("apiVersion", "apps/v1"),
        ("apiVersion", "apps.kruise.io/v9"),
    ] {
        let mut other = owner.clone();
        other[field] = json!(value);
        refused(
            value,
            manager.create(PODS, &pod("x", &json!([other]))).await,
            says,
        )?;
    }
    for namespace in ["kube-system", NAMESPACE] {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let set = admin
            .create(&CLONE_SETS.replace("objects", namespace), &cloneset("web"))
            .await?;
        let owners = json!([self::owner("CloneSet", &set, true)]);
        refused(
            "a pod there",
            manager.create(&pods, &pod("x", &owners)).await,
            "controller.protectedNamespaces",
        )?;
        admin.create(&pods, &pod("there", &owners)).await?;
        let image = json!({"spec": {"containers": [{"name": "main", "image": "evil:1"}]}});
        let answer = manager.strategic(&format!("{pods}/there"), &image).await;
        refused(
            "the image of a pod there",
            answer,
            "controller.protectedNamespaces",
        )?;
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let answer = manager
            .strategic(&format!("{pods}/there/status"), &unready)
            .await;
        refused(
            "the status of a pod there",
            answer,
            "controller.protectedNamespaces",
        )?;
        let answer = manager.delete(&format!("{pods}/there")).await;
        refused(
            "the deletion of a pod there",
            answer,
            "controller.protectedNamespaces",
        )?;
    }

    let theirs = another_owner();
    admin.create(PODS, &pod("bare", &json!([]))).await?;
    let path = &format!("{PODS}/bare");
    let image = json!({"spec": {"containers": [{"name": "main", "image": "evil:1"}]}});
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    refused(
        "the image of a bare pod",
        manager.strategic(path, &image).await,
        says,
    )?;
    let answer = manager.strategic(&format!("{path}/status"), &unready).await;
    refused(
        "the status of a bare pod",
        answer,
        "may write conditions of pods that a BroadcastJob",
    )?;
    refused(
        "the deletion of a bare pod",
        manager.delete(path).await,
        says,
    )?;
    admin
        .merge(path, &json!({"metadata": {"ownerReferences": theirs}}))
        .await?;
    let stolen = json!({"metadata": {"ownerReferences": [owner]}});
    let answer = manager.merge(path, &stolen).await;
    refused("another's pod", answer, says)?;
    let answer = admin.create(PODS, &pod("web-2", &json!([owner]))).await?;
    let path = &format!("{PODS}/web-2");
    let mut gone = owner.clone();
    gone["uid"] = json!("gone");
    let swap = json!([{"op": "test", "path": "/metadata/uid", "value": answer["metadata"]["uid"]},
                      {"op": "replace", "path": "/metadata/ownerReferences", "value": [gone]}]);
    refused(
        "another uid",
        manager.send(Method::PATCH, path, JSON_PATCH, &swap).await,
        says,
    )?;
    let tolerant = json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "reserved", "operator": "Exists"}}]);
    let answer = manager
        .send(Method::PATCH, path, JSON_PATCH, &tolerant)
        .await;
    refused("tolerations", answer, "its containers alone")
}

/// A controlling owner of a kind that the cluster does not know: the garbage collector leaves its
/// objects alone.
fn another_owner() -> Value {
    json!([{"apiVersion": "none.example/v1", "kind": "Nothing", "name": "db", "uid": "u", "controller": true}])
}

fn owner_of_pod(pod: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]})
}

/// Everything that the executor sends for claims.
async fn claims(
    Scene {
        manager,
        owner,
        admin,
    }: &Scene,
) -> Result<()> {
    let pod = admin.create(PODS, &pod("web-3", &json!([owner]))).await?;
    let pod = owner_of_pod(&pod);
    manager
        .create(CLAIMS, &claim("data", &json!([owner])))
        .await?;
    let path = &format!("{CLAIMS}/data");
    manager
        .strategic(path, &json!({"metadata": {"annotations": {"a": null}}}))
        .await
        .context("an annotation")?;
    let change = |from: &Value, to: &Value| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": from["uid"]}, to]}});
    manager
        .strategic(path, &change(owner, &pod))
        .await
        .context("given to its pod")?;
    manager
        .strategic(path, &change(&pod, owner))
        .await
        .context("taken back")?;
    manager.delete(path).await.context("a deletion")?;
    Ok(())
}

/// The writes of a thief for claims.
async fn claims_of_others(
    Scene {
        manager,
        owner,
        admin,
    }: &Scene,
) -> Result<()> {
    refused(
        "a claim without an owner",
        manager.create(CLAIMS, &claim("x", &json!([]))).await,
        "what a BroadcastJob or CloneSet or DaemonSet or StatefulSet controls",
    )?;
    let mut theirs = claim("theirs", &json!([]));
    theirs["metadata"]["labels"] = json!({"app": "db"});
    admin.create(CLAIMS, &theirs).await?;
    let path = &format!("{CLAIMS}/theirs");
    let stolen = json!({"metadata": {"labels": {INSTANCE: "abcde"}, "ownerReferences": [owner]}});
    refused(
        "another's claim",
        manager.merge(path, &stolen).await,
        "claims of StatefulSets",
    )?;
    refused(
        "the deletion of another's claim",
        manager.delete(path).await,
        "claims of StatefulSets",
    )
}

/// Claims of StatefulSets have no owner, or an owner with which they are deleted.
async fn claims_of_statefulsets(Scene { manager, admin, .. }: &Scene) -> Result<()> {
    const ALLOWED: &str = "apps.kruise.io/owned-by-asts";
    let reference = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("{kind}-{name}")});
    let owned = |owner: &Value| json!({"metadata": {"ownerReferences": [owner]}});
    let (set, pod) = (
        reference("apps.kruise.io/v1beta1", "StatefulSet", "db"),
        reference("v1", "Pod", "db-0"),
    );
    let says = "claims of StatefulSets";
    let of_set = |ordinal: u8, annotations: Value| {
        let mut claim = claim(&format!("data-db-{ordinal}"), &json!([]));
        claim["metadata"]["labels"] = json!({"app": "db"});
        claim["metadata"]["annotations"] = annotations;
        claim
    };
    manager
        .create(CLAIMS, &of_set(0, json!({ALLOWED: "db"})))
        .await?;
    let path = &format!("{CLAIMS}/data-db-0");
    manager
        .strategic(path, &owned(&set))
        .await
        .context("given to its set")?;
    let to_pod =
        json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": set["uid"]}, pod]}});
    manager
        .strategic(path, &to_pod)
        .await
        .context("given to its pod")?;
    let back = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": pod["uid"]}]}});
    manager.strategic(path, &back).await.context("taken back")?;
    let mut controller = set.clone();
    controller["controller"] = json!(true);
    for (what, patch) in [
        ("a controller", owned(&controller)),
        ("another pod", owned(&reference("v1", "Pod", "web-1"))),
        (
            "a set of Kubernetes'",
            owned(&reference("apps/v1", "StatefulSet", "db")),
        ),
        (
            "a version that is not served",
            owned(&reference("apps.kruise.io/v9", "StatefulSet", "db")),
        ),
        ("a label", json!({"metadata": {"labels": {"app": "other"}}})),
        (
            "an annotation",
            json!({"metadata": {"annotations": {"a": "b"}}}),
        ),
    ] {
        refused(what, manager.strategic(path, &patch).await, says)?;
    }
    refused("a deletion", manager.delete(path).await, says)?;

    // A claim without the annotation: with an owner that is gone it would be deleted.
    admin.create(CLAIMS, &of_set(1, json!({}))).await?;
    let path = &format!("{CLAIMS}/data-db-1");
    let consent = json!({"metadata": {"annotations": {ALLOWED: "db"}}});
    for (what, patch) in [
        ("its set as owner", owned(&set)),
        ("its pod as owner", owned(&reference("v1", "Pod", "db-1"))),
        ("the annotation", consent.clone()),
    ] {
        refused(what, manager.strategic(path, &patch).await, says)?;
    }
    admin.merge(path, &consent).await?;
    manager
        .strategic(path, &owned(&set))
        .await
        .context("given to its set")?;
    // A claim of OpenKruise's has no annotation, and its set as owner.
    let owners = json!([reference("apps.kruise.io/v1alpha1", "StatefulSet", "db")]);
    admin
        .create(
            CLAIMS,
            &with(of_set(2, json!({})), "ownerReferences", owners),
        )
        .await?;
    let mut to_pod = owned(&reference("v1", "Pod", "db-2"));
    to_pod["metadata"]["annotations"] = json!({ALLOWED: "db"});
    let answer = manager
        .strategic(&format!("{CLAIMS}/data-db-2"), &to_pod)
        .await;
    answer.context("a claim that its set owns, given to its pod")?;

    for namespace in ["kube-system", NAMESPACE] {
        let claims = CLAIMS.replace("objects", namespace);
        let answer = manager
            .create(&claims, &of_set(0, json!({ALLOWED: "db"})))
            .await;
        refused("a claim there", answer, "controller.protectedNamespaces")?;
        admin
            .create(&claims, &of_set(1, json!({ALLOWED: "db"})))
            .await?;
        let answer = manager
            .strategic(&format!("{claims}/data-db-1"), &owned(&set))
            .await;
        refused(
            "the owner of a claim there",
            answer,
            "controller.protectedNamespaces",
        )?;
    }
    Ok(())
}

/// The object with another field of its metadata.
fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["metadata"][field] = value;
    object
}

async fn revisions(
    Scene {
        manager,
        owner,
        admin,
    }: &Scene,
) -> Result<()> {
    manager
        .create(REVISIONS, &revision("web-1", &json!([owner])))
        .await?;
    let path = &format!("{REVISIONS}/web-1");
    manager
        .merge(
            path,
            &json!({"revision": 2, "metadata": {"annotations": {"a": "b"}}}),
        )
        .await
        .context("a number")?;
    manager.delete(path).await.context("a deletion")?;
    let says = "alone controls, before and after";
    refused(
        "a revision without an owner",
        manager.create(REVISIONS, &revision("x", &json!([]))).await,
        says,
    )?;
    admin
        .create(REVISIONS, &revision("theirs", &another_owner()))
        .await?;
    let path = &format!("{REVISIONS}/theirs");
    refused(
        "another's revision",
        manager.merge(path, &json!({"revision": 2})).await,
        says,
    )?;
    refused("another's revision", manager.delete(path).await, says)?;
    admin
        .create(REVISIONS, &revision("orphan", &json!([])))
        .await?;
    let adopted = json!({"metadata": {"ownerReferences": [owner]}});
    manager
        .merge(&format!("{REVISIONS}/orphan"), &adopted)
        .await
        .context("an adoption")?;
    Ok(())
}

/// The fields that the controller may write of Secrets, Leases, definitions and its own kinds.
pub(crate) fn own_fields(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let scene = scene(stage, admin).await?;
        named(stage, &scene)
            .await
            .context("what has a name in the controller's namespace")?;
        own_kinds(&scene)
            .await
            .context("what the controller writes of our kinds")?;
        fields_of_others(&scene).await?;
        definitions(&scene).await
    })
}

/// Secrets, leases, endpoints and dry runs.
async fn named(stage: &Stage, scene: &Scene) -> Result<()> {
    let manager = &scene.manager;
    let of = |namespace: &str, plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let secrets = &of(NAMESPACE, "secrets");
    let secret = |name: &str, kind: &str| {
        let annotations = json!({"kubernetes.io/service-account.name": "kruise-manager"});
        json!({"type": kind, "metadata": {"name": name, "annotations": annotations}})
    };
    let says = "kruise-webhook-certs, of type Opaque";
    let forever = "kubernetes.io/service-account-token";
    refused(
        "a token for ever",
        manager.create(secrets, &secret("stay", forever)).await,
        says,
    )?;
    refused(
        "one by that name",
        manager
            .create(secrets, &secret("kruise-webhook-certs", forever))
            .await,
        says,
    )?;
    refused(
        "any other",
        manager.create(secrets, &secret("stay", "Opaque")).await,
        says,
    )?;
    manager
        .create(
            secrets,
            &json!({"metadata": {"name": "kruise-webhook-certs"}}),
        )
        .await
        .context("the certs")?;
    let path = format!("{secrets}/kruise-webhook-certs");
    let mut held = manager.get(&path).await?;
    held["data"] = json!({"a": "Yg=="});
    manager
        .send(Method::PUT, &path, "application/json", &held)
        .await
        .context("other certs")?;

    let leases = &format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": "x"}});
    refused(
        "another lease",
        manager.create(leases, &lease("other")).await,
        "Leases kruise-manager may write",
    )?;
    manager
        .create(leases, &lease("kruise-manager"))
        .await
        .context("the lease")?;
    let path = format!("{leases}/kruise-manager");
    manager
        .merge(&path, &json!({"spec": {"holderIdentity": "y"}}))
        .await
        .context("its renewal")?;

    endpoints(stage, scene).await?;

    let template = json!({"metadata": {"generateName": "berth-validate-"},
                          "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}});
    let dry = format!("{}?dryRun=All", of("kube-system", "podtemplates"));
    manager
        .create(&dry, &template)
        .await
        .context("a template's check")?;
    Ok(())
}

/// A pod's own endpoint at the webhooks' Service, by the token that is bound to the pod.
async fn endpoints(stage: &Stage, Scene { manager, admin, .. }: &Scene) -> Result<()> {
    let slices = &format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    let mut replica = pod("replica", &json!([]));
    replica["spec"]["serviceAccountName"] = json!("kruise-manager");
    let replica = admin
        .create(&format!("/api/v1/namespaces/{NAMESPACE}/pods"), &replica)
        .await?;
    let uid = replica["metadata"]["uid"].as_str().context("no uid")?;
    let slice = |uid: &str, service: &str, addresses: Value| {
        json!({"metadata": {"name": format!("kruise-webhook-service-early-{uid}"), "labels": {"kubernetes.io/service-name": service},
               "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}]},
               "addressType": "IPv4", "endpoints": [{"addresses": addresses}], "ports": [{"name": "webhook", "port": 9876}]})
    };
    let (one, service) = (json!(["10.0.0.1"]), "kruise-webhook-service");
    let says = "EndpointSlices kruise-manager may create";
    let own = slice(uid, service, one.clone());
    refused(
        "by a token of no pod",
        manager.create(slices, &own).await,
        says,
    )?;
    let bound = stage.token(
        "kruise-manager",
        &["--bound-object-kind=Pod", "--bound-object-name=replica"],
    )?;
    let bound = Caller(stage.client(Some(bound)).await?);
    refused(
        "of metrics",
        bound
            .create(slices, &slice(uid, "kruise-manager-metrics", one.clone()))
            .await,
        says,
    )?;
    refused(
        "of another pod",
        bound.create(slices, &slice("u", service, one)).await,
        says,
    )?;
    let two = slice(uid, service, json!(["10.0.0.1", "10.0.0.2"]));
    refused("of two addresses", bound.create(slices, &two).await, says)?;
    let mut other = own.clone();
    other["metadata"]["name"] = json!("x");
    refused("by another name", bound.create(slices, &other).await, says)?;
    let theirs = first(manager, slices).await?;
    refused(
        "another's end",
        manager.delete(&format!("{slices}/{theirs}")).await,
        says,
    )?;
    bound
        .create(slices, &own)
        .await
        .context("its own endpoint")?;
    manager
        .delete(&format!("{slices}/kruise-webhook-service-early-{uid}"))
        .await
        .context("its end, by another")?;
    Ok(())
}

/// The name of an EndpointSlice that Kubernetes keeps.
async fn first(manager: &Caller, slices: &str) -> Result<String> {
    until("there are endpoints of the chart's Services", async || {
        let found = manager.get(slices).await?;
        found["items"][0]["metadata"]["name"]
            .as_str()
            .map(str::to_owned)
            .context("none")
    })
    .await
}

/// Everything that the executor, the migration and the proof of the conversion send for our kinds.
async fn own_kinds(
    Scene {
        manager,
        owner,
        admin,
    }: &Scene,
) -> Result<()> {
    let set = &format!("{CLONE_SETS}/web");
    manager
        .merge(set, &json!({}))
        .await
        .context("the migration")?;
    let status = json!({"status": {"observedGeneration": 1, "replicas": 0, "readyReplicas": 0, "availableReplicas": 0,
                        "updatedReplicas": 0, "updatedReadyReplicas": 0, "expectedUpdatedReplicas": 0}});
    manager
        .merge(&format!("{set}/status"), &status)
        .await
        .context("a status")?;
    let fewer = json!({"spec": {"scaleStrategy": {"podsToDelete": ["b"]}}});
    manager.merge(set, &fewer).await.context("podsToDelete")?;
    manager
        .merge(
            set,
            &json!({"spec": {"scaleStrategy": {"podsToDelete": []}}}),
        )
        .await
        .context("podsToDelete")?;

    let image = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "node", "labels": {"a": "b"}}, "spec": {}});
    manager
        .create(NODE_IMAGES, &image)
        .await
        .context("a NodeImage")?;
    let pull = json!({"metadata": {"labels": {"a": "c"}}, "spec": {"images": {"nginx": {"tags": [{"tag": "1", "version": 0}]}},
                      "inspectPods": [{"namespace": "objects", "name": "web-1", "uid": "u"}]}});
    manager
        .merge(&format!("{NODE_IMAGES}/node"), &pull)
        .await
        .context("a pull")?;
    let stop = |namespace: &str| {
        let stop = json!({"request": "x", "namespace": namespace, "name": "web-1", "uid": "u", "container": "main",
                          "containerID": "containerd://a", "gracePeriodSeconds": 0});
        json!({"spec": {"stopContainers": [stop]}})
    };
    manager
        .merge(&format!("{NODE_IMAGES}/node"), &stop("objects"))
        .await
        .context("a stop")?;
    for namespace in ["kube-system", NAMESPACE] {
        let answer = manager
            .merge(&format!("{NODE_IMAGES}/node"), &stop(namespace))
            .await;
        refused("a stop there", answer, "controller.protectedNamespaces")?;
    }
    manager
        .delete(&format!("{NODE_IMAGES}/node"))
        .await
        .context("a NodeImage's deletion")?;

    for kind in KINDS
        .iter()
        .filter(|kind| kind.owns.contains(&"imagepulljobs"))
    {
        let mut owner = owner.clone();
        owner["apiVersion"] = json!(kind.api_version(kind.stored));
        owner["kind"] = json!(kind.kind);
        let name = kind.kind.to_lowercase();
        let job = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                         "metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"image": "web:1"}});
        manager.create(JOBS, &job).await.context("a job")?;
    }
    let job = &format!("{JOBS}/cloneset");
    manager
        .merge(
            job,
            &json!({"metadata": {"finalizers": ["apps.kruise.io/fake"]}}),
        )
        .await
        .context("a finalizer")?;
    manager
        .merge(job, &json!({"metadata": {"finalizers": []}}))
        .await
        .context("no finalizer")?;
    manager.delete(job).await.context("a job's deletion")?;
    let list = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob", "metadata": {"name": "list"}, "spec": {"images": ["web:1"]}});
    let lists = &JOBS.replace("imagepulljobs", "imagelistpulljobs");
    admin.create(lists, &list).await?;
    manager
        .merge(&format!("{lists}/list"), &json!({}))
        .await
        .context("the migration of a list")?;
    manager
        .delete(&format!("{lists}/list"))
        .await
        .context("a list's deletion")?;
    Ok(())
}

/// The writes of a thief for our kinds.
async fn fields_of_others(Scene { manager, admin, .. }: &Scene) -> Result<()> {
    let set = &format!("{CLONE_SETS}/web");
    let says = "take names off scaleStrategy.podsToDelete";
    for spec in [
        json!({"replicas": 5}),
        json!({"template": {"spec": {"serviceAccountName": "admin"}}}),
        json!({"scaleStrategy": {"podsToDelete": ["web-1"]}}),
        json!({"scaleStrategy": {"maxUnavailable": 1}}),
        json!({"updateStrategy": {"rollingUpdate": {"paused": true}}}),
    ] {
        refused(
            &spec.to_string(),
            manager.merge(set, &json!({"spec": spec})).await,
            says,
        )?;
    }
    for (field, says) in [
        (
            json!({"labels": {"a": "b"}}),
            "of the metadata of clonesets",
        ),
        (
            json!({"finalizers": ["example.com/x"]}),
            "metadata.finalizers: kruise-manager may write none",
        ),
    ] {
        let answer = manager.merge(set, &json!({"metadata": field})).await;
        refused(&field.to_string(), answer, says)?;
    }
    let job = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": "own"}, "spec": {"image": "evil:1"}});
    refused(
        "a job of its own",
        manager.create(JOBS, &job).await,
        "ImagePullJobs that a CloneSet",
    )?;
    admin.create(JOBS, &job).await?;
    let answer = manager
        .merge(&format!("{JOBS}/own"), &json!({"spec": {"parallelism": 2}}))
        .await;
    refused(
        "another parallelism of a job",
        answer,
        "imagepulljobs kruise-manager may write nothing",
    )?;
    let image = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "full"},
                       "spec": {"images": {"evil": {"tags": [{"tag": "1"}]}}}});
    refused(
        "a NodeImage that pulls",
        manager.create(NODE_IMAGES, &image).await,
        "NodeImages that pull nothing yet",
    )
}

async fn definitions(Scene { manager, admin, .. }: &Scene) -> Result<()> {
    let path = &format!("{DEFINITIONS}/{}", CLONE_SET.crd());
    let service =
        |name: &str| json!({"namespace": NAMESPACE, "name": name, "path": "/convert", "port": 443});
    let conversion = |client_config: Value| {
        let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client_config});
        json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
    };
    let elsewhere = conversion(json!({"service": service("other"), "caBundle": null}));
    let says = "may write spec.conversion";
    refused(
        "another Service",
        manager.merge(path, &elsewhere).await,
        says,
    )?;
    let outside = conversion(json!({"service": null, "url": "https://evil.test/convert"}));
    refused("an address", manager.merge(path, &outside).await, says)?;
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    refused("no conversion", manager.merge(path, &none).await, says)?;
    let versions = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]);
    let answer = manager
        .send(Method::PATCH, path, JSON_PATCH, &versions)
        .await;
    refused("a version that is not served", answer, says)?;
    let owner = json!([{"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "u"}]);
    refused(
        "an owner that is gone",
        manager
            .merge(path, &json!({"metadata": {"ownerReferences": owner}}))
            .await,
        says,
    )?;

    // A wiped field is written again: the server checks the bundle.
    admin.merge(path, &none).await?;
    let ours = conversion(json!({"service": service("kruise-webhook-service"), "url": null}));
    manager
        .merge(path, &ours)
        .await
        .context("the conversion as it was")?;
    let status = format!("{path}/status");
    admin
        .merge(
            &status,
            &json!({"status": {"storedVersions": ["v1alpha1", "v1beta1"]}}),
        )
        .await?;
    let lost = json!({"status": {"storedVersions": ["v1alpha1"]}});
    refused(
        "a version that is not stored",
        manager.merge(&status, &lost).await,
        "storedVersions, to v1beta1 alone",
    )?;
    let names = json!({"status": {"conditions": []}});
    refused(
        "conditions",
        manager.merge(&status, &names).await,
        "storedVersions, to v1beta1 alone",
    )?;
    manager
        .merge(&status, &json!({"status": {"storedVersions": ["v1beta1"]}}))
        .await
        .context("the end of a migration")?;
    Ok(())
}
