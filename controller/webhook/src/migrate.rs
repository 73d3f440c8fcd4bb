//! Storage migration: every object of ours is stored in the newest version of its kind, and the
//! CRDs say so.
//!
//! A CRD that stores another version is left alone, however often the migration tries again: after
//! a step back to a release of OpenKruise ([`crate::migrate::prepare_return`]) the administrator
//! wants that version. The chart's CRDs bring the newest version back.
//!
//! After a version is no longer the stored one, objects written before stay as they are until
//! someone writes them. Only when all have been written again may the old version be removed from a
//! CRD.

pub(crate) mod prepare_return;

use std::time::Duration;

use berth_api::kinds::{self, Kind, Version};
use futures::TryStreamExt;
use futures::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, Request};
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use tracing::{info, warn};

use crate::Error;
use crate::apiserver::{Crd, crds, patching};

/// How many objects are listed at once. The metadata of each can be a megabyte of text: it has an
/// entry for every field that any user applied.
pub(crate) const PAGE: u32 = 20;
/// How many objects are written at a time: a list must end before the apiserver forgets its
/// beginning, after five minutes.
const WRITES: usize = 4;
/// The wait after a failure doubles from here.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// It doubles up to here.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migrated {
    /// How many CRDs said that objects of another version may be stored.
    pub crds: usize,
    /// How many objects were written again.
    pub objects: usize,
}

impl Migrated {
    /// Adds the result for one kind, if there was anything to do.
    fn add(&mut self, objects: Option<usize>) {
        self.crds += usize::from(objects.is_some());
        self.objects += objects.unwrap_or_default();
    }
}

/// Migrates all of our CRDs, and retries until it is done; drop the future to give up. Nothing is
/// lost by that: the next call starts where a CRD still names another version. A kind that fails
/// delays no other kind.
pub async fn migrate(client: &Client) -> Migrated {
    let mut done = Migrated::default();
    let mut pending: Vec<_> = kinds::converted().collect();
    let mut wait = BACKOFF_MIN;
    loop {
        for kind in std::mem::take(&mut pending) {
            match migrate_kind(client, kind, kind.stored).await {
                Ok(objects) => done.add(objects),
                Err(error) => {
                    warn!(kind = kind.kind, %error, seconds = wait.as_secs(), "the storage migration failed; trying again");
                    pending.push(kind);
                }
            }
        }
        if pending.is_empty() {
            return done;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(BACKOFF_MAX);
    }
}

/// Makes `version` the stored one of these kinds and writes their objects in it. A CRD that is not
/// installed is left out. The controller's own account may make no other version the stored one, so
/// `client` has an administrator's rights.
///
/// # Errors
/// When the apiserver refuses or fails. A second call goes on where the first one ended.
pub(crate) async fn store_in<'a>(
    client: &Client,
    kinds: impl Iterator<Item = &'a Kind> + Clone,
    version: Version,
    settle: Duration,
) -> Result<Migrated, Error> {
    let mut needs_rewrite = false;
    for kind in kinds.clone() {
        needs_rewrite |= make_stored(client, kind, version).await?;
    }
    if needs_rewrite {
        tokio::time::sleep(settle).await;
    }
    let mut done = Migrated::default();
    for kind in kinds {
        done.add(migrate_kind(client, kind, version).await?);
    }
    Ok(done)
}

/// Makes a version the stored one of a CRD, and returns whether its objects must be written again.
async fn make_stored(client: &Client, kind: &Kind, version: Version) -> Result<bool, Error> {
    let (name, wanted) = (kind.crd(), version.name());
    let failed = |verb, source| Error::api(verb, "CustomResourceDefinition", &name, source);
    let crds = crds(client);
    let Some(crd) = crds
        .get_opt(&name)
        .await
        .map_err(|source| failed("read", source))?
    else {
        return Ok(false);
    };
    let other = match need(&crd, wanted) {
        Need::Nothing => return Ok(false),
        Need::Rewrite => return Ok(true),
        Need::OtherStorage(other) => other,
    };
    if !crd.spec.versions.iter().any(|served| served.name == wanted) {
        return Err(Error::OtherStorage {
            crd: name,
            version: other,
            wanted,
        });
    }
    // The patch replaces only flags, because the schemas are megabytes. The test makes sure that
    // the indexes still belong to these versions.
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": crd.metadata.resource_version});
    let flags = crd.spec.versions.iter().enumerate().map(|(at, served)| {
        json!({"op": "replace", "path": format!("/spec/versions/{at}/storage"), "value": served.name == wanted})
    });
    let patch = serde_json::Value::from_iter(std::iter::once(test).chain(flags));
    let patch = serde_json::from_value(patch)
        .map_err(|source| failed("patch", kube::Error::SerdeError(source)))?;
    crds.patch(&name, &patching(), &Patch::Json::<()>(patch))
        .await
        .map_err(|source| failed("patch", source))?;
    info!(
        kind = kind.kind,
        "{wanted} is the stored version from now on"
    );
    Ok(true)
}

/// The work that a CRD needs.
#[derive(Debug, PartialEq, Eq)]
enum Need {
    /// Nothing: no other version has ever been stored, or all was migrated.
    Nothing,
    /// Its objects must be written again.
    Rewrite,
    /// It is another version's CRD, which stores something else: it must not be migrated.
    OtherStorage(String),
}

