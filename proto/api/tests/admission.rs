//! The answers of a real apiserver to objects of every kind and version. The cases are in
//! `admission/`.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use berth_api::kinds;
use berth_cluster::{Cluster, Options};
use http::{Method, Request};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
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
            "v1alpha1" if self.of.is_none() => path
                .replace("rollingUpdate.podUpdatePolicy", "type")
                .replace("rollingUpdate.", ""),
            _ => path.to_owned(),
        };
        let field = path(&self.field);
        let named = self.at.as_deref().map_or_else(|| field.clone(), path);
        let refused: Vec<_> = std::iter::once(named).chain(self.says.clone()).collect();
        let case = |value: &Value| {
            let nested = field
                .rsplit('.')
                .fold(value.clone(), |value, name| json!({name: value}));
            let Value::Object(set) = nested else {
                unreachable!("a path has a part")
            };
            Case {
                name: format!("{field}: {value} in {version}"),
                base: version.to_owned(),
                set,
                stored: false,
                status: None,
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
    status: Option<Map<String, Value>>,
    update: Option<Map<String, Value>>,
    subresource: Option<String>,
    refused: Option<Vec<String>>,
    #[serde(default)]
    expect: BTreeMap<String, Value>,
}

/// The expected answer to one object, named uniquely.
struct Trial {
    case: Case,
    object: Value,
}

#[tokio::test]
async fn v1beta1_objects_are_validated_and_defaulted() -> Result<()> {
    run("v1beta1").await
}

#[tokio::test]
async fn v1alpha1_objects_are_validated_and_defaulted() -> Result<()> {
    run("v1alpha1").await
}

async fn run(version: &str) -> Result<()> {
    let trials = trials(version)?;
    let cluster = Cluster::up(&Options::default())?;
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
    let client = Client::try_from(
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?,
    )?;
    // Stored as they are sent, so that no conversion is needed.
    let mut definitions = berth_api::kinds::crd::definitions()?;
    for definition in definitions
        .iter_mut()
        .flat_map(|definition| definition.pointer_mut("/spec/versions"))
    {
        let versions = definition.as_array_mut().into_iter().flatten();
        let mut versions: Vec<_> = versions.collect();
        // A kind that is served in a single version is stored in that version.
        let has_others = versions.len() > 1;
        for served in &mut versions {
            served["storage"] = json!(!has_others || served["name"] == version);
        }
    }
    apply(&cluster, definitions.iter().cloned().map(without_rules))?;
    for trial in trials.iter().filter(|trial| trial.case.stored) {
        create(&client, &trial.object, false)
            .await
            .with_context(|| trial.case.name.clone())?;
    }
    apply(&cluster, definitions)?;
    until_rules_hold(&client, version).await?;
    let mut failures = Vec::new();
    for trial in &trials {
        failures.extend(
            judge(&client, trial)
                .await
                .err()
                .map(|error| format!("{}: {error:#}", trial.case.name)),
        );
    }
    ensure!(
        failures.is_empty(),
        "{} of {} cases:\n{}",
        failures.len(),
        trials.len(),
        failures.join("\n")
    );
    Ok(())
}

/// The cases of all files for one version.
fn trials(version: &str) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut suites = BTreeMap::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission"))? {
        let file = file?.path();
        let suite: Suite = serde_saphyr::from_str(&fs::read_to_string(&file)?)
            .with_context(|| file.display().to_string())?;
        suites.insert(
            file.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default(),
            suite,
        );
    }
    let fields: Vec<_> = suites
        .values()
        .flat_map(|suite| &suite.fields)
        .flat_map(|field| field.cases(version))
        .collect();
    suites
        .get_mut("cloneset")
        .context("there are no CloneSets")?
        .cases
        .extend(fields);
    for suite in suites.into_values() {
        for case in suite.cases {
            let mut object = suite
                .bases
                .get(&case.base)
                .with_context(|| format!("{} has no base", case.name))?
                .clone();
            merge(&mut object, &case.set);
            // Unless the name is what the case is about.
            if case
                .set
                .get("metadata")
                .is_none_or(|metadata| metadata.get("name").is_none())
            {
                object["metadata"]["name"] = json!(format!("case-{}", trials.len()));
            }
            if object["apiVersion"] == format!("apps.kruise.io/{version}") {
                trials.push(Trial { case, object });
            }
        }
    }
    ensure!(
        trials.len() > 5,
        "only {} cases for {version}",
        trials.len()
    );
    Ok(trials)
}

