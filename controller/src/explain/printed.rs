//! The output of `explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_api::names::condition;
use berth_workload::blocked;
use berth_workload::plan::{Failure, Plan, Stage, Step, Waiting};
use serde::Serialize;
use serde_json::Value;

/// Part of the reason of a pod that waits for the workload's own limit.
const WAITS: &str = "waits for maxUnavailable";

/// The plan of the controller for an object, and what the object waits for.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// Its kind.
    #[serde(skip)]
    pub kind: &'static str,
    /// Namespace and name.
    #[serde(skip)]
    pub name: String,
    /// The heading above the lines of its pods.
    #[serde(skip)]
    pub heading: &'static str,
    /// The cause that blocks the workload, as in the condition `Blocked` of its status.
    pub blocked: Option<Value>,
    /// What the user may not read, and what the answer therefore lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// What the controller does now, and what waits.
    #[serde(flatten)]
    pub plan: Plan,
    /// What a drain of a node would get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<NodeDrain>,
}

/// The result of a drain of a node now.
#[derive(Debug, Serialize)]
pub struct NodeDrain {
    /// The node.
    pub node: String,
    /// The result for each pod of the budget on the node.
    pub pods: Vec<Waiting>,
}

impl Explained {
    /// The condition `Blocked` is that of the status as it would be written now. The apiserver's
    /// refusal of a write shows only when the controller tries, so the refusal of the last try
    /// counts as long as there is something to write.
    pub(crate) fn new(
        (kind, name): (&'static str, String),
        plan: Plan,
        status: &Value,
        old: &Value,
    ) -> Self {
        let of = |status: &Value| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions
                .find(|c| c["type"] == condition::BLOCKED)
                .cloned()
        };
        let reported = of(old).filter(|_| !plan.is_idle());
        let (refused, lapsed) = (reported.clone().filter(is_refusal), reported);
        let blocked = refused.or_else(|| of(status)).or(lapsed);
        Self {
            kind,
            name,
            heading: "Waits:",
            blocked,
            unread: Vec::new(),
            plan,
            drain: None,
        }
    }
}

/// Whether a condition `Blocked` says that the apiserver refused a write.
fn is_refusal(blocked: &Value) -> bool {
    let reason = blocked["reason"].as_str();
    reason.is_some_and(blocked::is_of_write)
}

/// The plan that is carried out now, in which each pod of a step waits that a budget refuses.
/// Within a namespace a pod's name is enough.
pub(crate) fn with_waiting(
    plan: &Plan,
    admitted: Plan,
    held: &[Failure],
    in_namespace: bool,
) -> Plan {
    let mut waiting: Vec<_> = held
        .iter()
        .map(|failure| waits(plan, failure, in_namespace))
        .collect();
    waiting.sort_by(|one, other| one.pod.cmp(&other.pod));
    let mut rest = admitted.waiting;
    // Otherwise the reader would raise maxUnavailable without any effect.
    for one in rest
        .iter_mut()
        .filter(|one| !held.is_empty() && one.reason.ends_with(WAITS))
    {
        one.reason += ", which pods take up that wait for a budget";
    }
    waiting.append(&mut rest);
    Plan {
        waiting: one_line_each(waiting),
        ..admitted
    }
}

fn waits(plan: &Plan, failure: &Failure, in_namespace: bool) -> Waiting {
    let Failure {
        namespace,
        object: name,
        message,
        ..
    } = failure;
    let is_its = |step: &&Step| {
        step.objects()
            .any(|(kind, of, object)| kind == "Pod" && of == *namespace && object == *name)
    };
    let step = plan
        .stages
        .iter()
        .flat_map(|stage| &stage.steps)
        .find(is_its);
    let reason = step.map(|step| step.reason.as_str()).unwrap_or_default();
    let reason = reason
        .strip_prefix(&format!("pod {name}"))
        .unwrap_or(reason)
        .trim_start_matches([':', ' ']);
    let pod = if in_namespace {
        name.clone()
    } else {
        format!("{namespace}/{name}")
    };
    Waiting {
        pod,
        reason: format!("{reason}; waits for a budget, which says: {message}"),
    }
}

