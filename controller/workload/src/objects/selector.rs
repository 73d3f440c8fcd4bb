//! Label selectors: what they match, and how they are written in one line.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::validation::is_label_key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A label selector that has been checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// The sentence names the expression that makes no sense, and what would.
    pub fn new(selector: &LabelSelector) -> Result<Self, String> {
        let labels = selector.match_labels.iter().flatten();
        let mut requirements: Vec<_> = labels
            .map(|(key, value)| Requirement {
                key: key.clone(),
                operator: Operator::Equals,
                values: vec![value.clone()],
            })
            .collect();
        for expression in selector.match_expressions.iter().flatten() {
            let mut values = expression.values.clone().unwrap_or_default();
            values.sort();
            let (operator, needs_values) = match expression.operator.as_str() {
                "In" => (Operator::In, true),
                "NotIn" => (Operator::NotIn, true),
                "Exists" => (Operator::Exists, false),
                "DoesNotExist" => (Operator::DoesNotExist, false),
                other => {
                    return Err(format!(
                        "operator {other:?} is none of In, NotIn, Exists and DoesNotExist"
                    ));
                }
            };
            if needs_values == values.is_empty() {
                let what = if needs_values {
                    "needs values"
                } else {
                    "takes no values"
                };
                return Err(format!(
                    "the expression {} {} {what}",
                    expression.key, expression.operator
                ));
            }
            requirements.push(Requirement {
                key: expression.key.clone(),
                operator,
                values,
            });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }

    /// Parses a selector in one line, the form of a scale's selector.
    ///
    /// # Errors
    /// The invalid part, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // A comma between parentheses separates values, any other one requirements.
            let mut depth = 0;
            let is_end = |c: char| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                c == ',' && depth == 0
            };
            let (part, others) = rest
                .find(is_end)
                .map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
            requirements.push(
                requirement(part.trim())
                    .ok_or_else(|| format!("{part:?} is no requirement of labels"))?,
            );
            rest = others.trim();
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }

    /// Matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A label that all matching objects have, and its possible values; `None` if the selector
    /// requires no value.
    pub fn needs(&self) -> Option<(&str, &[String])> {
        let needed = self
            .0
            .iter()
            .find(|it| matches!(it.operator, Operator::Equals | Operator::In))?;
        Some((&needed.key, &needed.values))
    }

    /// The keys of the labels that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| &*requirement.key)
    }

    /// How much there is of it to read, in bytes.
    pub fn weight(&self) -> usize {
        let of = |Requirement { key, values, .. }: &Requirement| {
            let values: usize = values.iter().map(|value| value.len() + 1).sum();
            key.len() + 1 + values
        };
        self.0.iter().map(of).sum()
    }

    /// Whether the labels, looked up by key, match.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.is_met_by(label(&requirement.key)))
    }

    /// Whether no labels match both selectors, because no value and no absence of some label meets
    /// the requirements of both.
    pub fn excludes(&self, other: &Self) -> bool {
        let mut all: Vec<&Requirement> = self.0.iter().chain(&other.0).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all.chunk_by(|a, b| a.key == b.key)
            .any(|of_key| !can_be_met(of_key))
    }

    /// The fewest labels that all these selectors match; `None` if no labels match all of them.
    pub fn example<'a>(
        selectors: impl IntoIterator<Item = &'a Self>,
    ) -> Option<BTreeMap<String, String>> {
        let mut all: Vec<&Requirement> = selectors
            .into_iter()
            .flat_map(|selector| &selector.0)
            .collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        let mut labels = BTreeMap::new();
        for of_key in all.chunk_by(|a, b| a.key == b.key) {
            let value = example_of(of_key)?;
            labels.extend(value.map(|value| (of_key[0].key.clone(), value)));
        }
        Some(labels)
    }
}

/// Whether a label can meet all of these requirements, which have one key.
fn can_be_met(requirements: &[&Requirement]) -> bool {
    example_of(requirements).is_some()
}

