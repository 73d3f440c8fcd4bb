//! A TCP relay in front of a registry: it counts, and it lets only so many bytes through as it is allowed to.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The relay. Ends with the test's process.
pub struct Relay {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Bytes that may still pass; everything may while it is `unlimited`.
    allowed: AtomicI64,
    limited: AtomicBool,
    passed: AtomicU64,
    connections: AtomicUsize,
}

impl Relay {
    /// Starts a relay to that port. At first it lets everything through.
    pub fn start(target: u16) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                connect(client, server, &shared);
            }
        });
        Relay { port, state }
    }

    /// From now on lets only these bytes through, from the registry's side, over all connections.
    pub fn allow_only(&self, bytes: i64) {
        self.state.allowed.store(bytes, Ordering::SeqCst);
        self.state.limited.store(true, Ordering::SeqCst);
    }

    /// Lets that many more through.
    pub fn allow(&self, bytes: i64) {
        self.state.allowed.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Lets everything through again.
    pub fn open(&self) {
        self.state.limited.store(false, Ordering::SeqCst);
    }

    /// Bytes that passed so far, from the registry's side.
    pub fn passed(&self) -> u64 {
        self.state.passed.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

fn connect(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    state.connections.fetch_add(1, Ordering::SeqCst);
    let gone = Arc::new(AtomicBool::new(false));
    let (state, left) = (state.clone(), gone.clone());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        left.store(true, Ordering::SeqCst);
        // Wakes the other direction.
        let _ = to_server.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let _ = pass(server, client, &state, &gone);
        state.connections.fetch_sub(1, Ordering::SeqCst);
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State, gone: &AtomicBool) -> std::io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return to.shutdown(Shutdown::Both);
        }
        while state.limited.load(Ordering::SeqCst) && state.allowed.load(Ordering::SeqCst) < read as i64 {
            std::thread::sleep(Duration::from_millis(5));
            if gone.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
        state.allowed.fetch_sub(read as i64, Ordering::SeqCst);
        state.passed.fetch_add(read as u64, Ordering::SeqCst);
        to.write_all(&buffer[..read])?;
    }
}
