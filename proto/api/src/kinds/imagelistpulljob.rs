//! ImageListPullJob: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use super::Version;
use super::imagepulljob::{is_image, pull_template};
use crate::crd::Schema;
use crate::crd::columns::Column;
use crate::crd::patch::Patch;
use crate::crd::rules::{at, check};
use crate::v1beta1::imagelistpulljob::MAX_LISTED_IMAGES;
use crate::{v1alpha1, v1beta1};

pub(super) const SCHEMA: Schema =
    Schema { versions: &[v1beta1::ImageListPullJob::crd, v1alpha1::ImageListPullJob::crd], rules, columns: COLUMNS };

const COLUMNS: &[Column] = &[
    Column::integer("TOTAL", ".status.desired", "Images to pull."),
    Column::integer("SUCCEEDED", ".status.succeeded", "Images that all nodes have."),
    Column::integer("COMPLETED", ".status.completed", "Images that all nodes have or gave up."),
    Column::AGE,
];

fn rules(_: Version) -> Vec<Patch> {
    let list = json!({"minItems": 1, "maxItems": MAX_LISTED_IMAGES, "x-kubernetes-list-type": "set"});
    let mut rules = pull_template();
    rules.extend([
        at("spec.images", list),
        at("spec.images[]", json!({"minLength": 1, "maxLength": 1024})),
        at("spec.images[]", check(&[is_image()])),
        at("spec.pullSecrets", json!({"description": "Names of secrets for the registry, in the job's namespace."})),
    ]);
    rules
}
