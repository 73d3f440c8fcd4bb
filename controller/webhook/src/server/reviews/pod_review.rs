//! Incoming and outgoing AdmissionReviews of new pods: the code that the handlers of the pod
//! webhook share.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The request of a review.
#[derive(Deserialize)]
pub(in crate::server) struct Request<'a> {
    #[serde(borrow)]
    pub(in crate::server) uid: Cow<'a, str>,
    /// Where the object is created.
    #[serde(borrow, default)]
    pub(in crate::server) namespace: Cow<'a, str>,
    /// The object's text. Its reader checks its size before it makes a tree of it.
    #[serde(borrow)]
    object: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// The text of the object; `None` where there is none.
    pub(in crate::server) fn object(&self) -> Option<&'a str> {
        self.object
            .map(RawValue::get)
            .filter(|text| text.starts_with('{'))
    }
}

/// Reads an AdmissionReview.
///
/// # Errors
/// The text is no AdmissionReview.
pub(in crate::server) fn read(body: &[u8]) -> Result<Request<'_>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Review<'a> {
        #[serde(borrow)]
        request: Request<'a>,
    }
    serde_json::from_slice(body).map(|Review { request }| request)
}

/// The first fields of a review, which are found without the rest of it. The apiserver writes them
/// before the object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct Head {
    pub(in crate::server) uid: String,
    pub(in crate::server) namespace: String,
}

impl Head {
    /// Parses a review's beginning; fields that are not there are empty.
    pub(in crate::server) fn of(begin: &[u8]) -> Self {
        let mut head = Self::default();
        // The reader fails where the text is cut; the fields that it found before count.
        let _ = head.deserialize(&mut serde_json::Deserializer::from_slice(begin));
        head
    }
}

impl<'de> DeserializeSeed<'de> for &mut Head {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, review: D) -> Result<(), D::Error> {
        review.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a review")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key::<String>()? {
            match &*field {
                "request" => fields.next_value_seed(&mut *self)?,
                "uid" => self.uid = fields.next_value()?,
                "namespace" => self.namespace = fields.next_value()?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Why a review of a pod has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// The text is no AdmissionReview of a pod.
    #[error("the body is no review of a pod: {0}")]
    NoReview(#[from] serde_json::Error),
    /// No answer: the apiserver applies the failure policy of the entry.
    #[error("{0}")]
    NotYet(#[from] crate::pods::NotYet),
}

/// The answer, which lets the pod through unchanged unless a method changes it.
pub(in crate::server) struct Answer(Value);

impl Answer {
    pub(in crate::server) fn to(uid: &str) -> Self {
        Self(json!({"uid": uid, "allowed": true}))
    }

    /// Adds the patch that changes the pod.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(in crate::server) fn change(
        &mut self,
        before: &Value,
        after: &Value,
    ) -> Result<(), serde_json::Error> {
        let patch = serde_json::to_vec(&json_patch::diff(before, after))?;
        self.0["patchType"] = json!("JSONPatch");
        self.0["patch"] = json!(ByteString(patch));
        Ok(())
    }

    /// Refuses the pod.
    pub(in crate::server) fn refuse(&mut self, message: &str) {
        self.0["allowed"] = json!(false);
        self.0["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
    }

    /// Adds warnings for the author of the pod.
    pub(in crate::server) fn warn<'a>(&mut self, warnings: impl Iterator<Item = &'a str>) {
        self.0["warnings"] = warnings.collect();
    }

    /// The answer as text.
    ///
    /// # Errors
    /// None that a review could cause.
    pub(in crate::server) fn written(self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(
            &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": self.0}),
        )
    }
}

#[cfg(test)]
mod tests;
