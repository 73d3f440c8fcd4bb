//! The subsets of a UnitedDeployment in one round: the workload of each, whether its nodes have
//! capacity, and its number of replicas.

mod owned;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::names::label::KRUISE_CONTROLLER_REVISION_HASH;
use berth_api::v1beta1::uniteddeployment::{Subset, WorkloadTemplate};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::selector::Selector;
use berth_workload::plan::Refusal;
use berth_workload::update::revision::Recognised;
use jiff::Timestamp;
use serde_json::Value;

use super::division::{self, Division, Mode, Share, divide};
use super::failure::Failure;
use super::revision::History;
use super::schedulability::{self, Schedulability, Seen};
use super::{Snapshot, SubsetKind, SubsetWorkload, adopt, validate};

use owned::{is_leftover, is_of_subset, is_owned};

/// The subsets in one round. Plan and status follow from the same value.
pub struct Round<'a> {
    /// The kind of the subsets' workloads.
    pub(super) kind: SubsetKind,
    /// Their template.
    pub(super) template: &'a WorkloadTemplate,
    /// The template's place in the history.
    pub(super) recognised: Recognised,
    /// Name of the template's revision; empty while there is none.
    pub(super) revision: String,
    /// The subsets, in the order of the spec.
    pub(super) subsets: Vec<SubsetView<'a>>,
    /// The replicas of each subset.
    pub(super) division: Division,
    /// Workloads to delete, each with the reason.
    pub(super) surplus: Vec<(&'a SubsetWorkload, String)>,
}

/// One subset.
pub(super) struct SubsetView<'a> {
    /// The subset in the spec.
    pub(super) spec: &'a Subset,
    /// Its workload, of the kind of the template.
    pub(super) workload: Option<&'a SubsetWorkload>,
    /// A workload that the subset may adopt, if it has none.
    pub(super) orphan: Option<&'a SubsetWorkload>,
    /// Its workloads of other kinds, also those that are being deleted: the template had another
    /// kind before.
    pub(super) former: Vec<&'a SubsetWorkload>,
    /// A pod with an identity from an earlier workload, which must end first.
    pub(super) leftover: Option<&'a Arc<Pod>>,
    /// The pods of its workload that have not ended and are not being deleted.
    pub(super) pods: Vec<&'a Arc<Pod>>,
    /// Whether its nodes have capacity.
    pub(super) schedulability: Schedulability,
    /// The failure that blocks its workload, now or once it has lasted.
    pub(super) failure: Option<Failure>,
}

impl<'a> SubsetView<'a> {
    /// Reads the subset of this spec, with its workload and those of a former kind.
    fn of(
        snapshot: &'a Snapshot,
        kind: SubsetKind,
        spec: &'a Subset,
        workload: Option<&'a SubsetWorkload>,
        former: Vec<&'a SubsetWorkload>,
        revision: &str,
        now: Timestamp,
    ) -> Self {
        let may_adopt = workload.is_none() && former.is_empty();
        let selector = &snapshot.united.spec.selector;
        let is_orphan = |other: &&SubsetWorkload| {
            other.kind == kind && adopt::is_orphan_of(selector, &spec.name, &other.object)
        };
        let orphan = snapshot
            .workloads
            .iter()
            .find(|other| may_adopt && is_orphan(other));
        let pods = snapshot.pods.iter().filter(|pod| pod.is_active());
        let pods: Vec<_> = pods
            .filter(|pod| workload.is_some_and(|workload| workload.has_pod(pod)))
            .collect();
        let schedulability = schedulability(snapshot, spec, workload, &pods, revision, now);
        let leftover = snapshot
            .pods
            .iter()
            .find(|pod| workload.is_none() && is_leftover(snapshot, spec, kind, pod));
        let failure = workload.and_then(|workload| {
            Failure::of(
                &snapshot.united,
                spec,
                workload,
                &pods,
                &schedulability,
                now,
            )
        });
        Self {
            spec,
            workload,
            orphan,
            former,
            leftover,
            pods,
            schedulability,
            failure,
        }
    }
}

impl SubsetView<'_> {
    /// The failure that blocks its workload now.
    pub(super) fn failure(&self, now: Timestamp) -> Option<String> {
        let failure = self.failure.as_ref().filter(|failure| failure.from <= now);
        failure.map(Failure::message)
    }

    /// Whether a workload of another kind must end before this one may start, because two workloads
    /// with pods of the same identity must not run together.
    pub(super) fn waits_for_former(&self, kind: SubsetKind) -> bool {
        self.former
            .iter()
            .any(|former| former.kind.is_stateful() || kind.is_stateful())
    }
}

