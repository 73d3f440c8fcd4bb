use serde_json::json;

use super::*;
use crate::client::fake::SlowWrites;

/// Leads after a lease that is as given, of version 41.
async fn taken_after(spec: serde_json::Value) -> Option<Box<str>> {
    let server = SlowWrites::default();
    *server.lease.lock() = (
        41,
        Some(json!({"metadata": {"resourceVersion": "41"}, "spec": spec})),
    );
    let (settings, stop) = (Settings::new("n", "leader", "me"), CancellationToken::new());
    let (leadership, standing) = run(
        server.client(),
        settings,
        Metrics::new(|_| {}),
        Versions::new,
        stop,
    );
    tokio::spawn(standing);
    leadership.acquired().await;
    leadership
        .taken()
        .unwrap()
        .borrow()
        .clone()
        .map(|taken| taken.version)
}

#[tokio::test(start_paused = true)]
async fn handover_version_is_lease_release_or_takeover() {
    for holder in [json!(null), json!("")] {
        let given_back = json!({"holderIdentity": holder, "leaseDurationSeconds": 1});
        assert_eq!(taken_after(given_back).await.as_deref(), Some("41"));
    }
    let died = json!({"holderIdentity": "other", "leaseDurationSeconds": 4});
    assert_eq!(
        taken_after(died).await.as_deref(),
        Some("42"),
        "it may have written after its last renewal"
    );
}
