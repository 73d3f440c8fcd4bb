use berth_runtime::election::{self, Settings};
use berth_runtime::metrics::Metrics;

use super::*;

#[test]
fn unused_webhook_entries_are_emptied() {
    for (is_asked, has_entries, is_kept) in [
        (false, false, false),
        (false, true, true),
        (true, false, true),
        (true, true, true),
    ] {
        let asks = WebhookRules::default();
        asks.connect(PodWebhook::looked_at(None));
        if is_asked {
            asks.ask(Arc::new(AllRequests));
        }
        assert_eq!(
            asks.writer_channels(has_entries).is_some(),
            is_kept,
            "{is_asked} {has_entries}"
        );
        assert_eq!(
            asks.all(),
            Some(Asks {
                requests: is_asked,
                ..Asks::default()
            })
        );
    }
}

#[tokio::test]
async fn replica_that_never_led_ends_on_stop() {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let metrics = Metrics::new(|_| {});
    let settings = Settings::new("ns", "lease", "me");
    // The election never runs, so this replica never leads.
    let (leadership, _standing) = election::run(
        client,
        settings,
        metrics,
        Default::default,
        CancellationToken::new(),
    );
    let asks = Arc::<WebhookRules>::default();
    asks.ask(Arc::new(AllGated(BTreeSet::new())));
    asks.connect(PodWebhook::looked_at(None));
    let stop = CancellationToken::new();
    stop.cancel();
    let ended =
        tokio::time::timeout(Duration::from_secs(5), asks.keep(true, leadership, stop)).await;
    assert!(ended.is_ok(), "it waits to be elected");
}
