//! Tables of the pods that are updated beside those whose update is under way, and a property of
//! the choice in every state of a rollout.

use std::collections::BTreeSet;

use berth_workload::plan::Action;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::sidecarset::names::{HASH, INPLACE_UPDATE_STATE};
use crate::sidecarset::tests::{patched, pod, snapshot, updated};
use crate::sidecarset::{Snapshot, decide};

/// A pod whose update to this hash is not proven.
fn on_its_way(name: &str, hash: &str, failing: bool) -> Value {
    let mut pod = pod(name, hash, true);
    let image = pod["spec"]["containers"][1]["image"].clone();
    let before = json!({"imageID": format!("id-{}", image.as_str().unwrap()), "berthContainerID": "c://1", "berthImage": "agent:0"});
    let state = json!({"log": {
        "revision": hash, "updateTimestamp": Timestamp::UNIX_EPOCH, "berthWasReady": true, "updateImages": true,
        "lastContainerStatuses": {"agent": before}, "berthFromSettled": true,
    }});
    pod["metadata"]["annotations"][INPLACE_UPDATE_STATE] = json!(state.to_string());
    if failing {
        pod["status"]["containerStatuses"][1]["state"] =
            json!({"waiting": {"reason": "ImagePullBackOff"}});
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    }
    pod
}

#[test]
fn superseded_update_counts_and_is_redone_on_failure() {
    let old = || pod("b", "h1", true);
    for (what, max_unavailable, pods, expected) in [
        (
            "it is under way",
            1,
            vec![on_its_way("a", "h1", false), old()],
            vec![],
        ),
        (
            "one more may be away",
            2,
            vec![on_its_way("a", "h1", false), old()],
            vec!["b"],
        ),
        (
            "it fails, and is updated again",
            1,
            vec![on_its_way("a", "h1", true), old()],
            vec!["a"],
        ),
        (
            "it fails, and takes no room twice",
            2,
            vec![on_its_way("a", "h1", true), old()],
            vec!["a", "b"],
        ),
        (
            "no other pod may be out of service",
            0,
            vec![on_its_way("a", "h1", true)],
            vec!["a"],
        ),
        (
            "never while the new image fails",
            1,
            vec![on_its_way("a", "h1", true), on_its_way("c", "h2", true)],
            vec![],
        ),
        (
            "who does not serve goes before who does",
            1,
            vec![pod("a", "h1", false), old()],
            vec!["a"],
        ),
    ] {
        let strategy = json!({"/spec/updateStrategy": {"maxUnavailable": max_unavailable}});
        let plan = decide(&snapshot(&strategy, &pods), Timestamp::UNIX_EPOCH);
        assert_eq!(updated(&plan), expected, "{what}: {plan:#?}");
    }
}

