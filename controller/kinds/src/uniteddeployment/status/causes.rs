//! The messages of the condition `Blocked` about a refused write, and about numbers that differ.

use std::collections::BTreeSet;

use berth_api::names::label::KRUISE_CONTROLLER_REVISION_HASH;
use berth_workload::plan::Failure;
use serde_json::Value;

use crate::uniteddeployment::division::Finding;
use crate::uniteddeployment::render::LONGEST_VALUE;
use crate::uniteddeployment::{Snapshot, revision};

/// The changed fields of the template that cannot change in a StatefulSet of Kubernetes, with the
/// remedy. The apiserver names only the fields that can change, in quotes.
pub(super) fn fixed_fields(snapshot: &Snapshot, failure: &Failure) -> Option<String> {
    let (_, others) = failure.message.split_once("fields other than")?;
    let workload = snapshot
        .workloads
        .iter()
        .find(|workload| workload.name() == failure.object)?;
    let revision = workload.object.label(KRUISE_CONTROLLER_REVISION_HASH)?;
    let revision = snapshot
        .revisions
        .iter()
        .find(|one| *one.metadata.name == *revision)?
        .data
        .value();
    // In the form of the revision.
    let template = revision::data(&serde_json::to_value(&snapshot.united.spec.template).ok()?);
    let field = workload.kind.template_field();
    let [had, has] = [&revision, &template].map(|data| &data["spec"]["template"][field]["spec"]);
    let fields = [had, has]
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|spec| spec.keys());
    let is_fixed =
        |name: &&String| had[*name] != has[*name] && !others.contains(&format!("'{name}'"));
    let fields: BTreeSet<_> = fields
        .filter(|name| *name != "selector")
        .filter(is_fixed)
        .collect();
    let named = |name: &&String| {
        let value: String = has[*name].to_string().chars().take(LONGEST_VALUE).collect();
        format!("spec.template.{field}.spec.{name} is {value}")
    };
    let named: Vec<_> = fields.iter().map(named).collect();
    let remedy = "take the change back, or create another UnitedDeployment with it";
    (!named.is_empty()).then(|| {
        format!(
            "; {}, which cannot be changed: {remedy}",
            named.join(" and ")
        )
    })
}

/// The field, the value, the result of the division, and the remedy.
pub(super) fn in_words(snapshot: &Snapshot, finding: &Finding) -> String {
    match *finding {
        Finding::MinAboveMax { subset, min, max } => {
            let name = snapshot
                .united
                .spec
                .topology
                .subsets
                .get(subset)
                .map(|subset| &*subset.name)
                .unwrap_or_default();
            format!(
                "spec.topology.subsets[{name}]: minReplicas comes to {min} and maxReplicas to {max}, so that the subset gets {min}; \
                 raise maxReplicas or lower minReplicas"
            )
        }
        Finding::Sum { specified, total } => format!(
            "spec.topology.subsets: their replicas come to {specified} and spec.replicas is {total}, so that the subsets get them in order; \
             make them equal, or leave out the replicas of one subset"
        ),
        Finding::Unplaced(rest) => format!(
            "spec.topology.subsets: no subset takes {rest} of the replicas; raise a maxReplicas, or wait until a subset has room"
        ),
    }
}
