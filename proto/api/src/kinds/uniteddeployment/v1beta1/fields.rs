//! Fields of a UnitedDeployment whose types are not ours: what a schema names of them, and bounds.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use super::rules::MAX_SUBSETS;
use super::shapes::{clone_set_scale, clone_set_update};
use crate::schema::field::{patched, with};
use crate::schema::patch::{Patch, at};
use crate::schema::rules::{LABEL_KEY, LABEL_VALUE};
use crate::version::Version;

/// What no attribute can say: words of an enum that the type does not write, a null that is kept,
/// and templates of v1alpha1.
pub(crate) fn patches(version: Version) -> Vec<Patch> {
    let mut patches = vec![
        at("spec.updateStrategy.type", json!({"enum": ["Manual", ""]})),
        at(
            "spec.topology.scheduleStrategy.type",
            json!({"enum": ["Fixed", "Adaptive", ""]}),
        ),
        at("spec.topology.subsets[].patch", json!({"nullable": true})),
    ];
    if version == Version::V1Alpha1 {
        let fields = json!({
            "progressDeadlineSeconds": {"type": "integer", "description": "See `kubectl explain cloneset.spec`."},
            "scaleStrategy": clone_set_scale(),
            "updateStrategy": clone_set_update(),
        });
        let spec = "spec.template.cloneSetTemplate.spec";
        patches.push(at(spec, json!({"properties": fields})));
    }
    patches
}

/// Bounds a map of subsets to pods.
pub(super) fn partitions() -> Value {
    json!({
        "maxProperties": MAX_SUBSETS,
        "additionalProperties": {
            "type": "integer", "format": "int32", "minimum": 0, "maximum": i32::MAX,
        },
    })
}

/// The labels that selectors are compared with. The workload's own definition says what else is in
/// its spec.
pub(super) fn workload(schema: &mut Schema) {
    let labels = |description: &str| {
        json!({
            "type": "object", "description": description, "maxProperties": 256,
            "additionalProperties": {"type": "string", "maxLength": LABEL_VALUE},
        })
    };
    let open = |description: &str, fields: Value| {
        json!({
            "type": "object", "description": description, "properties": fields,
            "x-kubernetes-preserve-unknown-fields": true,
        })
    };
    let of_pods = open(
        "Labels and annotations of the pods.",
        json!({"labels": labels("Labels of the pods. They must match the selector.")}),
    );
    let fields = json!({"template": open("The pods.", json!({"metadata": of_pods}))});
    let metadata = open(
        "Labels and annotations of the workload. The labels must match the selector.",
        json!({"labels": labels("Labels of the workload. They must match the selector.")}),
    );
    let spec = open(
        "The workload's spec. Its replicas, selector and partition do not count, because each subset has its own.",
        fields,
    );
    with(json!({"properties": {"metadata": metadata, "spec": spec}})).transform(schema);
}

/// Describes and bounds which nodes a subset has.
pub(super) fn node_term(schema: &mut Schema) {
    let stays = json!({
        "rule": "self == oldSelf", "reason": "FieldValueForbidden",
        "message": "cannot be changed, because the subset's pods may run on nodes that would leave it: take the change \
                    back, or remove the subset and add another of another name",
    });
    let mut patches = vec![at(
        "",
        json!({"x-kubernetes-map-type": "atomic", "x-kubernetes-validations": [stays]}),
    )];
    for (list, what, value) in [
        ("matchExpressions", "labels", LABEL_VALUE),
        ("matchFields", "the field metadata.name", 253),
    ] {
        patches.extend([
            at(
                list,
                json!({
                    "description": format!("Conditions on {what} of nodes, all of which must hold."),
                    "maxItems": 50, "x-kubernetes-list-type": "atomic",
                }),
            ),
            at(format!("{list}[].key"), json!({"description": "The key.", "minLength": 1, "maxLength": LABEL_KEY})),
            at(
                format!("{list}[].operator"),
                json!({
                    "description": "In or NotIn one of the values; Exists or DoesNotExist with any; Gt or Lt a number.",
                    "enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
                }),
            ),
            at(
                format!("{list}[].values"),
                json!({
                    "description": "Values for In and NotIn; one number for Gt and Lt.",
                    "maxItems": 500, "items": {"type": "string", "maxLength": value},
                    "x-kubernetes-list-type": "atomic",
                }),
            ),
        ]);
    }
    patched(patches).transform(schema);
}

/// Describes and bounds tolerations.
pub(super) fn tolerations(schema: &mut Schema) {
    let text = |field: &str, description: &str, most: u32| {
        at(
            format!("[].{field}"),
            json!({"description": description, "maxLength": most}),
        )
    };
    patched(vec![
        at(
            "",
            json!({"maxItems": 50, "x-kubernetes-list-type": "atomic"}),
        ),
        text(
            "key",
            "The taint's key. Without it, every taint.",
            LABEL_KEY,
        ),
        text(
            "operator",
            "Exists with any value, or Equal to the value. Defaults to Equal.",
            16,
        ),
        text("value", "The taint's value, for Equal.", 253),
        text(
            "effect",
            "NoSchedule, PreferNoSchedule or NoExecute. Without it, each.",
            32,
        ),
        at(
            "[].tolerationSeconds",
            json!({"description": "Seconds for which a taint with NoExecute is tolerated. Without it, for ever."}),
        ),
    ])
    .transform(schema);
}