fn need(crd: &Crd, wanted: &str) -> Need {
    let storage = crd
        .spec
        .versions
        .iter()
        .find(|version| version.storage)
        .map(|version| version.name.as_str());
    if storage != Some(wanted) {
        return Need::OtherStorage(storage.unwrap_or_default().to_owned());
    }
    let stored = crd
        .status
        .as_ref()
        .map(|status| status.stored_versions.as_slice())
        .unwrap_or_default();
    if stored.iter().any(|version| version != wanted) {
        Need::Rewrite
    } else {
        Need::Nothing
    }
}

/// Migrates one kind; `None` when there was nothing to do.
async fn migrate_kind(
    client: &Client,
    kind: &Kind,
    version: Version,
) -> Result<Option<usize>, Error> {
    let (name, wanted) = (kind.crd(), version.name());
    let failed = |verb, source| Error::api(verb, "CustomResourceDefinition", &name, source);
    let crds = crds(client);
    // A definition that is installed later stores the new version from its beginning.
    let Some(crd) = crds
        .get_opt(&name)
        .await
        .map_err(|source| failed("read", source))?
    else {
        return Ok(None);
    };
    match need(&crd, wanted) {
        Need::Nothing => return Ok(None),
        Need::OtherStorage(version) => {
            return Err(Error::OtherStorage {
                crd: name,
                version,
                wanted,
            });
        }
        Need::Rewrite => {}
    }
    let stored = crd
        .status
        .as_ref()
        .map(|status| status.stored_versions.join(","))
        .unwrap_or_default();
    info!(
        kind = kind.kind,
        stored, "migrating the stored objects to {wanted}"
    );
    let objects = rewrite_all(client, kind).await?;
    // The precondition makes sure that no other version became the stored one meanwhile.
    let patch = json!({
        "metadata": {"resourceVersion": settled_version(&crds, &name, &crd, wanted).await?},
        "status": {"storedVersions": [wanted]},
    });
    let params = patching();
    crds.patch_status(&name, &params, &Patch::Merge(patch))
        .await
        .map_err(|source| failed("patch the status of", source))?;
    info!(kind = kind.kind, objects, "all stored objects are {wanted}");
    Ok(Some(objects))
}

/// The CRD's resourceVersion now, if its storage is still as it was before the objects were
/// written: caBundles and conditions change all the time, and must not make the migration start
/// again.
async fn settled_version(
    crds: &Api<Crd>,
    name: &str,
    before: &Crd,
    wanted: &str,
) -> Result<Option<String>, Error> {
    let now = crds
        .get(name)
        .await
        .map_err(|source| Error::api("read", "CustomResourceDefinition", name, source))?;
    let same = need(&now, wanted) == Need::Rewrite && now.metadata.uid == before.metadata.uid;
    if same {
        Ok(now.metadata.resource_version)
    } else {
        Err(Error::StorageChanged {
            crd: name.to_owned(),
        })
    }
}

/// A page of a list, with only the fields that name its objects.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    items: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    namespace: Option<String>,
    name: String,
}

pub(crate) async fn send<T: DeserializeOwned>(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<T, kube::Error> {
    client
        .request(request.map_err(kube::Error::BuildRequest)?)
        .await
}

/// The resource of a kind, in the version that the controller works with.
pub(crate) fn resource(kind: &Kind) -> ApiResource {
    let gvk = GroupVersionKind::gvk(kind.group, kind.stored.name(), kind.kind);
    ApiResource::from_gvk_with_plural(&gvk, kind.plural)
}

async fn rewrite_all(client: &Client, kind: &Kind) -> Result<usize, Error> {
    let resource = resource(kind);
    let kind = kind.kind;
    let all = Request::new(DynamicObject::url_path(&resource, None));
    let mut params = ListParams::default().limit(PAGE);
    let mut done = 0;
    loop {
        let page = send::<Page>(client, all.list_metadata(&params)).await;
        let page = page.map_err(|source| Error::api("list", kind, "", source))?;
        let objects = page.items.unwrap_or_default();
        done += objects.len();
        stream::iter(objects.into_iter().map(Ok))
            .try_for_each_concurrent(WRITES, |object| {
                rewrite(client, &resource, kind, object.metadata)
            })
            .await?;
        let left = page.metadata.remaining_item_count.unwrap_or_default();
        info!(kind, done, left, "migrating");
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(done),
        }
    }
}

/// Writes one object unchanged. The apiserver compares the new stored form with the old one, the
/// version included, so an empty patch rewrites an object in another version and costs nothing for
/// the rest.
async fn rewrite(
    client: &Client,
    resource: &ApiResource,
    kind: &str,
    object: Name,
) -> Result<(), Error> {
    let Name { namespace, name } = &object;
    let of = Request::new(DynamicObject::url_path(resource, namespace.as_deref()));
    match send(
        client,
        of.patch_metadata(name, &patching(), &Patch::Merge(json!({}))),
    )
    .await
    {
        Ok(IgnoredAny) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => {
            let namespace = namespace.as_deref().unwrap_or_default();
            Err(Error::api(
                "rewrite",
                kind,
                &format!("{namespace}/{name}"),
                source,
            ))
        }
    }
}
