//! Compares the model apiserver, with which the decisions are tested, with a real one. Both get the
//! same random writes, one after the other. Both must accept or refuse the same writes and end with
//! the same objects.
//!
//! `BERTH_MODEL_WRITES` is the number of writes, `BERTH_MODEL_SEED` the seed.

use std::collections::{BTreeMap, BTreeSet};

use apiserver::{Objects, Refused};
use berth_runtime::events::Owner;
use berth_runtime::executor::Executor;
use berth_runtime::object::{CONTROLLER_REVISIONS, PODS, Resource};
use berth_workload::objects::pod::Condition;
use berth_workload::plan::{self, Action, Body, PodPatch, Target, Verb};
use fastrand::Rng;
use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use crate::executor::{alone, owner, run};
use crate::support::*;

#[path = "../../../kinds/src/model/apiserver.rs"]
mod apiserver;

const NODE: &str = "model";
/// The default seed, equal in every run, so that results of a change can be compared.
const SEED: u64 = 18;
/// The default number of writes. More follow until every answer was seen, because a rare one may
/// need them.
const WRITES: u64 = 1000;
/// By so many times as many writes every answer was seen, or something is wrong.
const PATIENCE: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn the_model_does_as_the_apiserver_does() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|number| number.parse::<u64>().unwrap())
    };
    let seed = number("BERTH_MODEL_SEED").unwrap_or(SEED);
    let cluster = cluster();
    let mut both = Both::new(connect(&cluster).await, seed).await;
    let least = number("BERTH_MODEL_WRITES").unwrap_or(WRITES);
    let mut write = 0;
    while write < least || (both.missing().next().is_some() && write < least * PATIENCE) {
        write += 1;
        both.step(&format!("BERTH_MODEL_SEED={seed}, write {write}"))
            .await;
    }
    println!("seed {seed}, {write} writes: {:#?}", both.outcomes);
    let missing: Vec<_> = both.missing().collect();
    assert!(
        missing.is_empty(),
        "BERTH_MODEL_SEED={seed}: after {write} writes not seen: {missing:?}"
    );
    assert_eq!(
        both.unforeseen(),
        Vec::<&Outcome>::new(),
        "BERTH_MODEL_SEED={seed}"
    );
}

/// What was done, and the answer's code.
type Outcome = (String, Refused);

/// The objects of a kind in the model, and where the real ones are.
struct Shelf {
    resource: Resource,
    model: fn(&mut Objects, &Action, &str, &Value) -> Result<(), Refused>,
    objects: Objects,
    /// Of each object a version that it no longer has.
    stale: BTreeMap<String, String>,
}

impl Shelf {
    fn new(
        resource: Resource,
        model: fn(&mut Objects, &Action, &str, &Value) -> Result<(), Refused>,
    ) -> Shelf {
        Shelf {
            resource,
            model,
            objects: Objects::new(),
            stale: BTreeMap::new(),
        }
    }

    /// Objects must be equal in both, and have a new version if they have changed. Values that only
    /// a server sets are copied to the model.
    fn compare(&mut self, name: &str, before: Option<&Value>, real: Option<&Value>, story: &str) {
        let modelled = self.objects.get_mut(name);
        assert_eq!(modelled.as_deref().map(shown), real.map(shown), "{story}");
        let (Some(modelled), Some(real)) = (modelled, real) else {
            return;
        };
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        if let Some(before) =
            before.filter(|before| before["metadata"]["uid"] == real["metadata"]["uid"])
        {
            let (old, new) = (version(before), version(real));
            assert_eq!(
                old == new,
                shown(before) == shown(modelled),
                "{story}: from version {old} to {new}"
            );
            if old != new {
                self.stale.insert(name.to_owned(), old);
            }
        }
        for field in ["uid", "resourceVersion"] {
            modelled["metadata"][field] = real["metadata"][field].clone();
        }
    }
}

/// The model and the real one.
struct Both {
    client: Client,
    executor: Executor,
    owner: Owner,
    rng: Rng,
    pods: Shelf,
    revisions: Shelf,
    /// How often each answer was seen to each action.
    outcomes: BTreeMap<Outcome, usize>,
}

