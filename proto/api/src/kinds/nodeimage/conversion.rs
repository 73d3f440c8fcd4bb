//! NodeImage: v1alpha1 does not know the mode of a pull secret.

use std::collections::BTreeMap;

use crate::conversion::Mapping;
use crate::conversion::json::Json;
use crate::conversion::mapping::reads;
use crate::version::Version;
use crate::weight::Weight;
use crate::{v1alpha1, v1beta1};

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1: |_| (),
    to_v1alpha1,
    touches: &[&["spec", "images"]],
    decides: &[],
    is_read,
};

/// The most values in the images of a NodeImage that are converted. The controller writes at most a
/// quarter of it.
const MOST_VALUES: usize = 65_536;

fn to_v1alpha1(object: &mut Json<'_>) {
    let is_light = |images: &&mut Json<'_>| !matches!(images, Json::Text(text) if Weight::of(text).values > MOST_VALUES);
    let images = object
        .at(&["spec", "images"])
        .filter(is_light)
        .and_then(Json::object);
    for image in images.into_iter().flat_map(|images| images.values_mut()) {
        for secret in image
            .at(&["pullSecrets"])
            .and_then(Json::list)
            .into_iter()
            .flatten()
        {
            // Most have none, and stay text.
            if matches!(secret, Json::Text(text) if !text.contains("mode")) {
                continue;
            }
            if let Some(secret) = secret.object() {
                secret.remove("mode");
            }
        }
    }
}

fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    let images = ["spec", "images"];
    match version {
        Version::V1Alpha1 => {
            reads::<BTreeMap<String, v1alpha1::nodeimage::ImageSpec>>(object, &images)
        }
        Version::V1Beta1 => {
            reads::<BTreeMap<String, v1beta1::nodeimage::ImageSpec>>(object, &images)
        }
    }
}
