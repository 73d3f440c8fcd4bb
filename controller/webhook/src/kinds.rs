//! The conversion of our kinds, and the part of their validation that the schema cannot express.
//!
//! Nearly all validation is in the CRDs and needs no webhook. The rest is
//! [`berth_api::validation`], and the pod template, which only the apiserver itself can judge: the
//! webhook sends it a dry-run creation of a PodTemplate.

pub(crate) mod sidecar_template;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_TYPE, WARNING};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::PodTemplate;
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use berth_api::fields::template::mount_claims;
use berth_api::kinds;
use berth_api::name::Namespace;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::weight::Limits;

use crate::apiserver::FIELD_MANAGER;
use crate::pods::Records;

/// The longest wait for the answer about a pod template: less than the apiserver's wait for ours.
const PATIENCE: Duration = Duration::from_secs(4);
/// The most warnings of one template that are passed on.
const MOST_WARNINGS: usize = 16;

/// Converts the text of an object to another version of its kind.
///
/// # Errors
/// Why not, for a person.
pub(crate) fn convert(object: &str, desired: &str) -> Result<String, String> {
    berth_api::kinds::convert::convert(object, desired).map_err(|error| error.to_string())
}

/// Whether an object is small enough to be read. The controller does not read a larger one either.
///
/// # Errors
/// The field, its size, the limit, and the remedy.
pub(crate) fn bounded(resource: &str, object: &str, max_bytes: usize) -> Result<(), String> {
    let limits = kinds::of_plural(resource)
        .map_or(Limits::of_specs as fn(usize) -> Limits, |kind| kind.limits);
    limits(max_bytes).check_object(object)
}

/// Whether our own types can read an object that the schema accepted.
///
/// # Errors
/// The error of the parser.
pub(crate) fn readable(resource: &str, object: &str) -> Result<(), String> {
    let read = kinds::of_plural(resource).map_or(Ok(()), |kind| (kind.read)(object));
    read.map_err(|error| format!("the object cannot be read: {error}"))
}

/// The spec of an object as text; `None` if it has none.
fn spec<'a>(object: &'a str) -> Option<&'a RawValue> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow, default)]
        spec: Option<&'a RawValue>,
    }
    serde_json::from_str::<Object<'a>>(object).ok()?.spec
}

/// Whether the spec, the name or the annotations of an object differ from before. A deletion
/// changes none of them. The comparison of texts is enough, because the apiserver always writes
/// equal content in the same way.
pub(crate) fn asks(new: &str, old: Option<&str>) -> bool {
    old.is_none_or(|old| {
        spec(old).map(RawValue::get) != spec(new).map(RawValue::get)
            || Metadata::of(old) != Metadata::of(new)
    })
}

/// Whether an object has no fault that it did not have before.
///
/// # Errors
/// Each fault with field, value and remedy.
pub(crate) fn faultless(new: &str, old: Option<&str>) -> Result<(), String> {
    let found = berth_api::kinds::new_violations(&validated(new), old.map(validated).as_ref());
    if found.is_empty() {
        return Ok(());
    }
    Err(found
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; "))
}

/// The warnings for the author of an object.
pub(crate) fn warnings_about(resource: &str, object: &str) -> Vec<String> {
    let warnings = kinds::of_plural(resource).and_then(|kind| kind.warnings);
    warnings.map(|of| of(object)).unwrap_or_default()
}

/// Whether no other PersistentPodState has the workload of a new one.
///
/// # Errors
/// The field, the other object, and the remedy.
pub(crate) fn is_of_free_workload(
    records: &dyn Records,
    resource: &str,
    namespace: &str,
    object: &str,
) -> Result<(), String> {
    if resource != kinds::PERSISTENT_POD_STATE.plural {
        return Ok(());
    }
    let Ok(state) = serde_json::from_str::<PersistentPodState>(object) else {
        return Ok(());
    };
    let target = &state.spec.target_ref;
    let other =
        records.persistent_pod_state(namespace, (&target.api_version, &target.kind, &target.name));
    other.filter(|other| Some(other) != state.metadata.name.as_ref()).map_or(Ok(()), |other| {
        Err(format!(
            "spec.targetRef: PersistentPodState {other} keeps the records of {} {} already: change that one, or delete it first",
            target.kind, target.name
        ))
    })
}

/// The name, and annotations of ours.
#[derive(Deserialize, Default, PartialEq)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

impl<'a> Metadata<'a> {
    /// Parses the metadata of an object.
    fn of(object: &'a str) -> Self {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow, default)]
            metadata: Metadata<'a>,
        }
        serde_json::from_str::<Object<'a>>(object)
            .map(|object| object.metadata.of_ours())
            .unwrap_or_default()
    }

    fn of_ours(mut self) -> Self {
        self.annotations
            .get_or_insert_default()
            .retain(|key, _| key.contains("kruise.io/"));
        self
    }
}

