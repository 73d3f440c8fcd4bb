//! The start of a cluster: its files, the order of its components, and the conditions that it waits
//! for.

use crate::{
    addons, address,
    cgroup::Cgroups,
    cluster::{Cluster, Options, Owned},
    component::{Component, Place, Setting, command_line},
    image::{Image, PAUSE},
    namespace::{self, Namespace, OwnDirectory},
    node,
    pki::Authority,
    process,
    programs::Programs,
    relay,
    state::{self, Settings},
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    path::Path,
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// How long any step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

impl Cluster {
    pub(crate) fn create(options: &Options, programs: Programs, owned: Owned) -> Result<Self> {
        let (name, directory) = (options.name.as_str(), state::directory(&options.name));
        ensure!(
            !directory.exists(),
            "cluster {name} is up already; `cluster down --name {name}` ends it"
        );
        for part in ["pki", "log", "etcd", "processes", "registry", "volumes"] {
            let part = directory.join(part);
            fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
        }
        let cgroups = Cgroups::of(name)?;
        let places: Vec<_> = (1..=options.nodes).map(Place::Node).collect();
        let made = cgroups
            .create(&places.iter().map(ToString::to_string).collect::<Vec<_>>())
            .and_then(|()| {
                let shared = node::shared_directories(&directory);
                let control_plane =
                    make_namespace(&cgroups, &directory, Place::ControlPlane, &shared)?;
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
            versions: programs.versions(),
            audit: options.audit,
            metrics: options.metrics,
            bridged_packets_filtered: Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables")
                .exists(),
            apiserver_port: 0,
            registry_port: 0,
        };
        Ok(Self {
            settings,
            directory,
            cgroups,
            programs,
            control_plane,
            nodes: Vec::new(),
            owned: Some(owned),
        })
    }

    pub(crate) fn start_all(&mut self) -> Result<()> {
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
            let pushed = scope.spawn(|| {
                if self.settings.nodes > 0 {
                    self.push_pause()
                } else {
                    Ok(())
                }
            });
            self.start_when_ready()?;
            pushed
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        self.wait_for_nodes()
    }

    /// Starts the components that need the apiserver, once it is ready.
    fn start_when_ready(&self) -> Result<()> {
        self.wait_for_apiserver()?;
        let class = addons::storage_class().to_string();
        let create = ["create", "--raw", addons::STORAGE_CLASSES, "-f", "-"];
        self.kubectl_with(&create, Some(&class))?;
        for component in Component::all(self.settings.nodes) {
            use Component::{ControllerManager, KubeProxy, Kubelet, Scheduler};
            if matches!(
                component,
                ControllerManager | Scheduler | Kubelet(_) | KubeProxy(_)
            ) {
                self.launch(component)?;
            }
        }
        if self.settings.nodes > 0 {
            self.start_addon(Component::Dns, &addons::dns())?;
        }
        if self.settings.metrics {
            self.start_addon(Component::MetricsServer, &addons::metrics())
        } else {
            Ok(())
        }
    }

    /// Makes the objects that a component needs, its own rights among them, and starts it.
    fn start_addon(&self, component: Component, objects: &Value) -> Result<()> {
        let objects = objects.to_string();
        let apply = ["apply", "--server-side", "--validate=false", "-f", "-"];
        // The apiserver may make the namespace a moment later.
        retry(PATIENCE, || self.kubectl_with(&apply, Some(&objects)))?;
        self.launch(component)
    }

    fn relay(&self, name: &str, port: u16) -> Result<u16> {
        let target = SocketAddrV4::new(address::CONTROL_PLANE, port);
        let (relay, port) =
            relay::into_cluster(&self.cgroups, &self.control_plane, target, &self.log(name))?;
        relay.record(&state::process_file(&self.directory, name))?;
        Ok(port)
    }

    fn write_files(&self) -> Result<()> {
        let authority = Authority::create(&self.directory.join("pki"))?;
        authority.issue_control_plane()?;
        let inside = format!(
            "https://{}:{}",
            address::CONTROL_PLANE,
            address::APISERVER_PORT
        );
        let outside = format!(
            "https://{}:{}",
            Ipv4Addr::LOCALHOST,
            self.settings.apiserver_port
        );
        let kubeconfig = |user: &str| self.directory.join(format!("{user}.kubeconfig"));
        authority.kubeconfig("admin", &outside, &kubeconfig("admin"))?;
        for user in [
            "controller-manager",
            "scheduler",
            "kube-proxy",
            "dns",
            "metrics-server",
        ] {
            authority.kubeconfig(user, &inside, &kubeconfig(user))?;
        }
        for number in 1..=self.settings.nodes {
            let place = Place::Node(number).to_string();
            authority.issue_node(&place, number)?;
            authority.kubeconfig(&place, &inside, &kubeconfig(&place))?;
            node::prepare(&self.directory, number, &self.cgroups.node_root(&place))?;
        }
        let write = |name: &str, content: String| {
            fs::write(self.directory.join(name), content)
                .with_context(|| format!("cannot write {name}"))
        };
        write("registry.yaml", registry_config(&self.directory))?;
        write(
            "Corefile",
            addons::corefile(&kubeconfig("dns").display().to_string()),
        )?;
        write("audit-policy.json", addons::audit_policy().to_string())
    }

    fn join_node(&mut self, number: u8) -> Result<()> {
        let own = node::own_directories(&self.directory, number);
        let namespace = make_namespace(&self.cgroups, &self.directory, Place::Node(number), &own)?;
        enter_script(
            &self.cgroups,
            &self.control_plane,
            &namespace::node_link_script(number, &namespace),
        )?;
        self.nodes.push(namespace);
        Ok(())
    }

    /// Starts a component and records its process; does not wait until it is ready.
    pub(crate) fn launch(&self, component: Component) -> Result<()> {
        if let Component::Kubelet(number) = component {
            let socket = node::containerd_socket(&self.directory, number);
            wait_until(|| socket.exists())
                .with_context(|| format!("containerd of node-{number} makes no socket"))?;
        }
        let setting = Setting {
            directory: &self.directory,
            versions: self.settings.versions,
            audit: self.settings.audit,
            bridged_packets_filtered: self.settings.bridged_packets_filtered,
        };
        let (program, arguments) = command_line(component, &setting);
        let namespace = self.namespace(component.place())?;
        let mut command =
            process::command(&self.cgroups, Some(namespace), self.programs.path(program));
        command
            .args(arguments)
            .env("PATH", self.programs.search_path(process::PATH)?);
        let process = process::spawn(command, &self.log(&component.to_string()))?;
        process.record(&state::process_file(
            &self.directory,
            &component.to_string(),
        ))
    }

    fn push_pause(&self) -> Result<()> {
        wait_until(|| {
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.settings.registry_port)).is_ok()
        })
        .context("the registry does not listen")?;
        let image = Image::pause()?;
        retry(PATIENCE, || self.registry().push(&image, PAUSE)).map(|_| ())
    }

    /// Waits until the apiserver reports itself ready.
    pub(crate) fn wait_for_apiserver(&self) -> Result<()> {
        let inside = SocketAddrV4::new(address::CONTROL_PLANE, address::APISERVER_PORT);
        let listens = || {
            self.control_plane
                .run(|| TcpStream::connect(inside).is_ok())
                .unwrap_or(false)
        };
        wait_until(listens).context("the apiserver does not listen")?;
        retry(PATIENCE, || self.kubectl(&["get", "--raw=/readyz"]))
            .map(|_| ())
            .context("the apiserver is not ready")
    }

    fn wait_for_nodes(&self) -> Result<()> {
        if self.settings.nodes == 0 {
            return Ok(());
        }
        let nodes: Vec<String> = self
            .nodes()
            .iter()
            .map(|name| format!("node/{name}"))
            .collect();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        // `wait --for=create` gives up on several names when the first read finds none of them.
        retry(PATIENCE, || {
            self.kubectl(&[&["get"], nodes.as_slice()].concat())
        })?;
        self.kubectl(
            &[
                &["wait", "--for=condition=Ready", &timeout],
                nodes.as_slice(),
            ]
            .concat(),
        )?;
        wait_until(|| self.dns_is_ready().unwrap_or(false))
            .context("cluster DNS does not get ready")
    }

    fn dns_is_ready(&self) -> Result<bool> {
        let mut connection = self
            .control_plane
            .run(|| TcpStream::connect(addons::DNS_READINESS))??;
        connection.write_all(b"GET /ready HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer.split(' ').nth(1) == Some("200"))
    }

    /// The last lines in the logs of components that ended.
    pub(crate) fn failures(&self) -> String {
        let mut text = format!("cluster {} did not come up", self.settings.name);
        for component in self.components() {
            let name = component.to_string();
            let Some(process) =
                process::Process::recorded(&state::process_file(&self.directory, &name))
            else {
                continue;
            };
            if !process.runs() {
                let log = fs::read_to_string(self.log(&name)).unwrap_or_default();
                let last: Vec<_> = log.lines().rev().take(5).collect();
                text += &format!(
                    "\n{name} ended: {}",
                    last.into_iter().rev().collect::<Vec<_>>().join("\n")
                );
            }
        }
        text
    }
}

fn make_namespace(
    cgroups: &Cgroups,
    directory: &Path,
    place: Place,
    own: &[OwnDirectory],
) -> Result<Namespace> {
    let name = place.to_string();
    let namespace = Namespace::create(
        cgroups,
        &name,
        own,
        &directory.join("log").join(format!("{name}.log")),
    )?;
    namespace
        .holder()
        .record(&state::process_file(directory, &name))?;
    Ok(namespace)
}

fn enter_script(cgroups: &Cgroups, namespace: &Namespace, script: &str) -> Result<()> {
    process::output(
        process::command(cgroups, Some(namespace), "/bin/sh").args(["-ec", script]),
        None,
    )
    .map(|_| ())
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
        ensure!(
            Instant::now() < deadline,
            "the condition is not met after {PATIENCE:?}"
        );
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
