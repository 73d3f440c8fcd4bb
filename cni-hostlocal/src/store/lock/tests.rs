use std::{
    fs,
    sync::{Mutex, PoisonError},
};

use super::*;
use crate::failure::{Failure, TRY_AGAIN_LATER};

/// The threads that give up are counted for the whole process, so these tests run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn lock_timeout_names_file_and_lock_is_reusable() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let held = lock(directory.path(), PATIENCE).unwrap();
    let error = lock(directory.path(), Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let path = directory.path().join(LOCK).display().to_string();
    assert!(error.to_string().contains(&path), "{error}");
    assert_eq!(Failure::from(error).code, TRY_AGAIN_LATER);
    drop(held);
    // The thread that gave up is before it in the queue, and frees the lock.
    lock(directory.path(), PATIENCE).unwrap();
    let held = lock(directory.path(), PATIENCE).unwrap();
    let waiting = {
        let leases = directory.path().to_owned();
        thread::spawn(move || lock(&leases, PATIENCE).map(|_| ()))
    };
    drop(held);
    waiting.join().unwrap().unwrap();
}

#[test]
fn lock_timeouts_start_a_bounded_number_of_threads() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let directory = tempfile::tempdir().unwrap();
    let held = lock(directory.path(), PATIENCE).unwrap();
    let before = threads();
    for _ in 0..20 * MOST_GIVEN_UP {
        let error = lock(directory.path(), Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    // Other tests of this process may have begun meanwhile.
    assert!(
        threads() < before + 10 * MOST_GIVEN_UP,
        "{before} threads, then {}",
        threads()
    );
    drop(held);
    // The last of them frees the lock.
    while GIVEN_UP.load(Ordering::Relaxed) > 0 {
        thread::yield_now();
    }
}
