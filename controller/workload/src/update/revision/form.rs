//! OpenKruise's form of a pod template, byte for byte: the template as Kubernetes' own types write
//! it.
//!
//! OpenKruise compares the bytes of a revision with the bytes that it would write for the
//! workload's template. So both controllers recognise a revision in this form, even if the other
//! one wrote it.

use serde_json::{Map, Value, json};

use crate::objects::quantity;

/// The Go types omit some empty or zero values and always write others. These lists of field names
/// describe both: a name means the same at each place in a pod's spec, except for the exceptions
/// below.
const FALSE_IS_LEFT_OUT: [&str; 10] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "chapAuthDiscovery",
    "chapAuthSession",
    "sslEnabled",
];
/// Volumes that keep `readOnly: false`.
const READ_ONLY_IS_KEPT: [&str; 2] = ["csi", "azureDisk"];
const ZERO_IS_LEFT_OUT: [&str; 7] = [
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "hostPort",
    "partition",
];
/// Text fields that are omitted if empty. Other empty text stays, because a field that these types
/// do not know may give it a meaning.
const EMPTY_TEXT_IS_LEFT_OUT: [&str; 52] = [
    "audience",
    "containerName",
    "datasetName",
    "datasetUUID",
    "directory",
    "dnsPolicy",
    "effect",
    "fsType",
    "generateName",
    "group",
    "host",
    "hostIP",
    "hostname",
    "imagePullPolicy",
    "iscsiInterface",
    "keyring",
    "level",
    "medium",
    "nodeName",
    "operator",
    "pool",
    "prefix",
    "priorityClassName",
    "protectionDomain",
    "protocol",
    "pullPolicy",
    "reference",
    "request",
    "resourceVersion",
    "restartPolicy",
    "revision",
    "role",
    "schedulerName",
    "scheme",
    "secretFile",
    "selfLink",
    "serviceAccount",
    "serviceAccountName",
    "storageMode",
    "storagePolicyID",
    "storagePolicyName",
    "storagePool",
    "subPath",
    "subPathExpr",
    "subdomain",
    "tenant",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "user",
    "volumeName",
    "volumeNamespace",
    "workingDir",
];
/// Volumes that keep an empty `fsType`.
const FS_TYPE_IS_KEPT: [&str; 2] = ["azureDisk", "csi"];
/// Text fields that are omitted if empty, in one of these parent fields.
const EMPTY_TEXT_IS_LEFT_OUT_OF: [(&str, &[&str]); 10] = [
    (
        "name",
        &[
            "configMap",
            "configMapKeyRef",
            "configMapRef",
            "imagePullSecrets",
            "metadata",
            "nodePublishSecretRef",
            "options",
            "ports",
            "secret",
            "secretKeyRef",
            "secretRef",
        ],
    ),
    ("namespace", &["metadata"]),
    ("uid", &["metadata"]),
    ("secretName", &["secret"]),
    ("path", &["cephfs", "httpGet"]),
    ("apiVersion", &["fieldRef"]),
    ("image", &CONTAINERS),
    ("value", &["env", "tolerations"]),
    ("key", &["tolerations"]),
    ("type", &["seLinuxOptions"]),
];
/// Maps with keys that the author chose: their values stay as they are, and an empty map is
/// omitted.
const MAPS: [&str; 10] = [
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "volumeAttributes",
    "options",
    "limits",
    "requests",
    "overhead",
    "userAnnotations",
];
/// Quantities, and maps of them.
const QUANTITIES: [&str; 5] = ["limits", "requests", "overhead", "sizeLimit", "divisor"];
/// Fields that are written even if null, with their parent fields.
const NULL_IS_KEPT: [(&str, &str); 3] = [
    ("grpc", "service"),
    ("dataSource", "apiGroup"),
    ("dataSourceRef", "apiGroup"),
];
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// Claim templates: of a pod's own volume, and of a workload.
const CLAIMS: [&str; 2] = ["volumeClaimTemplate", CLAIM_TEMPLATES];
const CLAIM_TEMPLATES: &str = "volumeClaimTemplates";

/// The template in this form. A template that is already in this form does not change.
pub fn canonical(template: &Value) -> Value {
    let mut canonical = object("", "", template);
    if let Some(map) = canonical.as_object_mut() {
        dated(map);
        map.entry("spec").or_insert_with(|| json!({}));
    }
    canonical
}

