//! A container as JSON text, with its fields in the order in which Kubernetes' types declare them:
//! those of Kubernetes 1.32, which OpenKruise 1.9 uses. OpenKruise loses other fields. Here they
//! follow, sorted by name, because a change of one of them makes another container.

use serde_json::{Map, Value};

/// The text of a container.
pub(super) fn text(container: &Value) -> String {
    let mut text = String::new();
    write(&mut text, Inner::Object(CONTAINER), container);
    text
}

/// The content of a field: one object or a list of objects.
#[derive(Clone, Copy)]
enum Inner {
    /// Objects with fields in this order.
    Object(&'static [(&'static str, Inner)]),
    /// A value without an order of its own, or a map, whose keys are sorted.
    Plain,
}

use Inner::{Object, Plain};

const CONTAINER: &[(&str, Inner)] = &[
    ("name", Plain),
    ("image", Plain),
    ("command", Plain),
    ("args", Plain),
    ("workingDir", Plain),
    ("ports", Object(PORT)),
    ("envFrom", Object(ENV_FROM)),
    ("env", Object(ENV)),
    ("resources", Object(RESOURCES)),
    (
        "resizePolicy",
        Object(&[("resourceName", Plain), ("restartPolicy", Plain)]),
    ),
    ("restartPolicy", Plain),
    ("volumeMounts", Object(VOLUME_MOUNT)),
    (
        "volumeDevices",
        Object(&[("name", Plain), ("devicePath", Plain)]),
    ),
    ("livenessProbe", Object(PROBE)),
    ("readinessProbe", Object(PROBE)),
    ("startupProbe", Object(PROBE)),
    (
        "lifecycle",
        Object(&[("postStart", Object(HOOK)), ("preStop", Object(HOOK))]),
    ),
    ("terminationMessagePath", Plain),
    ("terminationMessagePolicy", Plain),
    ("imagePullPolicy", Plain),
    ("securityContext", Object(SECURITY_CONTEXT)),
    ("stdin", Plain),
    ("stdinOnce", Plain),
    ("tty", Plain),
];
const PORT: &[(&str, Inner)] = &[
    ("name", Plain),
    ("hostPort", Plain),
    ("containerPort", Plain),
    ("protocol", Plain),
    ("hostIP", Plain),
];
const ENV_FROM: &[(&str, Inner)] = &[
    ("prefix", Plain),
    ("configMapRef", Object(REFERENCE)),
    ("secretRef", Object(REFERENCE)),
];
const REFERENCE: &[(&str, Inner)] = &[("name", Plain), ("key", Plain), ("optional", Plain)];
const ENV: &[(&str, Inner)] = &[
    ("name", Plain),
    ("value", Plain),
    (
        "valueFrom",
        Object(&[
            (
                "fieldRef",
                Object(&[("apiVersion", Plain), ("fieldPath", Plain)]),
            ),
            (
                "resourceFieldRef",
                Object(&[
                    ("containerName", Plain),
                    ("resource", Plain),
                    ("divisor", Plain),
                ]),
            ),
            ("configMapKeyRef", Object(REFERENCE)),
            ("secretKeyRef", Object(REFERENCE)),
        ]),
    ),
];
const RESOURCES: &[(&str, Inner)] = &[
    ("limits", Plain),
    ("requests", Plain),
    ("claims", Object(&[("name", Plain), ("request", Plain)])),
];
const VOLUME_MOUNT: &[(&str, Inner)] = &[
    ("name", Plain),
    ("readOnly", Plain),
    ("recursiveReadOnly", Plain),
    ("mountPath", Plain),
    ("subPath", Plain),
    ("mountPropagation", Plain),
    ("subPathExpr", Plain),
];
const EXEC: Inner = Object(&[("command", Plain)]);
const HTTP_GET: Inner = Object(&[
    ("path", Plain),
    ("port", Plain),
    ("host", Plain),
    ("scheme", Plain),
    ("httpHeaders", Object(&[("name", Plain), ("value", Plain)])),
]);
const TCP_SOCKET: Inner = Object(&[("port", Plain), ("host", Plain)]);
const PROBE: &[(&str, Inner)] = &[
    ("exec", EXEC),
    ("httpGet", HTTP_GET),
    ("tcpSocket", TCP_SOCKET),
    ("grpc", Object(&[("port", Plain), ("service", Plain)])),
    ("initialDelaySeconds", Plain),
    ("timeoutSeconds", Plain),
    ("periodSeconds", Plain),
    ("successThreshold", Plain),
    ("failureThreshold", Plain),
    ("terminationGracePeriodSeconds", Plain),
];
const HOOK: &[(&str, Inner)] = &[
    ("exec", EXEC),
    ("httpGet", HTTP_GET),
    ("tcpSocket", TCP_SOCKET),
    ("sleep", Object(&[("seconds", Plain)])),
];
const SECURITY_CONTEXT: &[(&str, Inner)] = &[
    ("capabilities", Object(&[("add", Plain), ("drop", Plain)])),
    ("privileged", Plain),
    (
        "seLinuxOptions",
        Object(&[
            ("user", Plain),
            ("role", Plain),
            ("type", Plain),
            ("level", Plain),
        ]),
    ),
    (
        "windowsOptions",
        Object(&[
            ("gmsaCredentialSpecName", Plain),
            ("gmsaCredentialSpec", Plain),
            ("runAsUserName", Plain),
            ("hostProcess", Plain),
        ]),
    ),
    ("runAsUser", Plain),
    ("runAsGroup", Plain),
    ("runAsNonRoot", Plain),
    ("readOnlyRootFilesystem", Plain),
    ("allowPrivilegeEscalation", Plain),
    ("procMount", Plain),
    ("seccompProfile", Object(PROFILE)),
    ("appArmorProfile", Object(PROFILE)),
];
const PROFILE: &[(&str, Inner)] = &[("type", Plain), ("localhostProfile", Plain)];

fn write(text: &mut String, inner: Inner, value: &Value) {
    match (inner, value) {
        (Object(fields), Value::Object(map)) => {
            text.push('{');
            for (at, (name, inner, value)) in ordered(fields, map).enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                text.push_str(&Value::from(name).to_string());
                text.push(':');
                write(text, inner, value);
            }
            text.push('}');
        }
        (Object(_), Value::Array(list)) => {
            text.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(text, inner, value);
            }
            text.push(']');
        }
        _ => text.push_str(&value.to_string()),
    }
}

/// The fields of an object: the known ones in their order, then the others.
fn ordered<'a>(
    fields: &'static [(&'static str, Inner)],
    map: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a str, Inner, &'a Value)> {
    let known = fields
        .iter()
        .filter_map(|(name, inner)| Some((*name, *inner, map.get(*name)?)));
    let is_unknown = |name: &String| !fields.iter().any(|(known, _)| known == name);
    let others = map.iter().filter(move |(name, _)| is_unknown(name));
    known.chain(others.map(|(name, value)| (name.as_str(), Plain, value)))
}
