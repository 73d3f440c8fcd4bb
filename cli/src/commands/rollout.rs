//! `kubectl berth rollout`: follows a rollout, and steers it.

pub mod at_partition;
pub mod history;
pub mod kind;
pub mod progress;
pub mod status;
pub mod steer;
pub mod target;
pub mod undo;

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::session::Session;

use target::ChangeArgs;

/// The commands about rollouts.
#[derive(Debug, Args)]
pub struct Rollout {
    /// What to do.
    #[command(subcommand)]
    pub command: RolloutCommand,
}

/// A command about a rollout.
#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Follow a rollout until it is done.
    Status(status::Status),
    /// List the revisions of a workload.
    History(history::History),
    /// Return to an earlier revision.
    Undo(undo::Undo),
    /// Stop a rollout where it is.
    Pause(ChangeArgs),
    /// Continue a rollout that is paused.
    Resume(ChangeArgs),
    /// Restart all containers, in place where the update policy allows it.
    Restart(ChangeArgs),
    /// Set how many pods stay at the old revision.
    Partition(steer::Partition),
    /// Update all pods: no partition, no pause.
    Promote(ChangeArgs),
}

impl Rollout {
    /// Executes the command.
    ///
    /// # Errors
    /// The object does not exist, the user may not read or write it, or the apiserver did not
    /// answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        match &self.command {
            RolloutCommand::Status(status) => status.run(session).await,
            RolloutCommand::History(history) => history.run(session).await,
            RolloutCommand::Undo(undo) => undo.run(session).await,
            RolloutCommand::Pause(change) => steer::set_paused(session, change, true).await,
            RolloutCommand::Resume(change) => steer::set_paused(session, change, false).await,
            RolloutCommand::Restart(change) => steer::restart(session, change).await,
            RolloutCommand::Partition(partition) => partition.run(session).await,
            RolloutCommand::Promote(change) => steer::promote(session, change).await,
        }
    }
}
