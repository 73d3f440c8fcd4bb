//! Faults, and how the texts that several kinds have are looked over for them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::name::{is_dns_label, is_dns_subdomain};

/// One fault of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, as `kubectl explain` has it, with indexes and keys.
    pub field: String,
    /// Its value.
    pub value: String,
    /// The fault, and the remedy.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: Invalid value: {:?}: {}",
            self.field, self.value, self.message
        )
    }
}

/// The faults of claim templates of these names: they are volumes' names, and each is there once.
pub fn claim_templates<'a>(claims: impl IntoIterator<Item = &'a str>) -> Vec<Violation> {
    let (mut found, mut names) = (Violations(Vec::new()), BTreeSet::new());
    for (index, name) in claims.into_iter().enumerate() {
        let field = format!("spec.volumeClaimTemplates[{index}].metadata.name");
        if !is_dns_label(name) {
            found.add(&field, name, "pods mount the claim by this name: use at most 63 of a-z, 0-9 and -, with a letter or digit at both ends");
        } else if !names.insert(name) {
            found.add(
                &field,
                name,
                "another claim template has this name: use another",
            );
        }
    }
    found.0
}

/// The faults that are found, in the order of their fields.
pub(crate) struct Violations(pub(crate) Vec<Violation>);

impl Violations {
    pub(crate) fn add(&mut self, field: &str, value: &str, message: &str) {
        self.0.push(Violation {
            field: field.to_owned(),
            value: value.to_owned(),
            message: message.to_owned(),
        });
    }

    pub(crate) fn selector(&mut self, field: &str, selector: Option<&Value>) {
        let Some(selector) = selector else { return };
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            self.key(&format!("{field}.matchLabels"), key);
            self.value(
                &format!("{field}.matchLabels[{key}]"),
                value.as_str().unwrap_or_default(),
            );
        }
        for (index, expression) in list(selector.get("matchExpressions")) {
            self.key(
                &format!("{field}.matchExpressions[{index}].key"),
                text(expression, "key"),
            );
            for (at, value) in list(expression.get("values")) {
                let field = format!("{field}.matchExpressions[{index}].values[{at}]");
                self.value(&field, value.as_str().unwrap_or_default());
            }
        }
    }

    pub(crate) fn key(&mut self, field: &str, key: &str) {
        if !is_label_key(key) {
            let message = "is no label key: use a name of at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends; \
                           a DNS name and / may stand before it";
            self.add(field, key, message);
        }
    }

    pub(crate) fn value(&mut self, field: &str, value: &str) {
        if !is_label_value(value) {
            let message = "is no label value: use at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends, or nothing";
            self.add(field, value, message);
        }
    }

    pub(crate) fn priority(&mut self, strategy: &str, object: &Value) {
        for (index, term) in list(at(object, &format!("{strategy}.weightPriority"))) {
            let field = format!("{strategy}.weightPriority[{index}].matchSelector");
            self.selector(&field, term.get("matchSelector"));
        }
        for (index, term) in list(at(object, &format!("{strategy}.orderPriority"))) {
            self.key(
                &format!("{strategy}.orderPriority[{index}].orderedKey"),
                text(term, "orderedKey"),
            );
        }
    }

    /// `any` is the value that stands for each.
    pub(crate) fn scatter(&mut self, strategy: &str, object: &Value, any: Option<&str>) {
        for (index, term) in list(at(object, strategy)) {
            self.key(&format!("{strategy}[{index}].key"), text(term, "key"));
            let value = text(term, "value");
            if Some(value) != any {
                self.value(&format!("{strategy}[{index}].value"), value);
            }
        }
    }

    pub(crate) fn hooks(&mut self, object: &Value) {
        for hook in ["preDelete", "inPlaceUpdate", "preNormal"] {
            let field = format!("spec.lifecycle.{hook}.labelsHandler");
            for (key, value) in at(object, &field)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                self.key(&field, key);
                self.value(
                    &format!("{field}[{key}]"),
                    value.as_str().unwrap_or_default(),
                );
            }
        }
    }

    pub(crate) fn claims(&mut self, object: &Value) {
        let claims = list(at(object, "spec.volumeClaimTemplates")).map(|(_, claim)| claim);
        let names = claims.map(|claim| {
            claim
                .get("metadata")
                .map_or("", |metadata| text(metadata, "name"))
        });
        self.0.extend(claim_templates(names));
    }

    pub(crate) fn names(&mut self, field: &str, names: Option<&Value>) {
        for (index, name) in list(names) {
            let name = name.as_str().unwrap_or_default();
            if !is_dns_subdomain(name) {
                let message = "is no object's name: use at most 253 of a-z, 0-9, - and ., with a letter or digit at both ends of each part";
                self.add(&format!("{field}[{index}]"), name, message);
            }
        }
    }
}

pub(crate) fn at<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    field
        .split('.')
        .try_fold(object, |value, name| value.get(name))
}

pub(crate) fn list(value: Option<&Value>) -> impl Iterator<Item = (usize, &Value)> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
}

pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value
        .as_object()
        .and_then(|map: &Map<_, _>| map.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether a text is a label's key.
pub fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    is_label_name(name) && prefix.is_none_or(is_dns_subdomain)
}

/// Whether a text is a label's value.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

/// A label's value, or its key without prefix.
fn is_label_name(name: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.len() <= 63
        && ends(name.bytes().next())
        && ends(name.bytes().last())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
