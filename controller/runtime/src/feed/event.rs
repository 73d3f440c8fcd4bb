//! What a watch and a list say, decoded. An object that cannot be decoded never takes others with it.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::client::Failed;

/// One line of a watch.
#[derive(Debug)]
pub enum Event<T> {
    /// Added or modified.
    Applied(T),
    /// Deleted, as it was last.
    Deleted(T),
    /// Every change up to this version has been sent.
    Bookmark {
        /// The version.
        version: String,
        /// The streaming list has ended.
        initial_end: bool,
    },
    /// An object that the type does not fit.
    Odd(Box<Odd>),
    /// The server ends the watch with an error.
    Error(Failed),
}

/// An object that cannot be decoded. What of its metadata cannot be told is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// It was deleted.
    pub gone: bool,
    /// Why.
    pub error: String,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// Its objects.
    pub items: Vec<T>,
    /// Those that the type does not fit.
    pub odd: Vec<Odd>,
    /// The version of the list.
    pub version: String,
    /// Where the next page begins; empty on the last.
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
    namespace: String,
    name: String,
    uid: String,
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
    /// Go writes an empty list as null at times.
    items: Option<Vec<I>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: String,
}

/// Decodes a line of a watch.
///
/// # Errors
/// It is no event.
pub fn event<T: DeserializeOwned>(line: &[u8]) -> Result<Event<T>, Failed> {
    let broken = |error| Failed { message: format!("not a watch event: {error}"), ..Failed::default() };
    let Line { kind, object } = serde_json::from_slice(line).map_err(broken)?;
    let text = object.get();
    Ok(match &*kind {
        "ADDED" | "MODIFIED" => one(text).map_or_else(Event::Odd, Event::Applied),
        "DELETED" => one(text).map_or_else(|odd| Event::Odd(Box::new(Odd { gone: true, ..*odd })), Event::Deleted),
        "BOOKMARK" => {
            let Named { metadata } = serde_json::from_str(text).map_err(broken)?;
            Event::Bookmark {
                version: metadata.resource_version,
                initial_end: metadata.annotations.initial_end == "true",
            }
        }
        "ERROR" => {
            let ErrorStatus { code, reason, message } = serde_json::from_str(text).unwrap_or_default();
            Event::Error(Failed { code, reason, message, not_done: true, ..Failed::default() })
        }
        // None is known today. Its version is not passed by: it may come before the versions of other events.
        other => {
            let (none, error) = (String::new(), format!("unknown event type {other:?}"));
            let [namespace, name, uid, version] = [none.clone(), none.clone(), none.clone(), none];
            Event::Odd(Box::new(Odd { namespace, name, uid, version, gone: false, error }))
        }
    })
}

/// Decodes a page of a list.
///
/// # Errors
/// It is no list.
pub fn page<T: DeserializeOwned>(body: &[u8]) -> Result<Page<T>, Failed> {
    if let Ok(List { metadata, items }) = serde_json::from_slice::<List<T>>(body) {
        let ListMeta { resource_version: version, r#continue: next } = metadata;
        return Ok(Page { items: items.unwrap_or_default(), odd: Vec::new(), version, next });
    }
    let broken = |error| Failed { message: format!("not a list: {error}"), ..Failed::default() };
    let List { metadata, items } = serde_json::from_slice::<List<&RawValue>>(body).map_err(broken)?;
    let mut page =
        Page { items: Vec::new(), odd: Vec::new(), version: metadata.resource_version, next: metadata.r#continue };
    for item in items.unwrap_or_default() {
        match one(item.get()) {
            Ok(item) => page.items.push(item),
            Err(odd) => page.odd.push(*odd),
        }
    }
    Ok(page)
}

fn one<T: DeserializeOwned>(text: &str) -> Result<T, Box<Odd>> {
    serde_json::from_str(text).map_err(|error| {
        let Named { metadata } = serde_json::from_str(text).unwrap_or_default();
        let Meta { namespace, name, uid, resource_version: version, .. } = metadata;
        Box::new(Odd { namespace, name, uid, version, gone: false, error: error.to_string() })
    })
}

#[cfg(test)]
mod tests {
    use berth_workload::pod::Pod;

    use super::*;

    #[test]
    fn events() {
        let object = r#"{"kind":"Pod","metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"7","managedFields":[{}]}}"#;
        let line = |kind: &str, object: &str| format!(r#"{{"type":"{kind}","object":{object}}}"#);
        let decoded = |text: String| event::<Pod>(text.as_bytes()).unwrap();
        assert!(matches!(decoded(line("ADDED", object)), Event::Applied(pod) if &*pod.metadata.uid == "u"));
        assert!(matches!(decoded(line("DELETED", object)), Event::Deleted(pod) if &*pod.metadata.name == "b"));
        let end = r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}"#;
        assert!(
            matches!(decoded(line("BOOKMARK", end)), Event::Bookmark { version, initial_end: true } if version == "9")
        );
        assert!(
            matches!(decoded(line("BOOKMARK", object)), Event::Bookmark { version, initial_end: false } if version == "7")
        );
        let gone = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}"#;
        assert!(matches!(decoded(line("ERROR", gone)), Event::Error(failed) if failed.code == 410));
        assert!(event::<Pod>(b"{}").is_err());
        assert!(matches!(decoded(line("NEW", object)), Event::Odd(odd) if odd.error.contains("NEW")));
    }

    #[test]
    fn an_odd_object_is_named_and_alone() {
        let odd = r#"{"metadata":{"namespace":"a","name":"odd","resourceVersion":"8"},"spec":{"containers":"none"}}"#;
        let line = format!(r#"{{"type":"MODIFIED","object":{odd}}}"#);
        let Event::Odd(found) = event::<Pod>(line.as_bytes()).unwrap() else { panic!("decoded") };
        assert_eq!((&*found.namespace, &*found.name, &*found.version, found.gone), ("a", "odd", "8", false));
        let Event::Odd(found) = event::<Pod>(line.replace("MODIFIED", "DELETED").as_bytes()).unwrap() else {
            panic!("decoded")
        };
        assert!(found.gone);
        let list = format!(
            r#"{{"metadata":{{"resourceVersion":"5","continue":"c"}},"items":[{odd},{{"metadata":{{"name":"good"}}}}]}}"#
        );
        let page = page::<Pod>(list.as_bytes()).unwrap();
        assert_eq!((page.version.as_str(), page.next.as_str()), ("5", "c"));
        assert_eq!(page.items.iter().map(|pod| &*pod.metadata.name).collect::<Vec<_>>(), ["good"]);
        assert_eq!(page.odd.iter().map(|odd| odd.name.as_str()).collect::<Vec<_>>(), ["odd"]);
    }

    #[test]
    fn an_empty_list_may_be_null() {
        let page = page::<Pod>(br#"{"metadata":{"resourceVersion":"5"},"items":null}"#).unwrap();
        assert!(page.items.is_empty() && page.next.is_empty());
    }
}
