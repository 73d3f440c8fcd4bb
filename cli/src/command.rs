//! The command line: which commands there are.

use std::io::IsTerminal;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::why;
use crate::exit::{Exit, WrongUsage, sentence};
use crate::flags::Global;
use crate::session::Session;

/// Shows why a rollout waits and what it does next, and steers it, with your own rights.
#[derive(Debug, Parser)]
#[command(name = "kubectl-berth", bin_name = "kubectl berth", version)]
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
    /// Print the script that completes commands in a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page.
    Man,
}

/// Executes the command line of this process.
pub async fn execute() -> Exit {
    let is_kruise = std::env::args()
        .next()
        .is_some_and(|program| program.ends_with("kubectl-kruise"));
    let name = if is_kruise {
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
            anstream::eprintln!("error: {}", sentence(&error));
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
            let mut command = Cli::command();
            clap_complete::generate(
                *shell,
                &mut command,
                "kubectl-berth",
                &mut std::io::stdout(),
            );
            return Ok(Exit::Done);
        }
        Command::Man => {
            clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
            return Ok(Exit::Done);
        }
        _ => {}
    }
    let session = Session::connect(&cli.global).await?;
    match &cli.command {
        Command::Why(why) => why.run(&session).await,
        Command::Completion { .. } | Command::Man => Ok(Exit::Done),
    }
}
