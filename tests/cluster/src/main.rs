//! The command `cluster`: a real multi-node Kubernetes on this machine.

use anyhow::{Context, Result, bail, ensure};
use berth_cluster::{
    Cluster, Component, Image, Options, Place, Registry, Versions,
    image::mirrored_name,
    prerequisites,
    programs::Programs,
    versions::{Containerd, Kubernetes},
};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Instant,
};

/// A real multi-node Kubernetes on this machine.
#[derive(Parser)]
#[command(name = "cluster", version)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Args)]
struct Name {
    /// The cluster's name.
    #[arg(long, default_value = "berth", env = "BERTH_CLUSTER")]
    name: String,
}

#[derive(Args)]
struct Asked {
    /// The version of Kubernetes.
    #[arg(long, env = "KUBERNETES", value_enum, default_value_t = Versions::default().kubernetes)]
    kubernetes: Kubernetes,
    /// The version of containerd: 1.6 is Debian's, a newer one is built.
    #[arg(long, env = "CONTAINERD", value_enum, default_value_t = Versions::default().containerd)]
    containerd: Containerd,
}

impl From<Asked> for Versions {
    fn from(
        Asked {
            kubernetes,
            containerd,
        }: Asked,
    ) -> Self {
        Self {
            kubernetes,
            containerd,
        }
    }
}

#[derive(Subcommand)]
enum Task {
    /// Bring a cluster up, to stay until `down`.
    Up {
        #[command(flatten)]
        name: Name,
        /// How many nodes it has; 0 is a control plane alone.
        #[arg(long, default_value_t = 1)]
        nodes: u8,
        /// Write every API request to an audit log.
        #[arg(long)]
        audit: bool,
        /// Run metrics-server, for autoscalers and `kubectl top`. It is built once, as the other
        /// programs are.
        #[arg(long)]
        metrics: bool,
        #[command(flatten)]
        versions: Asked,
    },
    /// End a cluster and remove all it has.
    Down {
        #[command(flatten)]
        name: Name,
    },
    /// List the clusters, and the components of each.
    Status,
    /// Print the path of the administrator's kubeconfig, for KUBECONFIG.
    Kubeconfig {
        #[command(flatten)]
        name: Name,
    },
    /// Run a command in the namespaces of a node, or of `control-plane`.
    Exec {
        #[command(flatten)]
        name: Name,
        /// The place: node-1, node-2, … or control-plane.
        place: Place,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Images for the cluster's registry or another.
    Image {
        #[command(subcommand)]
        task: ImageTask,
    },
    /// Make a port of the host's loopback reachable from the cluster, and print the address there.
    Expose {
        #[command(flatten)]
        name: Name,
        /// The port.
        port: u16,
    },
    /// End a component with SIGKILL.
    Kill(Target),
    /// Ask a component to end, and wait until it has.
    Stop(Target),
    /// Start a component that was killed or stopped.
    Start(Target),
    /// Stop a component and start it again.
    Restart(Target),
    /// Install the Debian packages that are missing.
    InstallPrerequisites {
        /// Also the browser, which only tests need.
        #[arg(long)]
        for_tests: bool,
    },
    /// Build the programs into the cache, if they are not there, and print their directory.
    Build(Asked),
}

#[derive(Args)]
struct Target {
    #[command(flatten)]
    name: Name,
    /// The component, and its node where there are several: etcd, apiserver, kubelet@node-1, …
    component: String,
}

#[derive(Subcommand)]
enum ImageTask {
    /// Make an image of local files and push it.
    Push(ImagePush),
}

#[derive(Args)]
struct ImagePush {
    #[command(flatten)]
    name: Name,
    /// The image's name, as pods give it; with --registry, REPOSITORY:TAG.
    reference: String,
    /// Files: PATH=FILE puts FILE of this machine at PATH.
    #[arg(value_name = "PATH=FILE")]
    files: Vec<String>,
    /// What to start from.
    #[arg(long, value_enum, default_value = "scratch")]
    base: Base,
    /// With the base `hello`, what the server answers; the image's name if not given.
    #[arg(long)]
    says: Option<String>,
    /// A word of the entrypoint; repeat it for more.
    #[arg(long, allow_hyphen_values = true)]
    entrypoint: Vec<String>,
    /// A word of the default arguments; repeat it for more.
    #[arg(long, allow_hyphen_values = true)]
    cmd: Vec<String>,
    /// An environment variable, NAME=VALUE.
    #[arg(long)]
    env: Vec<String>,
    /// The user that containers run as.
    #[arg(long)]
    user: Option<String>,
    /// Push to this registry, HOST[:PORT][/PREFIX], and not to the cluster's.
    #[arg(long)]
    registry: Option<String>,
    /// Speak HTTP to that registry.
    #[arg(long, requires = "registry")]
    plain_http: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Base {
    /// Nothing but /tmp and two users.
    Scratch,
    /// A shell and its tools.
    Busybox,
    /// A web server that answers the image's name on $PORT, or 8080.
    Hello,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Up {
            name,
            nodes,
            audit,
            metrics,
            versions,
        } => {
            let versions = Some(versions.into());
            up(&Options {
                name: name.name,
                nodes,
                audit,
                metrics,
                wait_turn: false,
                versions,
            })?;
        }
        Task::Down { name } => Cluster::take_down(&name.name)?,
        Task::Status => status()?,
        Task::Kubeconfig { name } => {
            println!("{}", Cluster::attach(&name.name)?.kubeconfig().display())
        }
        Task::Exec {
            name,
            place,
            command,
        } => return exec(&name.name, place, &command),
        Task::Image {
            task: ImageTask::Push(push),
        } => push_image(&push)?,
        Task::Expose { name, port } => println!("{}", Cluster::attach(&name.name)?.expose(port)?),
        Task::Kill(target) => target.apply(Cluster::kill)?,
        Task::Stop(target) => target.apply(Cluster::stop)?,
        Task::Start(target) => target.apply(Cluster::start)?,
        Task::Restart(target) => target.apply(Cluster::restart)?,
        Task::InstallPrerequisites { for_tests } => {
            match prerequisites::install(for_tests)?.as_slice() {
                [] => println!("nothing is missing"),
                installed => println!("installed {}", installed.join(", ")),
            }
        }
        Task::Build(versions) => println!(
            "{}",
            Programs::ready(versions.into())?.directory().display()
        ),
    }
    Ok(ExitCode::SUCCESS)
}

impl Target {
    fn apply(&self, act: impl Fn(&Cluster, Component) -> Result<()>) -> Result<()> {
        let cluster = Cluster::attach(&self.name.name)?;
        act(
            &cluster,
            Component::parse(&self.component, &cluster.components())?,
        )
    }
}

fn up(options: &Options) -> Result<()> {
    let started = Instant::now();
    let cluster = Cluster::up(options)?;
    let (name, seconds, cgroup) = (
        cluster.name(),
        started.elapsed().as_secs_f32(),
        cluster.cgroup_version(),
    );
    let Versions {
        kubernetes,
        containerd,
    } = cluster.versions();
    let said = format!(
        "# cluster {name} is up after {seconds:.1} s: Kubernetes {kubernetes}, containerd {containerd}, cgroup v{cgroup}
export KUBECONFIG={}
export PATH={}:$PATH
# registry: {} from here, {} in the cluster
",
        cluster.kubeconfig().display(),
        cluster.programs().directory().display(),
        cluster.registry().address,
        cluster.registry_inside()
    );
    // Kept before the output, because its reader may go away.
    cluster.keep()?;
    Ok(io::stdout().write_all(said.as_bytes())?)
}

fn status() -> Result<()> {
    let mut out = io::stdout().lock();
    for summary in berth_cluster::list()? {
        let owner = summary
            .owner
            .map_or(String::new(), |pid| format!(", ends with process {pid}"));
        match Cluster::attach(&summary.name) {
            Ok(cluster) => {
                let (nodes, kubeconfig) = (cluster.nodes().len(), cluster.kubeconfig());
                let Versions {
                    kubernetes,
                    containerd,
                } = cluster.versions();
                writeln!(
                    out,
                    "{}: {nodes} nodes, Kubernetes {kubernetes}, containerd {containerd}{owner}, KUBECONFIG={}",
                    summary.name,
                    kubeconfig.display()
                )?;
                for component in cluster.components() {
                    let state = if cluster.runs(component) {
                        "runs"
                    } else {
                        "stopped"
                    };
                    writeln!(out, "  {component}: {state}")?;
                }
            }
            Err(error) => writeln!(out, "{}: {error:#}{owner}", summary.name)?,
        }
    }
    Ok(())
}

fn exec(name: &str, place: Place, command: &[String]) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("no command to run")?;
    let status = Cluster::attach(name)?
        .command(place, program)?
        .args(arguments)
        .status()?;
    Ok(ExitCode::from(
        status
            .code()
            .and_then(|code| code.try_into().ok())
            .unwrap_or(1),
    ))
}