/// The parts of an object that are validated: its name, annotations of ours, and the spec without
/// its template.
fn validated(object: &str) -> Value {
    #[derive(Deserialize)]
    struct Object<'a> {
        kind: String,
        #[serde(borrow, default)]
        metadata: Metadata<'a>,
        #[serde(borrow, default)]
        spec: BTreeMap<Cow<'a, str>, &'a RawValue>,
    }
    let Ok(Object {
        kind,
        metadata,
        mut spec,
    }) = serde_json::from_str(object)
    else {
        return Value::Null;
    };
    // The apiserver judges the template, and as a tree it would take much memory.
    let template = kinds::named(&kind).and_then(|kind| kind.template?.split('.').nth(1));
    spec.retain(|field, _| Some(&**field) != template);
    let Metadata {
        namespace,
        name,
        annotations,
    } = metadata.of_ours();
    let spec = spec.into_iter().map(|(field, text)| {
        // The schema refuses a number that no reader accepts.
        (
            field.into_owned(),
            serde_json::from_str(text.get()).unwrap_or_default(),
        )
    });
    let metadata = json!({"namespace": namespace, "name": name, "annotations": annotations});
    json!({"kind": kind, "metadata": metadata, "spec": Value::Object(spec.collect())})
}

/// A pod template that only the apiserver can judge.
pub(crate) struct Template {
    /// The field of the template, such as `spec.template`; empty if the template is built from the
    /// object's own fields.
    pub(crate) field: &'static str,
    /// Its text, with the volumes of its claims.
    text: String,
}

/// The pod template to be judged: the template of a new object, or a changed one, if its kind has
/// any.
pub(crate) fn template_to_judge(resource: &str, new: &str, old: Option<&str>) -> Option<Template> {
    if resource == kinds::SIDECAR_SET.plural {
        let template =
            |text: &str| serde_json::from_str(text).map(|object| sidecar_template::of(&object));
        let new = template(new).ok()?;
        let is_as_before = old
            .and_then(|old| template(old).ok())
            .is_some_and(|old| old == new);
        // The template is built from fields of the spec itself.
        return (!is_as_before).then(|| Template {
            field: "",
            text: new.to_string(),
        });
    }
    let field = kinds::of_plural(resource)?.template?;
    let new = TemplateParts::of(new, field)?;
    if old
        .and_then(|old| TemplateParts::of(old, field))
        .is_some_and(|old| old == new)
    {
        return None;
    }
    let TemplateParts { template, claims } = new;
    if claims.is_empty() {
        return Some(Template {
            field,
            text: template.to_owned(),
        });
    }
    let mut template: Value = serde_json::from_str(template).ok()?;
    mount_claims(
        template.get_mut("spec")?,
        claims.iter().map(|name| (name.as_str(), name.clone())),
    );
    Some(Template {
        field,
        text: template.to_string(),
    })
}

/// The text of a field of an object; `None` if it has none.
fn text_of<'a>(object: &'a str, field: &str) -> Option<&'a str> {
    field.split('.').try_fold(object, |text, name| {
        let fields: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(text).ok()?;
        fields.get(name).map(|field| field.get())
    })
}

/// The input on which the answer about a pod template depends.
#[derive(PartialEq)]
struct TemplateParts<'a> {
    template: &'a str,
    /// Names of claim templates.
    claims: Vec<String>,
}

