//! ImageListPullJob: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::pulls::{HAS_COMPLETED, is_image, limits_of_completed, pull_template, pulled};
use crate::schema::rules::{at, check, reported_at, rule};
use crate::v1beta1::imagelistpulljob::MAX_LISTED_IMAGES;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// ImageListPullJob.
pub const IMAGE_LIST_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImageListPullJob",
    plural: "imagelistpulljobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::ImageListPullJob>,
    limits: Limits::of_specs,
    template: None,
    owns: &["imagepulljobs"],
    mapping: Mapping::SAME,
    faults: validation::of_pull_job,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::ImageListPullJob::crd,
        v1alpha1::ImageListPullJob::crd,
    ],
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer("TOTAL", ".status.desired", "Images to pull."),
    Column::integer(
        "SUCCEEDED",
        ".status.succeeded",
        "Images that all nodes have.",
    ),
    Column::integer(
        "COMPLETED",
        ".status.completed",
        "Images that all nodes have or gave up.",
    ),
    Column::AGE,
];

fn rules(_: Version) -> Vec<Patch> {
    let list =
        json!({"minItems": 1, "maxItems": MAX_LISTED_IMAGES, "x-kubernetes-list-type": "set"});
    let images =
        format!("!({HAS_COMPLETED}) || sets.contains(oldSelf.spec.images, self.spec.images)");
    let why = "but the list has completed and pulls nothing more: create another list";
    let added = format!(
        "'has %s besides, {why}'.format([self.spec.images.filter(image, !(image in oldSelf.spec.images))])"
    );
    let mut completed = vec![reported_at(".spec.images", rule(images, added))];
    completed.extend(pulled("spec.", HAS_COMPLETED, why));
    completed.extend(limits_of_completed("list"));
    let mut rules = pull_template();
    rules.extend([
        at("", check(&completed)),
        at("spec.images", list),
        at("spec.images[]", json!({"minLength": 1, "maxLength": 1024})),
        at("spec.images[]", check(&[is_image()])),
    ]);
    rules
}
