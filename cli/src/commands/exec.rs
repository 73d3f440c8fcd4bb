//! `kubectl berth exec`: a command in a ready pod of a workload, or in the container of a
//! SidecarSet that works. The program `kubectl` carries it out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, bail};
use berth_api::names::annotation::{
    SIDECARSET_HASH, SIDECARSET_VERSION_PREFIX, SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER,
};
use berth_kinds::sidecarset::records;
use berth_kinds::sidecarset::sidecar::hot_pair;
use berth_workload::objects::resource::PODS;
use clap::Args;
use serde_json::Value;

use crate::exit::{Exit, WrongUsage};
use crate::flags::Global;
use crate::kinds;
use crate::objects;
use crate::session::Session;
use crate::text::clean;
use crate::write::title;

/// The pod, its container, and the command.
#[derive(Debug, Args)]
pub struct Exec {
    /// A pod, or TYPE/NAME of a workload.
    #[arg(value_name = "POD | TYPE/NAME")]
    pub target: String,
    /// The container.
    #[arg(short, long)]
    pub container: Option<String>,
    /// The container of this SidecarSet, or the sidecar of this name: of a hot upgrade's two
    /// containers, the one that works.
    #[arg(short = 'S', long, value_name = "SIDECARSET")]
    pub sidecar: Option<String>,
    /// Pass standard input to the command.
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Give the command a terminal.
    #[arg(short = 't', long)]
    pub tty: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Exec {
    /// Becomes `kubectl exec`.
    ///
    /// # Errors
    /// There is no such pod or container, or `kubectl` cannot be started.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        if session.namespace == session.global.berth_namespace {
            bail!(
                "namespace {:?} is Berth's own, and this command runs nothing there; use kubectl exec",
                session.namespace
            );
        }
        let pod = self.pod(session).await?;
        let name = objects::name(&pod);
        let container = match &self.sidecar {
            Some(sidecar) => Some(sidecar_in(&pod, sidecar, self.container.as_deref())?),
            None => self.container.clone(),
        };
        if self.target.contains('/') || self.sidecar.is_some() {
            let of = container.as_ref().map(|of| format!(", container {of}"));
            let of = of.unwrap_or_default();
            anstream::eprintln!("{}", clean(&format!("in pod {name}{of}")));
        }
        let mut kubectl = Command::new("kubectl");
        kubectl.args(arguments(&session.global, &session.namespace));
        kubectl.args(["exec", name]);
        kubectl.args(container.map(|of| format!("--container={of}")));
        kubectl.args(self.stdin.then_some("-i"));
        kubectl.args(self.tty.then_some("-t"));
        kubectl.arg("--").args(&self.command);
        become_program(kubectl)
    }

    /// The pod, or a pod of the workload.
    async fn pod(&self, session: &Session) -> anyhow::Result<Value> {
        let (kind, name) = match self.target.split_once('/') {
            Some(_) => kinds::object(std::slice::from_ref(&self.target))?,
            None => (kinds::parse("pod")?, self.target.clone()),
        };
        let object = session.get(&kind, &name).await?;
        if kind.resource == PODS {
            return Ok(object);
        }
        let Some(selector) = objects::selector(&object) else {
            let singular = kind.singular();
            return Err(WrongUsage(format!("a {singular} selects no pods")).into());
        };
        let pods = session.list(PODS, &session.namespace, &selector).await?;
        let chosen = chosen(pods, &object);
        chosen.with_context(|| format!("{} has no running pod", title(kind.resource, &name)))
    }
}

/// The flags that make kubectl use the same cluster, user and namespace.
fn arguments(global: &Global, namespace: &str) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec![format!("--namespace={namespace}").into()];
    if let Some(context) = &global.context {
        all.push(format!("--context={context}").into());
    }
    if let Some(path) = &global.kubeconfig {
        all.extend(["--kubeconfig".into(), path.into()]);
    }
    if let Some(user) = &global.as_user {
        all.push(format!("--as={user}").into());
    }
    let groups = global.as_group.iter();
    all.extend(groups.map(|group| format!("--as-group={group}").into()));
    all
}

