//! Repair and updates in a small world: workloads that create pods, kubelets, a webhook that does
//! not answer at times, disruption budgets, and a controller that dies at any point.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A step in the world.
#[derive(Debug, Clone, Copy)]
enum Happening {
    /// A round of the controller.
    Round(RoundEnding),
    /// Workloads create the pods that they lack.
    Made,
    /// A pod that is being deleted is gone.
    Gone(usize),
    /// A pod has the containers of its spec, and is ready.
    Ready(usize),
    /// Nothing happens for a minute.
    Minute,
    /// The SidecarSet gets this image.
    Image(usize),
    /// The webhook starts or stops answering.
    Webhook(bool),
    /// Disruption budgets start or stop refusing all pods.
    Budget(bool),
    /// A user deletes the pods without the containers that replaced others.
    Tidy,
    /// Other pods replace all pods of a workload, as after a rollout.
    Rollout(usize),
    /// A workload wants one pod less.
    ScaledDown(usize),
    /// A workload is deleted, and its pods with it.
    OwnerGone(usize),
}

/// The extent of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RoundEnding {
    Whole,
    DiesBeforeItsWrites,
    DiesBeforeItsStatus,
}

fn happening() -> impl Strategy<Value = Happening> {
    let ending = prop_oneof![4 => Just(RoundEnding::Whole), 1 => Just(RoundEnding::DiesBeforeItsWrites), 1 => Just(RoundEnding::DiesBeforeItsStatus)];
    prop_oneof![
        8 => ending.prop_map(Happening::Round),
        3 => Just(Happening::Made),
        3 => (0..8_usize).prop_map(Happening::Gone),
        6 => (0..8_usize).prop_map(Happening::Ready),
        1 => Just(Happening::Minute),
        1 => (1..4_usize).prop_map(Happening::Image),
        1 => any::<bool>().prop_map(Happening::Webhook),
        1 => any::<bool>().prop_map(Happening::Budget),
        1 => Just(Happening::Tidy),
        1 => (0..4_usize).prop_map(Happening::Rollout),
        1 => (0..4_usize).prop_map(Happening::ScaledDown),
        1 => (0..4_usize).prop_map(Happening::OwnerGone),
    ]
}

/// Each workload wants two pods at first.
const REPLICAS: usize = 2;
/// More than a minute, by the world's clock.
const MINUTE: i64 = 61 * 20;
const SECOND: i64 = 1_767_600_000;

struct World {
    pods: Vec<Value>,
    /// By workload: its uid, and how many pods it wants.
    workloads: Vec<(String, usize)>,
    max_unavailable: usize,
    image: usize,
    status: Value,
    /// In steps of 50 ms, because many steps fit into a second.
    clock: i64,
    answers: bool,
    lets_go: bool,
    /// Pods without the containers that replaced a pod which repair took, each with the uid of its
    /// workload.
    bad: Vec<(String, String)>,
    /// By uid of a workload: when the last of these pods was created.
    stopped: BTreeMap<String, i64>,
    replaced: Vec<String>,
}

impl World {
    fn new(workloads: usize, max_unavailable: usize, missed: &[bool]) -> Self {
        let mut world = Self {
            pods: Vec::new(),
            workloads: (0..workloads)
                .map(|workload| (format!("rs-{workload}"), REPLICAS))
                .collect(),
            max_unavailable,
            image: 1,
            status: Value::Null,
            clock: 0,
            answers: true,
            lets_go: true,
            bad: Vec::new(),
            stopped: BTreeMap::new(),
            replaced: Vec::new(),
        };
        for workload in 0..workloads {
            for n in 0..REPLICAS {
                world.answers = !missed[(workload * REPLICAS + n) % missed.len()];
                world.make(workload, true);
            }
        }
        world.answers = true;
        world
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millisecond(1000 * SECOND + 50 * self.clock).unwrap()
    }

    /// The time as an apiserver writes it.
    fn second(&self) -> String {
        Timestamp::from_second(self.time().as_second())
            .unwrap()
            .to_string()
    }

