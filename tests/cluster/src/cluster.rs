//! A cluster as a value: bringing it up, attaching to it, running commands in it, and taking it
//! down.

use crate::{
    address,
    cgroup::Cgroups,
    component::Place,
    image::{Image, Registry, mirrored_name},
    namespace::Namespace,
    prerequisites, process,
    programs::Programs,
    relay,
    state::{self, Lock, Settings},
    versions::Versions,
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    env,
    ffi::OsStr,
    net::{Ipv4Addr, SocketAddrV4},
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

/// The options of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name: up to 40 of `a-z`, `0-9` and `-`. The default is unique.
    pub name: String,
    /// How many nodes it has; with none it is a control plane alone.
    pub nodes: u8,
    /// Whether the apiserver writes every request to [`Cluster::audit_log`].
    pub audit: bool,
    /// Whether it has metrics-server, for autoscalers and `kubectl top`.
    pub metrics: bool,
    /// Whether a cluster with nodes waits until no other process has such a waiting cluster, so
    /// that tests that run at once do not compete for a small machine. A process that wants two
    /// clusters at once must not wait for the second.
    pub wait_turn: bool,
    /// The versions that it runs; without them, those in the environment ([`Versions::asked`]).
    pub versions: Option<Versions>,
}

impl Default for Options {
    fn default() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        Self {
            name,
            nodes: 0,
            audit: false,
            metrics: false,
            wait_turn: true,
            versions: None,
        }
    }
}

/// A running cluster. If [`Cluster::up`] made it, it ends when this value is dropped.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) directory: PathBuf,
    pub(crate) cgroups: Cgroups,
    pub(crate) programs: Programs,
    pub(crate) control_plane: Namespace,
    pub(crate) nodes: Vec<Namespace>,
    pub(crate) owned: Option<Owned>,
}

/// The resources of only the process that made a cluster.
#[derive(Debug)]
pub(crate) struct Owned {
    _name: Lock,
    _turn: Option<Lock>,
}

impl Cluster {
    /// Brings a cluster up and returns when the apiserver and every node are ready. First removes
    /// the remains of killed processes, and builds the programs if they are not in the cache.
    ///
    /// # Errors
    /// Without root or a prerequisite, for a name in use, and when a component does not get ready;
    /// the error then has the end of the component's log.
    pub fn up(options: &Options) -> Result<Self> {
        state::check_name(&options.name)?;
        ensure!(
            options.nodes <= address::MAX_NODES,
            "{} nodes are too many: {} at most",
            options.nodes,
            address::MAX_NODES
        );
        ensure!(
            nix::unistd::geteuid().is_root(),
            "a cluster needs root for its namespaces: run as root"
        );
        let missing = prerequisites::missing(false);
        ensure!(
            missing.is_empty(),
            "missing {}: run `cluster install-prerequisites`",
            missing.join(", ")
        );
        let programs = programs(
            options.versions.map_or_else(Versions::asked, Ok)?,
            options.metrics,
        )?;
        state::remove_leftovers()?;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let turn = (options.wait_turn && options.nodes > 0)
            .then(|| Lock::turn(processors.div_ceil(4)))
            .transpose()?;
        let name = match Lock::of_cluster(&options.name)? {
            Ok(lock) => lock,
            Err(holder) => bail!(
                "cluster {} belongs to process {}",
                options.name,
                holder.unwrap_or_default()
            ),
        };
        let mut cluster = Self::create(
            options,
            programs,
            Owned {
                _name: name,
                _turn: turn,
            },
        )?;
        cluster.start_all().with_context(|| cluster.failures())?;
        Ok(cluster)
    }

    /// A cluster that another process brought up. It does not end with this value.
    ///
    /// # Errors
    /// When there is none of this name, or it has ended.
    pub fn attach(name: &str) -> Result<Self> {
        state::check_name(name)?;
        let settings = state::read_settings(name)?;
        let directory = state::directory(name);
        let namespace = |place: Place| {
            let holder =
                process::Process::recorded(&state::process_file(&directory, &place.to_string()));
            let holder = holder.filter(|holder| holder.runs());
            holder
                .map(Namespace::held_by)
                .with_context(|| format!("{place} of cluster {name} has ended; take it down"))
        };
        Ok(Self {
            control_plane: namespace(Place::ControlPlane)?,
            nodes: (1..=settings.nodes)
                .map(|number| namespace(Place::Node(number)))
                .collect::<Result<_>>()?,
            cgroups: Cgroups::of(name)?,
            programs: programs(settings.versions, settings.metrics)?,
            settings,
            directory,
            owned: None,
        })
    }

    /// Ends the cluster with this name, also one of another process, and removes all its files.
    ///
    /// # Errors
    /// When it belongs to a running process, or something of it cannot be removed.
    pub fn take_down(name: &str) -> Result<()> {
        state::check_name(name)?;
        match Lock::of_cluster(name)? {
            Ok(_lock) => state::remove(name),
            Err(holder) => bail!(
                "cluster {name} belongs to process {} and ends with it",
                holder.unwrap_or_default()
            ),
        }
    }

    /// Ends the cluster and removes all its files.
    ///
    /// # Errors
    /// When something of it cannot be removed.
    pub fn down(mut self) -> Result<()> {
        if self.owned.is_some() {
            let result = state::remove(&self.settings.name);
            self.owned = None;
            return result;
        }
        Self::take_down(&self.settings.name)
    }

