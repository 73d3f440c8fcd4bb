//! Rules of the containers of a SidecarSet. A schema names the few fields of a pod's container that
//! rules look at.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use crate::schema::field::{api_default, patched};
use crate::schema::patch::at;
use crate::schema::rules::{reported_at, rule, unless_before};

/// The longest name of a SidecarSet, which is the value of a label of its revisions; of a
/// namespace, a container, a volume.
pub(crate) const NAME: u32 = 63;
/// The most containers, and the most init containers.
pub(crate) const MOST_CONTAINERS: u32 = 32;
/// The most ports of one.
pub(crate) const MOST_PORTS: u32 = 256;
/// The most transferred variables of one, and names in each.
pub(crate) const MOST_VARIABLES: u32 = 64;
pub(crate) const MOST_NAMES: u32 = 256;
/// The longest image reference, and the longest name of a variable.
pub(crate) const REFERENCE: u32 = 1024;
/// The longest regular expression.
pub(crate) const REGEX: u32 = 1024;
/// The longest expression for a resource.
pub(crate) const EXPRESSION: u32 = 256;
/// The longest path of a pod's field: of an annotation with a key.
pub(crate) const FIELD_PATH: u32 = 384;
/// With HotUpgrade, two more characters make the names of the two containers.
pub(crate) const HOT_NAME: u32 = NAME - 2;

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Adds what differs between containers and init containers, and the fields that are a pod's.
pub(crate) fn sidecars(of_init: bool) -> impl Transform {
    let mut checks = vec![short_name(), no_host_port(), one_kind_of_resources()];
    checks.extend(of_init.then(resources_policy_of_sidecar));
    let policy = if of_init {
        "AfterAppContainer"
    } else {
        "BeforeAppContainer"
    };
    let description = format!(
        "BeforeAppContainer: in front of the pod's own. AfterAppContainer: behind them. Defaults to {policy}."
    );
    let item = json!({
        "required": ["name"],
        "properties": fields(of_init),
        "x-kubernetes-validations": checks,
    });
    patched(vec![
        at("", by_name(MOST_CONTAINERS)),
        at("[]", item),
        at("[].podInjectPolicy", api_default(policy)),
        at("[].podInjectPolicy", json!({"description": description})),
    ])
}

/// The fields of a pod's container that rules look at.
fn fields(of_init: bool) -> Value {
    let kept = |description: &str| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": description});
    let mut resources = kept(
        "Its resources: see `kubectl explain pod.spec.containers.resources`. Not together with resourcesPolicy.",
    );
    resources["properties"] = json!({"limits": kept("The most that it gets."), "requests": kept("What it gets at the least.")});
    let mut port = kept("A port.");
    port["properties"] = json!({"hostPort": {
        "type": "integer", "format": "int32", "description": "A port of the node. Not with HotUpgrade, whose two containers would both want it.",
    }});
    let mut fields = json!({
        "name": {
            "type": "string", "maxLength": NAME, "x-kubernetes-validations": [dns_label("the name of a container")],
            "description": "The container's name, unique in the pod. A change of it makes another container, and containers cannot be added.",
        },
        "image": {
            "type": "string", "maxLength": REFERENCE, "x-kubernetes-validations": [no_blanks()],
            "description": "The container's image. A change of images alone is made in place.",
        },
        "ports": {
            "type": "array", "maxItems": MOST_PORTS, "items": port,
            "description": "Its ports: see `kubectl explain pod.spec.containers.ports`.",
        },
        "resources": resources,
    });
    if of_init {
        fields["restartPolicy"] = json!({
            "type": "string", "maxLength": NAME,
            "description": "Always: it runs beside the pod's containers. Without it, it ends before they start.",
        });
    }
    fields
}

/// The apiserver refuses a pod that has such an image. Of a template it says nothing, so all pods
/// would be refused later.
pub(super) fn no_blanks() -> Value {
    rule(
        "self == self.trim()",
        "'is \"%s\", but an image has no blanks at its ends: remove them'.format([self])",
    )
}