    fn make(&mut self, workload: usize, ready: bool) {
        self.clock += 1;
        let name = format!("p{}", self.clock);
        let mut new = pod(&name, "h1", ready);
        let (image, hash) = (format!("agent:{}", self.image), format!("h{}", self.image));
        let record = json!({"log": {"hash": hash, "controllerRevision": "log-0"}}).to_string();
        new["metadata"]["annotations"][HASH] = json!(record);
        new["spec"]["containers"][1]["image"] = json!(image);
        new["status"]["containerStatuses"][1] = json!({"name": "agent", "ready": ready, "image": image, "imageID": format!("id-{image}"), "containerID": format!("c://{name}")});
        if !self.answers {
            new = bare(&name, "");
            set_ready(&mut new, ready);
        }
        new["metadata"]["creationTimestamp"] = json!(self.second());
        new["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": self.workloads[workload].0, "controller": true}]);
        self.pods.push(new);
    }

    fn snapshot(&self) -> Snapshot {
        let fields = json!({
            "/spec/containers": [{"name": "agent", "image": format!("agent:{}", self.image)}],
            "/spec/updateStrategy": {"maxUnavailable": self.max_unavailable},
        });
        let mut snapshot = asked("Missed", fields, &self.status, &self.pods);
        if !self.answers {
            snapshot.injection_calls = InjectionCalls::Unanswered("no".to_owned());
        }
        snapshot.hashes.hash = format!("h{}", self.image);
        snapshot
    }

    /// Pods that serve: ready, with the containers of their spec.
    fn serving(&self) -> usize {
        self.pods.iter().filter(|pod| serves(pod)).count()
    }

    fn round(&mut self, ending: RoundEnding) {
        if ending == RoundEnding::DiesBeforeItsWrites {
            return;
        }
        self.clock += 1;
        let (snapshot, before) = (self.snapshot(), self.serving());
        let plan = decide(&snapshot, self.time());
        let mut outcome = Outcome::default();
        for action in plan.actions() {
            match action {
                Action::EvictPod { target } if self.lets_go => self.evict(&target.uid),
                Action::EvictPod { target } => outcome.failures.push(Failure {
                    write: action.write(),
                    namespace: target.namespace.clone(),
                    object: target.name.clone(),
                    message: "no".to_owned(),
                    code: 429,
                    permanent: true,
                    outdated: false,
                    taken: false,
                    infeasible: false,
                }),
                Action::PatchPod { target, patch } => {
                    let pod = self
                        .pods
                        .iter_mut()
                        .find(|pod| pod["metadata"]["uid"] == *target.uid)
                        .unwrap();
                    for (key, value) in &patch.annotations {
                        pod["metadata"]["annotations"][key] = json!(value);
                    }
                    if let Some(image) = patch.images.get("agent") {
                        pod["spec"]["containers"][1]["image"] = json!(image);
                    }
                }
                _ => {}
            }
        }
        let wanted: usize = self.workloads.iter().map(|(_, wanted)| wanted).sum();
        let out = wanted - self.serving();
        assert!(
            self.serving() == before || out <= self.max_unavailable,
            "{out} are out of service at once"
        );
        if ending == RoundEnding::Whole {
            self.status = json!(status(&snapshot, &plan, &outcome, self.time()));
        }
    }

    fn evict(&mut self, uid: &str) {
        assert!(
            self.answers,
            "{uid} is taken though the webhook does not answer"
        );
        let at = self
            .pods
            .iter()
            .position(|pod| pod["metadata"]["uid"] == *uid)
            .unwrap();
        let owner = owner_of(&self.pods[at]);
        let waited = self
            .stopped
            .get(owner)
            .is_none_or(|stopped| self.clock - stopped >= MINUTE - 40);
        let is_bad = self.bad.iter().any(|(_, of)| of == owner);
        assert!(
            !is_bad || waited,
            "{uid} of {owner} is taken though {:?} came without the containers",
            self.bad
        );
        let has = self.pods[at]["metadata"]["annotations"]
            .as_object()
            .is_some_and(|all| !all.is_empty());
        assert!(!has, "{uid} lacks nothing");
        self.replaced.push(owner_of(&self.pods[at]).to_owned());
        self.pods[at]["metadata"]["deletionTimestamp"] = json!(self.second());
    }

    fn made(&mut self) {
        for workload in 0..self.workloads.len() {
            let (uid, wanted) = self.workloads[workload].clone();
            let is_there = |pod: &&Value| {
                owner_of(pod) == uid && pod["metadata"]["deletionTimestamp"].is_null()
            };
            while self.pods.iter().filter(is_there).count() < wanted {
                self.make(workload, false);
                if let Some(at) = self.replaced.iter().position(|owner| *owner == uid) {
                    self.replaced.remove(at);
                    if !self.answers {
                        self.bad.push((format!("p{}", self.clock), uid.clone()));
                        self.stopped.insert(uid.clone(), self.clock);
                    }
                }
            }
        }
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Round(ending) => self.round(ending),
            Happening::Made => self.made(),
            Happening::Gone(at) => {
                let mut ending = self
                    .pods
                    .iter()
                    .enumerate()
                    .filter(|(_, pod)| !pod["metadata"]["deletionTimestamp"].is_null());
                if let Some((at, _)) = ending.nth(at) {
                    self.pods.remove(at);
                }
            }
            Happening::Ready(at) => {
                let (at, id) = (
                    at % self.pods.len().max(1),
                    format!("c://new-{}", self.clock),
                );
                self.clock += 1;
                self.pods
                    .get_mut(at)
                    .into_iter()
                    .for_each(|pod| run(pod, &id));
            }
            Happening::Minute => self.clock += MINUTE,
            Happening::Image(image) => self.image = image,
            Happening::Webhook(answers) => self.answers = answers,
            Happening::Budget(lets_go) => self.lets_go = lets_go,
            Happening::Tidy => {
                let bad = std::mem::take(&mut self.bad);
                for (name, _) in bad {
                    let at = self
                        .pods
                        .iter()
                        .position(|pod| pod["metadata"]["name"] == *name)
                        .unwrap();
                    let gone = self.pods.remove(at);
                    // The pod's replacement replaces the earlier pod, too.
                    self.replaced.push(owner_of(&gone).to_owned());
                }
            }
            Happening::Rollout(workload) => {
                let workload = workload % self.workloads.len();
                let wanted = self.workloads[workload].1;
                self.remove(workload, 0);
                self.workloads[workload] = (format!("rs-{workload}-{}", self.clock), wanted);
                (0..wanted).for_each(|_| self.make(workload, true));
            }
            Happening::ScaledDown(workload) => {
                let workload = workload % self.workloads.len();
                let wanted = self.workloads[workload].1.saturating_sub(1);
                self.workloads[workload].1 = wanted;
                self.remove(workload, wanted);
            }
            Happening::OwnerGone(workload) => {
                let workload = workload % self.workloads.len();
                self.workloads[workload].1 = 0;
                self.remove(workload, 0);
            }
        }
    }

    /// Deletes the pods of a workload at once, except for `but` of those that are not being
    /// deleted.
    fn remove(&mut self, workload: usize, but: usize) {
        let uid = self.workloads[workload].0.clone();
        let mut left = but;
        let bad = &mut self.bad;
        self.pods.retain(|pod| {
            let is_ending = !pod["metadata"]["deletionTimestamp"].is_null();
            let stays = owner_of(pod) != uid || (but > 0 && is_ending) || (!is_ending && left > 0);
            left -= usize::from(stays && owner_of(pod) == uid && !is_ending);
            bad.retain(|(name, _)| stays || pod["metadata"]["name"] != **name);
            stays
        });
        if but == 0 {
            self.replaced.retain(|owner| *owner != uid);
        }
    }
}

