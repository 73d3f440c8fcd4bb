//! The tree of a workload: its revisions, its pods, its pulls. Pure, so that tests compare it.

mod owned;

use std::collections::BTreeMap;

use berth_controller::plugin::Explained;
use berth_workload::objects::resource::CONTROLLER_REVISIONS;
use berth_workload::update::revision::same;
use jiff::Timestamp;
use serde_json::Value;

use super::header;
use super::health::{self, Health, State};
use super::pods;
use super::revisions::{is_own, revision_of, update_revision};
use super::tone::Tone;
use super::world::World;
use crate::objects::{name, namespace, number, text};
use crate::text::age_of;

/// The most pods of one revision that the tree shows.
pub const MOST_PODS: usize = 200;

/// A workload as lines above a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Fields, with their values.
    pub header: Vec<(&'static str, String)>,
    /// The tone of the workload.
    pub tone: Tone,
    /// Rows, parents before their children.
    pub rows: Vec<Row>,
    /// What the tree lacks.
    pub notes: Vec<String>,
}

/// A row of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// How many parents it has.
    pub depth: usize,
    /// Its icon; empty for text.
    pub icon: &'static str,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// The colour of its state, and its symbol.
    pub tone: Tone,
    /// Its state in a word; empty for text.
    pub status: String,
    /// Its age.
    pub age: String,
    /// The node of a pod.
    pub node: String,
    /// Why it waits, or what blocks it.
    pub reason: String,
    /// What else is worth knowing.
    pub info: String,
    /// The name of a pod in plans.
    pub pod: Option<String>,
}

impl Row {
    fn new(depth: usize, icon: &'static str, name: String) -> Self {
        Self {
            depth,
            icon,
            name,
            kind: "",
            tone: Tone::Plain,
            status: String::new(),
            age: String::new(),
            node: String::new(),
            reason: String::new(),
            info: String::new(),
            pod: None,
        }
    }
}

/// The tree of a workload. Without a plan, pods have no reason why they wait.
pub fn tree(world: &World, plan: Option<&Explained>, now: Timestamp) -> Tree {
    let state = health::state(world.plural, &world.object);
    // Without revisions the plan takes each template for a new one.
    let reliable = plan.filter(|_| !world.refused.contains_key(CONTROLLER_REVISIONS.plural));
    let waiting = reliable.map(reasons).unwrap_or_default();
    let scene = Scene {
        world,
        state: &state,
        waiting,
        now,
    };
    let mut rows = vec![scene.root()];
    match world.plural {
        "uniteddeployments" => rows.extend(scene.subsets()),
        _ => rows.extend(scene.groups().iter().flat_map(|group| scene.group(group))),
    }
    rows.extend(scene.jobs());
    // A plan for what is in order says nothing.
    let unread = plan.filter(|_| state.health != Health::Healthy);
    let unread = unread.map_or(&[][..], |plan| &plan.unread);
    let is_in_plan = |plural: &str| unread.iter().any(|one| one.contains(plural));
    let refused = world
        .refused
        .iter()
        .filter(|(plural, _)| !is_in_plan(plural));
    let refused = refused.map(|(_, sentence)| sentence);
    Tree {
        header: header::header(world, plan, &state),
        tone: state.health.into(),
        rows,
        notes: refused.chain(unread).cloned().collect(),
    }
}

/// The reason why each pod waits.
fn reasons(plan: &Explained) -> BTreeMap<&str, &str> {
    let all = plan.plan.waiting.iter();
    all.map(|one| (&*one.pod, &*one.reason)).collect()
}

/// The name of a pod in plans: within a namespace its name is enough.
fn pod_name(world: &World, pod: &Value) -> String {
    if namespace(&world.object).is_empty() {
        format!("{}/{}", namespace(pod), name(pod))
    } else {
        name(pod).to_owned()
    }
}

/// The pods of a revision.
struct Group<'a> {
    hash: String,
    revision: Option<&'a Value>,
    pods: Vec<&'a Value>,
}

struct Scene<'a> {
    world: &'a World,
    state: &'a State,
    waiting: BTreeMap<&'a str, &'a str>,
    now: Timestamp,
}

impl<'a> Scene<'a> {
    fn age(&self, object: &Value) -> String {
        age_of(text(object, "/metadata/creationTimestamp"), self.now)
    }