pub(super) fn upgrades() -> [Value; 2] {
    let has_image = "self.upgradeType != 'HotUpgrade' || (has(self.hotUpgradeEmptyImage) && self.hotUpgradeEmptyImage != '')";
    let missing = "is missing, but HotUpgrade runs a second container with it: set it to an image that does nothing, or upgradeType to \
                   ColdUpgrade";
    let fixed = "'cannot be changed from %s to %s, for pods have one container or two by it: take the change back, or create another \
                 SidecarSet'.format([oldSelf.upgradeType, self.upgradeType])";
    let mut fixed = rule("self.upgradeType == oldSelf.upgradeType", fixed);
    fixed["reason"] = json!("FieldValueForbidden");
    [
        reported_at(
            ".hotUpgradeEmptyImage",
            json!({"rule": has_image, "message": missing}),
        ),
        reported_at(".upgradeType", fixed),
    ]
}

pub(super) fn share_disabled(schema: &mut Schema) {
    patched(vec![at("type", api_default("disabled"))]).transform(schema);
}

/// Bounds the path of a label or annotation that has the name of a container.
pub(super) fn field_ref(schema: &mut Schema) {
    let valid = r#"self.matches('^metadata[.](labels|annotations)\\[\'[^\']+\'\\]$')"#;
    let message = r#"'is "%s", but must be metadata.labels[\'KEY\'] or metadata.annotations[\'KEY\']: change it'.format([self])"#;
    let version = "'is \"%s\", but must be v1: change or remove it'.format([self])";
    patched(vec![
        at(
            "apiVersion",
            json!({
                "maxLength": NAME,
                "description": "v1, as without it.",
                "x-kubernetes-validations": [rule("self in ['', 'v1']", version)],
            }),
        ),
        at(
            "fieldPath",
            json!({
                "maxLength": FIELD_PATH,
                "description": "`metadata.labels['<key>']` or `metadata.annotations['<key>']`.",
                "x-kubernetes-validations": [rule(valid, message)],
            }),
        ),
    ])
    .transform(schema);
}

pub(super) fn has_resources() -> Value {
    let some = "has(self.limits) || has(self.requests)";
    let message = "has neither limits nor requests, so nothing is made: set one of them, or remove resourcesPolicy";
    json!({"rule": some, "message": message})
}

pub(super) fn compiles() -> Value {
    // It is compiled by the very rule: what cannot be is an error, and an error refuses.
    let compiles = "''.matches(self) || !''.matches(self)";
    let regex = "is no regular expression (RE2): correct it, or remove it for all containers";
    json!({"rule": compiles, "message": regex})
}

fn is_hot(container: &str) -> String {
    format!("{container}.upgradeStrategy.upgradeType == 'HotUpgrade'")
}

fn short_name() -> Value {
    let message = format!(
        "'is \"%s\", but with HotUpgrade -1 and -2 are put behind it: use at most {HOT_NAME} characters'.format([self.name])"
    );
    let valid = |of: &str| format!("(!({}) || size({of}.name) <= {HOT_NAME})", is_hot(of));
    unless_before(valid, reported_at(".name", rule("", message)))
}

fn no_host_port() -> Value {
    let message = "'has hostPort %s, but with HotUpgrade both containers would want it: remove it, or set upgradeType to ColdUpgrade'\
                   .format([self.ports.filter(p, has(p.hostPort) && p.hostPort != 0).map(p, p.hostPort)])";
    let valid = |of: &str| {
        format!(
            "(!({}) || !has({of}.ports) || {of}.ports.all(p, !has(p.hostPort) || p.hostPort == 0))",
            is_hot(of)
        )
    };
    unless_before(valid, reported_at(".ports", rule("", message)))
}

