//! The small world as a controller sees it: late, kind by kind, and across restarts of the
//! controller.
//!
//! An apiserver sends the changes of one kind in their order, and those of one kind later than
//! those of another; a list is the newest state. A controller does not decide before it has seen
//! its own writes, and writes to an object only if its uid is the expected one. The decision is the
//! product's, and the controller knows only the events that were delivered.

use std::collections::{BTreeSet, VecDeque};

use berth_workload::objects::claim::Claim;
use berth_workload::objects::pod::gates::IN_PLACE_UPDATE_READY;

use super::*;
use crate::model::apiserver::{Objects, find};

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cloneset) enum Kind {
    Set,
    Pods,
    Revisions,
    Claims,
    Nodes,
}

impl Kind {
    pub(in crate::cloneset) const ALL: [Self; 5] = [
        Self::Set,
        Self::Pods,
        Self::Revisions,
        Self::Claims,
        Self::Nodes,
    ];
}

/// A fault of the controller: the tests must find each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cloneset) enum Planted {
    Nothing,
    /// It brings only pods back into service that it created or changed since its own start.
    KnowsOnlyItsLife,
    /// It decides before it has seen its own writes.
    SeesNotItsOwn,
    /// A list adds and changes objects, and never removes any: the controller relies on an event
    /// for every deletion.
    RemembersTheGone,
    /// It takes an object for its own if an owner reference has the CloneSet's uid, regardless of
    /// the object's namespace and the owner's kind.
    BelievesUids,
}

/// The object of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The expected object, or none if the write creates one.
    Meant,
    /// It exists already.
    Done,
    /// No object, or another one.
    Other,
}

/// The objects of a kind as delivered so far, and the events that are still to be delivered. Each
/// version is decoded once.
#[derive(Debug)]
struct Watched<T> {
    seen: BTreeMap<String, Arc<T>>,
    /// The state at the last check for changes.
    last: BTreeMap<String, (Value, Arc<T>)>,
    to_tell: VecDeque<(String, Option<Arc<T>>)>,
    /// How many of these events the controller waits for.
    own: usize,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self {
            seen: BTreeMap::new(),
            last: BTreeMap::new(),
            to_tell: VecDeque::new(),
            own: 0,
        }
    }
}

impl<T: serde::de::DeserializeOwned> Watched<T> {
    /// Gives changed objects their next versions.
    fn record(&mut self, actual: &mut BTreeMap<String, Value>, version: &mut u64) {
        for (name, object) in actual.iter_mut() {
            if self.last.get(name).is_some_and(|(last, _)| last == object) {
                continue;
            }
            *version += 1;
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            let decoded: Arc<T> = Arc::new(serde_json::from_value(object.clone()).unwrap());
            self.last
                .insert(name.clone(), (object.clone(), decoded.clone()));
            self.to_tell.push_back((name.clone(), Some(decoded)));
        }
        let to_tell = &mut self.to_tell;
        self.last.retain(|name, _| {
            let stays = actual.contains_key(name);
            if !stays {
                to_tell.push_back((name.clone(), None));
            }
            stays
        });
    }

    fn tell(&mut self, events: usize) {
        for _ in 0..events.min(self.to_tell.len()) {
            match self.to_tell.pop_front() {
                Some((name, Some(object))) => drop(self.seen.insert(name, object)),
                Some((name, None)) => drop(self.seen.remove(&name)),
                None => {}
            }
            self.own = self.own.saturating_sub(1);
        }
    }

    fn list(&mut self, forgets: bool) {
        if forgets {
            self.seen.clear();
        }
        self.seen.extend(
            self.last
                .iter()
                .map(|(name, (_, object))| (name.clone(), object.clone())),
        );
        self.to_tell.clear();
        self.own = 0;
    }

    /// The objects as they were last recorded.
    fn stored(&self) -> Vec<Arc<T>> {
        self.last
            .values()
            .map(|(_, object)| object.clone())
            .collect()
    }

    fn all(&self) -> Vec<Arc<T>> {
        self.seen.values().cloned().collect()
    }
}

/// A world, and the controller's view of it.
pub(in crate::cloneset) struct Views {
    pub(in crate::cloneset) world: World,
    planted: Planted,
    pods: Watched<Pod>,
    revisions: Watched<Revision>,
    claims: Watched<Claim>,
    set: Arc<CloneSet>,
    sets_to_tell: VecDeque<Arc<CloneSet>>,
    own_sets: usize,
    nodes: BTreeMap<Box<str>, Arc<NodeImage>>,
    version: u64,
    /// Pods that the controller created or changed since its start.
    touched: BTreeSet<String>,
    /// Forbidden effects that writes had.
    pub(in crate::cloneset) faults: Vec<String>,
    last: Plan,
}

