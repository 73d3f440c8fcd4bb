//! A relay that lets through only as many bytes as it is allowed to, and counts them. It stands
//! between a registry and its client, so that a test can stop a pull in its middle.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

/// The relay. It ends with the process.
#[derive(Debug)]
pub struct Valve {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that may still pass; all may while it is not `limited`.
    allowed: AtomicI64,
    limited: AtomicBool,
    passed: AtomicU64,
    connections: AtomicUsize,
}

impl Valve {
    /// Begins to relay a port of loopback to `target`. At first it lets all bytes through.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(target: u16) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the target cannot be reached, the client's connection is closed.
                let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, target))
                    .and_then(|to| connect(client, to, &shared));
            }
        });
        Ok(Self { port, state })
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on lets only these bytes through, from the target's side, over all connections.
    pub fn allow_only(&self, bytes: i64) {
        self.state.allowed.store(bytes, Ordering::SeqCst);
        self.state.limited.store(true, Ordering::SeqCst);
    }

    /// Lets that many more bytes through.
    pub fn allow(&self, bytes: i64) {
        self.state.allowed.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Lets all bytes through again.
    pub fn open(&self) {
        self.state.limited.store(false, Ordering::SeqCst);
    }

    /// Bytes that passed so far, from the target's side.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.state.passed.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

fn connect(client: TcpStream, server: TcpStream, state: &Arc<State>) -> io::Result<()> {
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    state.connections.fetch_add(1, Ordering::SeqCst);
    let gone = Arc::new(AtomicBool::new(false));
    let (state, left) = (state.clone(), gone.clone());
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        left.store(true, Ordering::SeqCst);
        // Ends the read of the other direction.
        let _ = to_server.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = pass(server, &client, &state, &gone);
        // In each case of an end, the other side must see it.
        let _ = client.shutdown(Shutdown::Both);
        state.connections.fetch_sub(1, Ordering::SeqCst);
    });
    Ok(())
}

fn pass(
    mut from: TcpStream,
    mut to: &TcpStream,
    state: &State,
    gone: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        // A buffer's length always fits.
        let bytes = i64::try_from(read).unwrap_or(i64::MAX);
        while state.limited.load(Ordering::SeqCst) && state.allowed.load(Ordering::SeqCst) < bytes {
            thread::sleep(Duration::from_millis(5));
            if gone.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
        state.allowed.fetch_sub(bytes, Ordering::SeqCst);
        state
            .passed
            .fetch_add(bytes.unsigned_abs(), Ordering::SeqCst);
        to.write_all(&buffer[..read])?;
    }
}