/// The first pod by name that is ready, or else runs. Pods that the workload controls come first;
/// it controls none if they belong to a ReplicaSet or to a subset.
fn chosen(mut pods: Vec<Value>, workload: &Value) -> Option<Value> {
    let is_own = |pod: &Value| {
        let owner = objects::controller(pod);
        owner.is_some_and(|owner| owner["uid"] == workload["metadata"]["uid"])
    };
    pods.retain(|pod| {
        let is_going = pod["metadata"].get("deletionTimestamp").is_some();
        !is_going && objects::text(pod, "/status/phase") == "Running"
    });
    let is_ready = |pod: &Value| {
        objects::condition(pod, "Ready")
            .is_some_and(|ready| objects::text(ready, "/status") == "True")
    };
    pods.into_iter()
        .min_by_key(|pod| (!is_own(pod), !is_ready(pod), objects::name(pod).to_owned()))
}

/// The container of the pod that this SidecarSet injected, or this sidecar. `wanted` chooses among
/// several sidecars of the SidecarSet.
fn sidecar_in(pod: &Value, sidecar: &str, wanted: Option<&str>) -> anyhow::Result<String> {
    let annotation = |name: &str| {
        let all = pod.pointer("/metadata/annotations");
        all.and_then(|all| all.get(name)).and_then(Value::as_str)
    };
    let records = records::read(annotation(SIDECARSET_HASH));
    let of_set = records
        .get(sidecar)
        .and_then(|record| record.sidecar_list.clone());
    let name = match (of_set, wanted) {
        (None, None) => sidecar.to_owned(),
        (None, Some(_)) => {
            return Err(WrongUsage(format!(
                "pod {} has no containers of SidecarSet {sidecar:?}: leave --container away if it is a sidecar",
                objects::name(pod)
            ))
            .into());
        }
        (Some(all), Some(wanted)) if !all.iter().any(|name| name == wanted) => bail!(
            "SidecarSet {sidecar} has no container {wanted:?} in the pod; it has {}",
            all.join(", ")
        ),
        (Some(_), Some(wanted)) => wanted.to_owned(),
        (Some(all), None) => match all.first() {
            Some(first) => first.clone(),
            None => bail!("SidecarSet {sidecar} has no container in the pod that runs"),
        },
    };
    let has = |container: &str| {
        let lists = ["/spec/containers", "/spec/initContainers"];
        let mut all = lists.iter().flat_map(|list| objects::items(pod, list));
        all.any(|one| objects::text(one, "/name") == container)
    };
    if has(&name) {
        return Ok(name);
    }
    let pair = hot_pair(&name);
    if !pair.iter().all(|one| has(one)) {
        bail!("pod {} has no container {name:?}", objects::name(pod));
    }
    let working = annotation(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER).unwrap_or("{}");
    let working: BTreeMap<String, String> = serde_json::from_str(working).unwrap_or_default();
    let says = working
        .get(&name)
        .filter(|says| pair.contains(says))
        .cloned();
    let [first, second] = pair;
    let works = |container: &str| {
        annotation(&format!("{SIDECARSET_VERSION_PREFIX}{container}"))
            .is_some_and(|version| version != "0")
    };
    // If no annotation names the one that works, it is the one that has a version.
    let guess = || {
        if !works(&first) && works(&second) {
            second
        } else {
            first
        }
    };
    Ok(says.unwrap_or_else(guess))
}

/// Replaces this process, so that signals, terminal and exit code are the program's.
#[cfg(unix)]
fn become_program(mut program: Command) -> anyhow::Result<Exit> {
    use std::os::unix::process::CommandExt;
    Err(program.exec()).context(MISSING)
}

#[cfg(not(unix))]
fn become_program(mut program: Command) -> anyhow::Result<Exit> {
    let status = program.status().context(MISSING)?;
    std::process::exit(status.code().unwrap_or(1));
}

const MISSING: &str = "cannot start kubectl: is it in PATH?";

#[cfg(test)]
mod tests;
