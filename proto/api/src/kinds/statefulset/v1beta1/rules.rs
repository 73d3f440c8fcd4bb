//! Rules of a StatefulSet.

use serde_json::{Value, json};

use crate::schema::patch::{Patch, at};
use crate::schema::pods::selector_matches_template;
use crate::schema::rules::{is_zero, reported_at, rule, unless_unchanged};
use crate::version::Version;

const ROLLING: &str = "updateStrategy.rollingUpdate";

/// Rules of the spec.
pub(super) fn of_spec() -> [Value; 4] {
    [
        stays(
            "podManagementPolicy",
            "create another StatefulSet with the new policy",
        ),
        stays(
            "serviceName",
            "create another StatefulSet for the new Service",
        ),
        only_parallel(
            &format!("{ROLLING}.unorderedUpdate"),
            |_| "false".to_owned(),
            "updates pods by their ordinals",
        ),
        only_parallel(
            "scaleStrategy.maxUnavailable",
            one_at_a_time,
            "creates one pod at a time",
        ),
    ]
}

/// What no attribute can say: rules that only one version has, those behind them, and the items of
/// a list.
pub(crate) fn of_version(version: Version) -> Vec<Patch> {
    let deleted = "pods of other ordinals would be deleted";
    let unhooked = "pods would be deleted without their hooks";
    let older = [
        left_out("reserveOrdinals", "[]", deleted),
        left_out("ordinals", "{}", deleted),
        left_out("lifecycle", "{}", unhooked),
    ];
    let mut rules = match version {
        Version::V1Alpha1 => older.to_vec(),
        Version::V1Beta1 => Vec::new(),
    };
    rules.extend(selector_matches_template());
    let ordinal = json!({
        "minimum": 0, "maximum": i32::MAX, "maxLength": 21, "pattern": "^[0-9]{1,10}(-[0-9]{1,10})?$",
        "description": "An ordinal, or a range such as 2-5.",
    });
    vec![
        at("spec.reserveOrdinals[]", ordinal),
        at("spec", json!({"x-kubernetes-validations": rules})),
    ]
}

/// A field that says what pods are, and not how many or of what.
fn stays(field: &str, remedy: &str) -> Value {
    let rule = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    json!({"rule": rule, "reason": "FieldValueForbidden", "fieldPath": format!(".{field}"),
           "message": format!("cannot be changed, the pods that there are were made by it: {remedy}")})
}

/// Clients that were built for OpenKruise's v1alpha1 do not know this field: they drop it when they
/// read the object and write the whole of it back.
fn left_out(field: &str, empty: &str, cause: &str) -> Value {
    let rule = format!("!has(oldSelf.{field}) || has(self.{field})");
    let message = format!(
        "is left out, as by a client that does not know it in v1alpha1, and {cause}: \
         write {field}: {empty}, or remove it with apiVersion apps.kruise.io/v1beta1"
    );
    json!({"rule": rule, "reason": "FieldValueRequired", "fieldPath": format!(".{field}"), "message": message})
}

/// With OnDelete nothing is said of a rolling update, but for what is filled in.
pub(super) fn rolls_by_itself() -> Value {
    let is_default = |(field, value): (&str, &str)| {
        format!("(!has(self.rollingUpdate.{field}) || self.rollingUpdate.{field} == {value})")
    };
    let defaults = [
        ("partition", "0"),
        ("maxUnavailable", "1"),
        ("podUpdatePolicy", "'ReCreate'"),
        ("minReadySeconds", "0"),
        ("paused", "false"),
    ];
    let mut nothing: Vec<_> = defaults.into_iter().map(is_default).collect();
    nothing.extend(
        ["unorderedUpdate", "inPlaceUpdateStrategy"]
            .map(|field| format!("!has(self.rollingUpdate.{field})")),
    );
    let valid = format!(
        "!has(self.type) || self.type != 'OnDelete' || !has(self.rollingUpdate) || ({})",
        nothing.join(" && ")
    );
    let message = "has no meaning with type OnDelete, which updates a pod only after its deletion: remove it, or set type to RollingUpdate";
    reported_at(".rollingUpdate", json!({"rule": valid, "message": message}))
}

pub(super) fn more_than_none() -> Value {
    let message = "'is \"%s\", which lets no pod be away: set it to at least 1'.format([self])";
    rule(format!("!{}", is_zero("self")), message)
}

fn one_at_a_time(field: &str) -> String {
    format!("type({field}) == int && {field} == 1")
}

/// A field that contradicts what `OrderedReady` does.
fn only_parallel(field: &str, allowed: impl Fn(&str) -> String, ordered_ready: &str) -> Value {
    let path = format!("self.{field}");
    let mut there = Vec::new();
    let mut at = "self".to_owned();
    for name in field.split('.') {
        at = format!("{at}.{name}");
        there.push(format!("has({at})"));
    }
    let valid = format!(
        "(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !({}) || ({})",
        there.join(" && "),
        allowed(&path)
    );
    let message = format!(
        "needs podManagementPolicy Parallel, because OrderedReady {ordered_ready}: remove it"
    );
    let rule = reported_at(
        &format!(".{field}"),
        json!({"rule": valid, "message": message}),
    );
    unless_unchanged(&["podManagementPolicy", field], rule)
}
