//! Tests that share one world, usually a cluster.
//!
//! On a machine with two processors and three nodes, a test may run into a timeout that Berth did
//! not cause. If the suite allows it, a failed test is tried once more, alone, and the report has
//! both results. A promise that a test saw broken ([`Broken`]) stays broken.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow};
use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, RwLock};

use crate::record::seconds;

/// A test in a world. Its second argument is the number of the try: 1, or 2.
pub type Test<W> = Box<dyn Fn(Arc<W>, u8) -> LocalBoxFuture<'static, Result<()>> + Send>;

/// A promise of the product that a test saw broken: a second try does not revert that.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

/// The error of a broken promise.
pub fn broken(what: impl Into<String>) -> Error {
    Error::new(Broken(what.into()))
}

/// How many tries a test has before it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tries {
    /// Once.
    One,
    /// Once more, alone, unless a promise was broken.
    Two,
}

/// Which other tests may be in the world during a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Company {
    /// Other tests of this kind: each keeps to its own objects, and mostly waits.
    Others,
    /// No other test: it breaks what others need, or measures what others change.
    None,
}

/// The part that the tests of a run share.
struct Shared<W> {
    /// The world, once a test needs it; a failure to bring it up fails every test.
    world: Mutex<Option<Result<Arc<W>, String>>>,
    /// Read by tests with company, written by tests without. The order of requests is kept.
    company: RwLock<()>,
    took: Mutex<Vec<(Duration, String)>>,
    failed: Mutex<Vec<String>>,
    tries: Tries,
}

impl<W> Shared<W> {
    fn new(tries: Tries) -> Shared<W> {
        Shared {
            world: Mutex::default(),
            company: RwLock::default(),
            took: Mutex::default(),
            failed: Mutex::default(),
            tries,
        }
    }
}

/// The number of slowest tests that the end of the report names.
const LONGEST: usize = 20;

/// Runs the tests that the command line selects, started in their order, in the world that `up`
/// brings up; those that allow company, `at_once` at a time. The world ends before this returns.
pub fn run<W: Send + Sync + 'static>(
    up: fn() -> BoxFuture<'static, Result<W>>,
    at_once: usize,
    tries: Tries,
    tests: impl IntoIterator<Item = (String, Company, Test<W>)>,
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(arguments.test_threads.unwrap_or(at_once));
    let runtime = match Runtime::new() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let shared = Arc::new(Shared::<W>::new(tries));
    let trial = |(name, company, test): (String, Company, Test<W>)| {
        let (runtime, shared) = (Arc::clone(&runtime), Arc::clone(&shared));
        Trial::test(name.clone(), move || {
            runtime
                .block_on(in_company(up, &shared, name, company, test))
                .map_err(Failed::from)
        })
    };
    let conclusion = libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect());
    drop(shared.world.blocking_lock().take());
    let mut took = std::mem::take(&mut *shared.took.blocking_lock());
    took.sort_by(|(one, _), (other, _)| other.cmp(one));
    for (time, name) in took.into_iter().take(LONGEST) {
        eprintln!("{:>9}  {name}", seconds(time));
    }
    for failed in std::mem::take(&mut *shared.failed.blocking_lock()) {
        eprintln!("{failed}");
    }
    conclusion.exit_code()
}

async fn in_company<W>(
    up: fn() -> BoxFuture<'static, Result<W>>,
    shared: &Shared<W>,
    name: String,
    company: Company,
    test: Test<W>,
) -> Result<(), String> {
    let first = tried(up, shared, &name, company, &test, 1).await?;
    let Err(error) = first else { return Ok(()) };
    let words = format!("{error:#}");
    if shared.tries == Tries::One || is_broken(&error) {
        shared
            .failed
            .lock()
            .await
            .push(format!("failed: {}", last_words(&name, &words)));
        return Err(words);
    }
    let second = tried(up, shared, &name, Company::None, &test, 2)
        .await?
        .map_err(|error| format!("{error:#}"));
    let how = if second.is_ok() {
        "passed only when it was tried again, alone"
    } else {
        "failed twice"
    };
    let both = [Some(&words), second.as_ref().err()].into_iter().flatten();
    let told = both.map(|error| format!("{how}: {}", last_words(&name, error)));
    shared.failed.lock().await.extend(told);
    second
}

/// One try. The outer error: there is no world.
async fn tried<W>(
    up: fn() -> BoxFuture<'static, Result<W>>,
    shared: &Shared<W>,
    name: &str,
    company: Company,
    test: &Test<W>,
    number: u8,
) -> Result<Result<()>, String> {
    let (_with_others, _alone);
    match company {
        Company::Others => _with_others = shared.company.read().await,
        Company::None => _alone = shared.company.write().await,
    }
    let world = world(up, shared).await?;
    let began = Instant::now();
    let tested = test(world, number).await;
    shared
        .took
        .lock()
        .await
        .push((began.elapsed(), name.to_owned()));
    Ok(tested)
}

fn is_broken(error: &Error) -> bool {
    error.downcast_ref::<Broken>().is_some()
}

async fn world<W>(
    up: fn() -> BoxFuture<'static, Result<W>>,
    shared: &Shared<W>,
) -> Result<Arc<W>, String> {
    let mut known = shared.world.lock().await;
    if known.is_none() {
        *known = Some(
            up().await
                .map(Arc::new)
                .map_err(|error| format!("no cluster: {error:#}")),
        );
    }
    known
        .clone()
        .unwrap_or_else(|| Err("there is no world".to_owned()))
}

/// The failure, without the log of the test: printed once more after all other output, so that a
/// truncated report contains it. An error ends with a line that begins with the name of its test,
/// and the lines after it.
fn last_words(name: &str, error: &str) -> String {
    const MOST: usize = 2_000;
    let cause = error
        .rsplit_once(&format!("\n{name}: "))
        .map_or(error, |(_, cause)| cause);
    let cause: String = cause.chars().take(MOST).collect();
    format!("{name}: {cause}")
}

/// A panic is a failure like any other: the steps after the test still happen.
///
/// # Errors
/// The test's own.
pub async fn caught(test: impl Future<Output = Result<()>>) -> Result<()> {
    AssertUnwindSafe(test)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(anyhow!("it panicked")))
}

#[cfg(test)]
mod tests;
