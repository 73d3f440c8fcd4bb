mod adopt;
mod change;
mod failures;
mod lost;
mod refused;
mod render;
mod rounds;
mod world;

use std::collections::BTreeMap;

use berth_api::v1beta1::uniteddeployment::UnitedDeploymentStatus;
use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value, json};

use super::is_urgent;
use super::render::{Size, Subset, Template, Workload, render as rendered};
use super::subset_kind::SubsetKind;

/// The input from which a test renders a workload.
#[derive(Clone)]
struct Source {
    kind: SubsetKind,
    selector: LabelSelector,
    metadata: Value,
    spec: Map<String, Value>,
    revision: &'static str,
    term: NodeSelectorTerm,
    tolerations: Vec<Toleration>,
    patch: Option<Value>,
    size: Size,
}

impl Source {
    fn new(kind: SubsetKind) -> Self {
        let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
        Self {
            kind,
            selector: LabelSelector {
                match_labels: Some([("app".into(), "web".into())].into()),
                ..Default::default()
            },
            metadata: json!({"labels": {"team": "a"}, "annotations": {"note": "n"}}),
            spec: Map::from_iter([("template".to_owned(), pod)]),
            revision: "web-1",
            term: NodeSelectorTerm::default(),
            tolerations: Vec::new(),
            patch: None,
            size: Size {
                replicas: 3,
                partition: 1,
                reserved: 0,
            },
        }
    }

    fn render(&self) -> Result<Workload, super::render::Invalid> {
        let Self {
            kind,
            selector,
            metadata,
            spec,
            revision,
            ..
        } = self;
        let template = Template {
            kind: *kind,
            selector,
            metadata: Some(metadata),
            spec,
            revision,
        };
        let subset = Subset {
            name: "arm",
            node_selector_term: &self.term,
            tolerations: &self.tolerations,
            patch: self.patch.as_ref(),
        };
        rendered(&template, &subset, self.size)
    }

    fn workload(&self) -> Workload {
        self.render().unwrap()
    }

    fn spec(mut self, field: &str, value: Value) -> Self {
        self.spec.insert(field.to_owned(), value);
        self
    }

    /// With this spec of pods.
    fn pod(self, spec: Value) -> Self {
        self.spec(
            "template",
            json!({"metadata": {"labels": {"app": "web"}}, "spec": spec}),
        )
    }

    /// The object as it was created from this source.
    fn object(&self) -> Value {
        self.workload()
            .object("default", "web-arm-xxxxx", &json!({"uid": "u"}))
    }
}

fn owned(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
    texts
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn status_is_urgent_unless_counts_alone_differ() {
    let status = |change: Value| {
        let mut status = json!({
            "observedGeneration": 1, "replicas": 3, "readyReplicas": 1,
            "subsetStatuses": [{"name": "a", "replicas": 2, "partition": 1}],
            "conditions": [{"type": "SubsetUpdated", "status": "True", "message": "x"}],
        });
        for (field, value) in change.as_object().unwrap() {
            status[field] = value.clone();
        }
        Some(serde_json::from_value::<UnitedDeploymentStatus>(status).unwrap())
    };
    let cases = [
        (json!({}), false),
        (
            json!({"replicas": 4, "updatedReplicas": 1, "reservedPods": 1}),
            false,
        ),
        (json!({"readyReplicas": 0}), false),
        (json!({"readyReplicas": 2}), true),
        (json!({"replicas": 2}), true),
        (json!({"observedGeneration": 2}), true),
        (
            json!({"subsetStatuses": [{"name": "a", "replicas": 3, "partition": 1}]}),
            true,
        ),
        (
            json!({"subsetStatuses": [{"name": "a", "replicas": 2, "partition": 0}]}),
            true,
        ),
        (
            json!({"conditions": [{"type": "SubsetUpdated", "status": "True", "message": "y"}]}),
            false,
        ),
        (
            json!({"conditions": [{"type": "SubsetUpdated", "status": "False", "message": "x"}]}),
            true,
        ),
    ];
    for (change, expected) in cases {
        let said = change.to_string();
        assert_eq!(
            is_urgent(&status(json!({})), &status(change)),
            expected,
            "{said}"
        );
    }
    assert!(is_urgent(&None, &status(json!({}))));
}
