use super::*;

fn supervisor() -> Supervisor {
    Supervisor::new(CancellationToken::new())
}

#[tokio::test]
async fn panicked_task_stops_the_others_and_is_named() {
    let all = supervisor();
    all.spawn("feed of Pod", all.stop().clone().cancelled_owned());
    all.spawn("feed of Node", async { panic!("odd object") });
    let ended = all.join().await.unwrap_err();
    assert_eq!(
        ended.to_string(),
        "the feed of Node panicked: odd object: the process ends"
    );
}

#[tokio::test]
async fn ended_task_stops_the_others_and_is_named() {
    let all = supervisor();
    all.spawn("feed of Pod", all.stop().clone().cancelled_owned());
    all.spawn("election", async {});
    let ended = all.join().await.unwrap_err();
    assert_eq!((&*ended.task, &*ended.how), ("election", "ended by itself"));
}

#[tokio::test]
async fn tasks_may_end_after_the_stop_signal() {
    let all = supervisor();
    for task in ["feed of Pod", "election"] {
        all.spawn(task, all.stop().clone().cancelled_owned());
    }
    all.stop().cancel();
    assert_eq!(all.join().await, Ok(()));
}

#[tokio::test]
async fn panic_during_shutdown_is_reported() {
    let all = supervisor();
    let stop = all.stop().clone();
    all.spawn("feed of Pod", async move {
        stop.cancelled().await;
        panic!("late");
    });
    all.stop().cancel();
    assert_eq!(all.join().await.unwrap_err().how, "panicked: late");
}

#[tokio::test]
async fn failed_task_is_reported_with_its_error() {
    let all = supervisor();
    all.spawn_fallible("webhooks", async { Err("no port") });
    assert_eq!(all.join().await.unwrap_err().how, "failed: no port");
}

#[tokio::test]
async fn last_task_may_end_only_after_its_signal() {
    for is_asked in [true, false] {
        let (all, last) = (supervisor(), CancellationToken::new());
        if is_asked {
            last.cancel();
        }
        all.stop().cancel();
        all.spawn_until(&last, "election", async {});
        assert_eq!(all.join().await.is_ok(), is_asked);
    }
}

#[tokio::test]
async fn task_started_elsewhere_is_supervised() {
    let all = supervisor();
    all.watch("webhooks", tokio::spawn(async {}));
    assert_eq!(all.join().await.unwrap_err().task, "webhooks");
}
