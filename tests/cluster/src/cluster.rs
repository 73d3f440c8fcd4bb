//! A cluster as a value: brought up, attached to, asked, and taken down.

use crate::{
    addons, address,
    cgroup::Cgroups,
    component::{Component, Place, Setting, command_line},
    image::{Image, PAUSE, Registry, mirrored_name},
    namespace::{self, Namespace, OwnDirectory},
    node,
    pki::Authority,
    prerequisites, process,
    programs::Programs,
    relay,
    state::{self, Lock, Settings},
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    ffi::OsStr,
    fs,
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread::{self, sleep},
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(120);

/// What a cluster shall be.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name: up to 40 of `a-z`, `0-9` and `-`. The default is one that no other has.
    pub name: String,
    /// How many nodes it has; with none it is a control plane alone.
    pub nodes: u8,
    /// Whether the apiserver writes every request to [`Cluster::audit_log`].
    pub audit: bool,
    /// Whether a cluster with nodes waits until no other process has one that waits its turn, so that tests that run
    /// at once do not fight for a small machine. One process that wants two at once must not wait for the second.
    pub wait_turn: bool,
}

impl Default for Options {
    fn default() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { name, nodes: 0, audit: false, wait_turn: true }
    }
}

/// A running cluster. One that [`Cluster::up`] made ends when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) directory: PathBuf,
    pub(crate) cgroups: Cgroups,
    pub(crate) programs: Programs,
    control_plane: Namespace,
    nodes: Vec<Namespace>,
    owned: Option<Owned>,
}

/// What only the process that made a cluster holds.
#[derive(Debug)]
struct Owned {
    _name: Lock,
    _turn: Option<Lock>,
}

