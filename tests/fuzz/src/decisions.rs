//! Decisions for any state of the apiserver: each input is a world, the objects that a decision
//! reads.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use berth_api::names::{annotation as annotations, label};
use berth_api::v1beta1::{
    BroadcastJob, CloneSet, ContainerRecreateRequest, DaemonSet, ImageListPullJob, ImagePullJob,
    StatefulSet,
};
use berth_kinds::cloneset::CloneSetOwner;
use berth_kinds::daemonset::DaemonSetOwner;
use berth_kinds::statefulset::StatefulSetOwner;
use berth_kinds::{
    broadcastjob, cloneset, containerrecreaterequest, daemonset, imagelistpulljob, imagepulljob,
    joiningnode, nodeimage, statefulset,
};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::claim::Claim;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::node::{Node, image};
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Failure, Outcome, Plan};
use berth_workload::pod_owner::decide::decide;
use berth_workload::pod_owner::status::status;
use berth_workload::pod_owner::{PodOwner, Snapshot, orphans};
use berth_workload::update::inplace::resize::Ability;
use berth_workload::update::podset::adopt::Orphans;
use berth_workload::update::podset::ended::Ended;
use berth_workload::update::podset::overlap::overlap;
use berth_workload::update::podset::{Phases, split_by_selector};
use berth_workload::update::recreate::stop::Requested;
use berth_workload::update::revision::{self, Revision};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::objects::{document, stays};

/// The objects. An object that its type cannot read is missing, as in the feed.
#[derive(Deserialize, Default)]
#[serde(default)]
struct World {
    now: i64,
    gates: String,
    resize: u8,
    name: String,
    set: Value,
    list: Value,
    job: Value,
    image: Value,
    node: Value,
    pods: Vec<Value>,
    claims: Vec<Value>,
    revisions: Vec<Value>,
    images: Vec<Value>,
    jobs: Vec<Value>,
    nodes: Vec<Value>,
    overlapping: Vec<String>,
    /// Keyed by node: the generation of the set whose pods ended there, how often, and when the
    /// last did.
    ended: BTreeMap<Box<str>, [i64; 3]>,
}

impl World {
    fn read(data: &[u8]) -> Option<Self> {
        Self::deserialize(document(data)?).ok()
    }

    /// No clock is at a time before the year 0, which the types write and do not read.
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.now.max(0)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn resize(&self) -> Ability {
        let all = [Ability::On, Ability::Off, Ability::Missing];
        all.into_iter()
            .nth(usize::from(self.resize % 3))
            .unwrap_or_default()
    }

    fn ended(&self) -> BTreeMap<Box<str>, Ended> {
        let ended = self
            .ended
            .iter()
            .filter_map(|(node, [generation, times, last])| {
                let (times, last) = (
                    u32::try_from(*times).ok()?,
                    Timestamp::from_second(*last).ok()?,
                );
                Some((
                    node.clone(),
                    Ended {
                        generation: *generation,
                        times,
                        last,
                    },
                ))
            });
        ended.collect()
    }

    fn gates(&self) -> Gates {
        berth_controller::settings::gates::parse(&self.gates).unwrap_or_default()
    }

    fn revisions(&self) -> Vec<Arc<Revision>> {
        let mut revisions = all::<Revision>(&self.revisions);
        revision::sort(&mut revisions);
        revisions
    }

    fn node_images(&self) -> BTreeMap<Box<str>, Arc<NodeImage>> {
        all::<NodeImage>(&self.images)
            .into_iter()
            .map(|image| (image::name(&image).into(), image))
            .collect()
    }

    fn nodes(&self) -> BTreeMap<Box<str>, Arc<Node>> {
        all::<Node>(&self.nodes)
            .into_iter()
            .map(|node| (node.metadata.name.clone(), node))
            .collect()
    }

    /// The jobs of image pulls, if that kind is installed.
    fn jobs(&self) -> Option<Vec<Arc<ImagePullJob>>> {
        (self.resize < 128).then(|| all(&self.jobs))
    }

