//! Dry-run creations, which only return the server's answer.

use std::time::Duration;

use http::header::WARNING;
use http::{HeaderValue, Method};
use kube::Client;
use kube::client::Body;
use serde::Serialize;

use super::{Failed, LARGEST_REFUSAL, collect, refusal, request, transport};

/// The server's answer to a dry-run creation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRun {
    /// The warnings of an accepted or refused object.
    pub warnings: Vec<String>,
    /// The reason of the refusal, if the server refuses the object.
    pub refusal: Option<Failed>,
}

/// Creates an object of a collection by a dry run: admission decides on it, and nothing is stored.
///
/// # Errors
/// The server does not answer.
pub async fn dry_run(
    client: &Client,
    collection: &str,
    object: &impl Serialize,
    patience: Duration,
) -> Result<DryRun, Failed> {
    let body = serde_json::to_vec(object).map_err(|error| Failed::unsent(error.to_string()))?;
    let path = format!("{collection}?dryRun=All&fieldValidation=Ignore");
    let request = request(Method::POST, &path, "application/json", body)?;
    let answer = async {
        let response = client
            .send(request.map(Body::from))
            .await
            .map_err(transport)?;
        let (parts, body) = response.into_parts();
        let warnings = parts
            .headers
            .get_all(WARNING)
            .iter()
            .filter_map(warning)
            .collect();
        let refused = async || {
            let body = collect(body, LARGEST_REFUSAL).await.unwrap_or_default();
            refusal(parts.status.as_u16(), &parts.headers, &body)
        };
        let refusal = if parts.status.is_success() {
            None
        } else {
            Some(refused().await)
        };
        Ok(DryRun { warnings, refusal })
    };
    let late = |_| Failed {
        message: format!("no answer in time to POST {collection}"),
        ..Failed::default()
    };
    tokio::time::timeout(patience, answer)
        .await
        .unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// The text of a warning, which follows a code and an agent: `299 - "text"`.
fn warning(value: &HeaderValue) -> Option<String> {
    let (_, quoted) = value.to_str().ok()?.split_once('"')?;
    let text = quoted.rsplit_once('"').map_or(quoted, |(text, _)| text);
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

#[cfg(test)]
mod tests;
