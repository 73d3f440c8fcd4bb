//! ConversionReviews: every object of a review in the version that it asks for, or the reason why
//! not.
//!
//! Objects are read one at a time, and of each only the parts that its conversion touches. So
//! besides the review's text only the answer is in memory.

use std::borrow::Cow;
use std::fmt;

use kube::core::Status;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::kinds;

/// An incoming ConversionReview.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    desired: Cow<'a, str>,
    /// A list.
    #[serde(borrow)]
    objects: &'a RawValue,
}

/// The fields that name an object in a refusal.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    namespace: String,
    name: String,
}

/// Answers a ConversionReview.
///
/// # Errors
/// When the text is no ConversionReview with a request.
pub fn review(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let review: Review<'_> = serde_json::from_slice(body)?;
    let Request {
        uid,
        desired,
        objects,
    } = review.request;
    let mut list = serde_json::Deserializer::from_str(objects.get());
    let mut refusal = None;
    let visitor = Objects {
        desired: &desired,
        room: objects.get().len(),
        refusal: &mut refusal,
    };
    let converted = list.deserialize_seq(visitor);
    let (result, objects) = match refusal {
        None => (Status::success(), converted?),
        Some(message) => {
            // The answer has the message. Any client may send a review, so the log does not get it.
            tracing::debug!(message, "an object cannot be converted");
            (Status::failure(&message, "Invalid"), String::new())
        }
    };
    let head = trimmed(&Head {
        api_version: &review.api_version,
        kind: &review.kind,
    })?;
    let outcome = trimmed(&Outcome { uid: &uid, result })?;
    Ok([
        &head,
        r#","response":"#,
        &outcome,
        r#","convertedObjects":["#,
        &objects,
        "]}}",
    ]
    .concat()
    .into_bytes())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    api_version: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct Outcome<'a> {
    uid: &'a str,
    result: Status,
}

/// An object without its closing brace, so that more fields can follow.
fn trimmed(object: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string(object)?;
    match text.pop() {
        Some('}') => Ok(text),
        _ => Err(serde_json::Error::custom("no object")),
    }
}

/// Converts the objects of a list, up to the first that cannot be converted: the objects behind it
/// are not read.
struct Objects<'a> {
    desired: &'a str,
    /// The approximate size of the output.
    room: usize,
    /// Why an object cannot be converted.
    refusal: &'a mut Option<String>,
}

impl<'de> Visitor<'de> for Objects<'_> {
    /// The converted objects with commas between them.
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<String, A::Error> {
        let mut objects = String::with_capacity(self.room);
        while let Some(object) = list.next_element::<&'de RawValue>()? {
            match convert(object.get(), self.desired) {
                Ok(object) => {
                    objects.push_str(if objects.is_empty() { "" } else { "," });
                    objects.push_str(&object);
                }
                Err(message) => {
                    *self.refusal = Some(message);
                    return Err(A::Error::custom("an object cannot be converted"));
                }
            }
        }
        Ok(objects)
    }
}

fn convert(object: &str, desired: &str) -> Result<String, String> {
    kinds::convert(object, desired).map_err(|error| {
        let Named {
            kind,
            metadata: Metadata { namespace, name },
        } = serde_json::from_str(object).unwrap_or_default();
        let separator = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{separator}{name} cannot be converted to {desired}: {error}")
    })
}
