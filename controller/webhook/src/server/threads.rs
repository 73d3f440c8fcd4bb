//! Webhooks have threads of their own. The apiserver waits for each answer, and the author of a pod
//! waits for the apiserver. Neither is to wait for decisions about other objects, nor until the
//! text of a large object was read.

use std::panic::resume_unwind;
use std::{io, thread};

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::server::{Judge, Phase, Server};

/// As many as the rest of the process has, so that one large review delays no small one.
const THREADS: usize = 2;

/// Serves; the end of the process does not wait for it.
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

/// Runs the work to its end; the returned task panics if the work does.
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
        // Dropped with the thread, however the thread ends.
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
