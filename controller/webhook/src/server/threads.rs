//! Webhooks have threads of their own. The apiserver waits for each answer, and whoever creates a pod waits for the apiserver: they
//! are not to wait for decisions about other objects, nor for the text of a large one to be read.

use std::panic::resume_unwind;
use std::{io, thread};

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::server::{Judge, Phase, Server};

/// As many as everything else has, so that one large review holds up no small one.
const THREADS: usize = 2;

/// Serves; when the process ends, that is not waited for.
///
/// # Errors
/// There are no further threads.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    server: Server,
    judge: Judge,
    phase: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    run(async move {
        // A socket belongs to the threads that serve it.
        server
            .serve(TcpListener::from_std(listener)?, judge, phase)
            .await;
        Ok(())
    })
}

/// Runs this to its end; a panic there is one of the task that is returned.
fn run(
    work: impl Future<Output = io::Result<()>> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("webhook")
        .enable_all()
        .build()?;
    let (ended, end) = oneshot::channel::<()>();
    let work = move || {
        // Is dropped with the thread, however that ends.
        let _ended = ended;
        runtime.block_on(work)
    };
    let thread = thread::Builder::new()
        .name("webhooks".to_owned())
        .spawn(work)?;
    Ok(tokio::spawn(async move {
        let _ = end.await;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }))
}

#[cfg(test)]
mod tests;
