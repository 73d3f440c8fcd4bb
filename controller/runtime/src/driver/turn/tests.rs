use std::sync::mpsc;

use super::*;

#[tokio::test]
async fn waiting_task_runs_after_a_long_decision() {
    for (time, order) in [
        (BUDGET * 2, ["other", "next"]),
        (Duration::ZERO, ["next", "other"]),
    ] {
        let (said, heard) = mpsc::channel();
        let other = said.clone();
        let task = tokio::spawn(async move { other.send("other").unwrap() });
        decide(false, || std::thread::sleep(time)).await;
        said.send("next").unwrap();
        task.await.unwrap();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), order, "{time:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_decision_does_not_keep_the_only_thread() {
    let (said, heard) = mpsc::channel();
    let deciding = tokio::spawn(async move {
        tokio::spawn(async move { said.send("other").unwrap() });
        // Waits for a message that only comes if another thread takes over.
        decide(true, move || heard.recv().unwrap()).await
    });
    assert_eq!(deciding.await.unwrap(), "other");
}
