use super::*;

#[test]
fn dropped_review_is_neither_counted_nor_in_flight() {
    let (reviews, mut registry) = (ReviewMetrics::default(), Registry::default());
    reviews.register(&mut registry);
    reviews.begin("/pin").answered(StatusCode::OK);
    drop(reviews.begin("/pin"));
    let _now = reviews.begin("/convert");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "controller_runtime_webhook_requests_total{webhook=\"/pin\",code=\"200\"} 1",
        "controller_runtime_webhook_latency_seconds_count{webhook=\"/pin\"} 1",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/pin\"} 0",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/convert\"} 1",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in {text}"
        );
    }
}
