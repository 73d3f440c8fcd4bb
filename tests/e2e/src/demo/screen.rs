//! A table that changes while a user reads it; without a terminal, a line for each change.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::report::aligned;
use crate::outage::Requests;
use crate::record::{PodView, seconds};

/// The live table's place on the terminal.
pub struct Screen {
    terminal: bool,
    /// Lines that the next table is written over.
    height: usize,
    /// Without a terminal: the last line of each pod.
    said: BTreeMap<String, String>,
}

/// The state of a pod in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The pod's name.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// Its answer, or that it gives none.
    pub answer: String,
    /// In service or not, and why.
    pub state: &'static str,
}

impl Line {
    /// Describes a pod that gave this answer last.
    pub fn of(pod: &PodView, container: &str, answer: Option<&Result<String, String>>) -> Line {
        let updating = pod
            .containers
            .get(container)
            .is_some_and(|c| c.container_id.is_empty());
        let state = match (pod.terminating, pod.gates, pod.ready) {
            (true, ..) => "leaving",
            _ if updating => "starting",
            (_, true, true) => "in service",
            (_, false, _) => "out of service, being updated",
            (_, true, false) => "not ready",
        };
        let answer = match answer {
            Some(Ok(says)) => says.clone(),
            Some(Err(_)) | None => "-".to_owned(),
        };
        Line {
            pod: pod.name.clone(),
            node: pod.node.clone(),
            answer,
            state,
        }
    }
}

/// All pods, by name.
pub fn lines(pods: &[PodView], container: &str, asked: &Requests) -> Vec<Line> {
    let mut lines: Vec<_> = pods
        .iter()
        .map(|pod| Line::of(pod, container, asked.latest(&pod.name)))
        .collect();
    lines.sort_by(|a, b| a.pod.cmp(&b.pod));
    lines
}

impl Screen {
    /// Standard output.
    pub fn stdout() -> Screen {
        Screen {
            terminal: io::stdout().is_terminal(),
            height: 0,
            said: BTreeMap::new(),
        }
    }

    /// Shows the state after `at`.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn show(&mut self, at: Duration, lines: &[Line]) -> io::Result<()> {
        let text = if self.terminal {
            self.redraw(at, lines)
        } else {
            self.changes(at, lines)
        };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Leaves the table on the terminal.
    pub fn leave(&mut self) {
        self.height = 0;
        self.said.clear();
    }

    fn redraw(&mut self, at: Duration, lines: &[Line]) -> String {
        let mut rows = vec![[
            "POD".to_owned(),
            "NODE".into(),
            "ANSWERS".into(),
            format!("after {}", seconds(at)),
        ]];
        rows.extend(lines.iter().map(|l| {
            [
                l.pod.clone(),
                l.node.clone(),
                l.answer.clone(),
                l.state.to_owned(),
            ]
        }));
        let table = aligned(&rows);
        // Up to the first line of the last table, and each line cleared to its end; the lines below
        // are cleared, too.
        let up = if self.height == 0 {
            String::new()
        } else {
            format!("\x1b[{}A", self.height)
        };
        self.height = table.lines().count();
        let body: String = table
            .lines()
            .map(|line| format!("{line}\x1b[K\n"))
            .collect();
        format!("{up}{body}\x1b[J")
    }

    fn changes(&mut self, at: Duration, lines: &[Line]) -> String {
        let mut text = String::new();
        for line in lines {
            let says = format!(
                "{} on {}: answers {}, {}",
                line.pod, line.node, line.answer, line.state
            );
            if self.said.get(&line.pod) != Some(&says) {
                text += &format!("{:>9}  {says}\n", seconds(at));
                self.said.insert(line.pod.clone(), says);
            }
        }
        let gone: Vec<_> = self
            .said
            .keys()
            .filter(|pod| lines.iter().all(|l| l.pod != **pod))
            .cloned()
            .collect();
        for pod in gone {
            text += &format!("{:>9}  {pod} is gone\n", seconds(at));
            self.said.remove(&pod);
        }
        text
    }
}

#[cfg(test)]
mod tests;