/// A value, or the absence, of a label that meets all these requirements of its key; `None` if
/// there is none.
fn example_of(requirements: &[&Requirement]) -> Option<Option<String>> {
    let meets = |value: Option<&str>| {
        requirements
            .iter()
            .all(|requirement| requirement.is_met_by(value))
    };
    if meets(None) {
        return Some(None);
    }
    let lists = requirements
        .iter()
        .filter(|it| matches!(it.operator, Operator::Equals | Operator::In));
    let value = match lists.min_by_key(|requirement| requirement.values.len()) {
        Some(shortest) => shortest
            .values
            .iter()
            .find(|value| meets(Some(value)))
            .cloned(),
        // A value that no requirement names is among one more than they name.
        None => {
            let named: usize = requirements
                .iter()
                .map(|requirement| requirement.values.len())
                .sum();
            (0..=named)
                .map(|number| format!("any-{number}"))
                .find(|value| meets(Some(value)))
        }
    };
    value.map(Some)
}

/// The selector in the form of specs.
impl From<&Selector> for LabelSelector {
    fn from(selector: &Selector) -> Self {
        let (equal, others): (Vec<_>, Vec<_>) = selector
            .0
            .iter()
            .partition(|requirement| requirement.operator == Operator::Equals);
        let operator = |operator| match operator {
            Operator::Equals | Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
        };
        let labels = equal
            .into_iter()
            .map(|Requirement { key, values, .. }| (key.clone(), values.concat()));
        let expressions = others
            .into_iter()
            .map(|requirement| LabelSelectorRequirement {
                key: requirement.key.clone(),
                operator: operator(requirement.operator).to_owned(),
                values: Some(requirement.values.clone()).filter(|values| !values.is_empty()),
            });
        let labels: BTreeMap<_, _> = labels.collect();
        let expressions: Vec<_> = expressions.collect();
        Self {
            match_labels: Some(labels).filter(|labels| !labels.is_empty()),
            match_expressions: Some(expressions).filter(|expressions| !expressions.is_empty()),
        }
    }
}

impl Requirement {
    /// Whether the label meets the requirement, with this value or if it is absent.
    fn is_met_by(&self, value: Option<&str>) -> bool {
        // They are sorted.
        let lists = |value: &str| {
            self.values
                .binary_search_by(|known| (**known).cmp(value))
                .is_ok()
        };
        match self.operator {
            Operator::Equals | Operator::In => value.is_some_and(lists),
            Operator::NotIn => !value.is_some_and(lists),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

fn requirement(part: &str) -> Option<Requirement> {
    let of = |key: &str, operator, mut values: Vec<String>| {
        let key = key.trim();
        values.sort();
        is_label_key(key).then(|| Requirement {
            key: key.to_owned(),
            operator,
            values,
        })
    };
    if let Some((head, list)) = part.split_once('(') {
        let values: Vec<_> = list
            .strip_suffix(')')?
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        let (key, operator) = head.trim().split_once(char::is_whitespace)?;
        return match operator.trim() {
            "in" => of(key, Operator::In, values),
            "notin" => of(key, Operator::NotIn, values),
            _ => None,
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return of(key, Operator::NotIn, vec![value.trim().to_owned()]);
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return of(key, Operator::Equals, vec![value.trim().to_owned()]);
    }
    match part.strip_prefix('!') {
        Some(key) => of(key, Operator::DoesNotExist, Vec::new()),
        None => of(part, Operator::Exists, Vec::new()),
    }
}

/// The form of the API's `labelSelector` query parameter.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            at,
            Requirement {
                key,
                operator,
                values,
            },
        ) in self.0.iter().enumerate()
        {
            let comma = if at == 0 { "" } else { "," };
            let values = values.join(",");
            match operator {
                Operator::Equals => write!(f, "{comma}{key}={values}")?,
                Operator::In => write!(f, "{comma}{key} in ({values})")?,
                Operator::NotIn => write!(f, "{comma}{key} notin ({values})")?,
                Operator::Exists => write!(f, "{comma}{key}")?,
                Operator::DoesNotExist => write!(f, "{comma}!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