    /// Pods without a controlling owner, and pods with one.
    fn pods(&self) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
        all::<Pod>(&self.pods)
            .into_iter()
            .partition(|pod| pod.metadata.controller().is_none())
    }
}

pub(crate) fn one<T: DeserializeOwned>(value: &Value) -> Option<Arc<T>> {
    T::deserialize(value).ok().map(Arc::new)
}

pub(crate) fn all<T: DeserializeOwned>(values: &[Value]) -> Vec<Arc<T>> {
    values.iter().filter_map(one).collect()
}

pub(crate) fn clone_set(data: &[u8]) {
    let Some(world) = World::read(data) else {
        return;
    };
    decide_clone_set(&world);
}

/// The snapshot of an owner of pods, with these pods and those without an owner.
fn snapshot<K: PodOwner>(
    world: &World,
    set: &Arc<K::Object>,
    own: K,
    (pods, of_nobody): (Vec<Arc<Pod>>, Vec<Arc<Pod>>),
    ended: K::Ended,
) -> Snapshot<K> {
    let selector = K::workload(set, world.gates()).selector;
    let (pods, strays) = split_by_selector(selector, pods);
    let nobodys = Orphans {
        pods: of_nobody,
        claims: all(&world.claims),
        revisions: world.revisions(),
    };
    Snapshot {
        own,
        ended,
        pods,
        strays,
        orphans: orphans::<K>(set, nobodys),
        revisions: world.revisions(),
        node_images: world.node_images(),
        jobs: world.jobs(),
        unreadable: Vec::new(),
        overlapping: world.overlapping.clone(),
        nodes: world.nodes(),
        phases: Phases::default(),
        gates: world.gates(),
        resize: world.resize(),
        seed: 7,
        set: set.clone(),
    }
}

/// Decides, writes the status, and decides again with it.
fn decide_owner<K: PodOwner<Status: Serialize + DeserializeOwned + PartialEq + Debug>>(
    snapshot: &Snapshot<K>,
    now: Timestamp,
    with_status: impl Fn(&K::Object, K::Status) -> K::Object,
) -> Plan {
    let plan = decided(|| decide(snapshot, now));
    K::ended(snapshot, &plan, now);
    let again = |status| {
        let set = Arc::new(with_status(&snapshot.set, status));
        let snapshot = Snapshot {
            set,
            ..snapshot.clone()
        };
        decide(&snapshot, now)
    };
    told(
        &plan,
        |outcome| status(snapshot, &plan, outcome, now),
        again,
    );
    plan
}

fn decide_clone_set(world: &World) {
    let Some(set) = one::<CloneSet>(&world.set) else {
        return;
    };
    let own = CloneSetOwner {
        claims: all(&world.claims),
    };
    let ended = world.ended().into_values().next();
    let ended = ended.map(|count| cloneset::Ended {
        count,
        youngest: Some(count.last),
    });
    let pods = (all(&world.pods), world.pods().0);
    let snapshot = snapshot(world, &set, own, pods, ended);
    decide_owner(&snapshot, world.now(), |set, status| CloneSet {
        status: Some(status),
        ..set.clone()
    });
    let workload = CloneSetOwner::workload(&set, Gates::default());
    for other in &world.jobs {
        if let Some(other) = one::<CloneSet>(other) {
            let other = CloneSetOwner::workload(&other, Gates::default());
            assert_eq!(overlap(&workload, &other), overlap(&other, &workload));
        }
    }
}

