//! What a real apiserver says to objects of every kind and version: the cases are in `admission/`.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, path::Path, thread};

use anyhow::{Context, Result, bail, ensure};
use berth_cluster::{Cluster, Options};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct Suite {
    #[serde(default)]
    bases: BTreeMap<String, Value>,
    #[serde(default)]
    cases: Vec<Case>,
    /// Of CloneSets.
    #[serde(default)]
    fields: Vec<Field>,
}

/// A field with values that are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    field: String,
    at: Option<String>,
    of: Option<String>,
    bad: Vec<Value>,
    says: Vec<String>,
}

impl Field {
    /// A case for each value.
    fn cases(&self, version: &str) -> Vec<Case> {
        let path = |path: &str| match version {
            "v1alpha1" if self.of.is_none() => {
                path.replace("rollingUpdate.podUpdatePolicy", "type").replace("rollingUpdate.", "")
            }
            _ => path.to_owned(),
        };
        let field = path(&self.field);
        let named = self.at.as_deref().map_or_else(|| field.clone(), path);
        let refused: Vec<_> = std::iter::once(named).chain(self.says.clone()).collect();
        let case = |value: &Value| {
            let nested = field.rsplit('.').fold(value.clone(), |value, name| json!({name: value}));
            let Value::Object(set) = nested else { unreachable!("a path has a part") };
            Case {
                name: format!("{field}: {value} in {version}"),
                base: version.to_owned(),
                set,
                stored: false,
                update: None,
                subresource: None,
                refused: Some(refused.clone()),
                expect: BTreeMap::new(),
            }
        };
        let has = self.of.as_deref().is_none_or(|of| of == version);
        self.bad.iter().filter(|_| has).map(case).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    base: String,
    #[serde(default)]
    set: Map<String, Value>,
    #[serde(default)]
    stored: bool,
    update: Option<Map<String, Value>>,
    subresource: Option<String>,
    refused: Option<Vec<String>>,
    #[serde(default)]
    expect: BTreeMap<String, Value>,
}

/// What shall be said to one object, named uniquely.
struct Trial {
    case: Case,
    object: Value,
}

#[test]
fn v1beta1_objects_are_validated_and_defaulted() -> Result<()> {
    run("v1beta1")
}

#[test]
fn v1alpha1_objects_are_validated_and_defaulted() -> Result<()> {
    run("v1alpha1")
}

fn run(version: &str) -> Result<()> {
    let trials = trials(version)?;
    let cluster = Cluster::up(&Options::default())?;
    // Stored as they are sent, so that no conversion is needed.
    let mut definitions = berth_api::crd::definitions()?;
    for definition in definitions.iter_mut().flat_map(|definition| definition.pointer_mut("/spec/versions")) {
        let versions = definition.as_array_mut().into_iter().flatten();
        let mut versions: Vec<_> = versions.collect();
        // One that is served in a single version is stored in that.
        let has_others = versions.len() > 1;
        for served in &mut versions {
            served["storage"] = json!(!has_others || served["name"] == version);
        }
    }
    apply(&cluster, definitions.iter().cloned().map(without_rules))?;
    for trial in trials.iter().filter(|trial| trial.case.stored) {
        create(&cluster, &trial.object, &[]).with_context(|| trial.case.name.clone())?;
    }
    apply(&cluster, definitions)?;
    until_rules_hold(&cluster, version)?;
    let failures: Vec<_> = trials
        .iter()
        .filter_map(|trial| Some(format!("{}: {:#}", trial.case.name, judge(&cluster, trial).err()?)))
        .collect();
    ensure!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), trials.len(), failures.join("\n"));
    Ok(())
}

/// The cases of all files for one version.
fn trials(version: &str) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut suites = BTreeMap::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission"))? {
        let file = file?.path();
        let suite: Suite =
            serde_saphyr::from_str(&fs::read_to_string(&file)?).with_context(|| file.display().to_string())?;
        suites.insert(file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(), suite);
    }
    let fields: Vec<_> =
        suites.values().flat_map(|suite| &suite.fields).flat_map(|field| field.cases(version)).collect();
    suites.get_mut("cloneset").context("there are no CloneSets")?.cases.extend(fields);
    for suite in suites.into_values() {
        for case in suite.cases {
            let mut object = suite.bases.get(&case.base).with_context(|| format!("{} has no base", case.name))?.clone();
            merge(&mut object, &case.set);
            // Unless the name is what the case is about.
            if case.set.get("metadata").is_none_or(|metadata| metadata.get("name").is_none()) {
                object["metadata"]["name"] = json!(format!("case-{}", trials.len()));
            }
            if object["apiVersion"] == format!("apps.kruise.io/{version}") {
                trials.push(Trial { case, object });
            }
        }
    }
    ensure!(trials.len() > 5, "only {} cases for {version}", trials.len());
    Ok(trials)
}

