//! `kubectl berth drain`: what `kubectl drain` of a node would get, by budgets of all kinds.

mod read;
mod rounds;

use std::collections::BTreeSet;

use berth_workload::objects::resource::NODES;
use clap::{Args, ValueEnum};
use serde_json::json;

use self::read::State;
use self::rounds::{Answer, Rounds, Row, first_round, last_round};
use crate::exit::{Exit, WrongUsage};
use crate::kinds;
use crate::objects::name;
use crate::session::Session;
use crate::text::{clean, table};

/// The node, and how the answer looks.
#[derive(Debug, Args)]
pub struct Drain {
    /// The node.
    pub node: Option<String>,
    /// Only simulate. `kubectl drain` drains.
    #[arg(long)]
    pub dry_run: bool,
    /// All nodes, and which of them could be drained.
    #[arg(long, conflicts_with_all = ["node", "dry_run"])]
    pub which: bool,
    /// `json` for the answers as data.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
}

/// How the answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table and sentences.
    Table,
    /// Data.
    Json,
}

/// The result for one node.
struct Simulated {
    node: String,
    rows: Vec<Row>,
    rounds: Rounds,
}

impl Drain {
    /// Prints the answers.
    ///
    /// # Errors
    /// The node does not exist, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        if self.which {
            return self.all(session).await;
        }
        let Some(node) = &self.node else {
            return Err(WrongUsage("name a node, or use --which".to_owned()).into());
        };
        if !self.dry_run {
            return Err(WrongUsage(format!(
                "`kubectl drain {node}` drains; this command only simulates: add --dry-run"
            ))
            .into());
        }
        let mut notes = BTreeSet::new();
        let nodes = kinds::parse("node")?;
        if let Err(error) = session.get(&nodes, node).await {
            let refused = error.downcast_ref::<kube::Error>();
            if !refused.is_some_and(crate::exit::is_forbidden) {
                return Err(error);
            }
            let why = crate::exit::sentence(&error);
            notes.insert(format!("not known: whether node {node} exists: {why}"));
        }
        let mut state = State::read(session, Some(node)).await?;
        let simulated = simulate(&mut state, node).await;
        notes.append(&mut state.notes);
        self.print_one(&simulated, &state, &notes)?;
        Ok(Exit::Done)
    }

    fn print_one(
        &self,
        simulated: &Simulated,
        state: &State<'_>,
        notes: &BTreeSet<String>,
    ) -> anyhow::Result<()> {
        let Simulated { node, rows, rounds } = simulated;
        if self.output == Output::Json {
            let mut answer = as_json(simulated);
            answer["pods"] = json!(rows);
            answer["notes"] = json!(notes);
            anstream::println!("{}", serde_json::to_string_pretty(&answer)?);
            return Ok(());
        }
        if !rows.is_empty() {
            let cells = rows.iter().map(|row| {
                let (namespace, pod) = (row.namespace.clone(), row.pod.clone());
                vec![namespace, pod, row.sentence()]
            });
            anstream::println!("{}\n", table(&["NAMESPACE", "POD", "ANSWER"], cells));
            anstream::println!("{}", clean(&first_round(rows, &state.budgets)));
        }
        let end = clean(&last_round(node, rounds));
        let as_read = if state.is_partial {
            "as far as you may read: "
        } else {
            ""
        };
        anstream::println!("{as_read}{end}");
        let flags: BTreeSet<_> = rows
            .iter()
            .flat_map(|row| row.flags.iter().copied())
            .collect();
        if !flags.is_empty() {
            let flags: Vec<_> = flags.into_iter().collect();
            anstream::println!(
                "flags that kubectl drain needs for these pods: {}",
                flags.join(" ")
            );
        }
        print_notes(notes);
        Ok(())
    }

    /// All nodes, each drained alone.
    async fn all(&self, session: &Session) -> anyhow::Result<Exit> {
        let mut state = State::read(session, None).await?;
        let mut nodes: BTreeSet<String> = state.pods.keys().cloned().collect();
        match session.list_if_allowed(NODES, "", "").await? {
            Ok(all) => nodes = all.iter().map(|node| name(node).to_owned()).collect(),
            Err(why) => {
                let note = format!("not known: nodes without pods that you may read: {why}");
                state.notes.insert(note);
            }
        }
        // Pods that no node has yet.
        nodes.remove("");
        let mut all = Vec::new();
        for node in &nodes {
            all.push(simulate(&mut state, node).await);
        }
        if self.output == Output::Json {
            let nodes: Vec<_> = all.iter().map(as_json).collect();
            let answer = json!({"nodes": nodes, "notes": state.notes});
            anstream::println!("{}", serde_json::to_string_pretty(&answer)?);
            return Ok(Exit::Done);
        }
        let rows = all.iter().map(|one| {
            let (pods, held) = numbers(&one.rows);
            let (node, pods, held) = (one.node.clone(), pods.to_string(), held.to_string());
            vec![node, pods, held, drainable(&one.rounds)]
        });
        anstream::println!("{}", table(&["NODE", "PODS", "HELD", "DRAINABLE"], rows));
        print_notes(&state.notes);
        Ok(Exit::Done)
    }
}

async fn simulate(state: &mut State<'_>, node: &str) -> Simulated {
    let decisions = state.decisions(node).await;
    let pods = state.pods.get(node).map_or(&[][..], Vec::as_slice);
    let rows = rounds::rows(pods, &decisions, &state.natives);
    let rounds = rounds::rounds(&rows, &state.budgets);
    Simulated {
        node: node.to_owned(),
        rows,
        rounds,
    }
}

/// How many pods a drain evicts, and how many evictions the first round refuses.
fn numbers(rows: &[Row]) -> (usize, usize) {
    let number = |answer| rows.iter().filter(|row| row.answer == answer).count();
    let held = number(Answer::Waits);
    (number(Answer::Goes) + held, held)
}

fn drainable(rounds: &Rounds) -> String {
    match rounds {
        Rounds::Empty(0 | 1) => "yes".to_owned(),
        Rounds::Empty(rounds) => format!("yes, in {rounds} rounds"),
        Rounds::Never(message) => format!("no: {message}"),
    }
}

fn as_json(simulated: &Simulated) -> serde_json::Value {
    let (pods, held) = numbers(&simulated.rows);
    let (rounds, never) = match &simulated.rounds {
        Rounds::Empty(rounds) => (Some(rounds), None),
        Rounds::Never(message) => (None, Some(message)),
    };
    json!({"node": simulated.node, "evicted": pods, "held": held, "rounds": rounds, "never": never})
}

fn print_notes(notes: &BTreeSet<String>) {
    for note in notes {
        anstream::eprintln!("note: {}", clean(note));
    }
}

#[cfg(test)]
mod tests;