fn push_image(push: &ImagePush) -> Result<()> {
    let mut image = match push.base {
        Base::Scratch => Image::scratch(),
        Base::Busybox => Image::busybox()?,
        Base::Hello => Image::hello(push.says.as_deref().unwrap_or(&push.reference))?,
    };
    ensure!(
        push.says.is_none() || matches!(push.base, Base::Hello),
        "--says is for --base hello"
    );
    for file in &push.files {
        let Some((path, source)) = file.split_once('=') else {
            bail!("{file:?} is not PATH=FILE")
        };
        image = image.file(path, Path::new(source))?;
    }
    for variable in &push.env {
        let Some((name, value)) = variable.split_once('=') else {
            bail!("{variable:?} is not NAME=VALUE")
        };
        image = image.env(name, value);
    }
    if !push.entrypoint.is_empty() {
        image = image.entrypoint(&push.entrypoint);
    }
    if !push.cmd.is_empty() {
        image = image.command(&push.cmd);
    }
    if let Some(user) = &push.user {
        image = image.user(user);
    }
    let digest = match &push.registry {
        Some(registry) => Registry::at(registry, push.plain_http).push(&image, &push.reference)?,
        None => Cluster::attach(&push.name.name)?
            .registry()
            .push(&image, &mirrored_name(&push.reference))?,
    };
    println!("{} {digest}", push.reference);
    Ok(())
}
