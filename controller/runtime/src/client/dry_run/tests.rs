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