impl Views {
    /// A view of a world, which equals the world at first.
    pub(in crate::cloneset) fn of(mut world: World, planted: Planted) -> Self {
        world.foreign.is_believed = planted == Planted::BelievesUids;
        let (set, nodes) = (world.set.clone(), world.nodes());
        let (pods, revisions, claims) =
            (Watched::default(), Watched::default(), Watched::default());
        let sets_to_tell = VecDeque::new();
        let (touched, faults, last) = (BTreeSet::new(), Vec::new(), Plan::default());
        let (own_sets, version) = (0, 0);
        let mut views = Self {
            world,
            planted,
            pods,
            revisions,
            claims,
            set,
            sets_to_tell,
            own_sets,
            nodes,
            version,
            touched,
            faults,
            last,
        };
        views.record();
        views.begin_life();
        views
    }

    /// Records all changes of the world as events to deliver.
    pub(in crate::cloneset) fn record(&mut self) {
        self.pods.record(&mut self.world.pods, &mut self.version);
        self.revisions
            .record(&mut self.world.revisions, &mut self.version);
        self.claims
            .record(self.world.claims.stored(), &mut self.version);
        if *self.sets_to_tell.back().unwrap_or(&self.set) != self.world.set {
            self.sets_to_tell.push_back(self.world.set.clone());
        }
    }

    /// Delivers the next events of a kind.
    pub(in crate::cloneset) fn tell(&mut self, kind: Kind, events: usize) {
        match kind {
            Kind::Pods => self.pods.tell(events),
            Kind::Revisions => self.revisions.tell(events),
            Kind::Claims => self.claims.tell(events),
            Kind::Nodes => self.nodes = self.world.nodes(),
            Kind::Set => {
                for _ in 0..events {
                    let Some(set) = self.sets_to_tell.pop_front() else {
                        break;
                    };
                    self.set = set;
                    self.own_sets = self.own_sets.saturating_sub(1);
                }
            }
        }
    }

    /// The watch of a kind was interrupted: its objects are listed again.
    pub(in crate::cloneset) fn list(&mut self, kind: Kind) {
        let forgets = self.planted != Planted::RemembersTheGone;
        match kind {
            Kind::Pods => self.pods.list(forgets),
            Kind::Revisions => self.revisions.list(forgets),
            Kind::Claims => self.claims.list(forgets),
            Kind::Nodes | Kind::Set => self.tell(kind, usize::MAX),
        }
    }

    /// A new controller lists everything.
    pub(in crate::cloneset) fn begin_life(&mut self) {
        self.pods.seen.clear();
        self.revisions.seen.clear();
        self.claims.seen.clear();
        Kind::ALL.into_iter().for_each(|kind| self.list(kind));
        self.touched.clear();
        self.last = Plan::default();
    }

    /// The CloneSet is deleted with `--cascade=orphan` and applied again. Once it is gone, its
    /// objects have no owner.
    pub(in crate::cloneset) fn orphan(&mut self) {
        self.version += 1;
        let uid = format!("set-{}", self.version);
        self.world.orphan(&uid);
        self.record();
        Kind::ALL.into_iter().for_each(|kind| self.list(kind));
    }

    pub(in crate::cloneset) fn sees_all(&self) -> bool {
        let objects =
            self.pods.to_tell.len() + self.revisions.to_tell.len() + self.claims.to_tell.len();
        objects + self.sets_to_tell.len() == 0
    }

    fn snapshot(&self) -> Snapshot {
        let (set, foreign) = (self.set.clone(), &self.world.foreign);
        let node_images = self.nodes.clone();
        let revisions = foreign.revisions(&set, self.revisions.all());
        let (pods, strays) =
            split_by_selector(&set.spec.selector, foreign.pods(&set, self.pods.all()));
        let claims = foreign.claims(&set, self.claims.all());
        let orphans = orphans::<CloneSetOwner>(
            &set,
            Orphans {
                pods: self.pods.all(),
                claims: self.claims.all(),
                revisions: self.revisions.all(),
            },
        );
        Snapshot {
            set,
            node_images,
            revisions,
            pods,
            strays,
            own: CloneSetOwner { claims },
            orphans,
            ..self.world.beside()
        }
    }

    /// The specs from the one that the controller sees to the stored one.
    pub(in crate::cloneset) fn specs(&self) -> impl Iterator<Item = &CloneSet> {
        std::iter::once(&*self.set).chain(self.sets_to_tell.iter().map(|set| &**set))
    }

    /// How many pods another writer has taken out of the selector without the controller having
    /// seen it.
    pub(in crate::cloneset) fn unseen_strays(&self) -> usize {
        let strays = |pods: Vec<Arc<Pod>>| -> BTreeSet<Box<str>> {
            split_by_selector(&self.set.spec.selector, pods)
                .1
                .iter()
                .map(|pod| pod.metadata.uid.clone())
                .collect()
        };
        strays(self.pods.stored())
            .difference(&strays(self.pods.all()))
            .count()
    }

    /// Counts the stored objects, as they were last recorded. A pod is old by the spec that the
    /// controller sees.
    pub(in crate::cloneset) fn tally(&self) -> Tally {
        let mut revisions = self.revisions.stored();
        revision::sort(&mut revisions);
        self.world
            .tally_of(&self.pods.stored(), &revisions, &self.set)
    }

