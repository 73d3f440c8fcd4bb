//! UnitedDeployment: v1alpha1 is OpenKruise 1.9.0's, and accepts the fields of OpenKruise's later
//! v1alpha1 as well.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `template.cloneSetTemplate`, a v1alpha1 or a v1beta1 CloneSet | as a v1beta1 CloneSet |
//! | `status.subsetReplicas` | `replicas` in `status.subsetStatuses` |
//! | `status.updateStatus.currentPartitions` | `partition` in `status.subsetStatuses` |
//! | `status.updateStatus.updatedRevision` | `status.updatedRevision` |

use std::collections::BTreeMap;

use crate::conversion::Mapping;
use crate::conversion::json::{Json, Object};
use crate::conversion::mapping::reads;
use crate::kinds::cloneset::conversion as cloneset;
use crate::version::Version;
use crate::{v1alpha1, v1beta1};

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1,
    to_v1alpha1,
    touches: &[
        &["spec", "template", TEMPLATE, "metadata"],
        &["spec", "template", TEMPLATE, "spec", SCALE],
        &["spec", "template", TEMPLATE, "spec", UPDATE],
        &["status", REPLICAS],
        &["status", UPDATE_STATUS],
        &["status", REVISION],
        &["status", SUBSETS],
    ],
    decides: &[
        &["spec", "template", TEMPLATE, "metadata"],
        &["spec", "template", TEMPLATE, "spec", SCALE],
        &["spec", "template", TEMPLATE, "spec", UPDATE],
    ],
    is_read,
};

const TEMPLATE: &str = "cloneSetTemplate";
const SCALE: &str = "scaleStrategy";
const UPDATE: &str = "updateStrategy";
const REPLICAS: &str = "subsetReplicas";
const UPDATE_STATUS: &str = "updateStatus";
const PARTITIONS: &str = "currentPartitions";
const REVISION: &str = "updatedRevision";
const SUBSETS: &str = "subsetStatuses";

fn to_v1beta1(object: &mut Json<'_>) {
    if let Some(template) = object.at(&["spec", "template", TEMPLATE]) {
        template_to_v1beta1(template);
    }
    if let Some(status) = object.at(&["status"]).and_then(Json::object) {
        status_to_v1beta1(status);
    }
}

fn to_v1alpha1(object: &mut Json<'_>) {
    if let Some(template) = object.at(&["spec", "template", TEMPLATE]) {
        with_metadata(template, cloneset::MAPPING.to_v1alpha1);
    }
    if let Some(status) = object.at(&["status"]).and_then(Json::object) {
        status_to_v1alpha1(status);
    }
}

/// Parts that have the form of v1beta1 already are kept.
fn template_to_v1beta1(template: &mut Json<'_>) {
    let Some(spec) = template.at(&["spec"]).and_then(Json::object) else {
        return;
    };
    let scale = Shape::of(
        spec.get_mut(SCALE),
        &["disablePVCReuse"],
        &["enablePVCReuse", "excludePreparingDelete"],
    );
    let update = update_shape(spec.get_mut(UPDATE));
    let is_newer = scale == Shape::Newer || update == Shape::Newer;
    let stays = |shape: Shape| shape == Shape::Newer || (is_newer && shape == Shape::Either);
    if stays(scale) && stays(update) {
        return;
    }
    let kept = [(SCALE, stays(scale)), (UPDATE, stays(update))];
    let kept =
        kept.map(|(field, stays)| (field, stays, if stays { spec.remove(field) } else { None }));
    with_metadata(template, cloneset::MAPPING.to_v1beta1);
    let Some(spec) = template.at(&["spec"]).and_then(Json::object) else {
        return;
    };
    for (field, stays, value) in kept {
        match value {
            Some(value) => spec.insert(field, value),
            None if stays => drop(spec.remove(field)),
            None => {}
        }
    }
}

/// A part of a CloneSet's spec, as its fields show it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The form of v1alpha1.
    Older,
    /// The form of v1beta1, at least in part.
    Newer,
    /// The form of both versions.
    Either,
}

impl Shape {
    fn of(part: Option<&mut Json<'_>>, older: &[&str], newer: &[&str]) -> Self {
        let Some(part) = part.and_then(Json::object) else {
            return Self::Either;
        };
        let has = |fields: &[&str]| fields.iter().any(|field| part.get(field).is_some());
        if has(newer) {
            Self::Newer
        } else if has(older) {
            Self::Older
        } else {
            Self::Either
        }
    }
}

