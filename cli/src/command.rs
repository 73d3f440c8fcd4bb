//! The command line: which commands there are.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::{
    check, create, dashboard, drain, exec, expose, get, images, migrate, report, rollout,
    scaledown, set, top, why,
};
use crate::completion;
use crate::exit::{Exit, WrongUsage, is_of_connection, sentence};
use crate::flags::Global;
use crate::session::Session;
use crate::text;

/// Shows why a rollout waits and what it does next, and steers it, with your own rights.
#[derive(Debug, Parser)]
#[command(name = "kubectl-berth", version, args_override_self = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of all commands.
    #[command(flatten)]
    pub global: Global,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Why an object waits, and what its controller does next.
    Why(why::Why),
    /// Show a workload as a tree of its revisions and pods, or all rollouts of a namespace.
    Get(get::Get),
    /// On which nodes images are, and what a node pulls; or pull an image on many nodes.
    Images(images::Images),
    /// CPU and memory of a workload's pods.
    Top(top::Top),
    /// Set images, variables, resources or the service account of a workload's pods.
    Set(set::Set),
    /// Delete certain pods of a workload, and lower its replicas.
    #[command(name = "scaledown")]
    ScaleDown(scaledown::ScaleDown),
    /// Create a Service for the pods of a workload.
    Expose(expose::Expose),
    /// Create a HorizontalPodAutoscaler for a workload.
    Autoscale(expose::Autoscale),
    /// Run a command in a pod of a workload, or in the working container of a sidecar.
    Exec(exec::Exec),
    /// Create a BroadcastJob, a ContainerRecreateRequest or an ImagePullJob.
    Create(create::Create),
    /// Move the pods of a Deployment to a CloneSet.
    Migrate(migrate::Migrate),
    /// Follow a rollout, and steer it: status, history, undo, pause, resume, restart, partition,
    /// promote.
    Rollout(rollout::Rollout),
    /// Check whether Berth works, can be installed, or can change hands with OpenKruise.
    Check(check::Check),
    /// Show what `kubectl drain` of a node would get, and after how many rounds the node is empty.
    Drain(drain::Drain),
    /// Write an archive for a bug report, without Secrets and values of variables.
    Report(report::Report),
    /// Serve the state of the cluster as a page in the browser, on 127.0.0.1.
    Dashboard(dashboard::Dashboard),
    /// Print the script that completes commands in a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write those of all commands into a directory.
    Man {
        /// The directory, such as /usr/local/share/man/man1.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// Executes the command line of this process.
pub async fn execute() -> Exit {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    if program.starts_with(completion::PROGRAM) {
        let words: Vec<_> = arguments.collect();
        anstream::print!("{}", completion::answer(&Cli::command(), &words).await);
        return Exit::Done;
    }
    let name = if program.ends_with("-kruise") {
        "kubectl kruise"
    } else {
        "kubectl berth"
    };
    let matches = Cli::command().bin_name(name).try_get_matches();
    let cli = match matches
        .and_then(|matches| <Cli as clap::FromArgMatches>::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            // Nothing is left to do if the terminal is gone.
            let _ = error.print();
            return exit;
        }
    };
    if cli.global.no_color || !std::io::stdout().is_terminal() {
        anstream::ColorChoice::Never.write_global();
    }
    match run(&cli).await {
        Ok(exit) => exit,
        Err(error) => {
            let line = format!("error: {}", sentence(&error));
            anstream::eprintln!("{}", text::fitted(&line, text::error_width()));
            match error.downcast_ref::<WrongUsage>() {
                Some(_) => Exit::Usage,
                None => Exit::Failed,
            }
        }
    }
}

async fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.command {
        Command::Completion { shell } => {
            anstream::print!("{}", shell_script(*shell));
            return Ok(Exit::Done);
        }
        Command::Man { dir: None } => {
            clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
            return Ok(Exit::Done);
        }
        Command::Man { dir: Some(dir) } => {
            clap_mangen::generate_to(Cli::command(), dir)
                .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
            return Ok(Exit::Done);
        }
        Command::Set(set) if set.is_local() => return set.run_local(),
        _ => {}
    }
    let session = Session::connect(&cli.global).await?;
    let done = act(cli, &session).await;
    done.map_err(|error| match is_of_connection(&error) {
        true => error.context(format!(
            "the apiserver at {} does not answer",
            session.server
        )),
        false => error,
    })
}

async fn act(cli: &Cli, session: &Session) -> anyhow::Result<Exit> {
    match &cli.command {
        Command::Why(why) => why.run(session).await,
        Command::Get(get) => get.run(session).await,
        Command::Images(images) => images.run(session).await,
        Command::Top(top) => top.run(session).await,
        Command::Set(set) => set.run(session).await,
        Command::ScaleDown(scaledown) => scaledown.run(session).await,
        Command::Expose(expose) => expose.run(session).await,
        Command::Autoscale(autoscale) => autoscale.run(session).await,
        Command::Exec(exec) => exec.run(session).await,
        Command::Create(create) => create.run(session).await,
        Command::Migrate(migrate) => migrate.run(session).await,
        Command::Rollout(rollout) => rollout.run(session).await,
        Command::Check(check) => check.run(session).await,
        Command::Drain(drain) => drain.run(session).await,
        Command::Report(report) => report.run(session).await,
        Command::Dashboard(dashboard) => dashboard.run(session).await,
        Command::Completion { .. } | Command::Man { .. } => Ok(Exit::Done),
    }
}

/// The script that completes commands. clap_complete 4.6 writes a hyphen of the program's name in
/// two ways in its script for bash, so that the script would not find its own labels.
fn shell_script(shell: Shell) -> String {
    let (mut command, mut script) = (Cli::command(), Vec::new());
    clap_complete::generate(shell, &mut command, "kubectl-berth", &mut script);
    String::from_utf8_lossy(&script).replace("kubectl__subcmd__berth", "kubectl__berth")
}

#[cfg(test)]
mod tests;