pub(crate) fn stateful_set(data: &[u8]) {
    let Some(world) = World::read(data) else {
        return;
    };
    let Some(set) = one::<StatefulSet>(&world.set) else {
        return;
    };
    let (of_nobody, owned) = world.pods();
    let (pods, _) = split_by_selector(&set.spec.selector, owned.clone());
    let counts_start = world.gates().has(Gate::StatefulSetStartOrdinal);
    let (created, mut claims) = statefulset::names_to_look_at(&set, &pods, counts_start);
    assert!(created.len() <= 512, "no spec is too large to be looked at");
    claims.extend(statefulset::former_claims(
        &set,
        pods.iter().chain(&of_nobody),
    ));
    let named = all::<Claim>(&world.claims)
        .into_iter()
        .filter(|claim| claims.contains(&claim.metadata.name.to_string()));
    let own = StatefulSetOwner {
        records: None,
        others: of_nobody
            .iter()
            .map(|pod| (pod.metadata.name.clone(), pod.clone()))
            .collect(),
        claims: named
            .map(|claim| (claim.metadata.name.clone(), claim))
            .collect(),
        watched_nodes: world.nodes(),
    };
    let snapshot = snapshot(&world, &set, own, (owned, of_nobody), ());
    decide_owner(&snapshot, world.now(), |set, status| StatefulSet {
        status: Some(status),
        ..set.clone()
    });
}

pub(crate) fn daemon_set(data: &[u8]) {
    let Some(world) = World::read(data) else {
        return;
    };
    let Some(set) = one::<DaemonSet>(&world.set) else {
        return;
    };
    let (of_nobody, owned) = world.pods();
    let own = DaemonSetOwner {
        namesakes: daemonset::namesakes(&set, &owned),
        assigns_by_scheduler: true,
    };
    let snapshot = snapshot(&world, &set, own, (owned, of_nobody), world.ended());
    let plan = decide_owner(&snapshot, world.now(), |set, status| DaemonSet {
        status: Some(status),
        ..set.clone()
    });
    each_node_has_its_pod(&snapshot, &plan);
    let triggers = daemonset::Triggers::new(&set);
    for node in snapshot.nodes.values() {
        assert!(
            !triggers.is_one(Some(node), Some(node)),
            "a node that stays is no news"
        );
    }
}

/// A pod is created only on a node that exists, and that has none; or has one, if a second may be
/// beside it.
fn each_node_has_its_pod(snapshot: &daemonset::Snapshot, plan: &Plan) {
    let rolling = snapshot.set.spec.update_strategy.rolling_update.as_ref();
    let most = if rolling.is_some_and(|rolling| rolling.max_surge.is_some()) {
        2
    } else {
        1
    };
    let made = plan.actions().filter_map(|action| match action {
        // No apiserver takes a pod without a spec.
        Action::CreatePod { body } => body
            .read::<Pod>()
            .filter(|_| body.value()["spec"].is_object()),
        _ => None,
    });
    let mut pods: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &snapshot.pods {
        *pods.entry(daemonset::node_of(pod).to_owned()).or_default() += 1;
    }
    for pod in made {
        let node = daemonset::node_of(&pod);
        assert!(
            snapshot.nodes.contains_key(node),
            "a pod is made for node {node:?}, which is not there"
        );
        let here = pods.entry(node.to_owned()).or_default();
        *here += 1;
        assert!(
            *here <= most,
            "node {node} gets pod {here} of at most {most}"
        );
    }
}

pub(crate) fn broadcast_job(data: &[u8]) {
    let Some(world) = World::read(data) else {
        return;
    };
    let Some(job) = one::<BroadcastJob>(&world.job) else {
        return;
    };
    let (nodes, pods): (Vec<Arc<Node>>, Vec<Arc<Pod>>) = (all(&world.nodes), all(&world.pods));
    let triggers = broadcastjob::Triggers::new(&job);
    for pair in nodes.windows(2) {
        if let [old, new] = pair {
            broadcastjob::is_trigger(Some(old), Some(new));
            triggers.is_one(Some(old), Some(new));
        }
    }
    let gone = pods
        .iter()
        .filter(|pod| broadcastjob::hides_its_end(pod, None))
        .take(1)
        .cloned()
        .collect();
    let snapshot = broadcastjob::Snapshot {
        gone: broadcastjob::unrecorded(&job, &nodes, gone),
        unreadable: Vec::new(),
        phases: Phases::default(),
        gates: world.gates(),
        job: job.clone(),
        pods,
        nodes,
    };
    let (plan, now) = (broadcastjob::decide(&snapshot, world.now()), world.now());
    sound(&plan);
    for outcome in [Outcome::default(), failed(&plan)] {
        let status = broadcastjob::status(&snapshot, &plan, &outcome, now);
        kept(&status);
        let told = BroadcastJob {
            status: Some(status),
            ..(*job).clone()
        };
        sound(&broadcastjob::decide(
            &broadcastjob::Snapshot {
                job: Arc::new(told),
                ..snapshot.clone()
            },
            now,
        ));
    }
}