impl<'a> Round<'a> {
    /// Reads all subsets.
    ///
    /// # Errors
    /// The refusal names object, field, value and remedy.
    pub fn of(snapshot: &'a Snapshot, now: Timestamp) -> Result<Self, Refusal> {
        validate::validate(snapshot)?;
        let refuse = |field_and_problem: String| snapshot.refusal(&field_and_problem);
        let (kind, template) = template(snapshot).map_err(refuse)?;
        let selector = &snapshot.united.spec.selector;
        Selector::new(selector).map_err(|problem| refuse(format!("spec.selector: {problem}")))?;
        let owned = snapshot
            .workloads
            .iter()
            .filter(|workload| is_owned(snapshot, workload));
        let (mut owned, former): (Vec<_>, Vec<_>) =
            owned.partition(|workload| workload.kind == kind);
        owned.retain(|workload| !workload.is_going());
        sort_twins(&mut owned);
        let (recognised, revision) = recognise(snapshot);
        let mut subsets = Vec::new();
        let mut surplus = Vec::new();
        for spec in &snapshot.united.spec.topology.subsets {
            let is_of = |workload: &&&SubsetWorkload| is_of_subset(snapshot, workload, &spec.name);
            let mut of_subset = owned.iter().filter(is_of).copied();
            let workload = of_subset.next();
            surplus.extend(
                of_subset.map(|twin| (twin, format!("subset {} has another one", spec.name))),
            );
            let former = former.iter().filter(is_of).copied().collect();
            subsets.push(SubsetView::of(
                snapshot, kind, spec, workload, former, &revision, now,
            ));
        }
        let unlisted = owned
            .iter()
            .chain(&former)
            .filter(|workload| !is_listed(snapshot, workload));
        let why = "its subset is not in spec.topology.subsets";
        surplus.extend(unlisted.map(|workload| (*workload, why.to_owned())));

        let division = divided(snapshot, &subsets).map_err(refuse)?;
        if snapshot.united.spec.topology.schedule_strategy.reserves() {
            for (subset, share) in subsets.iter_mut().zip(&division.shares) {
                let present = subset.workload.map(|workload| workload.object.replicas);
                subset
                    .schedulability
                    .mark_if_it_grows(present, share.replicas, now);
            }
        }
        Ok(Self {
            kind,
            template,
            recognised,
            revision,
            subsets,
            division,
            surplus,
        })
    }

    /// Whether the status has this division. The workloads follow a division only afterwards: the
    /// next one counts from the last, and pods that wait for a node are deleted with their
    /// replicas.
    pub(super) fn is_recorded(&self, snapshot: &Snapshot) -> bool {
        let status = snapshot.united.status.as_ref();
        let reported = status
            .into_iter()
            .flat_map(|status| &status.subset_statuses);
        let reported = reported.map(|reported| (reported.name.as_str(), reported.replicas));
        let subsets = self.subsets.iter().map(|subset| subset.spec.name.as_str());
        reported.eq(subsets.zip(self.division.shares.iter().map(|share| share.replicas)))
    }

    /// The subsets with the replicas of each, and how many of them stay at the old revision.
    pub(super) fn sized(
        &self,
        snapshot: &Snapshot,
    ) -> impl Iterator<Item = (&SubsetView<'a>, &Share, i32)> {
        let strategy = snapshot.united.spec.update_strategy.clone();
        self.subsets
            .iter()
            .zip(&self.division.shares)
            .map(move |(subset, share)| {
                (
                    subset,
                    share,
                    strategy
                        .partition(&subset.spec.name)
                        .clamp(0, share.replicas),
                )
            })
    }
}

/// Sorts workloads so that, of two for one subset, the one to keep comes first: the one with more
/// ready pods, then the older one.
fn sort_twins(workloads: &mut [&SubsetWorkload]) {
    workloads.sort_by_key(|workload| {
        let object = &workload.object;
        let made = object
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        (
            Reverse(object.status.ready_replicas),
            made.is_none(),
            made,
            workload.name().to_owned(),
        )
    });
}

/// Whether the workload's subset is in the spec.
fn is_listed(snapshot: &Snapshot, workload: &SubsetWorkload) -> bool {
    let mut subsets = snapshot.united.spec.topology.subsets.iter();
    subsets.any(|subset| is_of_subset(snapshot, workload, &subset.name))
}

/// The one template that is set, with its kind.
fn template(snapshot: &Snapshot) -> Result<(SubsetKind, &WorkloadTemplate), String> {
    let template = &snapshot.united.spec.template;
    let mut set = SubsetKind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, kind.template_of(template)?)));
    match (set.next(), set.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err("spec.template: has no template; set one of its fields".to_owned()),
        (Some((one, _)), Some((other, _))) => Err(format!(
            "spec.template: has both {} and {}; remove one of them",
            one.template_field(),
            other.template_field()
        )),
    }
}

