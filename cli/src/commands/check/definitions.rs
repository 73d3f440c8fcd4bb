//! Category `berth-definitions`: Berth's kinds in the apiserver.

use std::collections::BTreeSet;
use std::time::Instant;

use berth_api::kinds::{self, KINDS, Kind};
use berth_api::names::V1ALPHA1;
use berth_workload::objects::resource::Resource;
use kube::api::ListParams;
use serde_json::Value;

use super::context::{Context, DEFINITIONS, Unread, named, unread};
use super::outcome::{Category, Found, Outcome, Rule, some_of};
use crate::exit::is_not_found;
use crate::objects::{condition, items, text};

/// Berth's kinds.
pub(super) static CATEGORY: Category = Category {
    name: "berth-definitions",
    rules: &[
        Rule::new("served", |c| Box::pin(served(c))),
        Rule::new("stored", |c| Box::pin(stored(c))),
        Rule::new("conversion", |c| Box::pin(conversion(c))),
    ],
};

async fn served(context: &Context<'_>) -> Found {
    let versions = KINDS
        .iter()
        .flat_map(|kind| kind.versions().map(|version| kind.api_version(version)));
    let versions: BTreeSet<_> = versions.collect();
    let session = context.session;
    let mut served = BTreeSet::new();
    for version in versions {
        let found = session.client.list_api_group_resources(&version);
        let found = session.within(found).await;
        match found.map_err(|error| unread(&error))? {
            Ok(found) => {
                let names = found.resources.into_iter().map(|one| one.name);
                served.extend(names.map(|plural| (version.clone(), plural)));
            }
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(unread(&error.into())),
        }
    }
    Ok(judge_served(&served))
}

/// Judges the served pairs of `apiVersion` and plural.
pub(super) fn judge_served(served: &BTreeSet<(String, String)>) -> Outcome {
    let missing = KINDS.iter().flat_map(|kind| {
        let versions = kind.versions().map(|version| kind.api_version(version));
        versions.filter_map(|version| {
            let is_served = served.contains(&(version.clone(), kind.plural.to_owned()));
            (!is_served).then(|| format!("{version} {}", kind.kind))
        })
    });
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return Outcome::Ok(format!("all {} kinds are served", KINDS.len()));
    }
    Outcome::Fail(
        format!("kinds are not served: {}", some_of(&missing)),
        "install Berth's chart with crds.install=true: helm upgrade --install berth charts/berth"
            .to_owned(),
    )
}

async fn stored(context: &Context<'_>) -> Found {
    let definitions = context.list(DEFINITIONS).await?;
    Ok(judge_stored(&definitions, env!("CARGO_PKG_VERSION")))
}

/// Judges the definitions for a plugin of this version.
pub(super) fn judge_stored(definitions: &[Value], version: &str) -> Outcome {
    let (mut failed, mut warned) = (Vec::new(), Vec::new());
    for kind in &KINDS {
        let Some(definition) = named(definitions, &kind.crd()) else {
            failed.push(format!("{} does not exist", kind.crd()));
            continue;
        };
        if let Some(fault) = fault(kind, definition) {
            failed.push(format!("{}: {fault}", kind.crd()));
        } else if let Some(remark) = remark(kind, definition, version) {
            warned.push(format!("{}: {remark}", kind.crd()));
        }
    }
    let all = KINDS.len();
    if !failed.is_empty() {
        return Outcome::Fail(
            format!("{} of {all} definitions are not usable", failed.len()),
            failed.join("\n"),
        );
    }
    if !warned.is_empty() {
        return Outcome::Warn(
            format!(
                "{} of {all} definitions are of another release",
                warned.len()
            ),
            warned.join("\n"),
        );
    }
    Outcome::Ok(format!(
        "{all} definitions are of this release, and store v1beta1"
    ))
}

fn fault(kind: &Kind, definition: &Value) -> Option<String> {
    let stored = items(definition, "/spec/versions").find(|version| version["storage"] == true);
    let stored = stored
        .map(|version| text(version, "/name"))
        .unwrap_or_default();
    if stored != kind.stored.name() {
        return Some(format!(
            "stores version {stored:?}, not {:?}: run helm upgrade",
            kind.stored.name()
        ));
    }
    if condition(definition, "Established").is_none_or(|one| one["status"] != "True") {
        return Some("condition Established is not True".to_owned());
    }
    let has_webhook = text(definition, "/spec/conversion/strategy") == "Webhook";
    if kind.is_converted() && !has_webhook {
        return Some("spec.conversion.strategy is not Webhook: run helm upgrade".to_owned());
    }
    let bundle = text(definition, "/spec/conversion/webhook/clientConfig/caBundle");
    if kind.is_converted() && bundle.is_empty() {
        return Some(
            "spec.conversion.webhook.clientConfig.caBundle is empty until the controller writes it"
                .to_owned(),
        );
    }
    None
}

fn remark(kind: &Kind, definition: &Value, version: &str) -> Option<String> {
    let of = text(definition, "/metadata/labels/app.kubernetes.io~1version");
    if of != version {
        return Some(format!("is of release {of:?}, this plugin of {version:?}"));
    }
    let older = items(definition, "/status/storedVersions")
        .filter_map(Value::as_str)
        .find(|stored| *stored != kind.stored.name())?;
    Some(format!(
        "some objects may still be stored as {older}; the controller rewrites them"
    ))
}

async fn conversion(context: &Context<'_>) -> Found {
    let mut refused = None;
    // Each node has a NodeImage, so that this kind alone usually suffices.
    let others = kinds::converted().filter(|kind| kind.plural != kinds::NODE_IMAGE.plural);
    for kind in [&kinds::NODE_IMAGE].into_iter().chain(others) {
        let older = Resource {
            version: V1ALPHA1,
            ..Resource::of(kind)
        };
        let begin = Instant::now();
        let (session, one) = (context.session, ListParams::default().limit(1));
        let api = session.api_in(older, "");
        let page = session.within(api.list(&one)).await;
        let page = page.map_err(|error| unread(&error))?;
        match page.map_err(|error| unread(&error.into())) {
            Ok(page) if page.items.is_empty() => {}
            Ok(_) => {
                let time = begin.elapsed().as_millis();
                return Ok(Outcome::Ok(format!(
                    "a v1alpha1 {} was read through the webhook in {time} ms",
                    kind.kind
                )));
            }
            Err(Unread::Forbidden(sentence)) => refused = Some(sentence),
            Err(Unread::Failed(sentence)) => {
                return Ok(Outcome::Fail(
                    format!("no {} can be read as v1alpha1: {sentence}", kind.kind),
                    "the apiserver reaches no replica of the controller: see berth-controller below"
                        .to_owned(),
                ));
            }
        }
    }
    Ok(match refused {
        Some(sentence) => Outcome::Unknown(sentence),
        None => Outcome::Ok("no object needs conversion".to_owned()),
    })
}
