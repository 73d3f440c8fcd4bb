//! ImageListPullJob: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use super::Version;
use super::imagepulljob::{HAS_COMPLETED, is_image, limits_of_completed, pull_template, pulled};
use crate::crd::Schema;
use crate::crd::columns::Column;
use crate::crd::patch::Patch;
use crate::crd::rules::{at, check, reported_at, rule};
use crate::v1beta1::imagelistpulljob::MAX_LISTED_IMAGES;
use crate::{v1alpha1, v1beta1};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::ImageListPullJob::crd,
        v1alpha1::ImageListPullJob::crd,
    ],
    rules,
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
