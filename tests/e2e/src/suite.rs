//! Tests that share one world, a cluster as a rule, and run in it one after the other.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

/// A test in a world.
pub type Test<W> = Box<dyn FnOnce(Arc<W>) -> LocalBoxFuture<'static, Result<()>> + Send>;

/// The world, once a test needs it; a failure to bring it up is every test's.
type Shared<W> = Mutex<Option<Result<Arc<W>, String>>>;

/// Runs the tests that the command line chooses, in their order, in the world that `up` brings up. The world ends before
/// this returns.
pub fn run<W: Send + Sync + 'static>(
    up: fn() -> BoxFuture<'static, Result<W>>,
    tests: impl IntoIterator<Item = (String, Test<W>)>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let runtime = match Runtime::new() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let shared = Arc::new(Shared::<W>::default());
    let trial = |(name, test): (String, Test<W>)| {
        let (runtime, shared) = (Arc::clone(&runtime), Arc::clone(&shared));
        Trial::test(name, move || {
            let tested = async {
                let world = world(up, &shared).await?;
                test(world).await.map_err(|error| format!("{error:#}"))
            };
            runtime.block_on(tested).map_err(Failed::from)
        })
    };
    let conclusion = libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect());
    drop(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
    conclusion.exit_code()
}

async fn world<W>(up: fn() -> BoxFuture<'static, Result<W>>, shared: &Shared<W>) -> Result<Arc<W>, String> {
    let known = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match known {
        Some(known) => known,
        None => {
            let made = up().await.map(Arc::new).map_err(|error| format!("no cluster: {error:#}"));
            shared.lock().unwrap_or_else(PoisonError::into_inner).insert(made).clone()
        }
    }
}

/// A panic is a failure like any other: what comes after the test still happens.
///
/// # Errors
/// The test's own.
pub async fn caught(test: impl Future<Output = Result<()>>) -> Result<()> {
    AssertUnwindSafe(test).catch_unwind().await.unwrap_or_else(|_| Err(anyhow!("it panicked")))
}