    /// Decides, if all own writes were seen, and makes so many of the writes; then the controller
    /// dies, if there were more. Returns the writes, each with the state after it.
    pub(in crate::cloneset) fn act(&mut self, writes: usize) -> Vec<(String, Tally)> {
        let waits = self.pods.own + self.revisions.own + self.claims.own + self.own_sets > 0;
        if waits && self.planted != Planted::SeesNotItsOwn {
            return Vec::new();
        }
        let snapshot = self.snapshot();
        let plan = decide(&snapshot, self.world.now);
        self.faults.extend(
            plan.written_twice()
                .map(|object| format!("two steps write to {object:?}")),
        );
        let mut traced = Vec::new();
        for stage in &plan.stages {
            let mut refused = false;
            for step in &stage.steps {
                for action in &step.actions {
                    if traced.len() == writes {
                        self.world.schedule();
                        self.record();
                        self.begin_life();
                        return traced;
                    }
                    if self.planted == Planted::KnowsOnlyItsLife && self.is_strange(action) {
                        continue;
                    }
                    match self.meets(action) {
                        Found::Other => {
                            refused = true;
                            break;
                        }
                        Found::Done => {}
                        Found::Meant => {
                            self.look_at(action);
                            if let Some(fault) = self.world.passes_over(action) {
                                self.faults.push(fault);
                                return traced;
                            }
                            self.world.write(action);
                            self.record();
                        }
                    }
                    self.expect();
                    traced.push((describe(action), self.tally()));
                }
            }
            if refused && stage.required {
                break;
            }
        }
        let status = status(&snapshot, &plan, &Outcome::default(), self.world.now);
        if self.set.status != status {
            Arc::make_mut(&mut self.world.set).status = status;
        }
        self.world.schedule();
        self.record();
        self.own_sets = self.sets_to_tell.len();
        self.last = plan;
        traced
    }

    /// The controller must see everything up to the last write.
    fn expect(&mut self) {
        self.pods.own = self.pods.to_tell.len();
        self.revisions.own = self.revisions.to_tell.len();
        self.claims.own = self.claims.to_tell.len();
    }

    /// Whether the write brings a pod into service that this controller has not touched since its
    /// start.
    fn is_strange(&self, action: &Action) -> bool {
        let Action::PatchPodStatus {
            target, conditions, ..
        } = action
        else {
            return false;
        };
        let opens = conditions
            .iter()
            .any(|c| &*c.type_ == IN_PLACE_UPDATE_READY && &*c.status == "True");
        opens && !self.touched.contains(&target.name)
    }

    /// Checks that no image changes in a pod that serves.
    fn look_at(&mut self, action: &Action) {
        match action {
            Action::CreatePod { body } => drop(self.touched.insert(name_of(&body.value()))),
            Action::PatchPod { target, patch } if !patch.images.is_empty() => {
                self.touched.insert(target.name.clone());
                let pod: Pod =
                    serde_json::from_value(self.world.pods[&target.name].clone()).unwrap();
                let wants = |name: &str| patch.images.get(name).map(|image| image.as_str());
                let changes = pod
                    .spec
                    .containers
                    .iter()
                    .any(|c| wants(&c.name).is_some_and(|image| *image != *c.image));
                if changes && pod.is_true(IN_PLACE_UPDATE_READY) {
                    self.faults.push(format!(
                        "the image of {} was changed while it was in service",
                        target.name
                    ));
                }
            }
            _ => {}
        }
    }

    /// The stored object for a write.
    fn meets(&mut self, action: &Action) -> Found {
        let world = &mut self.world;
        let objects = match action.write().resource.kind {
            "ControllerRevision" => &mut world.revisions,
            "PersistentVolumeClaim" => world.claims.stored(),
            _ => &mut world.pods,
        };
        match action {
            Action::PatchPod { target, .. }
            | Action::PatchPodStatus { target, .. }
            | Action::ResizePod { target, .. }
            | Action::DeletePod { target }
            | Action::ReleasePod { target, .. }
            | Action::AdoptPod { target, .. }
            | Action::AdoptRevision { target, .. }
            | Action::PatchClaim { target, .. }
            | Action::DeleteClaim { target }
            | Action::RenumberRevision { target, .. }
            | Action::PatchRevision { target, .. }
            | Action::DeleteRevision { target } => match find(objects, target) {
                Ok(_) => Found::Meant,
                Err(_) => Found::Other,
            },
            Action::CreatePod { body }
            | Action::CreateRevision { body }
            | Action::CreateClaim { body } => to_be_created(objects, &name_of(&body.value())),
            _ => Found::Meant,
        }
    }

    /// Whether the controller has nothing to do, and nothing to wait for.
    pub(in crate::cloneset) fn rests(&self) -> bool {
        self.last.is_idle() && self.last.look_again.is_none()
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// An object that an earlier controller may have created counts as created.
fn to_be_created(objects: &Objects, name: &str) -> Found {
    match objects.get(name) {
        None => Found::Meant,
        Some(object) if object["metadata"]["deletionTimestamp"].is_null() => Found::Done,
        Some(_) => Found::Other,
    }
}
