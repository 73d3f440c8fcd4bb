//! NodeImage: v1alpha1 does not know the mode of a pull secret.

use serde_json::{Map, Value};

use super::Mapping;

pub(super) const MAPPING: Mapping = Mapping { to_v1beta1: |_| (), to_v1alpha1, touches: &[&["spec", "images"]] };

fn to_v1alpha1(object: &mut Value) {
    let images = object.pointer_mut("/spec/images").and_then(Value::as_object_mut);
    for image in images.into_iter().flat_map(Map::values_mut) {
        for secret in image.get_mut("pullSecrets").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(secret) = secret.as_object_mut() {
                secret.remove("mode");
            }
        }
    }
}