#[test]
fn maxunavailable_counts_pods_by_their_sidecars_alone() {
    let own_is_sick = |pod: Value| {
        let mut pod = pod;
        pod["status"]["containerStatuses"][1]["ready"] = json!(true);
        pod
    };
    let sick = || pod("z", "h2", false);
    let unproven = |was_ready: bool| {
        let mut pod = on_its_way("z", "h2", false);
        let state = pod["metadata"]["annotations"][INPLACE_UPDATE_STATE]
            .as_str()
            .unwrap()
            .to_owned();
        let state = state.replace(
            "\"berthWasReady\":true",
            &format!("\"berthWasReady\":{was_ready}"),
        );
        pod["metadata"]["annotations"][INPLACE_UPDATE_STATE] = json!(state);
        pod
    };
    for (what, pod_, counts) in [
        ("new, and never patched", sick(), false),
        (
            "its own container is never ready",
            own_is_sick(patched(sick(), 1, true)),
            false,
        ),
        (
            "so it was before",
            own_is_sick(patched(sick(), 1, false)),
            false,
        ),
        ("its sidecar is not ready", patched(sick(), 600, true), true),
        ("it was not Ready before", patched(sick(), 299, false), true),
        ("nor for five minutes", patched(sick(), 300, false), false),
        (
            "by a clock that is ahead",
            patched(sick(), -300, false),
            false,
        ),
        ("its new image is not proven", unproven(true), true),
        ("not proven, and not Ready before", unproven(false), true),
        ("patched without a time", patched(sick(), 0, true), true),
    ] {
        let pods = [pod_, pod("a", "h1", true)];
        let plan = decide(&snapshot(&json!({}), &pods), Timestamp::UNIX_EPOCH);
        let expected: &[&str] = if counts { &[] } else { &["a"] };
        assert_eq!(updated(&plan), expected, "{what}: {plan:#?}");
        let says = "maxUnavailable: 1 of 1 that may be are out of service, default/z among them";
        assert_eq!(
            plan.waiting
                .iter()
                .any(|waiting| waiting.reason.contains(says)),
            counts,
            "{what}: {:?}",
            plan.waiting
        );
    }
    let plan = decide(
        &snapshot(
            &json!({}),
            &[patched(sick(), 299, false), pod("a", "h1", true)],
        ),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(plan.look_again, Some(jiff::SignedDuration::from_secs(1)));
}

#[test]
fn patch_records_whether_the_pod_was_ready() {
    let again = |ready: bool, was_ready: bool| {
        let mut pod = on_its_way("a", "h1", true);
        if ready {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        }
        let state = pod["metadata"]["annotations"][INPLACE_UPDATE_STATE]
            .as_str()
            .unwrap();
        let state = state.replace(
            "\"berthWasReady\":true",
            &format!("\"berthWasReady\":{was_ready}"),
        );
        pod["metadata"]["annotations"][INPLACE_UPDATE_STATE] = json!(state);
        pod
    };
    for (what, pod, expected) in [
        ("it is", pod("a", "h1", true), true),
        ("it is not", pod("a", "h1", false), false),
        (
            "it was until an update that is under way",
            again(false, true),
            true,
        ),
        ("nor before that", again(false, false), false),
        ("it is again", again(true, false), true),
    ] {
        let plan = decide(&snapshot(&json!({}), &[pod]), Timestamp::UNIX_EPOCH);
        let Some(Action::PatchPod { patch, .. }) = plan.actions().next() else {
            panic!("{what}: {plan:#?}")
        };
        let state: Value =
            serde_json::from_str(patch.annotations[INPLACE_UPDATE_STATE].as_ref().unwrap())
                .unwrap();
        assert_eq!(
            state["log"]["berthWasReady"] == true,
            expected,
            "{what}: {state}"
        );
    }
}

/// A step of a rollout.
#[derive(Debug, Clone, Copy)]
enum Happening {
    /// The controller decides and writes.
    Decision,
    /// The SidecarSet gets this image.
    Image(usize),
    /// The kubelet creates the container of the pod's spec.
    Restart(usize),
    /// That container is ready.
    Ready(usize),
    /// That container fails.
    Failure(usize),
    /// A pod is out of service by itself.
    Break(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Decision),
        1 => (1..5_usize).prop_map(Happening::Image),
        4 => (0..5_usize).prop_map(Happening::Restart),
        4 => (0..5_usize).prop_map(Happening::Ready),
        1 => (0..5_usize).prop_map(Happening::Failure),
        1 => (0..5_usize).prop_map(Happening::Break),
    ]
}

/// Pods, a SidecarSet, and the pods that an update took out of service.
struct World {
    pods: Vec<Value>,
    image: usize,
    strategy: Value,
    max_unavailable: usize,
    partition: usize,
    taken_out: BTreeSet<usize>,
    containers: usize,
}