impl Both {
    async fn new(client: Client, seed: u64) -> Both {
        let namespace = namespace(&client).await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
        // A pod that is on a node stays until its kubelet has ended it.
        request(&client, Method::POST, "/api/v1/nodes", &node)
            .await
            .unwrap();
        Both {
            executor: alone(&client),
            owner: owner(&namespace, &uid()),
            client,
            rng: Rng::with_seed(seed),
            pods: Shelf::new(PODS, apiserver::write_pod),
            revisions: Shelf::new(CONTROLLER_REVISIONS, apiserver::write_revision),
            outcomes: BTreeMap::new(),
        }
    }

    /// One write to both, or a kubelet ends a pod.
    async fn step(&mut self, story: &str) {
        if self.rng.u8(..8) == 0 {
            return self.end_a_pod(story).await;
        }
        let (action, name, now) = (self.action(), self.name(), json!(Timestamp::now()));
        let action = action(self, &name);
        let story = format!("{story}, {action:?}");
        let shelf = if action.write().resource == PODS {
            &mut self.pods
        } else {
            &mut self.revisions
        };
        let before = shelf.objects.get(&name).cloned();
        let modelled = (shelf.model)(&mut shelf.objects, &action, "new", &now);
        let done = run(&self.executor, &self.owner, action.clone()).await;
        let code = done.as_ref().map_or_else(|failure| failure.code, |()| 0);
        assert_eq!(
            code,
            expected(&action, modelled, before.as_ref(), &self.owner.uid),
            "{story}: {done:?}, before: {before:?}"
        );
        let real = read(&self.client, &shelf.resource, &self.owner.namespace, &name).await;
        let real = real
            .map_err(|error| assert!(matches!(error, kube::Error::Api(s) if s.code == 404)))
            .ok();
        shelf.compare(&name, before.as_ref(), real.as_ref(), &story);
        *self
            .outcomes
            .entry((action.write().to_string(), modelled.err().unwrap_or(0)))
            .or_default() += 1;
    }

    /// The pod has no finalizers any more, and its kubelet has ended it.
    async fn end_a_pod(&mut self, story: &str) {
        let name = self.name();
        if self.pods.objects.remove(&name).is_none() {
            return;
        }
        let path = PODS.path(&self.owner.namespace, &name).unwrap();
        let free = json!({"metadata": {"finalizers": null}});
        request(&self.client, Method::PATCH, &path, &free)
            .await
            .unwrap();
        request(
            &self.client,
            Method::DELETE,
            &path,
            &json!({"gracePeriodSeconds": 0}),
        )
        .await
        .unwrap();
        let gone = read(&self.client, &PODS, &self.owner.namespace, &name).await;
        assert!(gone.is_err(), "{story}: {name} is still there");
    }

    fn name(&mut self) -> String {
        self.rng.choice(["a", "b", "c"]).unwrap().to_owned()
    }

    fn action(&mut self) -> fn(&mut Both, &str) -> Action {
        let actions: [fn(&mut Both, &str) -> Action; 13] = [
            Both::create_pod,
            Both::create_pod,
            Both::patch_pod,
            Both::patch_pod,
            Both::patch_pod_status,
            Both::patch_pod_status,
            |both, name| Action::DeletePod {
                target: both.target(true, name),
            },
            Both::release_pod,
            |both, name| Action::AdoptPod {
                target: both.target(true, name),
                owner: both.new_owner(),
            },
            |both, name| Action::AdoptRevision {
                target: both.target(false, name),
                owner: both.new_owner(),
            },
            Both::create_revision,
            Both::change_revision,
            |both, name| Action::DeleteRevision {
                target: both.target(false, name),
            },
        ];
        self.rng.choice(actions).unwrap()
    }