impl Cluster {
    /// Brings a cluster up and returns when the apiserver and every node are ready. First removes what killed
    /// processes left behind, and builds the programs if they are not in the cache.
    ///
    /// # Errors
    /// Without root or a prerequisite, for a name in use, and when a component does not get ready; the error then has
    /// the end of its log.
    pub fn up(options: &Options) -> Result<Self> {
        state::check_name(&options.name)?;
        ensure!(options.nodes <= address::MAX_NODES, "{} nodes are too many: {} at most", options.nodes, address::MAX_NODES);
        ensure!(nix::unistd::geteuid().is_root(), "a cluster needs root for its namespaces: run as root");
        let missing = prerequisites::missing();
        ensure!(missing.is_empty(), "missing {}: run `cluster install-prerequisites`", missing.join(", "));
        let programs = Programs::ready()?;
        state::remove_leftovers()?;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let turn = (options.wait_turn && options.nodes > 0).then(|| Lock::turn(processors.div_ceil(4))).transpose()?;
        let name = match Lock::of_cluster(&options.name)? {
            Ok(lock) => lock,
            Err(holder) => bail!("cluster {} belongs to process {}", options.name, holder.unwrap_or_default()),
        };
        let mut cluster = Self::create(options, programs, Owned { _name: name, _turn: turn })?;
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
            let holder = process::Process::recorded(&state::process_file(&directory, &place.to_string()));
            let holder = holder.filter(|holder| holder.runs());
            holder.map(Namespace::held_by).with_context(|| format!("{place} of cluster {name} has ended; take it down"))
        };
        Ok(Self {
            control_plane: namespace(Place::ControlPlane)?,
            nodes: (1..=settings.nodes).map(|number| namespace(Place::Node(number))).collect::<Result<_>>()?,
            cgroups: Cgroups::of(name)?,
            programs: Programs::ready()?,
            settings,
            directory,
            owned: None,
        })
    }

    /// Ends the cluster with this name, whether this process made it or not, and removes all it has.
    ///
    /// # Errors
    /// When it belongs to a running process, or something of it cannot be removed.
    pub fn take_down(name: &str) -> Result<()> {
        state::check_name(name)?;
        match Lock::of_cluster(name)? {
            Ok(_lock) => state::remove(name),
            Err(holder) => bail!("cluster {name} belongs to process {} and ends with it", holder.unwrap_or_default()),
        }
    }

    /// Ends the cluster and removes all it has.
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

    fn create(options: &Options, programs: Programs, owned: Owned) -> Result<Self> {
        let (name, directory) = (options.name.as_str(), state::directory(&options.name));
        ensure!(!directory.exists(), "cluster {name} is up already; `cluster down --name {name}` ends it");
        for part in ["pki", "log", "etcd", "processes", "registry", "volumes"] {
            let part = directory.join(part);
            fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
        }
        let cgroups = Cgroups::of(name)?;
        let places: Vec<_> = (1..=options.nodes).map(Place::Node).collect();
        let made = cgroups.create(&places.iter().map(ToString::to_string).collect::<Vec<_>>()).and_then(|()| {
            let shared = node::shared_directories(&directory);
            let control_plane = make_namespace(&cgroups, &directory, Place::ControlPlane, &shared)?;
            enter_script(&cgroups, &control_plane, &namespace::bridge_script())?;
            Ok(control_plane)
        });
        let control_plane = match made {
            Ok(control_plane) => control_plane,
            Err(error) => {
                let _ = state::remove(name);
                return Err(error);
            }
        };
        let settings = Settings {
            name: name.to_owned(),
            nodes: options.nodes,
            audit: options.audit,
            bridged_packets_filtered: Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables").exists(),
            apiserver_port: 0,
            registry_port: 0,
        };
        Ok(Self { settings, directory, cgroups, programs, control_plane, nodes: Vec::new(), owned: Some(owned) })
    }

    fn start_all(&mut self) -> Result<()> {
        self.settings.apiserver_port = self.relay("relay-apiserver", address::APISERVER_PORT)?;
        self.settings.registry_port = self.relay("relay-registry", address::REGISTRY_PORT)?;
        state::write_settings(&self.directory, &self.settings)?;
        self.write_files()?;
        for component in [Component::Etcd, Component::Apiserver, Component::Registry] {
            self.launch(component)?;
        }
        for number in 1..=self.settings.nodes {
            self.join_node(number)?;
            self.launch(Component::Containerd(number))?;
        }
        thread::scope(|scope| {
            let pushed = scope.spawn(|| if self.settings.nodes > 0 { self.push_pause() } else { Ok(()) });
            self.start_when_ready()?;
            pushed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        self.wait_for_nodes()
    }

    /// Starts what needs the apiserver, once it is ready.
    fn start_when_ready(&self) -> Result<()> {
        self.wait_for_apiserver()?;
        for component in Component::all(self.settings.nodes) {
            if !matches!(component, Component::Etcd | Component::Apiserver | Component::Registry | Component::Containerd(_)) {
                self.launch(component)?;
            }
        }
        // Not `apply`, and no validation: nothing is there yet, and both ask for a great deal first.
        let objects = addons::objects().to_string();
        retry(Duration::from_secs(20), || self.kubectl_with(&["create", "--validate=false", "-f", "-"], Some(&objects)))?;
        Ok(())
    }

    fn relay(&self, name: &str, port: u16) -> Result<u16> {
        let target = SocketAddrV4::new(address::CONTROL_PLANE, port);
        let (relay, port) = relay::into_cluster(&self.cgroups, &self.control_plane, target, &self.log(name))?;
        relay.record(&state::process_file(&self.directory, name))?;
        Ok(port)
    }

    fn write_files(&self) -> Result<()> {
        let authority = Authority::create(&self.directory.join("pki"))?;
        authority.issue_control_plane()?;
        let inside = format!("https://{}:{}", address::CONTROL_PLANE, address::APISERVER_PORT);
        let outside = format!("https://{}:{}", Ipv4Addr::LOCALHOST, self.settings.apiserver_port);
        let kubeconfig = |user: &str| self.directory.join(format!("{user}.kubeconfig"));
        authority.kubeconfig("admin", &outside, &kubeconfig("admin"))?;
        for user in ["controller-manager", "scheduler", "kube-proxy", "dns"] {
            authority.kubeconfig(user, &inside, &kubeconfig(user))?;
        }
        for number in 1..=self.settings.nodes {
            let place = Place::Node(number).to_string();
            authority.issue_node(&place, number)?;
            authority.kubeconfig(&place, &inside, &kubeconfig(&place))?;
            node::prepare(&self.directory, number, &self.cgroups.node_root(&place))?;
        }
        let write = |name: &str, content: String| {
            fs::write(self.directory.join(name), content).with_context(|| format!("cannot write {name}"))
        };
        write("registry.yaml", registry_config(&self.directory))?;
        write("Corefile", addons::corefile(&kubeconfig("dns").display().to_string()))?;
        write("audit-policy.json", addons::audit_policy().to_string())
    }

    fn join_node(&mut self, number: u8) -> Result<()> {
        let own = node::own_directories(&self.directory, number);
        let namespace = make_namespace(&self.cgroups, &self.directory, Place::Node(number), &own)?;
        enter_script(&self.cgroups, &self.control_plane, &namespace::node_link_script(number, &namespace))?;
        self.nodes.push(namespace);
        Ok(())
    }

    /// Starts a component and records its process; says nothing about whether it is ready.
    pub(crate) fn launch(&self, component: Component) -> Result<()> {
        if let Component::Kubelet(number) = component {
            let socket = node::containerd_socket(&self.directory, number);
            wait_until(|| socket.exists()).with_context(|| format!("containerd of node-{number} makes no socket"))?;
        }
        let setting = Setting {
            directory: &self.directory,
            audit: self.settings.audit,
            bridged_packets_filtered: self.settings.bridged_packets_filtered,
        };
        let (program, arguments) = command_line(component, &setting);
        let own = self.programs.path(program);
        let program = if own.exists() { own } else { program.into() };
        let mut command = process::command(&self.cgroups, Some(self.namespace(component.place())?), program);
        command.args(arguments);
        let process = process::spawn(command, &self.log(&component.to_string()))?;
        process.record(&state::process_file(&self.directory, &component.to_string()))
    }

    fn push_pause(&self) -> Result<()> {
        wait_until(|| TcpStream::connect((Ipv4Addr::LOCALHOST, self.settings.registry_port)).is_ok())
            .context("the registry does not listen")?;
        let image = Image::pause()?;
        retry(Duration::from_secs(20), || self.registry().push(&image, PAUSE)).map(|_| ())
    }

    /// Waits until the apiserver says that it is ready.
    pub(crate) fn wait_for_apiserver(&self) -> Result<()> {
        let inside = SocketAddrV4::new(address::CONTROL_PLANE, address::APISERVER_PORT);
        let listens = || self.control_plane.run(|| TcpStream::connect(inside).is_ok()).unwrap_or(false);
        wait_until(listens).context("the apiserver does not listen")?;
        retry(PATIENCE, || self.kubectl(&["get", "--raw=/readyz"])).map(|_| ()).context("the apiserver is not ready")
    }

    fn wait_for_nodes(&self) -> Result<()> {
        if self.settings.nodes == 0 {
            return Ok(());
        }
        let nodes: Vec<String> = self.nodes().iter().map(|name| format!("node/{name}")).collect();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        self.kubectl(&[&["wait", "--for=create", &timeout], nodes.as_slice()].concat())?;
        self.kubectl(&[&["wait", "--for=condition=Ready", &timeout], nodes.as_slice()].concat())?;
        Ok(())
    }

    pub(crate) fn namespace(&self, place: Place) -> Result<&Namespace> {
        match place {
            Place::ControlPlane => Ok(&self.control_plane),
            Place::Node(number) => number
                .checked_sub(1)
                .and_then(|index| self.nodes.get(usize::from(index)))
                .with_context(|| format!("the cluster has no {place}; it has {}", self.nodes().join(", "))),
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
        (1..=self.settings.nodes).map(|number| Place::Node(number).to_string()).collect()
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

    /// The registry as the host sees it. What is pushed here under `REPOSITORY:TAG` is what pods get for
    /// `ANY.HOST/REPOSITORY:TAG`; [`Cluster::push_image`] knows Docker's short names too.
    #[must_use]
    pub fn registry(&self) -> Registry {
        Registry::at(&format!("{}:{}", Ipv4Addr::LOCALHOST, self.settings.registry_port), true)
    }

    /// The registry as nodes and pods see it, as `ADDRESS:PORT`.
    #[must_use]
    pub fn registry_inside(&self) -> String {
        format!("{}:{}", address::CONTROL_PLANE, address::REGISTRY_PORT)
    }

    /// Makes every node able to run this image under this name, whatever registry the name has, and gives its digest.
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
        command.args(&enter[1..]).arg(program);
        Ok(command)
    }

    /// Runs a command in the namespaces of a place, and gives its standard output.
    ///
    /// # Errors
    /// When it fails; the error has its standard error.
    pub fn exec(&self, place: Place, command_line: &[&str]) -> Result<String> {
        let (program, arguments) = command_line.split_first().context("no command to run")?;
        process::output(self.command(place, program)?.args(arguments), None)
    }

    /// Runs `work` on a thread in the control plane's network, from which every node, pod and address of the cluster
    /// is reached. A socket made there stays there.
    ///
    /// # Errors
    /// When the network cannot be entered.
    pub fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.control_plane.run(work)
    }

    /// Makes a port of the host's loopback reachable from the whole cluster, at [`address::HOST`] and the same port:
    /// for webhooks that run on the host.
    ///
    /// # Errors
    /// When the port is exposed already.
    pub fn expose(&self, port: u16) -> Result<SocketAddrV4> {
        let name = format!("relay-host-{port}");
        let relay = relay::to_host(&self.cgroups, &self.control_plane, port, &self.log(&name))?;
        relay.record(&state::process_file(&self.directory, &name))?;
        Ok(SocketAddrV4::new(address::HOST, port))
    }

    /// Runs kubectl as administrator, and gives its standard output.
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
        process::output(command.env("KUBECONFIG", self.kubeconfig()).args(arguments), input)
    }

    /// What the logs of components that ended say last.
    fn failures(&self) -> String {
        let mut text = format!("cluster {} did not come up", self.settings.name);
        for component in Component::all(self.settings.nodes) {
            let name = component.to_string();
            let Some(process) = process::Process::recorded(&state::process_file(&self.directory, &name)) else { continue };
            if !process.runs() {
                let log = fs::read_to_string(self.log(&name)).unwrap_or_default();
                let last: Vec<_> = log.lines().rev().take(5).collect();
                text += &format!("\n{name} ended: {}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
        }
        text
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

fn make_namespace(cgroups: &Cgroups, directory: &Path, place: Place, own: &[OwnDirectory]) -> Result<Namespace> {
    let name = place.to_string();
    let namespace = Namespace::create(cgroups, &name, own, &directory.join("log").join(format!("{name}.log")))?;
    namespace.holder().record(&state::process_file(directory, &name))?;
    Ok(namespace)
}

fn enter_script(cgroups: &Cgroups, namespace: &Namespace, script: &str) -> Result<()> {
    process::output(process::command(cgroups, Some(namespace), "/bin/sh").args(["-ec", script]), None).map(|_| ())
}

fn registry_config(directory: &Path) -> String {
    format!(
        "version: 0.1
storage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}
http: {{addr: \"{}:{}\"}}
log: {{level: error, accesslog: {{disabled: true}}}}
",
        directory.join("registry").display(),
        address::CONTROL_PLANE,
        address::REGISTRY_PORT
    )
}

pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        ensure!(Instant::now() < deadline, "waited {PATIENCE:?} in vain");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn retry<T>(patience: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(100)),
            other => return other,
        }
    }
}