/// Tries one object and compares.
fn judge(cluster: &Cluster, Trial { case, object }: &Trial) -> Result<()> {
    let answer = match &case.update {
        None => create(cluster, object, &["--dry-run=server"]),
        Some(update) => {
            let created = if case.stored { get(cluster, object)? } else { create(cluster, object, &[])? };
            let mut updated = serde_json::from_str(&created)?;
            merge(&mut updated, update);
            let subresource = case.subresource.as_ref().map(|name| format!("--subresource={name}"));
            let arguments: Vec<_> =
                ["replace", "-f", "-", "-o", "json"].into_iter().chain(subresource.as_deref()).collect();
            cluster.kubectl_with(&arguments, Some(&updated.to_string()))
        }
    };
    match (answer, &case.refused) {
        (Ok(_), Some(_)) => bail!("was accepted"),
        (Err(error), None) => bail!("was refused: {error:#}"),
        (Err(error), Some(parts)) => {
            let error = format!("{error:#}");
            let missing: Vec<_> = parts.iter().filter(|part| !error.contains(*part)).collect();
            ensure!(missing.is_empty(), "the answer does not say {missing:?}: {error}");
        }
        (Ok(answer), None) => {
            let answer: Value = serde_json::from_str(&answer)?;
            for (pointer, value) in &case.expect {
                ensure!(answer.pointer(pointer) == Some(value), "{pointer} is {:?}", answer.pointer(pointer));
            }
        }
    }
    Ok(())
}

fn create(cluster: &Cluster, object: &Value, more: &[&str]) -> Result<String> {
    cluster.kubectl_with(&[&["create", "-f", "-", "-o", "json"], more].concat(), Some(&object.to_string()))
}

fn get(cluster: &Cluster, object: &Value) -> Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer}"));
    let (group, version) = text("/apiVersion")?.split_once('/').context("no group")?;
    let resource = format!("{}.{version}.{group}", text("/kind")?);
    cluster.kubectl(&["get", &resource, text("/metadata/name")?, "--namespace", "default", "-o", "json"])
}

fn apply(cluster: &Cluster, definitions: impl IntoIterator<Item = Value>) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions.into_iter().collect::<Vec<_>>()});
    cluster.kubectl_with(&["apply", "--server-side", "-f", "-"], Some(&list.to_string()))?;
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).map(|_| ())
}

/// The apiserver takes new rules a moment after the definition.
fn until_rules_hold(cluster: &Cluster, version: &str) -> Result<()> {
    let wrong = [
        json!({"kind": "ImagePullJob", "metadata": {"name": "probe", "namespace": "default"}, "spec": {"image": ""}}),
        json!({"kind": "NodeImage", "metadata": {"name": "probe"}, "spec": {"images": {"": {"tags": []}}}}),
        json!({"kind": "SidecarSet", "metadata": {"name": "probe"}, "spec": {"selector": {}}}),
        json!({"kind": "CloneSet", "metadata": {"name": "probe", "namespace": "default"}, "spec": {"replicas": 1, "selector": {}, "template": {}}}),
    ];
    for mut object in wrong {
        object["apiVersion"] = json!(format!("apps.kruise.io/{version}"));
        let mut tries = 0..100;
        while create(cluster, &object, &["--dry-run=server"]).is_ok() {
            ensure!(tries.next().is_some(), "{} is still accepted", object["kind"]);
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// A definition from before there were rules.
fn without_rules(mut schema: Value) -> Value {
    const RULES: [&str; 6] =
        ["x-kubernetes-validations", "enum", "minimum", "maximum", "minLength", "x-kubernetes-list-type"];
    match &mut schema {
        Value::Object(keywords) => {
            keywords.retain(|keyword, _| !RULES.contains(&keyword.as_str()) && keyword != "x-kubernetes-list-map-keys");
            for value in keywords.values_mut() {
                *value = without_rules(value.take());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_rules(item.take())),
        _ => {}
    }
    schema
}

/// A JSON merge patch, in which null removes.
fn merge(object: &mut Value, patch: &Map<String, Value>) {
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.as_object_mut().and_then(|map| map.remove(key))),
            Value::Object(inner) => merge(&mut object[key], inner),
            value => object[key] = value.clone(),
        }
    }
}
