//! The defaults that OpenKruise's webhook sets in a sidecar, and no others: for example, it sets
//! none in a startup probe.

use berth_api::image::Reference;
use berth_api::v1beta1::sidecarset::{ResourcesPolicy, ShareVolumePolicy, TransferEnvVar};
use berth_workload::objects::quantity;
use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

/// Fills in a container's own fields.
pub(super) fn fill(container: &mut Fields) {
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let pull_policy = if is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    };
    text(container, "imagePullPolicy", pull_policy);
    text(container, "terminationMessagePath", "/dev/termination-log");
    text(container, "terminationMessagePolicy", "File");
    for port in objects(container, "ports") {
        text(port, "protocol", "TCP");
    }
    for variable in objects(container, "env") {
        if let Some(field) =
            object(variable, "valueFrom").and_then(|source| object(source, "fieldRef"))
        {
            text(field, "apiVersion", "v1");
        }
    }
    for amounts in ["limits", "requests"] {
        let amounts =
            object(container, "resources").and_then(|resources| object(resources, amounts));
        for amount in amounts.into_iter().flat_map(|amounts| amounts.values_mut()) {
            *amount = quantity::rounded(amount);
        }
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        let Some(probe) = object(container, probe) else {
            continue;
        };
        for (name, value) in [
            ("timeoutSeconds", 1),
            ("periodSeconds", 10),
            ("successThreshold", 1),
            ("failureThreshold", 3),
        ] {
            if probe
                .get(name)
                .is_none_or(|value| value.is_null() || value.as_i64() == Some(0))
            {
                probe.insert(name.to_owned(), json!(value));
            }
        }
        http(probe);
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) =
            object(container, "lifecycle").and_then(|lifecycle| object(lifecycle, hook))
        {
            http(hook);
        }
    }
}

/// The same for shared volumes. There is no default for shared devices, because OpenKruise has a
/// pointer there, which stays empty.
pub(super) fn share_volume_policy(policy: &ShareVolumePolicy) -> ShareVolumePolicy {
    ShareVolumePolicy {
        type_: Some(policy.type_.unwrap_or_default()),
    }
}

/// The same for transferred variables.
pub(super) fn transfer_env(variables: &[TransferEnvVar]) -> Vec<TransferEnvVar> {
    let mut variables = variables.to_vec();
    for variable in &mut variables {
        let source = variable.source_container_name_from.as_mut();
        if let Some(field) = source.and_then(|source| source.field_ref.as_mut()) {
            field.api_version = field
                .api_version
                .take()
                .filter(|version| !version.is_empty())
                .or(Some("v1".to_owned()));
        }
    }
    variables
}

/// The same for a resources policy, whose default is in the definition of the kind.
pub(super) fn resources_policy(mut policy: ResourcesPolicy) -> ResourcesPolicy {
    if policy.target_containers_name_regex.is_empty() {
        policy.target_containers_name_regex = ".*".to_owned();
    }
    policy
}

fn http(handler: &mut Fields) {
    if let Some(request) = object(handler, "httpGet") {
        text(request, "path", "/");
        text(request, "scheme", "HTTP");
    }
}

fn text(fields: &mut Fields, name: &str, default: &str) {
    if fields
        .get(name)
        .is_none_or(|value| value.is_null() || value == "")
    {
        fields.insert(name.to_owned(), json!(default));
    }
}

fn object<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name)?.as_object_mut()
}

fn objects<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    fields
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// Whether a reference means the tag `latest`. For a reference that cannot be read, it does not.
fn is_latest(image: &str) -> bool {
    let Reference { path, tag, .. } = Reference::parse(image);
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    tag.as_deref() == Some("latest")
        && path.split('/').all(|part| {
            let ends = part.bytes().next().is_some_and(is_word)
                && part.bytes().next_back().is_some_and(is_word);
            ends && part
                .bytes()
                .all(|b| is_word(b) || matches!(b, b'.' | b'_' | b'-'))
        })
}