    fn root(&self) -> Row {
        let kind = match self.world.plural {
            "statefulsets" => "StatefulSet",
            "daemonsets" => "DaemonSet",
            "uniteddeployments" => "UnitedDeployment",
            "sidecarsets" => "SidecarSet",
            "broadcastjobs" => "BroadcastJob",
            _ => "CloneSet",
        };
        Row {
            kind,
            tone: self.state.health.into(),
            status: self.state.health.word().to_owned(),
            age: self.age(&self.world.object),
            reason: self.waiting.get("").copied().unwrap_or_default().to_owned(),
            ..Row::new(0, "⟳", name(&self.world.object).to_owned())
        }
    }

    /// The newest revision first.
    fn groups(&self) -> Vec<Group<'a>> {
        let world = self.world;
        let update = update_revision(&world.object);
        let mut by_hash: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        if !update.is_empty() {
            by_hash.insert(update.to_owned(), Vec::new());
        }
        for pod in world.pods.iter().filter(|pod| is_own(world, pod)) {
            by_hash
                .entry(revision_of(world, pod))
                .or_default()
                .push(pod);
        }
        let own = || world.revisions.iter().filter(|one| is_own(world, one));
        let mut groups: Vec<_> = by_hash
            .into_iter()
            .map(|(hash, pods)| Group {
                revision: own().find(|one| same(name(one), &hash)),
                hash,
                pods,
            })
            .collect();
        let number_of =
            |group: &Group<'_>| group.revision.map_or(0, |one| number(one, "/revision"));
        groups.sort_by_key(|group| (group.hash != update, -number_of(group)));
        groups
    }

    fn group(&self, group: &Group<'a>) -> Vec<Row> {
        // Jobs have no revisions.
        let has_revision = self.world.plural != "broadcastjobs";
        let depth = if has_revision { 2 } else { 1 };
        let mut pods: Vec<_> = group.pods.iter().map(|pod| self.pod(pod, depth)).collect();
        let mut rows = Vec::new();
        if has_revision {
            rows.push(self.revision(group, &pods));
        }
        pods.sort_by(|one, other| one.name.cmp(&other.name));
        let rest = fold(&mut pods);
        rows.extend(pods);
        rows.extend(rest.map(|rest| Row::new(depth, "", rest)));
        rows
    }

    fn revision(&self, group: &Group<'a>, pods: &[Row]) -> Row {
        let is_update = group.hash == update_revision(&self.world.object);
        let is_all_good = pods.iter().all(|pod| pod.tone == Tone::Good);
        let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let tone = match is_update {
            true if is_all_good && count >= self.state.counts.goal => Tone::Good,
            true => Tone::Waiting,
            false => Tone::Plain,
        };
        let title = match group.revision {
            Some(revision) => format!(
                "revision {} ({})",
                number(revision, "/revision"),
                group.hash
            ),
            None if group.hash.is_empty() => "without a revision".to_owned(),
            None => format!("revision {}", group.hash),
        };
        let images = group.revision.map(header::images_of_revision);
        Row {
            tone,
            status: format!("{count}/{}", self.state.counts.desired),
            age: group.revision.map(|one| self.age(one)).unwrap_or_default(),
            info: images.unwrap_or_default().join(", "),
            ..Row::new(1, "#", title)
        }
    }

    fn pod(&self, pod: &Value, depth: usize) -> Row {
        let state = pods::state(pod);
        let of_plan = pod_name(self.world, pod);
        let waits = self.waiting.get(&*of_plan).copied();
        Row {
            kind: "Pod",
            tone: state.tone,
            status: state.word,
            age: self.age(pod),
            node: text(pod, "/spec/nodeName").to_owned(),
            reason: waits.unwrap_or(&state.reason).to_owned(),
            info: state.facts.join(", "),
            pod: Some(of_plan.clone()),
            ..Row::new(depth, "□", of_plan)
        }
    }
}

/// Keeps the pods that fit, troubled ones first, and counts the others in a line.
fn fold(pods: &mut Vec<Row>) -> Option<String> {
    if pods.len() <= MOST_PODS {
        return None;
    }
    pods.sort_by_key(|pod| pod.tone);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.drain(MOST_PODS..) {
        *counts.entry(pod.status).or_default() += 1;
    }
    let counts = counts
        .into_iter()
        .map(|(word, count)| format!("{} more {word}", thousands(count)));
    Some(format!("… {}", counts.collect::<Vec<_>>().join(", ")))
}

/// A number with commas between thousands.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
