//! `kubectl berth dashboard`: the state of the cluster as a page in the browser, served on
//! 127.0.0.1 with the rights of the user.
//!
//! Any page of the browser and any user of the machine can connect to the port. Therefore each
//! request for data carries a random token, and `Host` and `Origin` are checked ([`guard`]).

mod actions;
mod answers;
mod browser;
mod changes;
mod guard;
mod nodes;
mod planner;
mod pods;
mod read;
mod routes;
mod site;
mod summary;
mod views;
mod watch;
mod workload;

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use tokio::net::TcpListener;

use crate::exit::Exit;
use crate::session::Session;

use browser::Opened;
use guard::Token;

/// Where the page is served.
#[derive(Debug, Args)]
pub struct Dashboard {
    /// The port on 127.0.0.1; 0 means any free port.
    #[arg(long, default_value_t = 3100)]
    pub port: u16,
    /// Open the page in the browser.
    #[arg(long)]
    pub open: bool,
}

impl Dashboard {
    /// Serves the page until Ctrl-C.
    ///
    /// # Errors
    /// The port is in use or needs more rights, or the system has no random numbers.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let listener = listen(self.port).await?;
        let token = Token::new()?;
        let port = listener.local_addr()?.port();
        let url = format!("http://127.0.0.1:{port}/#token={}", token.text());
        anstream::println!("The dashboard is at {url}");
        anstream::println!(
            "It acts with your rights; keep the address to yourself. Ctrl-C ends it."
        );
        let opened = self.open.then(|| Opened::new(&url));
        if let Some(Err(failed)) = &opened {
            anstream::eprintln!(
                "note: cannot open the browser: {failed}; open the address yourself"
            );
        }
        let end = async {
            // Without a handler for Ctrl-C, the signal ends the process.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        site::serve(
            Arc::new(read::of_namespace(session, &session.namespace)),
            listener,
            token,
            end,
        )
        .await;
        Ok(Exit::Done)
    }
}

/// Listens on 127.0.0.1 only: other machines cannot connect.
async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let bound = berth_http::bind((Ipv4Addr::LOCALHOST, port).into()).await;
    bound
        .map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => anyhow!(
                "port {port} of 127.0.0.1 is in use: end the other program, or \
             choose a port by --port (0 takes a free one)"
            ),
            ErrorKind::PermissionDenied => {
                anyhow!(
                    "port {port} of 127.0.0.1 needs more rights: choose a port above \
             1023 by --port"
                )
            }
            _ => anyhow!(error),
        })
        .context("cannot serve the dashboard")
}

#[cfg(test)]
mod tests;
