//! Rules of jobs that pull images.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use crate::kinds::nodeimage::v1beta1::{MAX_SANDBOX_BYTES, MAX_SANDBOX_PAIRS};
use crate::schema::field::patched;
use crate::schema::patch::{Patch, at};
use crate::schema::rules::{reported_at, rule};
use crate::version::Version;

/// An image reference: an optional registry with port, a name of several parts, a tag, a digest.
const IMAGE: &str = "^(([a-zA-Z0-9.-]+|\\\\[[0-9a-fA-F:]+\\\\])(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*\
                     (:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9._+-]*:[0-9a-fA-F]{32,})?$";

/// Rules for what is pulled, and where: none of it changes while the expression `is_fixed` is true.
/// `spec` is the path from where the rules stand to the fields.
pub(crate) fn pulled(spec: &str, is_fixed: &str, why: &str) -> [Value; 5] {
    let selects = |field: &str| {
        let parts = ["matchLabels", "matchExpressions"]
            .map(|part| is_same(&format!("{spec}{field}.{part}")));
        parts.join(" && ")
    };
    let pod_selector = format!("{spec}podSelector");
    let is_of_pods = format!("has(self.{pod_selector}) == has(oldSelf.{pod_selector})");
    let sandbox =
        ["labels", "annotations"].map(|part| is_same(&format!("{spec}sandboxConfig.{part}")));
    let rules = [
        (
            "selector",
            format!(
                "{} && {}",
                is_same(&format!("{spec}selector.names")),
                selects("selector")
            ),
        ),
        (
            "podSelector",
            format!("{is_of_pods} && {}", selects("podSelector")),
        ),
        ("pullSecrets", is_same(&format!("{spec}pullSecrets"))),
        ("sandboxConfig", sandbox.join(" && ")),
        (
            "imagePullPolicy",
            format!("self.{spec}imagePullPolicy == oldSelf.{spec}imagePullPolicy"),
        ),
    ];
    let one = |(field, same): (&str, String)| {
        let value = |of: &str| {
            let path = format!("{of}.{spec}{field}");
            // The type checker takes no object for %s.
            format!("(has({path}) ? '%s'.format([dyn({path})]) : 'not set')")
        };
        let message = format!(
            "'is %s and was %s, {why}'.format([{}, {}])",
            value("self"),
            value("oldSelf")
        );
        reported_at(
            &format!(".{spec}{field}"),
            rule(format!("!({is_fixed}) || ({same})"), message),
        )
    };
    rules.map(one)
}

/// An expression: has the job completed before this change?
pub(crate) const HAS_COMPLETED: &str = "has(oldSelf.status) && has(oldSelf.status.completionTime)";

/// Rules of a job that has completed: limits of pulls, and until when it pulls, have no effect any
/// more.
pub(crate) fn limits_of_completed(what: &str) -> [Value; 4] {
    let one = |field: &str| {
        let (new, old) = (
            format!("self.spec.{field}"),
            format!("oldSelf.spec.{field}"),
        );
        let same = format!("has({new}) ? has({old}) && {new} == {old} : !has({old})");
        let message = format!(
            "'is %s, but the {what} has completed and pulls nothing more: create another {what}'.format([has({new}) ? string({new}) : 'not set'])"
        );
        reported_at(
            &format!(".spec.{field}"),
            rule(format!("!({HAS_COMPLETED}) || ({same})"), message),
        )
    };
    let fields = [
        "pullPolicy.timeoutSeconds",
        "pullPolicy.backoffLimit",
        "completionPolicy.type",
        "completionPolicy.activeDeadlineSeconds",
    ];
    fields.map(one)
}

/// An expression: is a list or map the same as before? None is the same as an empty one. Each step
/// of the path may be missing.
fn is_same(path: &str) -> String {
    let has_any = |of: &str| {
        let steps = path
            .match_indices('.')
            .map(|(end, _)| &path[..end])
            .chain([path]);
        let has: Vec<_> = steps.map(|step| format!("has({of}.{step})")).collect();
        format!("{} && size({of}.{path}) > 0", has.join(" && "))
    };
    let (new, old) = (format!("self.{path}"), format!("oldSelf.{path}"));
    let equal = match path.ends_with("matchExpressions") {
        true => format!("sets.equivalent({new}, {old})"),
        false => format!("{new} == {old}"),
    };
    format!(
        "({} ? {} && {equal} : !({}))",
        has_any("self"),
        has_any("oldSelf"),
        has_any("oldSelf")
    )
}

/// Whether a text is an image reference.
pub(crate) fn is_image() -> Value {
    let message = "'is \"%s\", but an image is [registry/]name[:tag][@digest] in lower case and without blanks'.format([self])";
    rule(format!("self.matches('{IMAGE}')"), message)
}

pub(super) fn stays() -> Value {
    let message = "'is \"%s\" and was \"%s\", and a job pulls one image: create another job'.format([self, oldSelf])";
    rule("self == oldSelf", message)
}

/// Rules of what jobs of one image and jobs of many share.
pub(super) fn of_template() -> [Value; 2] {
    let both = "!(has(self.selector) && has(self.podSelector))";
    let deadline = "!has(self.completionPolicy) || !has(self.completionPolicy.activeDeadlineSeconds) || \
                    !has(self.pullPolicy) || !has(self.pullPolicy.timeoutSeconds) || \
                    self.completionPolicy.activeDeadlineSeconds >= self.pullPolicy.timeoutSeconds";
    let deadline_message = "'is %d, but must be at least pullPolicy.timeoutSeconds, which is %d (600 where nothing is said): \
                            raise the one or lower the other'\
                            .format([self.completionPolicy.activeDeadlineSeconds, self.pullPolicy.timeoutSeconds])";
    [
        reported_at(
            ".podSelector",
            json!({"rule": both, "message": "is set and so is selector: remove one of them"}),
        ),
        reported_at(
            ".completionPolicy.activeDeadlineSeconds",
            rule(deadline, deadline_message),
        ),
    ]
}

pub(super) fn has_names_or_labels() -> Value {
    let names = "!(has(self.names) && (has(self.matchLabels) || has(self.matchExpressions)))";
    json!({"rule": names, "message": "has names and labels: remove names, or matchLabels and matchExpressions"})
}

/// Bounds labels and annotations that are copied into the NodeImage of every node that pulls.
pub(super) fn sandbox(schema: &mut Schema) {
    let size = |field: &str| {
        format!(
            "(has(self.{field}) ? self.{field}.map(key, size(key) + size(self.{field}[key])).sum() : 0)"
        )
    };
    let whole = format!("{} + {}", size("labels"), size("annotations"));
    let message = format!(
        "'has labels and annotations of %d characters, but can have {MAX_SANDBOX_BYTES} in all: remove or shorten some'\
         .format([{whole}])"
    );
    let pairs = json!({
        "maxProperties": MAX_SANDBOX_PAIRS,
        "additionalProperties": {"type": "string", "maxLength": MAX_SANDBOX_BYTES},
    });
    let is_small = rule(format!("{whole} <= {MAX_SANDBOX_BYTES}"), message);
    patched(vec![
        at("", json!({"x-kubernetes-validations": [is_small]})),
        at("labels", pairs.clone()),
        at("annotations", pairs),
    ])
    .transform(schema);
}

/// Rules of a job that has completed. They look at the status, and so stand at the root.
pub(crate) fn patches(_: Version) -> Vec<Patch> {
    let rules = limits_of_completed("job");
    vec![at("", json!({"x-kubernetes-validations": rules}))]
}
