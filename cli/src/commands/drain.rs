//! `kubectl berth drain`: what `kubectl drain` of a node would get, by budgets of all kinds.

mod end;
mod places;
mod read;
mod rounds;
mod words;

use std::collections::BTreeSet;

use berth_workload::budget::native::NativeBudget;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::end::Rounds;
use self::places::Places;
pub(crate) use self::places::has_claims;
use self::read::State;
pub(crate) use self::read::VOLUMES;
use self::rounds::{Answer, Row};
use self::words::{drainable, first_round, is_pending, last_round, remains};
use crate::exit::{Exit, WrongUsage};
use crate::kinds;
use crate::session::Session;
use crate::text::{self, clean, table};

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
    is_cordoned: bool,
    rows: Vec<Row>,
    rounds: Rounds,
}

impl Drain {
    /// Prints the answers. The exit code is 1 if the node is never empty, or if a pod would be
    /// Pending.
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
        let (state, simulated) = of_node(session, node).await?;
        if self.output == Output::Json {
            let mut answer = as_json(&simulated);
            answer["pods"] = json!(simulated.rows);
            answer["notes"] = json!(state.notes);
            anstream::println!("{}", text::json(&answer)?);
        } else {
            let rows = &simulated.rows;
            if !rows.is_empty() {
                let cells = rows.iter().map(|row| {
                    let (namespace, pod) = (row.namespace.clone(), row.pod.clone());
                    vec![namespace, pod, row.sentence()]
                });
                anstream::println!("{}\n", table(&["NAMESPACE", "POD", "ANSWER"], cells));
            }
            for line in sentences(&simulated, &state) {
                anstream::println!("{}", clean(&line));
            }
            print_notes(&state.notes);
        }
        let is_drained = matches!(simulated.rounds, Rounds::Empty(_));
        let is_done = is_drained && !simulated.rows.iter().any(is_pending);
        Ok(if is_done { Exit::Done } else { Exit::Failed })
    }

    /// All nodes, each drained alone.
    async fn all(&self, session: &Session) -> anyhow::Result<Exit> {
        let mut state = State::read(session, None).await?;
        let known = state.places.nodes.iter();
        let mut nodes: BTreeSet<_> = known.map(|node| node.metadata.name.to_string()).collect();
        if nodes.is_empty() {
            nodes.extend(state.pods.keys().cloned());
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
            anstream::println!("{}", text::json(&answer)?);
            return Ok(Exit::Done);
        }
        let rows = all.iter().map(|one| {
            let (pods, held, _) = numbers(&one.rows);
            let (node, pods, held) = (one.node.clone(), pods.to_string(), held.to_string());
            let cordoned = if one.is_cordoned { "yes" } else { "no" }.to_owned();
            let drainable = drainable(&one.rounds, &one.rows);
            vec![node, cordoned, pods, held, drainable]
        });
        if state.is_partial {
            anstream::println!("as far as you may read:");
        }
        let titles = ["NODE", "CORDONED", "PODS", "HELD", "DRAINABLE"];
        anstream::println!("{}", table(&titles, rows));
        print_notes(&state.notes);
        Ok(Exit::Done)
    }
}

/// The result for a node, for other commands: a row for each pod, and sentences.
///
/// # Errors
/// The node does not exist, or the apiserver did not answer.
pub(crate) async fn answer(session: &Session, node: &str) -> anyhow::Result<Value> {
    let (state, simulated) = of_node(session, node).await?;
    let pods = simulated
        .rows
        .iter()
        .map(|row| json!({"namespace": row.namespace, "name": row.pod, "answer": row.sentence()}));
    let pods: Vec<_> = pods.collect();
    let sentences = sentences(&simulated, &state);
    Ok(json!({"pods": pods, "sentences": sentences, "notes": state.notes}))
}

