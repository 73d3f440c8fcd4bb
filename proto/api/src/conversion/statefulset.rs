//! Advanced StatefulSet: v1alpha1 lacks six fields of the spec.

use super::Mapping;
use super::json::Json;
use crate::kinds::Version;
use crate::v1beta1::statefulset::StatefulSetSpec;

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1: |_| (),
    to_v1alpha1,
    touches: &[
        &["spec", "volumeClaimUpdateStrategy"],
        &["spec", "reserveOrdinals"],
        &["spec", "lifecycle"],
        &["spec", "scaleStrategy"],
        &["spec", "persistentVolumeClaimRetentionPolicy"],
        &["spec", "ordinals"],
    ],
    decides: &[],
    is_read,
};

fn to_v1alpha1(object: &mut Json<'_>) {
    let Some(spec) = object.at(&["spec"]).and_then(Json::object) else { return };
    for path in MAPPING.touches {
        path.last().map(|field| spec.remove(field));
    }
}

/// Whether the type reads the fields that only v1beta1 has.
fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    if version == Version::V1Alpha1 {
        return true;
    }
    let mut fields = Vec::new();
    for path in MAPPING.touches {
        let value = object.at(path).map(|value| value.to_string());
        fields.extend(path.last().zip(value).map(|(field, value)| format!("{field:?}:{value}")));
    }
    let fields = fields.join(",");
    serde_json::from_str::<StatefulSetSpec>(&format!(r#"{{"selector":{{}},"template":{{}},{fields}}}"#)).is_ok()
        || fields.is_empty()
}