impl World {
    fn new(pods: usize, max_unavailable: usize, partition: usize) -> Self {
        let pods = (0..pods).map(|n| {
            let mut pod = pod(&format!("p{n}"), "h1", true);
            pod["status"]["containerStatuses"][1]["containerID"] = json!("c://0");
            pod
        });
        let strategy = json!({"maxUnavailable": max_unavailable, "partition": partition});
        let (taken_out, pods) = (BTreeSet::new(), pods.collect());
        Self {
            pods,
            image: 1,
            strategy,
            max_unavailable,
            partition,
            taken_out,
            containers: 0,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let containers = json!([{"name": "agent", "image": format!("agent:{}", self.image)}]);
        let fields = json!({"/spec/containers": containers, "/spec/updateStrategy": self.strategy});
        let mut snapshot = snapshot(&fields, &self.pods);
        snapshot.hashes.hash = format!("h{}", self.image);
        snapshot
    }

    fn is_ready(&self, at: usize) -> bool {
        self.pods[at]["status"]["conditions"][0]["status"] == "True"
    }

    /// Whether the running containers are those of the spec.
    fn is_new(&self, at: usize) -> bool {
        self.pods[at]["status"]["containerStatuses"][1]["image"]
            == self.pods[at]["spec"]["containers"][1]["image"]
    }

    fn outdated(&self) -> usize {
        let hash = format!("\"hash\":\"h{}\"", self.image);
        self.pods
            .iter()
            .filter(|pod| {
                !pod["metadata"]["annotations"][HASH]
                    .as_str()
                    .unwrap()
                    .contains(&hash)
            })
            .count()
    }

    /// Decides and writes, and checks the writes against the limits.
    fn decide(&mut self) {
        let (before, snapshot) = (self.outdated(), self.snapshot());
        let mut takes_out = false;
        for action in decide(&snapshot, Timestamp::UNIX_EPOCH).actions() {
            let Action::PatchPod { target, patch } = action else {
                continue;
            };
            let at: usize = target.name[1..].parse().unwrap();
            if !patch.images.is_empty() && self.is_ready(at) && self.taken_out.insert(at) {
                takes_out = true;
            }
            let pod = &mut self.pods[at];
            for (key, value) in &patch.annotations {
                pod["metadata"]["annotations"][key] = json!(value);
            }
            if let Some(image) = patch.images.get("agent") {
                pod["spec"]["containers"][1]["image"] = json!(image);
            }
        }
        let out = &self.taken_out;
        assert!(
            !takes_out || out.len() <= self.max_unavailable,
            "{out:?} are out of service at once"
        );
        assert!(
            self.outdated() >= before.min(self.partition),
            "the partition is not kept"
        );
    }

    fn happens(&mut self, happening: Happening) {
        let within = |at: usize, world: &Self| at % world.pods.len();
        match happening {
            Happening::Decision => self.decide(),
            Happening::Image(image) => self.image = image,
            Happening::Restart(at) => {
                let at = within(at, self);
                self.containers += 1;
                let id = format!("c://new-{}", self.containers);
                let image = self.pods[at]["spec"]["containers"][1]["image"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                let status = json!({"name": "agent", "ready": false, "image": image, "imageID": format!("id-{image}"), "containerID": id});
                self.pods[at]["status"]["containerStatuses"][1] = status;
                self.set_ready(at, false);
            }
            Happening::Ready(at) => {
                let at = within(at, self);
                if self.is_new(at) {
                    self.pods[at]["status"]["containerStatuses"][1]["state"] = json!({});
                    self.set_ready(at, true);
                    self.taken_out.remove(&at);
                }
            }
            Happening::Failure(at) => {
                let at = within(at, self);
                self.pods[at]["status"]["containerStatuses"][1]["state"] =
                    json!({"waiting": {"reason": "CrashLoopBackOff"}});
                self.set_ready(at, false);
            }
            Happening::Break(at) => self.set_ready(within(at, self), false),
        }
    }

    fn set_ready(&mut self, at: usize, ready: bool) {
        let word = if ready { "True" } else { "False" };
        self.pods[at]["status"]["conditions"] = json!([{"type": "Ready", "status": word}]);
        self.pods[at]["status"]["containerStatuses"][1]["ready"] = json!(ready);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// In every state of a rollout, with images that change in its middle and pods that fail.
    #[test]
    fn updates_never_exceed_max_unavailable(
        pods in 1..6_usize,
        max_unavailable in 0..4_usize,
        partition in 0..3_usize,
        happenings in prop::collection::vec(happening(), 0..60),
    ) {
        let mut world = World::new(pods, max_unavailable, partition);
        happenings.into_iter().for_each(|happening| world.happens(happening));
    }
}