/// The template in the history, and the name of its revision.
fn recognise(snapshot: &Snapshot) -> (Recognised, String) {
    let template = serde_json::to_value(&snapshot.united.spec.template).unwrap_or_default();
    let recognised = with_history(snapshot, &template, |history| history.recognise());
    let name = match &recognised {
        Recognised::Newest(revision) | Recognised::Older(revision, _) => {
            revision.metadata.name.to_string()
        }
        Recognised::New(_) => String::new(),
    };
    (recognised, name)
}

/// Calls a function with the history of this template.
pub(super) fn with_history<T>(
    snapshot: &Snapshot,
    template: &Value,
    decide: impl FnOnce(&History<'_>) -> T,
) -> T {
    let owned = snapshot
        .workloads
        .iter()
        .filter(|workload| is_owned(snapshot, workload));
    let in_use: BTreeSet<&str> = owned
        .filter_map(|workload| workload.object.label(KRUISE_CONTROLLER_REVISION_HASH))
        .collect();
    let metadata = &snapshot.united.metadata;
    let status = snapshot.united.status.as_ref();
    decide(&History {
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
        template,
        revisions: &snapshot.revisions,
        in_use: &in_use,
        collisions: status
            .and_then(|status| status.collision_count)
            .unwrap_or(0),
    })
}

fn schedulability(
    snapshot: &Snapshot,
    spec: &Subset,
    workload: Option<&SubsetWorkload>,
    pods: &[&Arc<Pod>],
    revision: &str,
    now: Timestamp,
) -> Schedulability {
    let strategy = &snapshot.united.spec.topology.schedule_strategy;
    if !strategy.is_adaptive() {
        return Schedulability::fixed();
    }
    let statuses = snapshot
        .united
        .status
        .as_ref()
        .map(|status| &*status.subset_statuses)
        .unwrap_or_default();
    let replicas = workload.map(|workload| workload.object.replicas);
    let is_updated =
        |pod: &Arc<Pod>| pod.metadata.label(KRUISE_CONTROLLER_REVISION_HASH) == Some(revision);
    let updated = pods.iter().filter(|pod| is_updated(pod)).count();
    let partition =
        usize::try_from(snapshot.united.spec.update_strategy.partition(&spec.name)).unwrap_or(0);
    let is_held = partition > 0 && updated + partition >= pods.len();
    let status = workload.map(|workload| &workload.object.status);
    let seen = Seen {
        reported: statuses.iter().find(|reported| reported.name == spec.name),
        added_later: !statuses.is_empty(),
        replicas,
        counted: status.map_or((0, 0), |status| (status.replicas, status.ready_replicas)),
        pods: pods.to_vec(),
        is_at_revision: pods.iter().map(|pod| is_held || is_updated(pod)).collect(),
    };
    if strategy.reserves() {
        schedulability::with_reservation(strategy, &seen, now)
    } else {
        schedulability::without_reservation(strategy, &seen, now)
    }
}

fn divided(snapshot: &Snapshot, subsets: &[SubsetView<'_>]) -> Result<Division, String> {
    let spec = &snapshot.united.spec;
    let mode = match &spec.topology.schedule_strategy {
        adaptive if adaptive.reserves() => Mode::Reserve,
        adaptive if adaptive.is_adaptive() => Mode::Adaptive,
        _ => Mode::Fixed,
    };
    let subsets: Vec<_> = subsets
        .iter()
        .map(|subset| division::Subset {
            name: &subset.spec.name,
            replicas: subset.spec.replicas.as_ref(),
            min: subset.spec.min_replicas.as_ref(),
            max: subset.spec.max_replicas.as_ref(),
            present: present(snapshot, subset, mode),
            ready: subset
                .workload
                .map_or(0, |workload| workload.object.status.ready_replicas),
            reserved: subset
                .schedulability
                .reserved
                .saturating_add(subset.schedulability.missing),
            schedulable: subset.schedulability.schedulable,
            marked: subset.schedulability.marked,
        })
        .collect();
    divide(mode, spec.replicas, &subsets)
}

/// The replicas that a subset has. Without adaptive scheduling they are those of the last division,
/// so that a foreign change of a workload moves no pod of another subset.
fn present(snapshot: &Snapshot, subset: &SubsetView<'_>, mode: Mode) -> i32 {
    let statuses = snapshot
        .united
        .status
        .as_ref()
        .map(|status| &*status.subset_statuses)
        .unwrap_or_default();
    let reported = statuses
        .iter()
        .find(|reported| mode == Mode::Fixed && reported.name == subset.spec.name);
    let has = || {
        subset
            .workload
            .map_or(0, |workload| workload.object.replicas)
    };
    reported.map_or_else(has, |reported| reported.replicas)
}
