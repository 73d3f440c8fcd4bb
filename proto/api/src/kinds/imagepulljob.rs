//! ImagePullJob: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::pulls::{is_image, limits_of_completed, pull_template, pulled};
use crate::schema::rules::{at, check, rule};
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// ImagePullJob.
pub const IMAGE_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImagePullJob",
    plural: "imagepulljobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::ImagePullJob>,
    limits: Limits::of_specs,
    template: None,
    owns: &[],
    mapping: Mapping::SAME,
    faults: validation::of_pull_job,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::ImagePullJob::crd, v1alpha1::ImagePullJob::crd],
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer("TOTAL", ".status.desired", "Nodes that shall pull."),
    Column::integer("ACTIVE", ".status.active", "Nodes that are pulling."),
    Column::integer("SUCCEED", ".status.succeeded", "Nodes that have the image."),
    Column::integer("FAILED", ".status.failed", "Nodes that gave up."),
    Column::AGE,
    Column::string("MESSAGE", ".status.message", "What is going on."),
];

fn rules(_: Version) -> Vec<Patch> {
    let image = "'is \"%s\" and was \"%s\", and a job pulls one image: create another job'.format([self, oldSelf])";
    let mut rules = pull_template();
    rules.extend([
        at("spec.image", json!({"minLength": 1, "maxLength": 1024})),
        at(
            "spec.image",
            check(&[is_image(), rule("self == oldSelf", image)]),
        ),
        at(
            "spec",
            check(&pulled(
                "",
                "true",
                "and a job keeps what it was created with: create another job",
            )),
        ),
        at("", check(&limits_of_completed("job"))),
    ]);
    rules
}
