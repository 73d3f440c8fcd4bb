//! The changes of `set`, as functions of a pod's spec.

use anyhow::bail;
use berth_workload::objects::quantity;
use berth_workload::objects::resource::{Resource, SIDECAR_SETS};
use serde_json::{Value, json};

use crate::exit::WrongUsage;
use crate::pod_spec::{self, object_in};

/// Keys with their values; a key without a value is removed.
pub(super) type Assignments = Vec<(String, Option<String>)>;

/// The resources to set: `limits` or `requests`, name and amount.
pub(super) type Amounts = Vec<(&'static str, String, String)>;

/// The object as `change` makes it.
///
/// # Errors
/// The kind has no pods, or the error of `change`.
pub(super) fn applied(
    resource: Resource,
    old: &Value,
    change: impl Fn(&mut Value) -> anyhow::Result<()>,
) -> anyhow::Result<Value> {
    let at = pod_spec::pointer(resource, old)?;
    let mut new = old.clone();
    let Some(spec) = new.pointer_mut(&at) else {
        bail!("the {} has no {at}", resource.kind);
    };
    change(spec)?;
    // A SidecarSet has containers, and is no pod.
    if resource == SIDECAR_SETS && spec.get("serviceAccountName").is_some() {
        return Err(WrongUsage("a SidecarSet has no service account".to_owned()).into());
    }
    Ok(new)
}

/// Whether a word sets or removes something.
pub(super) fn is_assignment(word: &str) -> bool {
    word.contains('=') || word.ends_with('-')
}

/// The words that name objects, and the words after them: `KEY=VALUE` or `KEY-`.
///
/// # Errors
/// A word is no assignment, or there is none.
pub(super) fn assignments(words: &[String]) -> Result<(&[String], Assignments), WrongUsage> {
    let first = words
        .iter()
        .position(|word| is_assignment(word))
        .unwrap_or(words.len());
    let (object, rest) = words.split_at(first);
    if rest.is_empty() {
        return Err(WrongUsage(
            "nothing to set: write NAME=VALUE after the object".to_owned(),
        ));
    }
    let read = |word: &String| match (word.split_once('='), word.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok((key.to_owned(), Some(value.to_owned()))),
        (None, Some(key)) if !key.is_empty() => Ok((key.to_owned(), None)),
        _ => Err(WrongUsage(format!("{word:?} is not NAME=VALUE"))),
    };
    Ok((object, rest.iter().map(read).collect::<Result<_, _>>()?))
}

/// Sets images by container.
///
/// # Errors
/// There is no such container, or an image is empty.
pub(super) fn images(spec: &mut Value, images: &Assignments) -> anyhow::Result<()> {
    for (container, image) in images {
        let image = image.as_deref().unwrap_or_default();
        if image.trim().is_empty() || image.contains(char::is_whitespace) {
            bail!("container {container}: {image:?} is no image");
        }
        for container in pod_spec::containers(spec, &[container])? {
            container.insert("image".to_owned(), json!(image));
        }
    }
    Ok(())
}

/// Sets and removes environment variables.
///
/// # Errors
/// There is no such container.
pub(super) fn env(
    spec: &mut Value,
    containers: &[String],
    variables: &Assignments,
) -> anyhow::Result<()> {
    let patterns: Vec<_> = containers.iter().map(String::as_str).collect();
    for container in pod_spec::containers(spec, &patterns)? {
        let listed = container.get("env").and_then(Value::as_array);
        let mut env = listed.cloned().unwrap_or_default();
        for (key, value) in variables {
            let at = env.iter().position(|one| one["name"] == json!(key));
            match (value, at) {
                (None, _) => env.retain(|one| one["name"] != json!(key)),
                (Some(value), None) => env.push(json!({"name": key, "value": value})),
                (Some(value), Some(at)) => {
                    if let Some(one) = env.get_mut(at) {
                        *one = json!({"name": key, "value": value});
                    }
                }
            }
        }
        if env.is_empty() {
            container.remove("env");
        } else {
            container.insert("env".to_owned(), json!(env));
        }
    }
    Ok(())
}

/// The amounts of `--limits` and `--requests`.
///
/// # Errors
/// An amount is no quantity, or there is none.
pub(super) fn amounts(limits: &[String], requests: &[String]) -> Result<Amounts, WrongUsage> {
    let all = limits.iter().map(|one| ("limits", one));
    let all = all.chain(requests.iter().map(|one| ("requests", one)));
    let read = |(list, text): (&'static str, &String)| match text.split_once('=') {
        Some((name, amount)) if !name.is_empty() && quantity::thousandths(amount).is_some() => {
            Ok((list, name.to_owned(), amount.to_owned()))
        }
        _ => Err(WrongUsage(format!(
            "--{list}: {text:?} is not NAME=AMOUNT, such as cpu=200m or memory=512Mi"
        ))),
    };
    let all: Amounts = all.map(read).collect::<Result<_, _>>()?;
    if all.is_empty() {
        return Err(WrongUsage(
            "nothing to set: use --limits or --requests".to_owned(),
        ));
    }
    Ok(all)
}

/// Sets resources of containers.
///
/// # Errors
/// There is no such container.
pub(super) fn resources(
    spec: &mut Value,
    containers: &[String],
    amounts: &Amounts,
) -> anyhow::Result<()> {
    let patterns: Vec<_> = containers.iter().map(String::as_str).collect();
    for container in pod_spec::containers(spec, &patterns)? {
        for (list, name, amount) in amounts {
            let resources = object_in(container, "resources");
            let Some(list) = resources.and_then(|resources| object_in(resources, list)) else {
                bail!("resources of a container are no object: correct them first");
            };
            list.insert(name.clone(), json!(amount));
        }
    }
    Ok(())
}

/// Sets the service account, in the older field too if it is there.
///
/// # Errors
/// The name is none.
pub(super) fn service_account(spec: &mut Value, name: &str) -> anyhow::Result<()> {
    if !berth_api::name::is_dns_subdomain(name) {
        return Err(WrongUsage(format!("{name:?} is no name of a service account")).into());
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("serviceAccountName".to_owned(), json!(name));
        if let Some(older) = spec.get_mut("serviceAccount") {
            *older = json!(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
