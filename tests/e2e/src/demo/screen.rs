//! A table that changes while it is looked at; without a terminal, a line for each change.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::report::aligned;
use crate::outage::Requests;
use crate::record::{PodView, seconds};

/// Where the live table is.
pub struct Screen {
    terminal: bool,
    /// Lines that the next table is written over.
    height: usize,
    /// Without a terminal: what was said last, by pod.
    said: BTreeMap<String, String>,
}

/// The state of a pod in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The pod's name.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// What it answers, or that it does not.
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

    /// Leaves the table where it is.
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
        // Up to the first line of the last table, and each line cleared to its end; what is below is cleared, too.
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
mod tests {
    use super::*;
    use crate::record::ContainerView;
    use crate::record::tests::pod;

    fn line(pod: &str, answer: &str, state: &'static str) -> Line {
        Line {
            pod: pod.into(),
            node: "node-1".into(),
            answer: answer.into(),
            state,
        }
    }

    #[test]
    fn a_pod_in_words() {
        let view = ContainerView {
            container_id: "c1".into(),
            ..ContainerView::default()
        };
        let with = |pod: PodView| PodView {
            containers: [("main".to_owned(), view.clone())].into(),
            ..pod
        };
        let state = |pod: PodView| Line::of(&pod, "main", None).state;
        assert_eq!(state(with(pod("a", "r", true))), "in service");
        assert_eq!(state(with(pod("a", "r", false))), "not ready");
        assert_eq!(
            state(PodView {
                gates: false,
                ..with(pod("a", "r", true))
            }),
            "out of service, being updated"
        );
        assert_eq!(
            state(PodView {
                terminating: true,
                ..with(pod("a", "r", true))
            }),
            "leaving"
        );
        let new = PodView {
            containers: [("main".to_owned(), ContainerView::default())].into(),
            ..pod("a", "r", false)
        };
        assert_eq!(state(new), "starting");
        let says = |answer| Line::of(&pod("a", "r", true), "main", answer).answer;
        assert_eq!(
            (says(Some(&Ok("v1".into()))), says(Some(&Err("x".into())))),
            ("v1".into(), "-".into())
        );
    }

    #[test]
    fn without_a_terminal_only_changes_are_said_and_plainly() {
        let mut screen = Screen {
            terminal: false,
            height: 0,
            said: BTreeMap::new(),
        };
        let at = Duration::from_millis(1500);
        let first = screen.changes(
            at,
            &[line("a", "v1", "in service"), line("b", "v1", "in service")],
        );
        assert_eq!(first.lines().count(), 2);
        assert_eq!(
            screen.changes(
                at,
                &[line("a", "v1", "in service"), line("b", "v1", "in service")]
            ),
            ""
        );
        let changed = screen.changes(at, &[line("a", "v2", "in service")]);
        assert_eq!(
            changed,
            "   1.50 s  a on node-1: answers v2, in service\n   1.50 s  b is gone\n"
        );
    }

    #[test]
    fn a_terminal_sees_one_table_in_one_place() {
        let mut screen = Screen {
            terminal: true,
            height: 0,
            said: BTreeMap::new(),
        };
        let first = screen.redraw(
            Duration::ZERO,
            &[line("a", "v1", "x"), line("b", "v1", "y")],
        );
        assert!(
            !first.contains("\x1b[3A") && first.starts_with("POD"),
            "{first:?}"
        );
        let second = screen.redraw(Duration::ZERO, &[line("a", "v1", "x")]);
        assert!(
            second.starts_with("\x1b[3A") && second.ends_with("\x1b[J"),
            "{second:?}"
        );
        assert!(screen.redraw(Duration::ZERO, &[]).starts_with("\x1b[2A"));
    }
}