/// Joins all reasons of a pod in its first line.
fn one_line_each(waiting: Vec<Waiting>) -> Vec<Waiting> {
    let (mut lines, mut at) = (Vec::<Waiting>::new(), BTreeMap::new());
    for one in waiting {
        match at.get(&one.pod).copied() {
            Some(at) if !one.pod.is_empty() => {
                let line: &mut Waiting = &mut lines[at];
                if !line.reason.contains(&one.reason) {
                    line.reason = format!("{}; {}", line.reason, one.reason);
                }
            }
            _ => {
                at.insert(one.pod.clone(), lines.len());
                lines.push(one);
            }
        }
    }
    lines
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            name,
            heading,
            blocked,
            unread,
            plan,
            drain,
        } = self;
        writeln!(f, "{kind} {name}")?;
        if let Some(blocked) = blocked {
            let word = |field: &str| blocked[field].as_str().unwrap_or_default();
            let (reason, message) = (one_line(word("reason")), one_line(word("message")));
            writeln!(f, "Blocked ({reason}): {message}")?;
        }
        match (plan.is_idle(), blocked) {
            // Only the controller knows how long it waits after a failure.
            (false, Some(blocked)) if is_refusal(blocked) => writeln!(f, "At the next try:")?,
            (false, _) => writeln!(f, "Now:")?,
            (true, Some(_)) => writeln!(f, "Now: nothing, as long as that is so.")?,
            (true, None) => writeln!(f, "Now: nothing to do.")?,
        }
        let in_steps = steps(f, plan)?;
        let mut rest = plan
            .waiting
            .iter()
            .filter(|one| !in_steps.contains(&&*one.pod))
            .peekable();
        if rest.peek().is_some() {
            writeln!(f, "{heading}")?;
        }
        let the_workload = format!("the {kind}");
        for Waiting { pod, reason } in rest {
            writeln!(
                f,
                "  {}: {}",
                if pod.is_empty() { &the_workload } else { pod },
                one_line(reason)
            )?;
        }
        if let Some(NodeDrain { node, pods }) = drain {
            writeln!(f, "A drain of node {node} now, one pod after the other:")?;
            if pods.is_empty() {
                writeln!(f, "  none of its pods are there")?;
            }
            for Waiting { pod, reason } in pods {
                writeln!(f, "  {pod}: {}", one_line(reason))?;
            }
        }
        if let Some(wait) = plan.look_again {
            let seconds = wait.as_secs_f64();
            writeln!(
                f,
                "Looks again in {seconds:.1} s, or when something changes."
            )?;
        }
        unread
            .iter()
            .try_for_each(|one| writeln!(f, "Not known: {}", one_line(one)))
    }
}

/// The text without line breaks. Others write messages, and must not write lines that look like
/// those of the controller.
fn one_line(text: &str) -> String {
    text.replace('\n', "\\u{a}").replace('\r', "\\u{d}")
}

/// Writes a line for each step, with the reasons why its pod waits; returns the pods that have one.
fn steps<'a>(f: &mut fmt::Formatter<'_>, plan: &'a Plan) -> Result<BTreeSet<&'a str>, fmt::Error> {
    let of_pods = plan.waiting.iter().filter(|one| !one.pod.is_empty());
    let waits: BTreeMap<&str, &Waiting> = of_pods.map(|one| (&*one.pod, one)).collect();
    let mut pods = BTreeSet::new();
    for Stage { name, steps, .. } in &plan.stages {
        writeln!(f, "  {name} ({})", steps.len())?;
        for step in steps {
            let writes: Vec<_> = step
                .actions
                .iter()
                .map(|action| action.write().to_string())
                .collect();
            write!(
                f,
                "    - {} [{}]",
                one_line(&step.reason),
                writes.join(", ")
            )?;
            // The objects of a pod have its name, or its namespace and its name.
            let of_pod = step.objects().filter(|(kind, ..)| *kind == "Pod").find_map(
                |(_, namespace, name)| {
                    waits
                        .get(&*name)
                        .or_else(|| waits.get(&*format!("{namespace}/{name}")))
                        .copied()
                },
            );
            if let Some(Waiting { pod, reason }) = of_pod {
                write!(f, "; {pod}: {}", one_line(reason))?;
                pods.insert(&**pod);
            }
            writeln!(f)?;
        }
    }
    Ok(pods)
}

#[cfg(test)]
mod tests;
