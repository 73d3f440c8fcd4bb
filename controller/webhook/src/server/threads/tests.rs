use super::*;

#[tokio::test]
async fn what_is_run_has_another_thread_and_its_panic_is_the_tasks() {
    let here = thread::current().id();
    let elsewhere = async move {
        assert_ne!(tokio::spawn(async { thread::current().id() }).await?, here);
        Ok(())
    };
    run(elsewhere).unwrap().await.unwrap().unwrap();
    assert!(
        run(async { panic!("as it is meant to") })
            .unwrap()
            .await
            .unwrap_err()
            .is_panic()
    );
}
