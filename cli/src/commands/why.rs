//! `kubectl berth why`: what an object waits for, and what its controller does next.

use berth_controller::plugin::{ExplainedObject, explain};
use clap::{Args, ValueEnum};

use crate::exit::{Exit, WrongUsage};
use crate::kinds;
use crate::session::Session;
use crate::text::clean_lines;

/// The object, and how the answer looks.
#[derive(Debug, Args)]
pub struct Why {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// Of a budget (`pub`, `dpdb`): what `kubectl drain` of this node would get now, pod by pod.
    /// Without it, which nodes could be drained.
    #[arg(long)]
    pub node: Option<String>,
    /// `text` for people, `json` for the plan as data.
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Sentences.
    Text,
    /// The plan as data.
    Json,
}

impl Why {
    /// Prints the answer once.
    ///
    /// # Errors
    /// The object does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let (kind, name) = kinds::object(&self.object)?;
        if !kind.has_plan {
            return Err(WrongUsage(format!("{} has no plan", kind.singular())).into());
        }
        let (settings, note) = session.settings().await;
        if let Some(note) = note {
            anstream::eprintln!("note: {}", clean_lines(&note));
        }
        let object = ExplainedObject {
            kind: kind.resource.plural,
            namespace: &session.namespace,
            name: &name,
            node: self.node.as_deref(),
        };
        let explained = explain(&session.client, &settings, object).await?;
        match self.output {
            Output::Json => anstream::println!("{}", serde_json::to_string_pretty(&explained)?),
            Output::Text => anstream::print!("{}", clean_lines(&explained.to_string())),
        }
        Ok(Exit::Done)
    }
}