fn update_shape(mut update: Option<&mut Json<'_>>) -> Shape {
    let type_ = update
        .as_mut()
        .and_then(|update| update.object()?.get("type")?.as_string());
    match type_.as_deref() {
        Some("RollingUpdate") => return Shape::Newer,
        Some("ReCreate" | "InPlaceIfPossible" | "InPlaceOnly") => {}
        _ => {
            let flat = [
                "partition",
                "maxUnavailable",
                "maxSurge",
                "paused",
                "priorityStrategy",
                "scatterStrategy",
                "inPlaceUpdateStrategy",
            ];
            return Shape::of(update, &flat, &["rollingUpdate"]);
        }
    }
    Shape::of(update, &["type"], &["rollingUpdate"])
}

/// A template is converted as a CloneSet, whose label and annotations are in its metadata.
fn with_metadata(template: &mut Json<'_>, convert: fn(&mut Json<'_>)) {
    let Some(fields) = template.object() else {
        return;
    };
    let had = fields.get("metadata").is_some();
    if !had {
        fields.insert("metadata", Json::Object(Object::default()));
    }
    convert(template);
    let Some(fields) = template.object() else {
        return;
    };
    if !had
        && fields
            .get_mut("metadata")
            .and_then(Json::object)
            .is_some_and(|metadata| metadata.is_empty())
    {
        fields.remove("metadata");
    }
}

fn status_to_v1beta1(status: &mut Object<'_>) {
    if let Some(mut replicas) = status.remove(REPLICAS) {
        by_subset(status, &mut replicas, "replicas");
    }
    let Some(mut update) = status.remove(UPDATE_STATUS) else {
        return;
    };
    let Some(update) = update.object() else {
        return;
    };
    if let Some(revision) = update.remove(REVISION) {
        status.insert(REVISION, revision);
    }
    if let Some(mut partitions) = update.remove(PARTITIONS) {
        by_subset(status, &mut partitions, "partition");
    }
}

/// Sets a field of each subset's status.
fn by_subset<'a>(status: &mut Object<'a>, values: &mut Json<'a>, field: &str) {
    let Some(values) = values.object().map(std::mem::take) else {
        return;
    };
    let values = values.into_fields();
    if values.is_empty() {
        return;
    }
    if status.get(SUBSETS).is_none() {
        status.insert(SUBSETS, Json::List(Vec::new()));
    }
    let Some(subsets) = status.get_mut(SUBSETS).and_then(Json::list) else {
        return;
    };
    let mut places = BTreeMap::new();
    for (at, subset) in subsets.iter_mut().enumerate() {
        if let Some(name) = name(subset) {
            places.entry(name).or_insert(at);
        }
    }
    for (subset, value) in values {
        let known = places
            .get(&*subset)
            .and_then(|at| subsets.get_mut(*at))
            .and_then(Json::object);
        match known {
            Some(known) => known.insert(field, value),
            None => {
                let mut added = Object::default();
                added.insert("name", Json::string(&subset));
                added.insert(field, value);
                subsets.push(Json::Object(added));
            }
        }
    }
}

fn name(subset: &mut Json<'_>) -> Option<String> {
    subset.object()?.get("name")?.as_string()
}

fn status_to_v1alpha1(status: &mut Object<'_>) {
    let (mut replicas, mut partitions) = (Object::default(), Object::default());
    for subset in status
        .get_mut(SUBSETS)
        .and_then(Json::list)
        .into_iter()
        .flatten()
    {
        let Some(name) = name(subset) else { continue };
        let Some(subset) = subset.object() else {
            continue;
        };
        for (field, values) in [("replicas", &mut replicas), ("partition", &mut partitions)] {
            if let Some(value) = subset.get(field) {
                values.insert(&name, value.clone());
            }
        }
    }
    let mut update = Object::default();
    if let Some(revision) = status.get(REVISION) {
        update.insert(REVISION, revision.clone());
    }
    for (parent, field, values) in [
        (&mut *status, REPLICAS, replicas),
        (&mut update, PARTITIONS, partitions),
    ] {
        parent.remove(field);
        if !values.is_empty() {
            parent.insert(field, Json::Object(values));
        }
    }
    status.remove(UPDATE_STATUS);
    if !update.is_empty() {
        status.insert(UPDATE_STATUS, Json::Object(update));
    }
}

/// Whether the types of a version read the status. They read any template.
fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    let status = ["status"];
    match version {
        Version::V1Alpha1 => {
            reads::<v1alpha1::uniteddeployment::UnitedDeploymentStatus>(object, &status)
        }
        Version::V1Beta1 => {
            reads::<v1beta1::uniteddeployment::UnitedDeploymentStatus>(object, &status)
        }
    }
}
