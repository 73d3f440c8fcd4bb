use super::*;

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_in_step_once_a_replica_drains() {
    for (phase, ends) in [
        (Phase::Serving, false),
        (Phase::Draining, true),
        (Phase::Ending, true),
    ] {
        let (_sender, phases) = watch::channel(phase);
        let kept = tokio::time::timeout(RETRY, while_serving(std::future::pending(), phases)).await;
        assert_eq!(kept.is_ok(), ends, "{phase:?}");
    }
}

#[test]
fn proofs_become_rare() {
    let waits = [1, STRANGE, STRANGE + 1, STRANGE + 5, STRANGE + 9]
        .map(|tries| prove_again(tries).as_millis());
    assert_eq!(waits, [250, 250, 500, 8000, 8000]);
    assert_eq!(prove_again(u32::MAX), PROVE_AT_LEAST_EVERY);
}

#[tokio::test(start_paused = true)]
async fn replica_is_unready_after_a_minute_of_silence() {
    let silent = Error::Silent(RETRY);
    let refused = Error::api("read", "Secret", "certs", kube::Error::Api(Box::default()));
    for (proven, answer) in [(true, None), (true, Some(&refused)), (false, None)] {
        let mut ready = Ready::new(Readiness::default(), None);
        if proven {
            ready.proven = true;
            ready.readiness.set(None);
        }
        for second in 0..90 {
            ready.heard(Some(&silent), Instant::now()).await;
            assert_eq!(
                ready.readiness.check().is_ok(),
                proven && second < 60,
                "after {second} s"
            );
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        ready.heard(answer, Instant::now()).await;
        assert_eq!(ready.readiness.check().is_ok(), proven, "{answer:?}");
    }
}
