//! What the two handlers know about our kinds: how they convert, and what the schema cannot say about them.
//!
//! Nearly all validation is in the CRDs and needs no webhook. What is left is what [`berth_api::validation`] knows, and
//! the pod template, which only the apiserver itself can judge: it is asked for a dry-run creation of a PodTemplate.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplate;
use kube::api::PostParams;
use kube::core::{Request, Status};
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use berth_api::name::Namespace;
use berth_api::template::mount_claims;
use berth_api::v1beta1;
use berth_api::weight::Limits;

use crate::keeper::posting;

/// The longest wait for a verdict on a pod template: less than the apiserver's wait for ours.
const PATIENCE: Duration = Duration::from_secs(4);

/// Converts the text of an object to another version of its kind.
///
/// # Errors
/// Why not, for a person.
pub(crate) fn convert(object: &str, desired: &str) -> Result<String, String> {
    berth_api::conversion::convert(object, desired).map_err(|error| error.to_string())
}

/// Whether an object is small enough to be read: what is not, the controller does not read either.
///
/// # Errors
/// The field, how much it is, the limit, and the remedy.
pub(crate) fn bounded(resource: &str, object: &str, max_bytes: usize) -> Result<(), String> {
    let limits = if resource == "nodeimages" { Limits::of_node_images() } else { Limits::of_specs(max_bytes) };
    limits.check_object(object)
}

/// Whether our own types read an object that the schema let pass.
///
/// # Errors
/// What they stumble over.
pub(crate) fn readable(resource: &str, object: &str) -> Result<(), String> {
    fn read<T: DeserializeOwned>(object: &str) -> Result<(), String> {
        serde_json::from_str::<T>(object).map(drop).map_err(|error| format!("the object cannot be read: {error}"))
    }
    match resource {
        "clonesets" => read::<v1beta1::CloneSet>(object),
        "imagelistpulljobs" => read::<v1beta1::ImageListPullJob>(object),
        "imagepulljobs" => read::<v1beta1::ImagePullJob>(object),
        "nodeimages" => read::<v1beta1::NodeImage>(object),
        _ => Ok(()),
    }
}

/// The fields of an object's spec as text. `None` of what has none.
fn spec<'a>(object: &'a str) -> Option<&'a RawValue> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow, default)]
        spec: Option<&'a RawValue>,
    }
    serde_json::from_str::<Object<'a>>(object).ok()?.spec
}

/// Whether an object asks for anything that it did not ask for before. Its end never does. The apiserver writes what is
/// the same in the same way.
pub(crate) fn asks(new: &str, old: Option<&str>) -> bool {
    old.is_none_or(|old| spec(old).map(RawValue::get) != spec(new).map(RawValue::get))
}

/// Whether an object has no fault that it did not have before.
///
/// # Errors
/// Each fault with field, value and remedy.
pub(crate) fn faultless(new: &str, old: Option<&str>) -> Result<(), String> {
    let found = berth_api::validation::new_violations(&validated(new), old.map(validated).as_ref());
    if found.is_empty() {
        return Ok(());
    }
    Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// What of an object is validated: annotations of ours, and the spec without its template.
fn validated(object: &str) -> Value {
    #[derive(Deserialize)]
    struct Object<'a> {
        kind: String,
        #[serde(borrow, default)]
        metadata: Metadata<'a>,
        #[serde(borrow, default)]
        spec: BTreeMap<Cow<'a, str>, &'a RawValue>,
    }
    #[derive(Deserialize, Default)]
    struct Metadata<'a> {
        #[serde(borrow, default)]
        annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    }
    let Ok(Object { kind, metadata, mut spec }) = serde_json::from_str(object) else { return Value::Null };
    spec.remove("template");
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| key.contains("kruise.io/"));
    let spec = spec.into_iter().map(|(field, text)| {
        // A number that no reader takes is one of the schema's to refuse.
        (field.into_owned(), serde_json::from_str(text.get()).unwrap_or_default())
    });
    json!({"kind": kind, "metadata": {"annotations": annotations}, "spec": Value::Object(spec.collect())})
}

/// The text of the pod template that has to be judged, with the volumes of its claims: that of a CloneSet which is new or
/// has another one than before.
pub(crate) fn template_to_judge(resource: &str, new: &str, old: Option<&str>) -> Option<String> {
    if resource != "clonesets" {
        return None;
    }
    let new = Judged::of(new)?;
    if old.and_then(Judged::of).is_some_and(|old| old == new) {
        return None;
    }
    let Judged { template, claims } = new;
    if claims.is_empty() {
        return Some(template.to_owned());
    }
    let mut template: Value = serde_json::from_str(template).ok()?;
    mount_claims(template.get_mut("spec")?, claims.iter().map(|name| (name.as_str(), name.clone())));
    Some(template.to_string())
}

/// What a verdict on a pod template depends on.
#[derive(PartialEq)]
struct Judged<'a> {
    template: &'a str,
    /// Names of claim templates.
    claims: Vec<String>,
}

impl<'a> Judged<'a> {
    fn of(object: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec<'a> {
            #[serde(borrow)]
            template: &'a RawValue,
            #[serde(default)]
            volume_claim_templates: Option<Vec<Claim>>,
        }
        #[derive(Deserialize)]
        struct Claim {
            #[serde(default)]
            metadata: Named,
        }
        #[derive(Deserialize, Default)]
        struct Named {
            #[serde(default)]
            name: String,
        }
        let Spec { template, volume_claim_templates } = serde_json::from_str(spec(object)?.get()).ok()?;
        let claims = volume_claim_templates.into_iter().flatten().map(|claim| claim.metadata.name);
        Some(Self { template: template.get(), claims: claims.filter(|name| !name.is_empty()).collect() })
    }
}

/// Asks the apiserver about the text of a pod template.
///
/// # Errors
/// The apiserver's own words, with fields named as they are in a CloneSet; or the namespace is none, for it comes from
/// whoever calls the webhook and becomes part of a request. When the apiserver does not answer, nothing is known and
/// nothing is refused: the controller asks again.
pub(crate) async fn judge_template(client: &Client, namespace: &str, template: &str) -> Result<(), String> {
    let namespace = Namespace::parse(namespace).map_err(|error| format!("the review's request.namespace: {error}"))?;
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"PodTemplate","metadata":{{"generateName":"berth-validate-"}},"template":{template}}}"#
    );
    let params = PostParams { dry_run: true, ..posting() };
    let path = PodTemplate::url_path(&(), Some(namespace.as_str()));
    let Ok(request) = Request::new(path).create(&params, body.into_bytes()) else { return Ok(()) };
    match tokio::time::timeout(PATIENCE, client.request::<IgnoredAny>(request)).await {
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
