//! The HTTP server of Berth: for the webhooks, the daemons' gRPC service, probes and metrics of
//! controller and daemon.
//!
//! Its callers are not trusted, because any pod that reaches the port may be one. Connections are
//! limited in total and for each peer ([`Limits`]). A connection that waits for its caller is
//! closed for a new one if necessary. Handshakes, heads, requests and idle connections have
//! deadlines. Large bodies have a budget for each kind of request and a deadline; small bodies need
//! no budget ([`Bodies`]). The memory of an answer is charged until its caller has read it
//! ([`Answer`]).

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod answer;
mod bind;
mod bodies;
mod connections;
mod server;

pub use answer::Answer;
pub use bind::{any, bind};
pub use bodies::{Begun, Bodies, BodyError, BodyLimits, Received, SMALL, Share};
pub use connections::{Caller, Connection, Connections, Working};
pub use server::{AnswerBody, Answers, Limits, Protocol, Server, TextBody, text};
