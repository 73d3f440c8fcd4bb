//! Decisions about UnitedDeployments with arbitrary workloads, revisions and pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::names::label::SUBSET_NAME;
use berth_api::v1beta1::UnitedDeployment;
use berth_kinds::uniteddeployment::division::{Division, Finding, Mode, Subset, divide};
use berth_kinds::uniteddeployment::{
    Round, Snapshot, SubsetKind, SubsetWorkload, decide, explain, status,
};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::untyped_workload::UntypedWorkload;
use berth_workload::plan::{Action, Plan};
use berth_workload::update::revision::{self, Revision};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::decisions::{all, decided, one, told};
use crate::objects::document;

/// The objects that a decision reads. An object that its type cannot read is left out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct World {
    now: i64,
    united: Value,
    workloads: Vec<Value>,
    revisions: Vec<Value>,
    orphans: Vec<Value>,
    pods: Vec<Value>,
}

impl World {
    fn snapshot(&self) -> Option<Snapshot> {
        let mut revisions = all::<Revision>(&self.revisions);
        revision::sort(&mut revisions);
        Some(Snapshot {
            united: one::<UnitedDeployment>(&self.united)?,
            workloads: self.workloads.iter().filter_map(workload).collect(),
            revisions,
            orphans: all(&self.orphans),
            pods: all::<Pod>(&self.pods),
            unreadable: Vec::new(),
        })
    }
}

fn workload(value: &Value) -> Option<SubsetWorkload> {
    let is_it = |kind: &SubsetKind| {
        value["kind"] == kind.resource().kind
            && value["apiVersion"] == *kind.resource().api_version()
    };
    let kind = SubsetKind::ALL.into_iter().find(is_it)?;
    Some(SubsetWorkload {
        kind,
        object: one::<UntypedWorkload>(value)?,
    })
}

pub(crate) fn united_deployment(data: &[u8]) {
    let Some(world) = document(data).and_then(|document| World::deserialize(document).ok()) else {
        return;
    };
    let Some(snapshot) = world.snapshot() else {
        return;
    };
    // No clock is at a time before the year 0, which the types write and do not read.
    let now = Timestamp::from_second(world.now.max(0)).unwrap_or(Timestamp::UNIX_EPOCH);
    let round = Round::of(&snapshot, now);
    let plan = decided(|| decide(&snapshot, &round, now));
    each_subset_has_one_workload(&snapshot, &plan);
    for line in explain(&snapshot, &round) {
        assert!(!line.reason.is_empty(), "subset {} has no reason", line.pod);
    }
    let again = |status| {
        let united = Arc::new(UnitedDeployment {
            status: Some(status),
            ..(*snapshot.united).clone()
        });
        let snapshot = Snapshot {
            united,
            ..snapshot.clone()
        };
        decide(&snapshot, &Round::of(&snapshot, now), now)
    };
    told(
        &plan,
        |outcome| status(&snapshot, &round, &plan, outcome, now),
        again,
    );
    division_is_within_bounds(&snapshot);
}

/// The plan creates at most one workload for a listed subset, and none whose name exists.
fn each_subset_has_one_workload(snapshot: &Snapshot, plan: &Plan) {
    let mut made = BTreeSet::new();
    for action in plan.actions() {
        let Action::Create { resource, body, .. } = action else {
            continue;
        };
        let subset = body["metadata"]["labels"][SUBSET_NAME]
            .as_str()
            .unwrap_or_default();
        assert!(made.insert(subset), "subset {subset} gets two workloads");
        let listed = &snapshot.united.spec.topology.subsets;
        assert!(
            listed.iter().any(|listed| listed.name == subset),
            "subset {subset:?} is not listed"
        );
        let is_there = |workload: &SubsetWorkload| {
            workload.kind.resource() == *resource && body["metadata"]["name"] == *workload.name()
        };
        assert!(
            !snapshot.workloads.iter().any(is_there),
            "{} is there",
            body["metadata"]["name"]
        );
        assert!(
            body["spec"]["replicas"]
                .as_i64()
                .is_some_and(|replicas| replicas >= 0),
            "{body}"
        );
    }
}

/// Divides the replicas in each mode, with the numbers of the subsets' workloads.
fn division_is_within_bounds(snapshot: &Snapshot) {
    let spec = &snapshot.united.spec;
    let subsets = spec
        .topology
        .subsets
        .iter()
        .enumerate()
        .map(|(at, subset)| {
            let is_of = |workload: &&SubsetWorkload| {
                workload.object.label(SUBSET_NAME) == Some(&subset.name)
            };
            let workload = snapshot
                .workloads
                .iter()
                .find(is_of)
                .map(|workload| &workload.object);
            Subset {
                name: &subset.name,
                replicas: subset.replicas.as_ref(),
                min: subset.min_replicas.as_ref(),
                max: subset.max_replicas.as_ref(),
                present: workload.map_or(0, |workload| workload.replicas),
                ready: workload.map_or(0, |workload| workload.status.ready_replicas),
                reserved: workload.map_or(0, |workload| workload.status.available_replicas),
                schedulable: at % 3 != 0,
                marked: at % 2 == 0,
            }
        });
    let subsets: Vec<_> = subsets.collect();
    for mode in [Mode::Fixed, Mode::Adaptive, Mode::Reserve] {
        match divide(mode, spec.replicas, &subsets) {
            Ok(division) => is_within_bounds(mode, &division, &subsets),
            Err(problem) => assert!(!problem.is_empty()),
        }
    }
}

fn is_within_bounds(mode: Mode, division: &Division, subsets: &[Subset<'_>]) {
    assert_eq!(division.shares.len(), subsets.len());
    for (share, subset) in division.shares.iter().zip(subsets) {
        assert!(
            share.replicas >= 0 && share.reserved >= 0 && share.reserved <= share.replicas,
            "{share:?}"
        );
        let most = match mode {
            Mode::Fixed => None,
            Mode::Adaptive if !subset.schedulable => {
                Some(share.bounds.min.max(i64::from(subset.ready.max(0))))
            }
            Mode::Reserve if !subset.schedulable => Some(i64::from(subset.present.max(0))),
            Mode::Adaptive | Mode::Reserve => share.bounds.max.map(|max| max.max(share.bounds.min)),
        };
        assert!(
            most.is_none_or(|most| i64::from(share.replicas) <= most),
            "{mode:?}: {share:?} of {subset:?}"
        );
    }
    let sum: i64 = division
        .shares
        .iter()
        .map(|share| i64::from(share.replicas))
        .sum();
    let unplaced = division.findings.iter().map(|finding| {
        if let Finding::Unplaced(rest) = finding {
            *rest
        } else {
            0
        }
    });
    match mode {
        // No number of pods is larger.
        Mode::Fixed if subsets.is_empty() || division.total > i64::from(i32::MAX) => {}
        Mode::Fixed => assert_eq!(sum + unplaced.sum::<i64>(), division.total, "{division:?}"),
        Mode::Adaptive => assert!(sum <= division.total, "{division:?}"),
        Mode::Reserve => {
            let serving: i64 = division
                .shares
                .iter()
                .map(|share| i64::from(share.replicas - share.reserved))
                .sum();
            assert!(serving <= division.total, "{division:?}");
        }
    }
}
