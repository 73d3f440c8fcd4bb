//! `kubectl berth get`: a workload as a tree of its pods, and the rollouts of a namespace.

pub mod header;
pub mod health;
pub mod live;
pub mod output;
pub mod plan;
pub mod pods;
pub mod render;
pub mod revisions;
pub mod rollouts;
pub mod screen;
pub mod tone;
pub mod tree;
pub mod watched;
pub mod world;

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use crate::commands::get::tone::Tone;
use crate::exit::{Exit, WrongUsage};
use crate::flags::duration;
use crate::kinds;
use crate::session::Session;
use crate::text;
use plan::Planner;
use tokio::time::timeout;
use world::World;

/// The object, or `rollouts`.
#[derive(Debug, Args)]
pub struct Get {
    /// TYPE/NAME, TYPE NAME, or `rollouts` for all rollouts of the namespace.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// The rollouts of all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Show changes as they come: on a terminal on the whole screen, where `q` ends, `p` pauses or
    /// resumes the rollout, and Enter shows why the selected pod waits.
    #[arg(short, long)]
    pub watch: bool,
    /// How long to watch, such as 5m; 0 sets no limit. Afterwards the exit code is 124.
    #[arg(long, default_value = "0", value_parser = duration, requires = "watch")]
    pub timeout: Duration,
    /// No line with the names of columns.
    #[arg(long)]
    pub no_headers: bool,
}

impl Get {
    /// Prints once, or until the user ends it.
    ///
    /// # Errors
    /// The object does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        if self.timeout.is_zero() {
            return self.show(session).await;
        }
        match timeout(self.timeout, self.show(session)).await {
            Ok(ended) => ended,
            Err(_) => {
                anstream::eprintln!(
                    "error: the watch has ended after {:?} (--timeout)",
                    self.timeout
                );
                Ok(Exit::TimedOut)
            }
        }
    }

    async fn show(&self, session: &Session) -> anyhow::Result<Exit> {
        if matches!(self.object.as_slice(), [one] if one == "rollouts" || one == "rollout") {
            let listed = rollouts::Listed {
                all_namespaces: self.all_namespaces,
                watch: self.watch,
                no_headers: self.no_headers,
            };
            return rollouts::run(&listed, session).await;
        }
        if self.all_namespaces {
            return Err(WrongUsage("-A goes with `get rollouts` only".to_owned()).into());
        }
        let (kind, name) = kinds::object(&self.object)?;
        world::check(&kind)?;
        if self.watch {
            return live::run(session, &kind, &name).await;
        }
        let world = World::read(session, &kind, &name).await?;
        let planner = Planner::new(session).await;
        if let Some(note) = &planner.note {
            text::note(note);
        }
        let plan = planner.explain(session, world.plural, &name).await;
        let (plan, note) = plan::split(plan);
        let mut tree = tree::tree(&world, plan.as_ref(), Timestamp::now());
        tree.notes.extend(note.filter(|_| tree.tone != Tone::Good));
        output::print(&render::lines(&tree, text::width()));
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests;