/// Tries one object and compares.
async fn judge(client: &Client, Trial { case, object }: &Trial) -> Result<()> {
    let answer = match &case.update {
        None => create(client, object, true).await,
        Some(update) => {
            let mut updated = if case.stored {
                send(client, Method::GET, &path(object, Part::Object)?, None).await?
            } else {
                create(client, object, false).await?
            };
            if let Some(status) = &case.status {
                updated["status"] = json!(status);
                updated = send(
                    client,
                    Method::PUT,
                    &path(object, Part::Subresource("status"))?,
                    Some(&updated),
                )
                .await?;
            }
            if case.subresource.as_deref() == Some("scale") {
                updated = send(
                    client,
                    Method::GET,
                    &path(object, Part::Subresource("scale"))?,
                    None,
                )
                .await?;
            }
            merge(&mut updated, update);
            let part = case
                .subresource
                .as_deref()
                .map_or(Part::Object, Part::Subresource);
            send(client, Method::PUT, &path(object, part)?, Some(&updated)).await
        }
    };
    match (answer, &case.refused) {
        (Ok(_), Some(_)) => bail!("was accepted"),
        (Err(error), None) => bail!("was refused: {error:#}"),
        (Err(error), Some(parts)) => {
            let error = format!("{error:#}");
            let missing: Vec<_> = parts.iter().filter(|part| !error.contains(*part)).collect();
            ensure!(
                missing.is_empty(),
                "the answer does not say {missing:?}: {error}"
            );
        }
        (Ok(answer), None) => {
            for (pointer, value) in &case.expect {
                ensure!(
                    answer.pointer(pointer) == Some(value),
                    "{pointer} is {:?}",
                    answer.pointer(pointer)
                );
            }
        }
    }
    Ok(())
}

async fn create(client: &Client, object: &Value, is_dry_run: bool) -> Result<Value> {
    let more = if is_dry_run { "&dryRun=All" } else { "" };
    send(
        client,
        Method::POST,
        &format!("{}{more}", path(object, Part::Kind)?),
        Some(object),
    )
    .await
}

/// The part of an object that a request is about.
enum Part<'a> {
    /// All of its kind.
    Kind,
    Object,
    Subresource(&'a str),
}

/// As kubectl's requests, which make the server refuse unknown fields.
fn path(object: &Value, part: Part<'_>) -> Result<String> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .with_context(|| format!("no {pointer}"))
    };
    let of_ours = kinds::named(text("/kind")?).context("none of our kinds")?;
    let place = if of_ours.namespaced {
        "/namespaces/default"
    } else {
        ""
    };
    let of_kind = format!("/apis/{}{place}/{}", text("/apiVersion")?, of_ours.plural);
    let path = match part {
        Part::Kind => of_kind,
        Part::Object => format!("{of_kind}/{}", text("/metadata/name")?),
        Part::Subresource(subresource) => {
            format!("{of_kind}/{}/{subresource}", text("/metadata/name")?)
        }
    };
    Ok(format!("{path}?fieldValidation=Strict"))
}

async fn send(client: &Client, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
    let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body)?;
    Ok(client.request(request).await?)
}

fn apply(cluster: &Cluster, definitions: impl IntoIterator<Item = Value>) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions.into_iter().collect::<Vec<_>>()});
    cluster.kubectl_with(
        &["apply", "--server-side", "-f", "-"],
        Some(&list.to_string()),
    )?;
    cluster
        .kubectl(&[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ])
        .map(|_| ())
}

/// The apiserver applies new rules a moment after the definition.
async fn until_rules_hold(client: &Client, version: &str) -> Result<()> {
    let wrong = [
        json!({"kind": "ImagePullJob", "metadata": {"name": "probe", "namespace": "default"}, "spec": {"image": ""}}),
        json!({"kind": "NodeImage", "metadata": {"name": "probe"}, "spec": {"images": {"": {"tags": []}}}}),
        json!({"kind": "SidecarSet", "metadata": {"name": "probe"}, "spec": {"selector": {}}}),
        json!({"kind": "CloneSet", "metadata": {"name": "probe", "namespace": "default"}, "spec": {"replicas": 1, "selector": {}, "template": {}}}),
    ];
    for mut object in wrong {
        object["apiVersion"] = json!(format!("apps.kruise.io/{version}"));
        let mut tries = 0..100;
        while create(client, &object, true).await.is_ok() {
            ensure!(
                tries.next().is_some(),
                "{} is still accepted",
                object["kind"]
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// A definition from before there were rules.
fn without_rules(mut schema: Value) -> Value {
    const RULES: [&str; 6] = [
        "x-kubernetes-validations",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "x-kubernetes-list-type",
    ];
    match &mut schema {
        Value::Object(keywords) => {
            keywords.retain(|keyword, _| {
                !RULES.contains(&keyword.as_str()) && keyword != "x-kubernetes-list-map-keys"
            });
            for value in keywords.values_mut() {
                *value = without_rules(value.take());
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = without_rules(item.take())),
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
