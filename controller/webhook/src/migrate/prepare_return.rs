//! The way back to a release of OpenKruise that serves kinds in v1alpha1 alone: their objects are
//! stored in v1alpha1, and the CRDs say so, as long as the conversion webhook still answers.

use std::time::Duration;

use berth_api::kinds::Version;
use berth_api::kinds::releases::{OlderKind, Release};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{DynamicObject, ListParams, Request};
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Error;
use crate::apiserver::crds;
use crate::migrate::{Migrated, PAGE, resource, send, store_in};

/// How many losses are printed.
const MOST_PRINTED: usize = 100;

/// Why objects cannot go to a release.
#[derive(Debug, thiserror::Error)]
pub enum ReturnError {
    /// Some would lose fields. The report names them.
    #[error("OpenKruise {release} would lose {losses} fields of objects: {remedy}")]
    Losses {
        /// The release.
        release: &'static str,
        /// How many fields.
        losses: usize,
        /// The state, and what to do.
        remedy: &'static str,
    },
    /// The apiserver refused or failed.
    #[error(transparent)]
    Webhook(#[from] Error),
}

/// Stores all objects of the kinds that the release serves in v1alpha1 alone in v1alpha1, unless
/// any of them would lose a field. `settle` is the time after which each apiserver knows a changed
/// CRD. `report` gets one line for each step and loss.
///
/// # Errors
/// When an object would lose a field: then nothing was written. When the apiserver refuses or
/// fails: a second call goes on.
pub async fn prepare_return(
    client: &Client,
    release: &Release,
    settle: Duration,
    report: &mut (dyn FnMut(String) + Send),
) -> Result<Migrated, ReturnError> {
    let refused = |losses, remedy| ReturnError::Losses {
        release: release.version,
        losses,
        remedy,
    };
    let losses = report_losses(client, release, report).await?;
    if losses > 0 {
        let remedy = "nothing was written; change these fields or delete the objects, then run the command again";
        return Err(refused(losses, remedy));
    }
    let done = store_in(
        client,
        release.kinds().map(|older| older.kind),
        Version::V1Alpha1,
        settle,
    )
    .await?;
    for older in release.kinds() {
        report(format!(
            "{}: all objects are stored in v1alpha1",
            older.kind.crd()
        ));
    }
    let losses = report_losses(client, release, report).await?;
    if losses > 0 {
        let remedy = "they were written meanwhile; change these fields or delete the objects, then run the command again";
        return Err(refused(losses, remedy));
    }
    Ok(done)
}

/// Reports the fields that objects would lose, and counts them.
async fn report_losses(
    client: &Client,
    release: &Release,
    report: &mut (dyn FnMut(String) + Send),
) -> Result<usize, Error> {
    let mut losses = 0;
    for older in release.kinds() {
        let crd = older.kind.crd();
        let found = crds(client).get_opt(&crd).await;
        if found
            .map_err(|source| Error::api("read", "CustomResourceDefinition", &crd, source))?
            .is_none()
        {
            continue;
        }
        let objects = losses_of(client, (&older, release.version), &mut losses, report).await?;
        report(format!("{crd}: looked at {objects} objects"));
    }
    if losses > MOST_PRINTED {
        report(format!("… and {} more fields", losses - MOST_PRINTED));
    }
    Ok(losses)
}

/// A page of whole objects.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    items: Option<Vec<Box<RawValue>>>,
}

/// The fields that name an object.
#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

async fn losses_of(
    client: &Client,
    (older, version): (&OlderKind, &str),
    losses: &mut usize,
    report: &mut (dyn FnMut(String) + Send),
) -> Result<usize, Error> {
    let kind = older.kind.kind;
    let all = Request::new(DynamicObject::url_path(&resource(older.kind), None));
    let mut params = ListParams::default().limit(PAGE);
    let mut objects = 0;
    loop {
        let page = send::<Page>(client, all.list(&params)).await;
        let page = page.map_err(|source| Error::api("list", kind, "", source))?;
        for object in page.items.iter().flatten() {
            objects += 1;
            for line in lines(older, version, object.get()) {
                *losses += 1;
                if *losses <= MOST_PRINTED {
                    report(line);
                }
            }
        }
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(objects),
        }
    }
}

/// The losses of an object, a line for each field.
fn lines(older: &OlderKind, version: &str, object: &str) -> Vec<String> {
    let name = match serde_json::from_str::<Named>(object) {
        Ok(Named {
            metadata: Name { namespace, name },
        }) if namespace.is_empty() => name,
        Ok(Named {
            metadata: Name { namespace, name },
        }) => format!("{namespace}/{name}"),
        Err(_) => String::new(),
    };
    let kind = older.kind.kind;
    match older.losses(object) {
        Ok(losses) => losses
            .into_iter()
            .map(|loss| {
                format!(
                    "{kind} {name}: {} {} has no place in v1alpha1 of OpenKruise {version}",
                    loss.field, loss.value
                )
            })
            .collect(),
        Err(error) => vec![format!("{kind} {name}: {error}")],
    }
}