pub(crate) fn image_pull_job(data: &[u8]) {
    let Some(world) = World::read(data) else {
        return;
    };
    let Some(job) = one::<ImagePullJob>(&world.job) else {
        return;
    };
    let (images, pods): (Vec<Arc<NodeImage>>, Vec<Arc<Pod>>) =
        (all(&world.images), all(&world.pods));
    for pair in images.windows(2) {
        if let [old, new] = pair {
            imagepulljob::concerns(&job, Some(old), Some(new));
        }
    }
    for pod in &pods {
        assert!(
            !imagepulljob::concerns_pod(&job, Some(pod), Some(pod)),
            "a pod that stays is no news"
        );
    }
    let refused = imagepulljob::validate(&job);
    assert!(refused.as_ref().is_ok() || refused.is_err_and(|refusal| !refusal.message.is_empty()));
    let leaving = job.metadata.uid.iter().cloned().collect();
    let snapshot = imagepulljob::Snapshot {
        job: job.clone(),
        node_images: images,
        unreadable: Vec::new(),
        pods,
        leaving,
        gates: world.gates(),
    };
    let (plan, now) = (imagepulljob::decide(&snapshot, world.now()), world.now());
    sound(&plan);
    let again = |status| {
        let told = ImagePullJob {
            status: Some(status),
            ..(*job).clone()
        };
        imagepulljob::decide(
            &imagepulljob::Snapshot {
                job: Arc::new(told),
                ..snapshot.clone()
            },
            now,
        )
    };
    told(
        &plan,
        |outcome| Some(imagepulljob::status(&snapshot, &plan, outcome, now)),
        again,
    );
}

pub(crate) fn image_list_pull_job(data: &[u8]) {
    let Some(world) = World::read(data) else {
        return;
    };
    let Some(list) = one::<ImageListPullJob>(&world.list) else {
        return;
    };
    let snapshot = imagelistpulljob::Snapshot {
        list: list.clone(),
        jobs: all(&world.jobs),
        gates: world.gates(),
    };
    let (plan, now) = (
        imagelistpulljob::decide(&snapshot, world.now()),
        world.now(),
    );
    sound(&plan);
    let again = |status| {
        let told = ImageListPullJob {
            status: Some(status),
            ..(*list).clone()
        };
        imagelistpulljob::decide(
            &imagelistpulljob::Snapshot {
                list: Arc::new(told),
                ..snapshot.clone()
            },
            now,
        )
    };
    told(
        &plan,
        |outcome| Some(imagelistpulljob::status(&snapshot, &plan, outcome, now)),
        again,
    );
}

pub(crate) fn node_image(data: &[u8]) {
    let Some(world) = World::read(data) else {
        return;
    };
    let snapshot = nodeimage::Snapshot {
        name: world.name.clone(),
        node: one::<Node>(&world.node),
        image: one::<NodeImage>(&world.image),
        pods: all(&world.pods),
        jobs: all(&world.jobs),
        requested: requested(&world),
        unreadable_jobs: Vec::new(),
        join: Some(join(&world)),
    };
    let plan = nodeimage::decide(&snapshot, world.now());
    sound(&plan);
    container_recreate_requests(&world);
    if let Some(node) = &snapshot.node {
        let joining = joiningnode::Snapshot {
            node: node.clone(),
            image: snapshot.image.clone(),
        };
        sound(&joiningnode::decide(&joining, world.now()));
    }
    if let (Some(old), Some(new)) = (&snapshot.node, world.nodes.first().and_then(one::<Node>)) {
        Node::concerns(Some(old), &new);
    }
    let Some(image) = &snapshot.image else { return };
    image::owners(image);
    for pod in &snapshot.pods {
        nodeimage::bears_on(pod, image);
        assert_eq!(nodeimage::question(pod).uid, *pod.metadata.uid);
    }
}