    /// Lets the cluster outlive this process, until it is taken down or the machine restarts.
    ///
    /// # Errors
    /// When its directory cannot be written.
    pub fn keep(mut self) -> Result<()> {
        state::keep(&self.directory)?;
        self.owned = None;
        Ok(())
    }

    pub(crate) fn namespace(&self, place: Place) -> Result<&Namespace> {
        match place {
            Place::ControlPlane => Ok(&self.control_plane),
            Place::Node(number) => number
                .checked_sub(1)
                .and_then(|index| self.nodes.get(usize::from(index)))
                .with_context(|| {
                    format!(
                        "the cluster has no {place}; it has {}",
                        self.nodes().join(", ")
                    )
                }),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The names of its nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        (1..=self.settings.nodes)
            .map(|number| Place::Node(number).to_string())
            .collect()
    }

    /// The versions that it runs.
    #[must_use]
    pub fn versions(&self) -> Versions {
        self.settings.versions
    }

    /// The version of cgroups that its nodes run on: 1 or 2.
    #[must_use]
    pub fn cgroup_version(&self) -> u8 {
        self.cgroups.version()
    }

    /// The kubeconfig of an administrator, for programs on the host.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// The programs that the cluster runs, with kubectl and helm.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The registry as the host sees it. Pods that name `ANY.HOST/REPOSITORY:TAG` get the image
    /// that is pushed here as `REPOSITORY:TAG`; [`Cluster::push_image`] knows Docker's short names
    /// too.
    #[must_use]
    pub fn registry(&self) -> Registry {
        Registry::at(
            &format!("{}:{}", Ipv4Addr::LOCALHOST, self.settings.registry_port),
            true,
        )
    }

    /// The registry as nodes and pods see it, as `ADDRESS:PORT`.
    #[must_use]
    pub fn registry_inside(&self) -> String {
        format!("{}:{}", address::CONTROL_PLANE, address::REGISTRY_PORT)
    }

    /// Makes every node able to run this image under this name, with any registry in the name, and
    /// returns its digest.
    ///
    /// # Errors
    /// As for [`Registry::push`].
    pub fn push_image(&self, reference: &str, image: &Image) -> Result<String> {
        self.registry().push(image, &mirrored_name(reference))
    }

    /// The log of a component or relay, by its name.
    #[must_use]
    pub fn log(&self, component: &str) -> PathBuf {
        self.directory.join("log").join(format!("{component}.log"))
    }

    /// Where the apiserver writes one line of JSON for each request, with [`Options::audit`].
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    /// A command that runs in the namespaces of a place, with this process's environment.
    ///
    /// # Errors
    /// When the cluster has no such place.
    pub fn command(&self, place: Place, program: impl AsRef<OsStr>) -> Result<Command> {
        let enter = self.namespace(place)?.enter();
        let mut command = Command::new("nsenter");
        let paths = env::var("PATH").unwrap_or_else(|_| process::PATH.to_owned());
        command
            .args(&enter[1..])
            .arg(program)
            .env("PATH", self.programs.search_path(&paths)?);
        Ok(command)
    }

    /// Runs a command in the namespaces of a place, and returns its standard output.
    ///
    /// # Errors
    /// When it fails; the error has its standard error.
    pub fn exec(&self, place: Place, command_line: &[&str]) -> Result<String> {
        let (program, arguments) = command_line.split_first().context("no command to run")?;
        process::output(self.command(place, program)?.args(arguments), None)
    }

    /// Runs `work` on a thread in the control plane's network, from which every node, pod and
    /// address of the cluster is reachable. A socket made there stays there.
    ///
    /// # Errors
    /// When the network cannot be entered.
    pub fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.control_plane.run(work)
    }

    /// Makes a port of the host's loopback reachable from the whole cluster, at [`address::HOST`]
    /// and the same port: for webhooks that run on the host.
    ///
    /// # Errors
    /// When the port is exposed already.
    pub fn expose(&self, port: u16) -> Result<SocketAddrV4> {
        let name = format!("relay-host-{port}");
        let relay = relay::to_host(&self.cgroups, &self.control_plane, port, &self.log(&name))?;
        relay.record(&state::process_file(&self.directory, &name))?;
        Ok(SocketAddrV4::new(address::HOST, port))
    }

    /// Runs kubectl as administrator, and returns its standard output.
    ///
    /// # Errors
    /// When it fails; the error has its standard error.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with(arguments, None)
    }

    /// Runs kubectl as administrator with this standard input, as `-f -` reads it.
    ///
    /// # Errors
    /// When it fails; the error has its standard error.
    pub fn kubectl_with(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        let mut command = Command::new(self.programs.path("kubectl"));
        // Discovery is cached by address, and another cluster may have had this one's.
        command.env("KUBECACHEDIR", self.directory.join("kubectl-cache"));
        process::output(
            command.env("KUBECONFIG", self.kubeconfig()).args(arguments),
            input,
        )
    }
}

fn programs(versions: Versions, metrics: bool) -> Result<Programs> {
    let programs = Programs::ready(versions)?;
    if metrics {
        programs.with_metrics_server()
    } else {
        Ok(programs)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.owned.is_some()
            && let Err(error) = state::remove(&self.settings.name)
        {
            eprintln!("cluster {}: {error:#}", self.settings.name);
        }
    }
}
