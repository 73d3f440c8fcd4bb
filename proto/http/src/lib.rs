//! The one HTTP server of Berth: the webhooks, the daemons' gRPC service, probes and metrics of controller and daemon.
//!
//! Its callers are not trusted: any pod that reaches the port may be one. So whoever only waits holds nothing that
//! another caller needs. Connections are limited in all and for each peer ([`Limits`]), and one that waits for its caller
//! gives way to a newcomer; handshakes, heads and idle connections have deadlines; bodies are charged by the byte as
//! they arrive, no peer gets more than half of what there is for them, and who holds most gives way ([`Bodies`]); answers are
//! charged until they are taken ([`Answer`]); and of a thread's time no peer gets more than half, either, while somebody else is
//! connected.

mod allowance;
mod answer;
mod bind;
mod bodies;
mod connections;
mod pace;
mod server;

pub use allowance::Allowance;
pub use answer::Answer;
pub use bind::{any, bind};
pub use bodies::{Bodies, BodyError, BodyLimits, Received, Share};
pub use connections::{Caller, Connection, Connections, Working};
pub use server::{AnswerBody, Answers, Limits, Protocol, Server, TextBody, text};
