//! Checks that the apiserver's rules and the webhook make already, once more: rules can be missing
//! in an older definition, and the webhook may not answer. Checks for workloads that cannot be
//! read, too.

use std::collections::BTreeSet;

use berth_api::v1beta1::uniteddeployment::{MAX_RENDERED, MAX_SUBSETS, rendered};
use berth_workload::objects::pod::Metadata;
use berth_workload::plan::Refusal;
use berth_workload::update::podset::Unreadable;

use super::render::texts;
use super::{Snapshot, SubsetKind};

/// Whether the controller can act on the UnitedDeployment.
///
/// # Errors
/// The refusal names object, field, value and remedy.
pub(super) fn validate(snapshot: &Snapshot) -> Result<(), Refusal> {
    // A workload that the controller cannot see would be created a second time.
    if let Some(Unreadable { kind, name, error }) = snapshot.unreadable.iter().min() {
        let message = format!(
            "UnitedDeployment {}: {kind} {name} cannot be read, and until then no subset is changed: {error}; correct it, \
             delete it, or take the UnitedDeployment off its ownerReferences",
            snapshot.name()
        );
        return Err(Refusal {
            reason: "Unreadable",
            message,
        });
    }
    let refuse = |field_and_problem: String| Err(snapshot.refusal(&field_and_problem));
    let spec = &snapshot.united.spec;
    let selector = &spec.selector;
    let has_labels = selector
        .match_labels
        .as_ref()
        .is_some_and(|labels| !labels.is_empty());
    if !has_labels
        && selector
            .match_expressions
            .as_ref()
            .is_none_or(Vec::is_empty)
    {
        return refuse("spec.selector: is empty; name the labels of the template".to_owned());
    }
    let subsets = &spec.topology.subsets;
    if subsets.len() > MAX_SUBSETS {
        return refuse(format!(
            "spec.topology.subsets: has {} subsets, and {MAX_SUBSETS} are the most; make another UnitedDeployment of the others",
            subsets.len()
        ));
    }
    check_sizes(snapshot)?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = subsets
        .iter()
        .find(|subset| !seen.insert(subset.name.as_str()))
    {
        return refuse(format!(
            "spec.topology.subsets: has {:?} twice; rename one of them",
            twice.name
        ));
    }
    if spec.topology.schedule_strategy.reserves()
        && (spec.template.stateful_set_template.is_some()
            || spec.template.advanced_stateful_set_template.is_some())
    {
        return refuse(
            "spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods: is true, and StatefulSets cannot reserve pods; \
             set it to false"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether the template makes workloads that are small enough to be read again.
fn check_sizes(snapshot: &Snapshot) -> Result<(), Refusal> {
    let refuse = |field_and_problem: String| Err(snapshot.refusal(&field_and_problem));
    let spec = &snapshot.united.spec;
    let subsets = &spec.topology.subsets;
    let bytes = rendered(&spec.template, subsets.len());
    if bytes > MAX_RENDERED {
        return refuse(format!(
            "spec.template: comes to {bytes} bytes in {} subsets, and {MAX_RENDERED} are the most; make the template smaller, \
             or another UnitedDeployment of some subsets",
            subsets.len()
        ));
    }
    if let Some((field, bytes)) = metadata_beyond(snapshot) {
        return refuse(format!(
            "spec.template.{field}.metadata: labels and annotations of kruise.io have {bytes} bytes, and {LARGEST_METADATA} \
             are the most that are read of a workload beside its patch; shorten them"
        ));
    }
    Ok(())
}

/// Most bytes of a template's labels and annotations of Berth's domain. With the largest patch they
/// stay below the limit up to which the cache reads an object's metadata.
const LARGEST_METADATA: usize = 16_384;

/// The template whose metadata makes a workload or revision that cannot be read, with the bytes.
fn metadata_beyond(snapshot: &Snapshot) -> Option<(&'static str, usize)> {
    SubsetKind::ALL.into_iter().find_map(|kind| {
        let metadata = kind
            .template_of(&snapshot.united.spec.template)?
            .metadata
            .as_ref();
        let annotations = texts(metadata, "annotations")
            .into_iter()
            .filter(|(key, _)| Metadata::keeps_annotation(key));
        let bytes = texts(metadata, "labels")
            .into_iter()
            .chain(annotations)
            .map(|(key, value)| key.len() + value.len());
        let bytes: usize = bytes.sum();
        (bytes > LARGEST_METADATA).then(|| (kind.template_field(), bytes))
    })
}