    /// Mostly the existing object, in any version or the present one; sometimes another, or an
    /// older version.
    fn target(&mut self, pod: bool, name: &str) -> Target {
        let shelf = if pod { &self.pods } else { &self.revisions };
        let metadata = shelf
            .objects
            .get(name)
            .map_or(Value::Null, |object| object["metadata"].clone());
        let text = |field: &str| metadata[field].as_str().map(str::to_owned);
        let resource_version = match self.rng.u8(..4) {
            0 => text("resourceVersion"),
            1 => shelf.stale.get(name).cloned(),
            _ => None,
        };
        let uid = text("uid")
            .filter(|_| self.rng.u8(..8) > 0)
            .unwrap_or_else(uid);
        Target {
            namespace: self.owner.namespace.clone(),
            name: name.to_owned(),
            uid,
            resource_version,
        }
    }

    fn create_pod(&mut self, name: &str) -> Action {
        let mut body = pod_body(&self.owner.namespace, name, &self.owner.uid);
        body["spec"]["nodeName"] = json!(NODE);
        body["metadata"]["labels"]["x"] = json!(self.word());
        Action::CreatePod {
            body: (&body).into(),
        }
    }

    fn patch_pod(&mut self, name: &str) -> Action {
        let mut patch = self.pod_patch();
        for container in ["first", "second"] {
            if self.rng.bool() {
                patch
                    .images
                    .insert(container.to_owned(), format!("x:{}", self.word()));
            }
        }
        Action::PatchPod {
            target: self.target(true, name),
            patch,
        }
    }

    fn patch_pod_status(&mut self, name: &str) -> Action {
        let condition = |rng: &mut Rng, type_: &str| Condition {
            type_: type_.into(),
            status: (*rng.choice(["True", "False"]).unwrap()).into(),
            last_transition_time: Some(
                Timestamp::from_second(1_700_000_000 + rng.i64(0..3)).unwrap(),
            ),
            reason: (*rng.choice(["", "StartInPlaceUpdate"]).unwrap()).into(),
            message: (*rng.choice(["", "why"]).unwrap()).into(),
        };
        let types = ["InPlaceUpdateReady", "KruisePodReady"].into_iter();
        let conditions: Vec<_> = types.map(|type_| condition(&mut self.rng, type_)).collect();
        let conditions = conditions.into_iter().filter(|_| self.rng.bool()).collect();
        let patch = self.pod_patch();
        Action::PatchPodStatus {
            target: self.target(true, name),
            conditions,
            patch,
        }
    }

    /// Releases an owner of the pod, or one that the pod does not have.
    fn release_pod(&mut self, name: &str) -> Action {
        let owner = if self.rng.u8(..4) > 0 {
            self.owner.uid.clone()
        } else {
            uid()
        };
        Action::ReleasePod {
            target: self.target(true, name),
            owner,
        }
    }

    /// Its owner, or another, which is one too many while that manages it.
    fn new_owner(&mut self) -> Value {
        let owner = if self.rng.bool() {
            self.owner.uid.clone()
        } else {
            uid()
        };
        pod_body(&self.owner.namespace, "any", &owner)["metadata"]["ownerReferences"][0].clone()
    }

    fn pod_patch(&mut self) -> PodPatch {
        let mut patch = PodPatch::default();
        for key in ["x", "y"] {
            if self.rng.bool() {
                patch.labels.insert(
                    key.to_owned(),
                    Some(self.word()).filter(|_| self.rng.bool()),
                );
            }
            if self.rng.bool() {
                patch.annotations.insert(
                    key.to_owned(),
                    Some(self.word()).filter(|_| self.rng.bool()),
                );
            }
        }
        if self.rng.u8(..4) == 0 {
            patch.finalizers = vec![format!("berth.test/{}", self.word())];
        }
        patch
    }

    fn word(&mut self) -> String {
        self.rng.choice(["one", "two", "three"]).unwrap().to_owned()
    }

