//! Lists of metadata: of each object no more than its version.

use std::time::Duration;

use http::Method;
use http::header::{ACCEPT, HeaderValue};
use kube::Client;
use serde::Deserialize;
use tokio::time::Instant;

use super::{Failed, decode, request, send};
use crate::object::Resource;

const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
/// For the answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A page of a list.
#[derive(Default)]
pub(crate) struct Page {
    /// The collection's version.
    pub(crate) version: Box<str>,
    /// Where the next page begins; empty after the last.
    pub(crate) next: Box<str>,
    /// The versions of the objects.
    pub(crate) versions: Vec<Box<str>>,
}

#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    /// An empty list of metadata is `null`.
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: Box<str>,
    #[serde(rename = "continue", default)]
    next: Box<str>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMeta,
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
    let mut request = request(Method::GET, &resource.list(namespace, parameters)?, "", Vec::new())?;
    request.headers_mut().insert(ACCEPT, METADATA_ONLY);
    let List { metadata, items } = decode(&send(client, request, Instant::now() + TIMEOUT).await?)?;
    let versions = items.into_iter().flatten().map(|item| item.metadata.resource_version).collect();
    Ok(Page { version: metadata.resource_version, next: metadata.next, versions })
}