fn owner_of(pod: &Value) -> &str {
    pod["metadata"]["ownerReferences"][0]["uid"]
        .as_str()
        .unwrap()
}

fn set_ready(pod: &mut Value, ready: bool) {
    let word = if ready { "True" } else { "False" };
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": word}]);
}

/// The kubelet runs the containers of the spec.
fn run(pod: &mut Value, id: &str) {
    if let Some(image) = pod["spec"]["containers"][1]["image"]
        .as_str()
        .map(str::to_owned)
    {
        let status = &mut pod["status"]["containerStatuses"][1];
        if status["image"] != *image {
            *status = json!({"name": "agent", "image": image, "imageID": format!("id-{image}"), "containerID": id});
        }
        status["ready"] = json!(true);
    }
    set_ready(pod, true);
}

fn serves(pod: &Value) -> bool {
    let is_new = pod["spec"]["containers"][1].is_null()
        || pod["spec"]["containers"][1]["image"] == pod["status"]["containerStatuses"][1]["image"];
    pod["metadata"]["deletionTimestamp"].is_null()
        && pod["status"]["conditions"][0]["status"] == "True"
        && is_new
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Limits hold in every order of steps, wherever the controller dies.
    #[test]
    fn repair_and_updates_keep_max_unavailable(
        workloads in 1..4_usize,
        max_unavailable in 0..4_usize,
        missed in prop::collection::vec(any::<bool>(), 1..6),
        happenings in prop::collection::vec(happening(), 0..120),
    ) {
        let mut world = World::new(workloads, max_unavailable, &missed);
        happenings.into_iter().for_each(|happening| world.happens(happening));
    }

    /// If nothing fails, all pods have the containers in the end.
    #[test]
    fn repair_ends_with_no_pod_that_lacks_the_containers(
        workloads in 1..4_usize,
        missed in prop::collection::vec(any::<bool>(), 1..6),
    ) {
        let mut world = World::new(workloads, 1, &missed);
        for _ in 0..200 {
            world.round(RoundEnding::Whole);
            world.happens(Happening::Gone(0));
            world.made();
            (0..world.pods.len()).for_each(|at| world.happens(Happening::Ready(at)));
        }
        let injection = &world.status["injection"];
        prop_assert_eq!((&injection["missed"], &injection["injected"]), (&json!(0), &json!(workloads * REPLICAS)));
    }
}

/// Regardless of the workload of a pod that repair took, pods of other workloads get their turn.
#[test]
fn missing_successor_delays_no_other_workload() {
    for (happening, missed, injected) in [
        (Happening::Rollout(0), 0, 4),
        (Happening::ScaledDown(0), 1, 2),
        (Happening::OwnerGone(0), 0, 2),
    ] {
        let mut world = World::new(2, 1, &[true]);
        world.clock += MINUTE;
        (0..2).for_each(|_| world.round(RoundEnding::Whole));
        assert_eq!(world.replaced, ["rs-0"], "{happening:?}");
        world.happens(happening);
        for _ in 0..40 {
            world.round(RoundEnding::Whole);
            world.happens(Happening::Gone(0));
            world.made();
            (0..world.pods.len()).for_each(|at| world.happens(Happening::Ready(at)));
            world.round(RoundEnding::Whole);
            world.clock += MINUTE;
        }
        let injection = &world.status["injection"];
        let found = (&injection["missed"], &injection["injected"]);
        assert_eq!(
            found,
            (&json!(missed), &json!(injected)),
            "{happening:?}: {:#}",
            world.status
        );
    }
}
