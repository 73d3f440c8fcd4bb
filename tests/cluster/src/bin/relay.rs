//! `relay ADDRESS:PORT`, with a listening socket as standard input: joins every connection to one
//! to that address.
//!
//! A socket belongs to the network namespace that it was made in, so this joins the namespace of
//! the given socket to the namespace that it runs in.

use anyhow::{Context, Result};
use std::{
    env,
    io::{self, stdin},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    thread::{self, sleep},
    time::Duration,
};

fn main() -> Result<()> {
    let target = env::args()
        .nth(1)
        .context("usage: relay ADDRESS:PORT <LISTENING-SOCKET")?;
    let target: SocketAddr = target
        .parse()
        .with_context(|| format!("{target:?} is not ADDRESS:PORT"))?;
    let listener = TcpListener::from(
        stdin()
            .as_fd()
            .try_clone_to_owned()
            .context("no standard input")?,
    );
    loop {
        match listener.accept() {
            Ok((client, _)) => {
                thread::spawn(move || join(&client, target));
            }
            Err(error) => {
                // Out of files or memory: connections that end will free some.
                eprintln!("cannot accept: {error}");
                sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Returns when both sides have ended. If the target cannot be reached, the client's connection is
/// closed.
fn join(client: &TcpStream, target: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(target).inspect_err(|error| eprintln!("{target}: {error}"))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    thread::scope(|scope| {
        scope.spawn(|| pass(client, &server));
        pass(&server, client);
    });
    Ok(())
}

/// Passes on one side's bytes until it ends, and then the end.
fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let ended = io::copy(&mut from, &mut to).is_ok();
    let _ = to.shutdown(Shutdown::Write);
    if !ended {
        let _ = from.shutdown(Shutdown::Read);
    }
}