/// The input for the pulls of a node that joins, from jobs and workloads of any form.
fn join(world: &World) -> nodeimage::Join {
    let current = world.revisions().pop();
    nodeimage::Join {
        jobs: all(&world.jobs),
        clone_sets: one::<CloneSet>(&world.set)
            .map(|set| (set, current))
            .into_iter()
            .collect(),
        daemon_sets: one::<DaemonSet>(&world.set)
            .map(|set| (set, world.revisions()))
            .into_iter()
            .collect(),
        gates: world.gates(),
    }
}

/// The requests of a world are among its jobs.
fn requested(world: &World) -> Vec<Requested> {
    let requests = all::<ContainerRecreateRequest>(&world.jobs);
    let of = |pod: Arc<Pod>| {
        let is_of =
            |request: &&Arc<ContainerRecreateRequest>| *request.spec.pod_name == *pod.metadata.name;
        let requests = requests.iter().filter(is_of).cloned().collect();
        Requested { pod, requests }
    };
    all(&world.pods).into_iter().map(of).collect()
}

fn container_recreate_requests(world: &World) {
    for Requested { pod, requests } in requested(world) {
        for request in &requests {
            let snapshot = containerrecreaterequest::Snapshot {
                request: request.clone(),
                pod: Some(pod.clone()),
                image: one::<NodeImage>(&world.image),
                of_pod: requests.clone(),
                gates: world.gates(),
                filled: containerrecreaterequest::needs_filling(request)
                    .then(|| Ok(world.job.clone())),
                held: (world.resize % 2 == 1).then(|| "a budget holds it".to_owned()),
            };
            let (plan, now) = (
                containerrecreaterequest::decide(&snapshot, world.now()),
                world.now(),
            );
            sound(&plan);
            for outcome in [Outcome::default(), failed(&plan)] {
                let status = containerrecreaterequest::status(&snapshot, &plan, &outcome, now);
                let Some(status) = status else { continue };
                kept(&status);
                containerrecreaterequest::pod_events(&snapshot, &status);
                let told = Arc::new(ContainerRecreateRequest {
                    status: Some(status),
                    ..(**request).clone()
                });
                sound(&containerrecreaterequest::decide(
                    &containerrecreaterequest::Snapshot {
                        request: told,
                        ..snapshot.clone()
                    },
                    now,
                ));
            }
        }
    }
}

/// The plan, which must be the same for the same world.
pub(crate) fn decided(decide: impl Fn() -> Plan) -> Plan {
    let plan = decide();
    sound(&plan);
    assert_eq!(decide(), plan, "the same world, another plan");
    plan
}

/// For any outcome of a plan, the written status reads back unchanged, and allows the next
/// decision.
pub(crate) fn told<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    plan: &Plan,
    status: impl Fn(&Outcome) -> Option<T>,
    again: impl Fn(T) -> Plan,
) {
    for outcome in [Outcome::default(), failed(plan)] {
        let Some(status) = status(&outcome) else {
            continue;
        };
        kept(&status);
        sound(&again(status));
    }
}

/// A plan can be printed, and a refusal has a reason.
fn sound(plan: &Plan) {
    assert!(
        plan.refusal
            .as_ref()
            .is_none_or(|refusal| !refusal.message.is_empty())
    );
    assert!(
        plan.waiting
            .iter()
            .all(|waiting| !waiting.reason.is_empty())
    );
    assert!(
        plan.look_again.is_none_or(|wait| !wait.is_negative()),
        "{:?}",
        plan.look_again
    );
    let shown = serde_json::to_value(plan);
    assert!(shown.is_ok(), "{shown:?}");
}

