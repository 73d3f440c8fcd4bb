//! Creations that only try what the server would say.

use std::time::Duration;

use http::header::WARNING;
use http::{HeaderValue, Method};
use kube::Client;
use kube::client::Body;
use serde::Serialize;

use super::{Failed, LARGEST_REFUSAL, collect, refusal, request, transport};

/// What the server says of an object that it is asked to create by a dry run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRun {
    /// The warnings, whether it is refused or not.
    pub warnings: Vec<String>,
    /// Why it is refused.
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

/// The text of a warning, which stands behind a code and an agent: `299 - "text"`.
fn warning(value: &HeaderValue) -> Option<String> {
    let (_, quoted) = value.to_str().ok()?.split_once('"')?;
    let text = quoted.rsplit_once('"').map_or(quoted, |(text, _)| text);
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::super::fake::{answer, apiserver};
    use super::*;

    #[tokio::test]
    async fn dry_run_has_warnings_of_refused_objects() {
        for (code, refused) in [
            (StatusCode::CREATED, None),
            (StatusCode::FORBIDDEN, Some((403, "exceeded quota"))),
        ] {
            let client = apiserver(move |request| async move {
                let query = request.uri().query().unwrap_or_default().to_owned();
                assert!(query.contains("dryRun=All"), "{query}");
                let mut response = answer(
                    code,
                    &json!({"kind": "Status", "message": "exceeded quota", "code": 403}),
                );
                for warning in [
                    r#"299 - "SidecarSet log was asked""#,
                    r#"299 - "a \"b\" c""#,
                    "299",
                ] {
                    response
                        .headers_mut()
                        .append(WARNING, HeaderValue::from_static(warning));
                }
                response
            });
            let said = dry_run(
                &client,
                "/api/v1/namespaces/a/pods",
                &json!({}),
                Duration::from_secs(5),
            )
            .await
            .unwrap();
            assert_eq!(said.warnings, ["SidecarSet log was asked", r#"a "b" c"#]);
            let refusal = said
                .refusal
                .as_ref()
                .map(|refusal| (refusal.code, &*refusal.message));
            assert_eq!(refusal, refused);
        }
    }

    #[tokio::test]
    async fn late_answer_fails() {
        let client = apiserver(|_| std::future::pending());
        let said = dry_run(
            &client,
            "/api/v1/namespaces/a/pods",
            &json!({}),
            Duration::from_millis(10),
        )
        .await;
        assert!(said.unwrap_err().message.contains("no answer in time"));
    }
}
