//! Answers: data, files of the page, and refusals as sentences.

use std::convert::Infallible;

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::exit::{WrongUsage, sentence};
use crate::text;

/// The most bytes of a request's body.
pub(super) const LARGEST_BODY: usize = 64 << 10;
/// The body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The only content is that of this server; no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The headers of each answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// A request that is not carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// The cause and the remedy, for people.
    pub(super) sentence: String,
}

impl Refused {
    /// A refusal with its sentence.
    pub(super) fn new(status: StatusCode, sentence: String) -> Self {
        Self { status, sentence }
    }

    /// The request is not one that the server knows.
    pub(super) fn invalid(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, sentence.into())
    }

    /// The object is not as the request expects.
    pub(super) fn conflict(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, sentence.into())
    }

    /// The body is above [`LARGEST_BODY`].
    pub(super) fn too_large() -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the request's body is larger than {LARGEST_BODY} bytes"),
        )
    }

    /// The answer.
    pub(super) fn answer(&self) -> Response<Body> {
        let mut answer = json_answer(self.status, &json!({"error": self.sentence}));
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, POST"));
        }
        answer
    }
}

impl From<anyhow::Error> for Refused {
    /// The apiserver's refusal keeps its status, but for 401, which would mean this server's token.
    fn from(error: anyhow::Error) -> Self {
        let code = match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(refused)) if refused.code != 401 => Some(refused.code),
            _ if error.is::<WrongUsage>() => Some(400),
            _ => None,
        };
        let status = code.and_then(|code| StatusCode::from_u16(code).ok());
        Self::new(status.unwrap_or(StatusCode::BAD_GATEWAY), sentence(&error))
    }
}

/// Data for the page, in which characters that hide or reorder text are escapes, as in a terminal.
pub(super) fn cleaned(data: Value) -> Value {
    match data {
        Value::String(text) => Value::String(text::clean_lines(&text)),
        Value::Array(list) => list.into_iter().map(cleaned).collect(),
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(key, value)| (text::clean(&key), cleaned(value)));
            fields.collect()
        }
        other => other,
    }
}

/// Data.
pub(super) fn json_answer(status: StatusCode, data: &Value) -> Response<Body> {
    answer(
        status,
        "application/json",
        Full::from(data.to_string()).boxed_unsync(),
    )
}

/// A body with its type and the headers of each answer.
pub(super) fn answer(status: StatusCode, content: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers: &mut HeaderMap = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests;