fn one_kind_of_resources() -> Value {
    let message = "is set and so are resources, of which it makes both limits and requests: remove one of them";
    let valid = |of: &str| {
        format!(
            "(!has({of}.resourcesPolicy) || !has({of}.resources) || \
             (!has({of}.resources.limits) && !has({of}.resources.requests)))"
        )
    };
    unless_before(
        valid,
        reported_at(".resourcesPolicy", json!({"message": message})),
    )
}

fn resources_policy_of_sidecar() -> Value {
    let message = "is set, but this init container ends before the pod's containers start: remove it, or set restartPolicy to Always";
    let valid = |of: &str| {
        format!(
            "(!has({of}.resourcesPolicy) || (has({of}.restartPolicy) && {of}.restartPolicy == 'Always'))"
        )
    };
    unless_before(
        valid,
        reported_at(".resourcesPolicy", json!({"message": message})),
    )
}

/// There is a container at all.
pub(crate) fn some() -> Value {
    let message = "has neither containers nor initContainers, so pods would get nothing: add one";
    let valid = |spec: &str| {
        let there = LISTS.map(|list| format!("(has({spec}.{list}) && size({spec}.{list}) > 0)"));
        format!("({})", there.join(" || "))
    };
    unless_before(valid, json!({"message": message}))
}

/// In each list the apiserver sees to it.
pub(crate) fn named_once() -> Value {
    let twice = |spec: &str| format!("{spec}.initContainers.exists(i, i.name == c.name)");
    let message = format!(
        "'has %s in containers, too: name it otherwise in one of them'\
         .format([self.containers.filter(c, {}).map(c, c.name)])",
        twice("self")
    );
    let valid = |spec: &str| {
        format!(
            "(!has({spec}.containers) || !has({spec}.initContainers) || !{spec}.containers.exists(c, {}))",
            twice(spec)
        )
    };
    unless_before(valid, reported_at(".initContainers", rule("", message)))
}

/// A container with HotUpgrade is two in a pod, whose names no other has.
pub(crate) fn free_names() -> Value {
    let all = |spec: &str, of: &str| {
        LISTS
            .map(|list| format!("(has({spec}.{list}) ? {spec}.{list}{of} : [])"))
            .join(" + ")
    };
    let taken = |spec: &str| {
        let names = all(spec, ".map(c, c.name)");
        let hot = all(spec, &format!(".filter(c, {}).map(c, c.name)", is_hot("c")));
        format!(
            "({names}).filter(n, n.matches('-[12]$') && n.substring(0, size(n) - 2) in ({hot}))"
        )
    };
    let message = format!(
        "'has a container named %s, which a container with HotUpgrade has as one of its two in a pod: name it otherwise'\
         .format([{}])",
        taken("self")
    );
    unless_before(
        |spec| format!("size({}) == 0", taken(spec)),
        reported_at(".containers", rule("", message)),
    )
}

/// Pods that have the containers could not get another.
pub(crate) fn none_added() -> Value {
    let new = "!has(oldSelf.containers) || !oldSelf.containers.exists(o, o.name == c.name)";
    let message = format!(
        "'cannot have another container than before, %s, for no pod gets one later: take the change back, or create another SidecarSet'\
         .format([self.containers.filter(c, {new}).map(c, c.name)])"
    );
    let valid = format!("!has(self.containers) || !self.containers.exists(c, {new})");
    let mut rule = reported_at(".containers", rule(valid, message));
    rule["reason"] = json!("FieldValueForbidden");
    rule
}

pub(crate) const IS_DNS_LABEL: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";

/// A list in which each name is there once.
pub(crate) fn by_name(most: u32) -> Value {
    json!({"maxItems": most, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})
}

/// A text that is a DNS label; `what` says of what it is the name.
pub(crate) fn dns_label(what: &str) -> Value {
    let message = format!(
        "'is \"%s\", but {what} has at most 63 of a-z, 0-9 and -, with a letter or digit at both ends: change it'.format([self])"
    );
    rule(IS_DNS_LABEL, message)
}
