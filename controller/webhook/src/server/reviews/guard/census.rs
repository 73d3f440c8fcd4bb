//! Counts the objects of a namespace or a kind by lists of the apiserver, page by page, never from
//! a cache.

use berth_api::name::InvalidName;
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;

/// Objects of one page. One page with objects that count is enough to refuse.
const PAGE: u32 = 25;
/// The most pages without an object that counts.
const MOST_PAGES: u32 = 200;
/// The most bytes of a page: any author may write annotations, and an object may have 256 KiB of
/// them.
const LARGEST_PAGE: usize = 8 << 20;
/// The most characters of the apiserver's message that ours repeat.
const LONGEST_REASON: usize = 300;
/// How many names a message shows.
const SHOWN: usize = 3;

/// A list to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Listing {
    /// The noun for one of them.
    pub(super) one: &'static str,
    /// The noun for several.
    pub(super) many: &'static str,
    pub(super) path: String,
    /// The field selector, which leaves out objects that do not count.
    pub(super) fields: Option<&'static str>,
    /// Whether only bound objects count. That is in the status, so the lists contain whole objects.
    pub(super) is_bound: bool,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub(in crate::server) enum Unlisted {
    /// Too many lists run at once.
    #[error("too many deletions are reviewed at once: try again")]
    Busy,
    /// The time is up.
    #[error("the apiserver does not list all of it in time: try again")]
    Late,
    /// The apiserver does not answer.
    #[error("the apiserver does not answer: {0}")]
    Silent(String),
    /// The apiserver refuses.
    #[error("the apiserver answers a list of {path} with {code} {message}")]
    Refused {
        path: String,
        code: u16,
        message: String,
    },
    /// The answer is no list.
    #[error("the apiserver's list of {path} cannot be read: {why}")]
    Unreadable { path: String, why: String },
    /// A page is larger than the limit.
    #[error("{PAGE} objects of {path} have more than {} MiB", LARGEST_PAGE >> 20)]
    Large { path: String },
    /// There are more objects than the limit of pages.
    #[error("{path} has more than {} objects that do not count, and whether one behind them does is not known", PAGE * MOST_PAGES)]
    Many { path: String },
    /// The resource is not served.
    #[error("none of its versions is served")]
    Unserved,
    /// A name that cannot be part of a path.
    #[error(transparent)]
    Invalid(#[from] InvalidName),
}

/// A page of a list, as far as it is read.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    metadata: ListMeta,
    items: Option<Vec<Item>>,
}

#[derive(Debug, Deserialize)]
struct ListMeta {
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Item {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    namespace: Option<String>,
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    phase: Option<String>,
}

/// The objects that count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct Living {
    /// How many there are.
    pub(super) count: usize,
    /// Whether there may be more of them.
    pub(super) has_more: bool,
    /// The names of the first.
    pub(super) names: Vec<String>,
}

impl Listing {
    /// Counts up to the end of the first page with an object that counts.
    ///
    /// # Errors
    /// It is not known whether an object counts.
    pub(super) async fn count(&self, client: &Client) -> Result<Living, Unlisted> {
        let mut token = None;
        for _ in 0..MOST_PAGES {
            let page = self.page(client, token).await?;
            let living = self.living(&page);
            token = page.metadata.token.filter(|token| !token.is_empty());
            if living.count > 0 || token.is_none() {
                return Ok(living);
            }
        }
        Err(Unlisted::Many {
            path: self.path.clone(),
        })
    }

    /// The objects of a page that count.
    fn living(&self, page: &Page) -> Living {
        let lives = |item: &&Item| {
            item.metadata.deletion_timestamp.is_none()
                && (!self.is_bound || item.status.phase.as_deref() == Some("Bound"))
        };
        let living = || page.items.iter().flatten().filter(lives);
        Living {
            count: living().count(),
            has_more: page
                .metadata
                .token
                .as_ref()
                .is_some_and(|token| !token.is_empty()),
            names: living()
                .take(SHOWN)
                .map(|item| self.name(&item.metadata))
                .collect(),
        }
    }

    /// The name, with the namespace unless the list is of one namespace.
    fn name(&self, object: &Meta) -> String {
        match &object.namespace {
            Some(namespace) if !self.path.contains("/namespaces/") => {
                format!("{namespace}/{}", object.name)
            }
            _ => object.name.clone(),
        }
    }

    async fn page(&self, client: &Client, token: Option<String>) -> Result<Page, Unlisted> {
        let params = ListParams {
            limit: Some(PAGE),
            continue_token: token,
            field_selector: self.fields.map(str::to_owned),
            ..ListParams::default()
        };
        let request = Request::new(&*self.path);
        let request = if self.is_bound {
            request.list(&params)
        } else {
            request.list_metadata(&params)
        };
        let silent = |error: &dyn std::fmt::Display| Unlisted::Silent(error.to_string());
        let request = request
            .map_err(|error| silent(&error))?
            .map(kube::client::Body::from);
        let response = client.send(request).await.map_err(|error| silent(&error))?;
        let (path, code) = (self.path.clone(), response.status());
        let body = Limited::new(response.into_body(), LARGEST_PAGE)
            .collect()
            .await;
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(Unlisted::Large { path });
            }
            Err(error) => return Err(silent(&error)),
        };
        if !code.is_success() {
            return Err(Unlisted::Refused {
                path,
                code: code.as_u16(),
                message: reason(&body),
            });
        }
        serde_json::from_slice(&body).map_err(|error| Unlisted::Unreadable {
            path,
            why: error.to_string(),
        })
    }
}

/// The apiserver's message, if it has one.
fn reason(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Said {
        message: String,
    }
    let said =
        serde_json::from_slice(body).map_or_else(|_| String::new(), |Said { message }| message);
    said.chars().take(LONGEST_REASON).collect()
}

#[cfg(test)]
mod tests;