/// The metadata of an object with a template, in this form.
pub fn metadata(metadata: Option<&Value>) -> Value {
    let written = metadata.and_then(|metadata| field("", "metadata", metadata));
    let mut holder: Map<_, _> = written
        .map(|metadata| ("metadata".to_owned(), metadata))
        .into_iter()
        .collect();
    dated(&mut holder);
    holder.remove("metadata").unwrap_or_default()
}

/// The claim templates of a workload, in this form. `None` if there are none.
pub fn claim_templates(templates: &Value) -> Option<Value> {
    field("", CLAIM_TEMPLATES, templates)
}

/// The form of Kubernetes itself, and of programs with its libraries since 1.34, which omit null
/// times.
pub fn undated(mut canonical: Value) -> Value {
    forget_null_times(&mut canonical);
    canonical
}

fn forget_null_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| name != "creationTimestamp" || !value.is_null());
            map.values_mut().for_each(forget_null_times);
        }
        Value::Array(list) => list.iter_mut().for_each(forget_null_times),
        _ => {}
    }
}

/// JSON text as Go's encoder writes it: characters with a meaning in HTML are escaped.
pub fn text(value: &Value) -> String {
    escaped(&value.to_string())
}

/// The same from JSON text without these escapes.
pub fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // Outside of strings, JSON has none of these characters.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            _ => text.push(c),
        }
    }
    text
}

/// Adds the creation time that objects of the API always have; a template's is null.
fn dated(holder: &mut Map<String, Value>) {
    let metadata = holder.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.entry("creationTimestamp").or_insert(Value::Null);
    }
}

/// `key` is the object's own field, `parent` the field that holds it.
fn object(parent: &str, key: &str, value: &Value) -> Value {
    let Value::Object(map) = value else {
        return value.clone();
    };
    let kept = map
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), field(key, name, value)?)));
    let mut kept: Map<String, Value> = kept.collect();
    if CONTAINERS.contains(&key) {
        kept.entry("resources").or_insert_with(|| json!({}));
    }
    if key == "resourceFieldRef" {
        kept.entry("divisor").or_insert_with(|| json!("0"));
    }
    if let Some((_, name)) = NULL_IS_KEPT.iter().find(|(holder, _)| *holder == key) {
        kept.entry(*name).or_insert(Value::Null);
    }
    if CLAIMS.contains(&key) {
        dated(&mut kept);
        kept.entry("spec")
            .or_insert_with(|| json!({"resources": {}}));
    }
    if key == CLAIM_TEMPLATES {
        kept.entry("status").or_insert_with(|| json!({}));
    }
    if CLAIMS.contains(&parent) && key == "spec" {
        kept.entry("resources").or_insert_with(|| json!({}));
    }
    Value::Object(kept)
}

/// Whether the types omit this text if it is empty.
fn is_left_out(holder: &str, name: &str) -> bool {
    let is_kept = name == "fsType" && FS_TYPE_IS_KEPT.contains(&holder);
    let of_holder =
        |(field, holders): &(&str, &[&str])| *field == name && holders.contains(&holder);
    (EMPTY_TEXT_IS_LEFT_OUT.contains(&name) && !is_kept)
        || EMPTY_TEXT_IS_LEFT_OUT_OF.iter().any(of_holder)
}

/// The value of a field of `holder`; `None` if the types omit it.
fn field(holder: &str, name: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Null => {
            let kept = name == "creationTimestamp" || NULL_IS_KEPT.contains(&(holder, name));
            return kept.then_some(Value::Null);
        }
        Value::Bool(false) if FALSE_IS_LEFT_OUT.contains(&name) => {
            return (name == "readOnly" && READ_ONLY_IS_KEPT.contains(&holder))
                .then_some(json!(false));
        }
        Value::Number(n) if n.as_i64() == Some(0) && ZERO_IS_LEFT_OUT.contains(&name) => {
            return None;
        }
        Value::String(text) if text.is_empty() => {
            return (!is_left_out(holder, name)).then(|| value.clone());
        }
        Value::Array(list) if list.is_empty() => return None,
        Value::Object(map) if map.is_empty() && MAPS.contains(&name) => return None,
        _ => {}
    }
    Some(match value {
        Value::Object(map) if QUANTITIES.contains(&name) => Value::Object(
            map.iter()
                .map(|(name, value)| (name.clone(), quantity::canonical(value)))
                .collect(),
        ),
        _ if QUANTITIES.contains(&name) => quantity::canonical(value),
        Value::Object(_) if MAPS.contains(&name) => value.clone(),
        Value::Object(_) => object(holder, name, value),
        Value::Array(list) => {
            Value::Array(list.iter().map(|item| object(holder, name, item)).collect())
        }
        _ => value.clone(),
    })
}