/// A status is written in a form that reads back unchanged.
fn kept<T: Serialize + DeserializeOwned + PartialEq + Debug>(status: &T) {
    let written = serde_json::to_value(status).unwrap_or_default();
    assert!(
        stays::<T>(&written),
        "{status:?} is written as {written}, which cannot be read"
    );
}

/// Every action of the plan was refused.
fn failed(plan: &Plan) -> Outcome {
    let actions = plan.actions();
    let failure = |write| Failure {
        write,
        namespace: "default".to_owned(),
        object: "web-a".to_owned(),
        message: "spec.template: is refused".to_owned(),
        code: 422,
        permanent: true,
        outdated: false,
        taken: false,
        infeasible: false,
    };
    Outcome {
        failures: actions.map(|action| failure(action.write())).collect(),
    }
}

/// Every label and annotation of a pod that the decisions read.
const ANNOTATIONS: [&str; 8] = [
    annotations::INPLACE_UPDATE_STATE,
    annotations::INPLACE_UPDATE_STATE_OLD,
    annotations::INPLACE_UPDATE_GRACE,
    annotations::INPLACE_UPDATE_GRACE_OLD,
    annotations::LIFECYCLE_TIMESTAMP,
    annotations::LAUNCHED_PRIORITY,
    annotations::CONTAINER_LAUNCH_PRIORITY_COMPLETED,
    "controller.kubernetes.io/pod-deletion-cost",
];
const LABELS: [&str; 6] = [
    label::LIFECYCLE_STATE,
    label::CONTROLLER_REVISION_HASH,
    label::POD_TEMPLATE_HASH,
    label::CLONESET_INSTANCE_ID,
    label::SPECIFIED_DELETE,
    "tier",
];
const OF_SET: [&str; 3] = [
    annotations::INPLACE_UPDATE_WAIT_FOR_IMAGE,
    annotations::CONTAINER_LAUNCH_PRIORITY,
    annotations::RESTARTED_AT,
];

/// A world with one pod that is being updated, and one that is not.
static UPDATING: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../corpus/clone_set/updating.json")).unwrap_or_default()
});

/// Puts the text into each annotation and label with a meaning: those of pods each on a pod of its
/// own, then those of the CloneSet and its objects.
pub(crate) fn annotation(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let places = ANNOTATIONS
        .iter()
        .map(|key| ("/metadata/annotations", *key));
    let places = places.chain(LABELS.iter().map(|key| ("/metadata/labels", *key)));
    let places = places.chain([
        ("/status/conditions/0", "message"),
        ("/status/containerStatuses/0", "imageID"),
    ]);
    let pod = UPDATING.pointer("/pods/0").cloned().unwrap_or_default();
    let pods = places.enumerate().map(|(number, (path, key))| {
        let mut pod = pod.clone();
        put(&mut pod, "/metadata", "name", &format!("web-{number}"));
        put(&mut pod, "/metadata", "uid", &format!("uid-{number}"));
        put(&mut pod, path, key, text);
        pod
    });
    let world = World::deserialize(&*UPDATING);
    assert!(world.is_ok());
    let mut world = world.unwrap_or_default();
    world.pods = pods.collect();
    decide_clone_set(&world);
    for key in OF_SET {
        put(&mut world.set, "/metadata/annotations", key, text);
        put(
            &mut world.set,
            "/spec/template/metadata/annotations",
            key,
            text,
        );
    }
    for claim in &mut world.claims {
        put(
            claim,
            "/metadata/annotations",
            annotations::CLAIM_UNUSED,
            text,
        );
    }
    for revision in &mut world.revisions {
        put(
            revision,
            "/metadata/annotations",
            annotations::VOLUME_CLAIM_TEMPLATE_HASH,
            text,
        );
    }
    world.pods.truncate(1);
    decide_clone_set(&world);
}

fn put(object: &mut Value, path: &str, key: &str, text: &str) {
    let found = object.pointer_mut(path).and_then(Value::as_object_mut);
    assert!(found.is_some(), "the world has no {path}");
    if let Some(map) = found {
        map.insert(key.to_owned(), json!(text));
    }
}