/// The answers of Kubernetes' own budgets of a namespace on pods of one node: whether each would be
/// refused, its name, and the sentence.
pub(crate) fn natively(pods: &[Value], natives: &[NativeBudget]) -> Vec<(bool, String, String)> {
    let natives: Vec<_> = natives.iter().cloned().enumerate().collect();
    let rows = rounds::rows(pods, &[], &natives, &Places::default());
    let answers = rows
        .into_iter()
        .map(|row| (row.answer == Answer::Waits, row.sentence(), row.pod));
    answers
        .map(|(waits, sentence, pod)| (waits, pod, sentence))
        .collect()
}

/// Why no pod of some has another node, as far as these objects of the cluster say; `None` if one
/// does.
pub(crate) fn no_other_node(
    pods: &[&Value],
    nodes: &[Value],
    claims: &[Value],
    volumes: &[Value],
) -> Option<String> {
    let places = Places::of(nodes, claims.to_vec(), volumes.to_vec()).ok()?;
    places.all_pending(pods)
}

async fn of_node<'a>(session: &'a Session, node: &str) -> anyhow::Result<(State<'a>, Simulated)> {
    let found = session.get(&kinds::parse("node")?, node).await;
    let refused = match found {
        Ok(_) => None,
        Err(error) => {
            let refused = error.downcast_ref::<kube::Error>();
            if !refused.is_some_and(crate::exit::is_forbidden) {
                return Err(error);
            }
            Some(crate::exit::sentence(&error))
        }
    };
    let mut state = State::read(session, Some(node)).await?;
    if let Some(why) = refused {
        state.unknown(&format!("whether node {node} exists: {why}"));
    }
    let simulated = simulate(&mut state, node).await;
    Ok((state, simulated))
}

/// The sentences below the table of pods.
fn sentences(simulated: &Simulated, state: &State<'_>) -> Vec<String> {
    let Simulated {
        node,
        is_cordoned,
        rows,
        rounds,
    } = simulated;
    let end = last_round(node, rounds, rows);
    let end = if state.is_partial {
        format!("as far as you may read: {end}")
    } else {
        end
    };
    let first = (!rows.is_empty()).then(|| first_round(rows, &state.budgets));
    let cordoned =
        is_cordoned.then(|| format!("{node} is cordoned; `kubectl uncordon {node}` ends that"));
    let lines = cordoned
        .into_iter()
        .chain(first)
        .chain([end])
        .chain(remains(rows));
    lines.chain(words::flags(rows)).collect()
}

async fn simulate(state: &mut State<'_>, node: &str) -> Simulated {
    let decisions = state.decisions(node).await;
    let pods = state.pods.get(node).map_or(&[][..], Vec::as_slice);
    let rows = rounds::rows(pods, &decisions, &state.natives, &state.places);
    let rounds = end::rounds(&rows, &state.budgets);
    let mut nodes = state.places.nodes.iter();
    Simulated {
        node: node.to_owned(),
        is_cordoned: nodes.any(|one| *one.metadata.name == *node && one.cordoned),
        rows,
        rounds,
    }
}

/// How many pods a drain evicts, how many evictions the first round refuses, and how many
/// replacements would be Pending.
fn numbers(rows: &[Row]) -> (usize, usize, usize) {
    let number = |answer| rows.iter().filter(|row| row.answer == answer).count();
    let held = number(Answer::Waits);
    let pending = rows.iter().filter(|row| is_pending(row)).count();
    (number(Answer::Goes) + held, held, pending)
}

fn as_json(simulated: &Simulated) -> Value {
    let (pods, held, pending) = numbers(&simulated.rows);
    let (rounds, never) = match &simulated.rounds {
        Rounds::Empty(rounds) => (Some(rounds), &[][..]),
        Rounds::Never(causes) => (None, &**causes),
    };
    json!({
        "node": simulated.node, "cordoned": simulated.is_cordoned, "evicted": pods, "held": held, "pending": pending,
        "rounds": rounds, "never": never,
    })
}

fn print_notes(notes: &BTreeSet<String>) {
    for note in notes {
        anstream::eprintln!("note: {}", clean(note));
    }
}

#[cfg(test)]
mod tests;
