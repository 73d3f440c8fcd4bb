//! Decoded lines of a watch and pages of a list. An unreadable object does not affect others.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::weight::{Limits, without_managed_fields};
use berth_workload::objects::pod::Owner;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::client::Failed;

/// The most bytes of an error message about an unreadable object.
const LONGEST_ERROR: usize = 1 << 10;
/// The most owners that are kept of an unreadable object.
const MOST_OWNERS: usize = 16;

/// One line of a watch.
#[derive(Debug)]
pub enum Event<T> {
    /// Added or modified.
    Applied(T),
    /// Deleted, in its last version.
    Deleted(T),
    /// Every change up to this version has been sent.
    Bookmark {
        /// The version.
        version: String,
        /// The streaming list has ended.
        initial_end: bool,
    },
    /// An object that the type cannot read.
    Odd(Box<Odd>),
    /// The server ends the watch with an error.
    Error(Failed),
}

/// An unreadable object. Metadata fields that are unreadable, too, are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Odd {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// Its owners.
    pub owners: Box<[Owner]>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether it was deleted.
    pub gone: bool,
    /// The error.
    pub error: String,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// Its objects.
    pub items: Vec<T>,
    /// The unreadable objects.
    pub odd: Vec<Odd>,
    /// The version of the list.
    pub version: String,
    /// The token of the next page; empty on the last.
    pub next: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    resource_version: String,
    annotations: Annotations,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_end: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    metadata: Meta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ErrorStatus {
    code: u16,
    reason: String,
    message: String,
}

#[derive(Deserialize)]
struct List<I> {
    metadata: ListMeta,
    /// Go sometimes writes an empty list as null.
    items: Option<Vec<I>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: String,
}

/// Decodes a line of a watch. An object that exceeds the limits is unreadable.
///
/// # Errors
/// The line is not an event.
pub fn event<T: DeserializeOwned>(
    line: &[u8],
    limits: Option<&Limits>,
) -> Result<Event<T>, Failed> {
    let broken = |error| Failed {
        message: format!("not a watch event: {error}"),
        ..Failed::default()
    };
    let Line { kind, object } = serde_json::from_slice(line).map_err(broken)?;
    let text = object.get();
    Ok(match &*kind {
        "ADDED" | "MODIFIED" => one(text, limits).map_or_else(Event::Odd, Event::Applied),
        "DELETED" => one(text, limits).map_or_else(
            |odd| Event::Odd(Box::new(Odd { gone: true, ..*odd })),
            Event::Deleted,
        ),
        "BOOKMARK" => {
            let Named { metadata } = serde_json::from_str(text).map_err(broken)?;
            Event::Bookmark {
                version: metadata.resource_version,
                initial_end: metadata.annotations.initial_end == "true",
            }
        }
        "ERROR" => {
            let ErrorStatus {
                code,
                reason,
                message,
            } = serde_json::from_str(text).unwrap_or_default();
            Event::Error(Failed {
                code,
                reason,
                message,
                not_done: true,
                ..Failed::default()
            })
        }
        // Kubernetes has no other types today. The version must not count as passed, because it may
        // come before the versions of other events.
        other => Event::Odd(Box::new(Odd {
            error: format!("unknown event type {other:?}"),
            ..Odd::default()
        })),
    })
}

/// Decodes a page of a list. An object that exceeds the limits is unreadable.
///
/// # Errors
/// The text is not a list.
pub fn page<T: DeserializeOwned>(body: &[u8], limits: Option<&Limits>) -> Result<Page<T>, Failed> {
    let broken = |error| Failed {
        message: format!("not a list: {error}"),
        ..Failed::default()
    };
    let List { metadata, items } =
        serde_json::from_slice::<List<&RawValue>>(body).map_err(broken)?;
    let mut page = Page {
        items: Vec::new(),
        odd: Vec::new(),
        version: metadata.resource_version,
        next: metadata.r#continue,
    };
    for item in items.unwrap_or_default() {
        match one(item.get(), limits) {
            Ok(item) => page.items.push(item),
            Err(odd) => page.odd.push(*odd),
        }
    }
    Ok(page)
}

/// Decodes one object. Its size is checked before it is parsed, because a template as a tree may
/// take a hundred times its text.
///
/// # Errors
/// The type cannot read it, or it exceeds a limit.
pub(crate) fn one<T: DeserializeOwned>(text: &str, limits: Option<&Limits>) -> Result<T, Box<Odd>> {
    let read = || {
        let Some(limits) = limits.filter(|limits| !limits.is_light(text)) else {
            return serde_json::from_str(text).map_err(|error| error.to_string());
        };
        let text = without_managed_fields(text);
        limits.check_object(&text)?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    read().map_err(|error: String| Box::new(Odd::of(text, error)))
}

/// The fields of an object's metadata, each as text, so that an unreadable field does not affect
/// the others.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Fields<'a> {
    #[serde(borrow)]
    metadata: BTreeMap<String, &'a RawValue>,
}

impl Odd {
    /// The readable metadata of an object that is unreadable for this reason.
    fn of(text: &str, mut error: String) -> Self {
        let Fields { metadata } = serde_json::from_str(text).unwrap_or_default();
        let string = |field: &str| -> String { read(&metadata, field) };
        // The error may quote a value of the object.
        error.truncate(error.floor_char_boundary(LONGEST_ERROR));
        Self {
            namespace: string("namespace"),
            name: string("name"),
            uid: string("uid"),
            version: string("resourceVersion"),
            owners: owners(read(&metadata, "ownerReferences")),
            terminating: metadata.contains_key("deletionTimestamp"),
            gone: false,
            error,
        }
    }
}

/// The owners that are kept: valid ones, the controller first.
fn owners(mut all: Vec<Owner>) -> Box<[Owner]> {
    all.retain(|owner| owner.check().is_ok());
    all.sort_by_key(|owner| !owner.controller);
    all.truncate(MOST_OWNERS);
    all.into()
}

/// A field, or its default if it is missing or unreadable.
fn read<T: DeserializeOwned + Default>(metadata: &BTreeMap<String, &RawValue>, field: &str) -> T {
    metadata
        .get(field)
        .and_then(|text| serde_json::from_str(text.get()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