    fn create_revision(&mut self, name: &str) -> Action {
        let pod = pod_body(&self.owner.namespace, name, &self.owner.uid);
        let metadata = json!({"namespace": self.owner.namespace, "name": name, "ownerReferences": pod["metadata"]["ownerReferences"]});
        let body = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
            "revision": self.rng.i64(1..4), "data": {"spec": {"template": {}}},
        });
        Action::CreateRevision {
            body: Body::from(&body),
        }
    }

    fn change_revision(&mut self, name: &str) -> Action {
        let target = self.target(false, name);
        if self.rng.bool() {
            let value = Some(self.word()).filter(|_| self.rng.bool());
            return Action::PatchRevision {
                target,
                patch: json!({"metadata": {"labels": {"x": value}}}),
            };
        }
        let annotations = Some(("x".to_owned(), self.word()))
            .filter(|_| self.rng.bool())
            .into_iter()
            .collect();
        Action::RenumberRevision {
            target,
            revision: self.rng.i64(1..4),
            annotations,
        }
    }

    /// What has not been seen yet. A test that met only the simple cases would prove little.
    fn missing(&self) -> impl Iterator<Item = Outcome> {
        foreseen().filter(|outcome| !self.outcomes.contains_key(outcome))
    }

    /// Outcomes that no rule foresees. Every object may be gone.
    fn unforeseen(&self) -> Vec<&Outcome> {
        let foreseen: BTreeSet<_> = foreseen().collect();
        self.outcomes
            .keys()
            .filter(|outcome| outcome.1 != 404 && !foreseen.contains(outcome))
            .collect()
    }
}

/// All foreseen outcomes of the writes, in addition to a missing object.
fn foreseen() -> impl Iterator<Item = Outcome> {
    let pods = [
        "PatchPod",
        "PatchPodStatus",
        "DeletePod",
        "ReleasePod",
        "AdoptPod",
    ];
    let revisions = [
        "RenumberControllerRevision",
        "PatchControllerRevision",
        "DeleteControllerRevision",
        "AdoptControllerRevision",
    ];
    let changes = pods.into_iter().chain(revisions);
    let met = changes
        .chain(["CreatePod", "CreateControllerRevision"])
        .flat_map(|kind| [(kind, 0), (kind, 409)]);
    let refused = [
        "PatchPod",
        "PatchPodStatus",
        "AdoptPod",
        "AdoptControllerRevision",
    ]
    .map(|kind| (kind, 422));
    met.chain(refused)
        .map(|(kind, code)| (kind.to_owned(), code))
}

/// The executor's result: an object that is gone already, or exists with the same owner, counts as
/// success.
fn expected(
    action: &Action,
    modelled: Result<(), Refused>,
    before: Option<&Value>,
    owner: &str,
) -> Refused {
    let is_owned = |metadata: &Value| metadata["ownerReferences"][0]["uid"] == owner;
    let lives = before
        .map(|before| &before["metadata"])
        .is_some_and(|metadata| metadata["deletionTimestamp"].is_null() && is_owned(metadata));
    match modelled {
        Ok(()) => 0,
        Err(404) if action.write().verb == Verb::Delete => 0,
        Err(409) if action.write().verb == Verb::Create && lives => 0,
        Err(code) => code,
    }
}

/// What decisions read of an object, in one order.
fn shown(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let map = |field: &str| metadata[field].as_object().cloned().unwrap_or_default();
    let words = |value: &Value| {
        value
            .as_array()
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect::<BTreeSet<_>>()
    };
    let containers = object["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten();
    let images: Vec<_> = containers
        .map(|container| json!([container["name"], container["image"]]))
        .collect();
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let condition = |c: &Value| {
        let time: Option<Timestamp> = c["lastTransitionTime"]
            .as_str()
            .map(|time| time.parse().unwrap());
        (
            text(&c["type"]),
            (
                text(&c["status"]),
                time,
                text(&c["reason"]),
                text(&c["message"]),
            ),
        )
    };
    let conditions: BTreeMap<_, _> = conditions.map(condition).collect();
    json!({
        "labels": map("labels"), "annotations": map("annotations"), "finalizers": words(&metadata["finalizers"]),
        "terminating": metadata["deletionTimestamp"].is_string(), "owner": metadata["ownerReferences"][0]["uid"],
        "generation": metadata["generation"], "images": images, "conditions": conditions,
        "revision": object["revision"], "phase": object["status"]["phase"],
    })
}
