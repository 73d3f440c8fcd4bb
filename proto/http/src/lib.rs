//! The one HTTP server of Berth: the webhooks, the daemons' gRPC service, probes and metrics of controller and daemon.
//!
//! Its callers are not trusted: any pod that reaches the port may be one. Connections are limited in all and for each peer
//! ([`Limits`]), and one that waits for its caller gives way to a newcomer; handshakes, heads, requests and idle connections have
//! deadlines; large bodies have a budget for each kind of request and a deadline, and small ones need nothing of it ([`Bodies`]);
//! answers are charged until they are taken ([`Answer`]).

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
