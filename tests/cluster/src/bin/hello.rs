//! A web server that answers every request with the content of `/etc/image`, for tests that check
//! which image a pod runs. With the argument `once` it prints that and ends, as a job does. As the
//! first process of a container it has to handle SIGTERM itself, and ends at once.

use nix::sys::signal::{SigSet, Signal};
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::ExitCode,
    thread,
    time::Duration,
};

/// How long a client may keep a connection without a request.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let says = fs::read_to_string("/etc/image").unwrap_or_else(|_| "unknown\n".into());
    if env::args().nth(1).as_deref() == Some("once") {
        print!("{says}");
        return ExitCode::SUCCESS;
    }
    let awaited: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    // Blocked before the first thread starts, so that every thread leaves them to `wait`.
    if let Err(error) = awaited.thread_block() {
        return fail(&format!("cannot block signals: {error}"));
    }
    let port = env::var("PORT").unwrap_or_else(|_| "8080".into());
    let Ok(port) = port.parse::<u16>() else {
        return fail(&format!("PORT is {port:?}: set it to a port number"));
    };
    let listener = match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
        Ok(listener) => listener,
        Err(error) => return fail(&format!("cannot listen on port {port}: {error}")),
    };
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let says = says.clone();
            thread::spawn(move || serve(&connection, &says));
        }
    });
    match awaited.wait() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot wait for a signal: {error}")),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::FAILURE
}

/// Answers the requests of one connection, which have no bodies, until the client ends it.
fn serve(mut connection: &TcpStream, says: &str) -> Option<()> {
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    connection.set_nodelay(true).ok()?;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{says}",
        says.len()
    );
    let mut lines = BufReader::new(connection).lines();
    loop {
        while !lines.next()?.ok()?.is_empty() {}
        connection.write_all(answer.as_bytes()).ok()?;
    }
}