impl<'a> TemplateParts<'a> {
    /// The template in this field. Claim templates stand beside the template of the pods that use
    /// them.
    fn of(object: &'a str, field: &str) -> Option<Self> {
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
        let template = text_of(object, field)?;
        let (around, _) = field.rsplit_once('.')?;
        let claims = text_of(object, &format!("{around}.volumeClaimTemplates")).unwrap_or("null");
        let claims: Option<Vec<Claim>> = serde_json::from_str(claims).ok()?;
        let claims = claims
            .into_iter()
            .flatten()
            .map(|claim| claim.metadata.name);
        Some(Self {
            template,
            claims: claims.filter(|name| !name.is_empty()).collect(),
        })
    }
}

/// Sends a pod template to the apiserver as a dry run; returns its warnings, such as that of a
/// field that does not exist.
///
/// # Errors
/// The apiserver's message, with fields named as they are in the object; or the namespace is
/// invalid. The namespace comes from the caller of the webhook and becomes part of a request, so it
/// is checked. If the apiserver does not answer, nothing is refused: the controller checks the
/// template again.
pub(crate) async fn judge_template(
    client: &Client,
    namespace: &str,
    template: &Template,
) -> Result<Vec<String>, String> {
    // The template of an object without a namespace is judged in a namespace that always exists.
    let namespace = if template.field.is_empty() {
        sidecar_template::NAMESPACE
    } else {
        namespace
    };
    let namespace = Namespace::parse(namespace)
        .map_err(|error| format!("the review's request.namespace: {error}"))?;
    let Template { field, text } = template;
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"PodTemplate","metadata":{{"generateName":"berth-validate-"}},"template":{text}}}"#
    );
    let path = PodTemplate::url_path(&(), Some(namespace.as_str()));
    let uri = format!("{path}?dryRun=All&fieldValidation=Warn&fieldManager={FIELD_MANAGER}");
    let request = http::Request::post(uri)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.into_bytes()));
    let Ok(request) = request else {
        return Ok(Vec::new());
    };
    let checked = async {
        let response = client.send(request).await.ok()?;
        let (head, body) = response.into_parts();
        let refusal = match head.status.as_u16() {
            400 | 422 => Some(
                serde_json::from_slice::<Status>(&body.collect().await.ok()?.to_bytes()).ok()?,
            ),
            _ => None,
        };
        Some((warnings(field, &head.headers), refusal))
    };
    match tokio::time::timeout(PATIENCE, checked).await {
        Ok(Some((_, Some(refusal)))) => Err(refused_at(field, &refusal)),
        Ok(Some((warnings, None))) => Ok(warnings),
        Ok(None) | Err(_) => Ok(Vec::new()),
    }
}

/// The warnings of an answer, with fields named as they are in the object.
fn warnings(field: &str, headers: &HeaderMap) -> Vec<String> {
    let all = headers
        .get_all(WARNING)
        .iter()
        .filter_map(|warning| warning.to_str().ok());
    // `299 - "text"`, with quotation marks in the text behind backslashes.
    let texts = all.filter_map(|warning| warning.split_once('"')?.1.strip_suffix('"'));
    let in_object = |text: &str| {
        let text = text.replace("\\\"", "\"");
        let named = text.replace("\"template.", &format!("\"{field}."));
        named
            .strip_prefix("template.")
            .map(|rest| format!("{field}.{rest}"))
            .unwrap_or(named)
            .replace("\".", "\"")
    };
    texts.map(in_object).take(MOST_WARNINGS).collect()
}

/// The apiserver's refusal of a PodTemplate as a refusal of the field that the template stands in.
pub(crate) fn refused_at(field: &str, status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let named = |cause: &str| {
        let in_template = cause
            .strip_prefix("template")
            .map(|rest| format!("{field}{rest}"));
        in_template.map_or_else(
            || cause.to_owned(),
            |named| named.trim_start_matches('.').to_owned(),
        )
    };
    let causes: Vec<String> = causes
        .map(|cause| format!("{}: {}", named(&cause.field), cause.message))
        .collect();
    if causes.is_empty() {
        let field = if field.is_empty() { "spec" } else { field };
        return format!("{field}: {}", status.message);
    }
    causes.join("; ")
}
