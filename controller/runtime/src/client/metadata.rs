//! Lists of metadata: of each object no more than which it is, and its version.

use std::time::Duration;

use http::Method;
use http::header::{ACCEPT, HeaderValue};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Failed, decode, request, send};
use crate::object::Resource;

const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
/// Identities of one page: the metadata of an object may have as much text as fits into etcd.
const IDENTITIES: &str = "20";
/// The longest time for one answer, and for all pages of identities.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A page of a list.
#[derive(Default)]
pub(crate) struct Page {
    /// The collection's version.
    pub(crate) version: Box<str>,
    /// The token of the next page; empty on the last.
    pub(crate) next: Box<str>,
    /// The versions of the objects.
    pub(crate) versions: Vec<Box<str>>,
}

/// The identity of an object in a list, and its generation.
#[derive(Debug, Clone, Deserialize)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its generation; 0 if its kind has none.
    #[serde(default)]
    pub generation: i64,
}

#[derive(Deserialize)]
struct List<M> {
    metadata: ListMeta,
    /// An empty list of metadata is `null`.
    items: Option<Vec<Item<M>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: Box<str>,
    #[serde(rename = "continue", default)]
    next: Box<str>,
}

#[derive(Deserialize)]
struct Item<M> {
    metadata: M,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMeta {
    resource_version: Box<str>,
}

/// Reads a page of the objects of a namespace, or of all namespaces if it is empty.
///
/// # Errors
/// The server's answer, or what went wrong on the way.
pub(crate) async fn page(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    parameters: &[(&str, &str)],
) -> Result<Page, Failed> {
    let deadline = Instant::now() + TIMEOUT;
    let List::<ItemMeta> { metadata, items } =
        list(client, resource, namespace, parameters, deadline).await?;
    let versions = items
        .into_iter()
        .flatten()
        .map(|item| item.metadata.resource_version)
        .collect();
    Ok(Page {
        version: metadata.resource_version,
        next: metadata.next,
        versions,
    })
}

/// The objects of a namespace at the moment of the first page, read without a cache. Each page
/// takes a permit of `pages`, so that the permits limit the pages in memory, and long lists delay
/// short ones by a page at a time.
///
/// # Errors
/// The server's answer, or a failure of the connection.
pub async fn identities(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    pages: &Semaphore,
) -> Result<Vec<Identity>, Failed> {
    let (mut all, mut next, deadline) =
        (Vec::new(), Box::<str>::default(), Instant::now() + TIMEOUT);
    loop {
        let closed = |_| Failed::unsent("no page is read any more");
        let _reading = pages.acquire().await.map_err(closed)?;
        let parameters = [("limit", IDENTITIES), ("continue", &*next)];
        let List::<Identity> { metadata, items } =
            list(client, resource, namespace, &parameters, deadline).await?;
        all.extend(items.into_iter().flatten().map(|item| item.metadata));
        next = metadata.next;
        if next.is_empty() {
            return Ok(all);
        }
    }
}

async fn list<M: DeserializeOwned>(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    parameters: &[(&str, &str)],
    deadline: Instant,
) -> Result<List<M>, Failed> {
    let mut request = request(
        Method::GET,
        &resource.list(namespace, parameters)?,
        "",
        Vec::new(),
    )?;
    request.headers_mut().insert(ACCEPT, METADATA_ONLY);
    decode(&send(client, request, deadline).await?)
}
