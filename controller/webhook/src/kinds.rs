//! What the two handlers know about our kinds: how they convert, and what the schema cannot say about them.
//!
//! Nearly all validation is in the CRDs and needs no webhook. What is left is what [`berth_api::validation`] knows, and
//! the pod template, which only the apiserver itself can judge: it is asked for a dry-run creation of a PodTemplate.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use berth_api::template::mount_claims;
use berth_api::v1beta1;

use crate::keeper::posting;

/// The longest wait for a verdict on a pod template: less than the apiserver's wait for ours.
const PATIENCE: Duration = Duration::from_secs(4);

/// Converts an object to another version of its kind.
///
/// # Errors
/// Why not, for a person.
pub(crate) fn convert(object: Value, desired: &str) -> Result<Value, String> {
    berth_api::conversion::convert(object, desired).map_err(|error| error.to_string())
}

/// Whether our own types read an object that the schema let pass.
///
/// # Errors
/// What they stumble over.
pub(crate) fn readable(resource: &str, object: &Value) -> Result<(), String> {
    fn read<T: DeserializeOwned>(object: &Value) -> Result<(), String> {
        T::deserialize(object).map(drop).map_err(|error| format!("the object cannot be read: {error}"))
    }
    match resource {
        "clonesets" => read::<v1beta1::CloneSet>(object),
        "imagelistpulljobs" => read::<v1beta1::ImageListPullJob>(object),
        "imagepulljobs" => read::<v1beta1::ImagePullJob>(object),
        "nodeimages" => read::<v1beta1::NodeImage>(object),
        _ => Ok(()),
    }
}

/// Whether an object asks for anything that it did not ask for before. Its end never does.
pub(crate) fn asks(new: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| old.get("spec") != new.get("spec"))
}

/// Whether an object has no fault that it did not have before.
///
/// # Errors
/// Each fault with field, value and remedy.
pub(crate) fn faultless(new: &Value, old: Option<&Value>) -> Result<(), String> {
    let found = berth_api::validation::new_violations(new, old);
    if found.is_empty() {
        return Ok(());
    }
    Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// The pod template that has to be judged, with the volumes of its claims: that of a CloneSet which is new or has another
/// one than before.
pub(crate) fn template_to_judge(resource: &str, new: &Value, old: Option<&Value>) -> Option<Value> {
    if resource != "clonesets" {
        return None;
    }
    let new = template_with_claims(new)?;
    (old.and_then(template_with_claims).as_ref() != Some(&new)).then_some(new)
}

fn template_with_claims(object: &Value) -> Option<Value> {
    let mut template = object.pointer("/spec/template")?.clone();
    let claims = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).into_iter().flatten();
    let names = claims.filter_map(|claim| claim.pointer("/metadata/name")?.as_str());
    mount_claims(template.get_mut("spec")?, names.map(|name| (name, name.to_owned())));
    Some(template)
}

/// Asks the apiserver about a pod template.
///
/// # Errors
/// The apiserver's own words, with fields named as they are in a CloneSet. When it does not answer, nothing is known
/// and nothing is refused: the controller asks again.
pub(crate) async fn judge_template(client: &Client, namespace: &str, template: &Value) -> Result<(), String> {
    let resource = ApiResource::erase::<PodTemplate>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let mut object = DynamicObject::new("", &resource).data(json!({"template": template}));
    object.metadata.name = None;
    object.metadata.generate_name = Some("berth-validate-".to_owned());
    let params = PostParams { dry_run: true, ..posting() };
    match tokio::time::timeout(PATIENCE, api.create(&params, &object)).await {
        Ok(Err(kube::Error::Api(status))) if status.is_invalid() || status.code == 400 => Err(in_a_cloneset(&status)),
        _ => Ok(()),
    }
}

/// The apiserver's refusal of a PodTemplate as a refusal of the CloneSet's field.
pub(crate) fn in_a_cloneset(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<String> = causes.map(|cause| format!("spec.{}: {}", cause.field, cause.message)).collect();
    if causes.is_empty() { format!("spec.template: {}", status.message) } else { causes.join("; ") }
}
