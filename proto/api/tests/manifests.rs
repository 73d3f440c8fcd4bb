//! What the chart says of our kinds is what the types and the table of kinds say.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use berth_api::kinds::crd;
use berth_api::kinds::{KINDS, Kind};
use serde_json::{Value, json};

/// Set, it writes the files instead of comparing them.
const WRITE: &str = "WRITE_CRDS";
const COMMAND: &str = "WRITE_CRDS=1 cargo test -p berth-api --test manifests";
const CHART: &str = "charts/berth";

/// A path in the repository.
fn path(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(of)
}

fn read(of: &str) -> Result<String> {
    fs::read_to_string(path(of)).with_context(|| format!("{of} cannot be read"))
}

/// Writes a file that is generated from the table of kinds and the types, or compares it with the
/// committed file.
fn write_or_compare(file: &str, head: &str, content: &Value) -> Result<()> {
    let text = format!(
        "# Made from proto/api by `{COMMAND}`. {head}\n{}",
        serde_saphyr::to_string(content)?
    );
    if env::var_os(WRITE).is_some() {
        fs::create_dir_all(path(file).parent().context("a file is in a directory")?)?;
        fs::write(path(file), &text)?;
    }
    let committed = fs::read_to_string(path(file)).unwrap_or_default();
    ensure!(
        committed == text,
        "{file} is not what the types say: run `{COMMAND}` and commit it"
    );
    Ok(())
}

#[test]
fn committed_definitions_are_up_to_date() -> Result<()> {
    for definition in crd::definitions()? {
        let name = definition
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .context("a definition has no name")?;
        let file = format!("{CHART}/files/crds/{name}.yaml");
        write_or_compare(
            &file,
            "Change the types or the rules there instead.",
            &definition,
        )?;
    }
    Ok(())
}

/// What templates of the chart ask about a kind.
fn entry(kind: &Kind) -> Value {
    json!({
        "group": kind.group,
        "kind": kind.kind,
        "plural": kind.plural,
        "namespaced": kind.namespaced,
        "stored": kind.stored.name(),
        "served": kind.versions().map(|version| version.name()).collect::<Vec<_>>(),
        "converted": kind.is_converted(),
        "owns": kind.owns,
    })
}

#[test]
fn the_charts_list_of_kinds_is_up_to_date() -> Result<()> {
    let kinds: Vec<_> = KINDS.iter().map(entry).collect();
    let head =
        "The templates make their lists of kinds from it. Change proto/api/src/kinds.rs instead.";
    write_or_compare(
        &format!("{CHART}/files/kinds.yaml"),
        head,
        &json!({"kinds": kinds}),
    )
}

/// A template without its directives. Of lists that are made of all kinds, nothing is left.
fn written_by_hand(template: &str) -> String {
    let mut parts = template.split("{{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once("}}").map_or("", |(_, rest)| rest)
    })
}

#[test]
fn each_kind_has_its_rights_in_the_controllers_role() -> Result<()> {
    let file = format!("{CHART}/templates/rbac.yaml");
    let role = read(&file)?;
    let role: Value = serde_saphyr::from_str(&written_by_hand(
        role.split("\n---\n").next().unwrap_or_default(),
    ))?;
    ensure!(
        role["metadata"]["name"] == "kruise-manager",
        "{file} does not begin with the controller's ClusterRole"
    );
    let rules = role["rules"].as_array().context("the role has no rules")?;
    let has = |rule: &Value, field: &str, wanted: &str| {
        rule[field]
            .as_array()
            .is_some_and(|values| values.iter().any(|value| value == wanted))
    };
    for Kind { group, plural, .. } in &KINDS {
        let of_kind = || {
            rules
                .iter()
                .filter(|rule| has(rule, "apiGroups", group) && has(rule, "resources", plural))
        };
        for verb in ["get", "list", "watch", "patch"] {
            ensure!(
                of_kind().any(|rule| has(rule, "verbs", verb)),
                "{file} has no right to {verb} {plural}.{group}"
            );
        }
    }
    Ok(())
}

#[test]
fn converted_kinds_are_stored_as_v1beta1() {
    for kind in KINDS.iter().filter(|kind| kind.is_converted()) {
        let file = "charts/berth/templates/policy-controller.yaml";
        assert_eq!(
            kind.stored.name(),
            "v1beta1",
            "{file}, kruise-manager-definitions, knows no other: {}",
            kind.kind
        );
    }
}

#[test]
fn each_kind_is_in_the_documents_that_list_kinds() -> Result<()> {
    for kind in &KINDS {
        for (file, name) in [
            ("README.md", kind.kind.to_owned()),
            ("charts/berth/README.md", kind.crd()),
            ("charts/berth/TAKEOVER.md", kind.plural.to_owned()),
        ] {
            ensure!(read(file)?.contains(&name), "{file} says nothing of {name}");
        }
    }
    Ok(())
}
