//! Kubernetes' defaults in a pod template. A template with a default and one without it make the
//! same pod.
//!
//! OpenKruise's webhook writes the defaults into every template; kubectl replaces a whole list of
//! containers by one without them. Neither requires new pods.

use serde_json::{Map, Value, json};

use super::form;
use crate::objects::pod::gates::OF_NEW_PODS;

/// Defaults by their parent field. A default is the same at each place of such a field.
const TEXTS: [(&str, &str, &str); 22] = [
    ("spec", "restartPolicy", "Always"),
    ("spec", "dnsPolicy", "ClusterFirst"),
    ("spec", "schedulerName", "default-scheduler"),
    ("spec", "volumeMode", "Filesystem"),
    (
        "containers",
        "terminationMessagePath",
        "/dev/termination-log",
    ),
    ("containers", "terminationMessagePolicy", "File"),
    ("ports", "protocol", "TCP"),
    ("httpGet", "scheme", "HTTP"),
    ("httpGet", "path", "/"),
    ("httpGet", "protocol", "HTTP1"),
    ("grpc", "service", ""),
    ("fieldRef", "apiVersion", "v1"),
    ("hostPath", "type", ""),
    ("iscsi", "iscsiInterface", "default"),
    ("rbd", "pool", "rbd"),
    ("rbd", "user", "admin"),
    ("rbd", "keyring", "/etc/ceph/keyring"),
    ("azureDisk", "cachingMode", "ReadWrite"),
    ("azureDisk", "fsType", "ext4"),
    ("azureDisk", "kind", "Shared"),
    ("scaleIO", "storageMode", "ThinProvisioned"),
    ("scaleIO", "fsType", "xfs"),
];
const NUMBERS: [(&str, &str, i64); 10] = [
    ("spec", "terminationGracePeriodSeconds", 30),
    ("probe", "timeoutSeconds", 1),
    ("probe", "periodSeconds", 10),
    ("probe", "successThreshold", 1),
    ("probe", "failureThreshold", 3),
    ("secret", "defaultMode", 0o644),
    ("configMap", "defaultMode", 0o644),
    ("downwardAPI", "defaultMode", 0o644),
    ("projected", "defaultMode", 0o644),
    ("serviceAccountToken", "expirationSeconds", 3600),
];
const FLAGS: [(&str, &str, bool); 3] = [
    ("spec", "enableServiceLinks", true),
    ("fileKeyRef", "optional", false),
    ("azureDisk", "readOnly", false),
];
/// Objects without a meaning if they are empty.
const EMPTY: [&str; 6] = [
    "securityContext",
    "resources",
    "emptyDir",
    "affinity",
    "lifecycle",
    "dnsConfig",
];

/// Both templates without defaults, for a comparison.
pub fn dropped(old: &Value, new: &Value) -> (Value, Value) {
    let (mut old, mut new) = (without(old), without(new));
    for key in ["containers", "initContainers"] {
        let containers = |template: &mut Value| match template
            .get_mut("spec")
            .and_then(|spec| spec.get_mut(key))
        {
            Some(Value::Array(list)) => std::mem::take(list),
            _ => Vec::new(),
        };
        let (mut olds, mut news) = (containers(&mut old), containers(&mut new));
        for (old, new) in olds.iter_mut().zip(&mut news) {
            let (Some(old), Some(new)) = (old.as_object_mut(), new.as_object_mut()) else {
                continue;
            };
            if same_pull_policy(old, new) {
                old.remove(PULL_POLICY);
                new.remove(PULL_POLICY);
            }
        }
        for (template, list) in [(&mut old, olds), (&mut new, news)] {
            if !list.is_empty() {
                template["spec"][key] = Value::Array(list);
            }
        }
    }
    (old, new)
}

const PULL_POLICY: &str = "imagePullPolicy";
const READINESS_GATES: &str = "readinessGates";

/// Whether a container with one pull policy may keep running with the other. Without a policy the
/// server decides by the image's tag, and OpenKruise's webhook writes `Always`.
fn same_pull_policy(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let text = |container: &Map<String, Value>, key: &str| {
        container
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let default = pull_policy(&text(old, "image").unwrap_or_default());
    match (text(old, PULL_POLICY), text(new, PULL_POLICY)) {
        (old, new) if old == new => true,
        (Some(old), None) => old == default || old == "Always",
        (None, Some(new)) => new == default,
        _ => false,
    }
}

/// The server's default pull policy, since Kubernetes 1.35 for image volumes, too.
fn pull_policy(image: &str) -> &'static str {
    let pinned = image.contains('@') || tag(image).is_some_and(|tag| tag != "latest");
    if pinned { "IfNotPresent" } else { "Always" }
}

fn without(template: &Value) -> Value {
    let mut template = form::canonical(template);
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    if let Some(spec) = template.get_mut("spec") {
        pod(spec);
        drop_in("spec", spec);
    }
    template
}

/// The tag of an image's name without a digest.
fn tag(image: &str) -> Option<&str> {
    image
        .rsplit_once(':')
        .map(|(_, tag)| tag)
        .filter(|tag| !tag.contains('/'))
}

/// Removes defaults of a pod that do not depend only on their own value.
fn pod(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    // Every new pod has these readiness gates, with or without the template. OpenKruise's webhook
    // refuses a StatefulSet with in-place updates whose template does not name its gate.
    if let Some(Value::Array(gates)) = spec.get_mut(READINESS_GATES) {
        gates.retain(|gate| {
            gate["conditionType"]
                .as_str()
                .is_none_or(|type_| !OF_NEW_PODS.contains(&type_))
        });
        if gates.is_empty() {
            spec.remove(READINESS_GATES);
        }
    }
    // The old name of the same field.
    if let Some(account) = spec.remove("serviceAccount") {
        spec.entry("serviceAccountName").or_insert(account);
    }
    let volumes = spec
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for image in volumes.filter_map(|volume| volume.get_mut("image")?.as_object_mut()) {
        let default = pull_policy(
            image
                .get("reference")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
        if image
            .get("pullPolicy")
            .is_some_and(|policy| policy == default)
        {
            image.remove("pullPolicy");
        }
    }
    if spec.get("hostNetwork") != Some(&json!(true)) {
        return;
    }
    for key in ["containers", "initContainers"] {
        let containers = spec
            .get_mut(key)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        let ports = containers
            .filter_map(|container| container.get_mut("ports")?.as_array_mut())
            .flatten();
        for port in ports.filter_map(Value::as_object_mut) {
            if port.get("hostPort") == port.get("containerPort") {
                port.remove("hostPort");
            }
        }
    }
}

fn drop_in(holder: &str, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                drop_in(name, value);
            }
            map.retain(|name, value| !is_default(kind(holder), name, value, map_is_empty(value)));
        }
        Value::Array(list) => list.iter_mut().for_each(|item| drop_in(holder, item)),
        _ => {}
    }
}

fn map_is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// The field name that stands for all fields of the same type.
fn kind(holder: &str) -> &str {
    match holder {
        "initContainers" | "ephemeralContainers" => "containers",
        "livenessProbe" | "readinessProbe" | "startupProbe" => "probe",
        other => other,
    }
}

fn is_default(holder: &str, name: &str, value: &Value, empty: bool) -> bool {
    match value {
        Value::String(text) => TEXTS.contains(&(holder, name, text)),
        Value::Number(number) => number
            .as_i64()
            .is_some_and(|number| NUMBERS.contains(&(holder, name, number))),
        Value::Bool(flag) => FLAGS.contains(&(holder, name, *flag)),
        Value::Null => true,
        _ => empty && EMPTY.contains(&name),
    }
}
