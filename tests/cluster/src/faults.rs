//! Components killed, stopped, paused and started one by one, and a registry that nodes reach by
//! another route.

use crate::{
    address,
    cluster::Cluster,
    component::{Component, Place},
    process::Process,
    state::process_file,
};
use anyhow::{Context, Result, bail};
use std::{sync::Arc, time::Duration};

/// How long a component may take to end after SIGTERM. The apiserver would wait a minute for its
/// watches to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections are tracked as long as any rule needs it. This rule stays, so that diverted
/// connections do not break when their rule is removed.
const TRACKED: &str = "
    rule='FORWARD --match conntrack --ctstate ESTABLISHED'
    iptables --wait --check $rule 2>/dev/null || iptables --wait --append $rule";

impl Cluster {
    /// Whether the component runs.
    #[must_use]
    pub fn runs(&self, component: Component) -> bool {
        self.process(component).is_some_and(Process::runs)
    }

    /// The id of the component's process on the host, while it runs.
    #[must_use]
    pub fn process_id(&self, component: Component) -> Option<u32> {
        self.running(component)
            .ok()
            .and_then(|process| process.pid().as_raw().try_into().ok())
    }

    /// Ends a component with SIGKILL and returns when it is gone. Containers outlive their
    /// containerd.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.running(component)?
            .kill()
            .with_context(|| component.to_string())
    }

    /// Sends a component SIGTERM, kills it after five seconds, and returns when it is gone.
    ///
    /// # Errors
    /// When it does not run.
    pub fn stop(&self, component: Component) -> Result<()> {
        self.running(component)?
            .stop(PATIENCE)
            .with_context(|| component.to_string())
    }

    /// Starts a component that was killed or stopped. Returns when an apiserver is ready; for
    /// others, when they run.
    ///
    /// # Errors
    /// When it runs already.
    pub fn start(&self, component: Component) -> Result<()> {
        if self.runs(component) {
            bail!("{component} runs already");
        }
        self.launch(component)?;
        if component == Component::Apiserver {
            self.wait_for_apiserver()
        } else {
            Ok(())
        }
    }

    /// Pauses a component with SIGSTOP: it lives, keeps its connections, and does nothing.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.running(component)?
            .pause()
            .with_context(|| component.to_string())
    }

    /// Resumes a paused component.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.running(component)?
            .resume()
            .with_context(|| component.to_string())
    }

    /// Stops a component, and starts it again.
    ///
    /// # Errors
    /// As for [`Cluster::start`].
    pub fn restart(&self, component: Component) -> Result<()> {
        if self.runs(component) {
            self.stop(component)?;
        }
        self.start(component)
    }

    /// Diverts a node's new connections to the registry to a port of the host that was made
    /// reachable with [`Cluster::expose`], such as that of a [`crate::Valve`]. Dropping the value
    /// ends that for new connections.
    ///
    /// # Errors
    /// When the rule for it cannot be made.
    pub fn divert_registry(self: &Arc<Self>, node: u8, port: u16) -> Result<Diversion> {
        let rule = format!(
            "PREROUTING --source {} --destination {} --protocol tcp --dport {} --jump DNAT --to-destination {}:{port}",
            address::node(node),
            address::CONTROL_PLANE,
            address::REGISTRY_PORT,
            address::HOST
        );
        self.exec(Place::ControlPlane, &["sh", "-ec", TRACKED])?;
        let diversion = Diversion {
            cluster: Arc::clone(self),
            rule,
        };
        diversion.change("--insert").map(|()| diversion)
    }

    /// Every component of this cluster.
    #[must_use]
    pub fn components(&self) -> Vec<Component> {
        let metrics = self.settings.metrics.then_some(Component::MetricsServer);
        Component::all(self.settings.nodes)
            .into_iter()
            .chain(metrics)
            .collect()
    }

    fn process(&self, component: Component) -> Option<Process> {
        Process::recorded(&process_file(&self.directory, &component.to_string()))
    }

    fn running(&self, component: Component) -> Result<Process> {
        let process = self.process(component).filter(|process| process.runs());
        process.with_context(|| format!("{component} of cluster {} does not run", self.name()))
    }
}

/// Another route to the registry, for as long as this value lives.
#[derive(Debug)]
pub struct Diversion {
    cluster: Arc<Cluster>,
    rule: String,
}

impl Diversion {
    fn change(&self, how: &str) -> Result<()> {
        let iptables = ["iptables", "--wait", "--table", "nat", how].into_iter();
        let command_line: Vec<&str> = iptables.chain(self.rule.split(' ')).collect();
        self.cluster
            .exec(Place::ControlPlane, &command_line)
            .map(|_| ())
    }
}

impl Drop for Diversion {
    fn drop(&mut self) {
        if let Err(error) = self.change("--delete") {
            eprintln!("cluster {}: {error:#}", self.cluster.name());
        }
    }
}
