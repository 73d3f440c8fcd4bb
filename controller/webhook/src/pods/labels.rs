//! A label selector as an expression over the pod that is created. The expression has a value for
//! every pod, because an error in an expression would refuse pods.

use berth_api::validation::{is_label_key, is_label_value};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

const LABELS: &str = "object.metadata.?labels.orValue({})";

/// The expression; `None` if the selector is invalid, or has a character that cannot be in a label,
/// because that could end the expression.
pub(super) fn expression(selector: &LabelSelector) -> Option<String> {
    let equal = selector.match_labels.iter().flatten();
    let mut terms: Vec<_> = equal
        .map(|(key, value)| is_in(key, std::slice::from_ref(value)))
        .collect();
    for requirement in selector.match_expressions.iter().flatten() {
        let (key, values) = (
            &requirement.key,
            requirement.values.as_deref().unwrap_or_default(),
        );
        terms.push(match (&*requirement.operator, values.is_empty()) {
            ("In", false) => is_in(key, values),
            ("NotIn", false) => is_in(key, values).map(|is_in| format!("!{is_in}")),
            ("Exists", true) => has(key),
            ("DoesNotExist", true) => has(key).map(|has| format!("!({has})")),
            _ => None,
        });
    }
    let terms: Vec<_> = terms.into_iter().collect::<Option<_>>()?;
    (!terms.is_empty()).then(|| terms.join(" && "))
}

/// The label and the values of a selector that only asks for one label with one of these values, if
/// it is valid.
pub(super) fn only_label(selector: &LabelSelector) -> Option<(&str, &[String])> {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .map(|(key, value)| (&**key, std::slice::from_ref(value)));
    let listed = selector
        .match_expressions
        .iter()
        .flatten()
        .map(|requirement| {
            let values = requirement
                .values
                .as_deref()
                .filter(|_| requirement.operator == "In");
            (&*requirement.key, values.unwrap_or_default())
        });
    let mut all = equal.chain(listed);
    let (Some((key, values)), None) = (all.next(), all.next()) else {
        return None;
    };
    (!values.is_empty() && is_in(key, values).is_some()).then_some((key, values))
}

/// Does the apiserver accept the selector?
pub(super) fn is_sound(selector: &LabelSelector) -> bool {
    let mut equal = selector.match_labels.iter().flatten();
    let are_sound = |key: &String, values: &[String]| {
        is_label_key(key) && values.iter().all(|value| is_label_value(value))
    };
    equal.all(|(key, value)| are_sound(key, std::slice::from_ref(value)))
        && selector
            .match_expressions
            .iter()
            .flatten()
            .all(|expression| {
                let values = expression.values.as_deref().unwrap_or_default();
                let has_values = matches!(&*expression.operator, "In" | "NotIn");
                let is_known =
                    has_values || matches!(&*expression.operator, "Exists" | "DoesNotExist");
                is_known && has_values != values.is_empty() && are_sound(&expression.key, values)
            })
}

fn has(key: &str) -> Option<String> {
    Some(format!("{} in {LABELS}", quoted(key)?))
}

/// An expression: the label has one of the values.
pub(super) fn is_in<'a>(key: &str, values: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let values: Vec<_> = values
        .into_iter()
        .map(|value| quoted(value))
        .collect::<Option<_>>()?;
    Some(format!(
        "({} && {LABELS}[{}] in [{}])",
        has(key)?,
        quoted(key)?,
        values.join(", ")
    ))
}

fn quoted(text: &str) -> Option<String> {
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    is_plain.then(|| format!("'{text}'"))
}

#[cfg(test)]
mod tests;
