//! A component as a process: started in its cgroup and namespaces, and recognised by its id and
//! start time.

use crate::{cgroup::Cgroups, namespace::Namespace};
use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// The system's part of a component's `PATH`. Components see nothing of the host's variables, whose
/// proxies lead out of the cluster.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A process, told apart from a later one with the same id by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pid: Pid,
    started: u64,
}

impl Process {
    /// The running process with this id.
    pub(crate) fn with_pid(pid: u32) -> Result<Self> {
        let pid = Pid::from_raw(i32::try_from(pid)?);
        let started = start_time(pid).with_context(|| format!("process {pid} ended at once"))?;
        Ok(Self { pid, started })
    }

    /// The process that `record` wrote, or `None` without a record.
    pub(crate) fn recorded(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Self {
            pid: Pid::from_raw(pid.parse().ok()?),
            started: started.parse().ok()?,
        })
    }

    /// Writes the process's id and start time to a file, for later commands.
    pub(crate) fn record(self, file: &Path) -> Result<()> {
        fs::write(file, format!("{} {}\n", self.pid, self.started))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    pub(crate) fn pid(self) -> Pid {
        self.pid
    }

    /// Whether this very process runs. A zombie does not.
    pub(crate) fn runs(self) -> bool {
        reap(self.pid);
        start_time(self.pid) == Some(self.started)
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub(crate) fn kill(self) -> Result<()> {
        self.end(Signal::SIGKILL, Duration::from_secs(10))
    }

    /// Sends it SIGTERM, and kills it after `patience`.
    pub(crate) fn stop(self, patience: Duration) -> Result<()> {
        self.end(Signal::SIGTERM, patience).or_else(|_| self.kill())
    }

    /// Pauses it until `resume`: it lives, and ignores everything.
    pub(crate) fn pause(self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    pub(crate) fn resume(self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(self, signal: Signal) -> Result<()> {
        if self.runs() {
            match kill(self.pid, signal) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => bail!("cannot send {signal} to process {}: {error}", self.pid),
            }
        }
        Ok(())
    }

    fn end(self, signal: Signal, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        self.signal(signal)?;
        while self.runs() {
            if Instant::now() > deadline {
                bail!(
                    "process {} did not end within {patience:?} after {signal}",
                    self.pid
                );
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Reads the exit status of a child of this process, so that it is no zombie. Another process's
/// child is left to its parent.
pub(crate) fn reap(pid: Pid) {
    let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
}

/// Start time in clock ticks since boot, of a process that is not a zombie.
fn start_time(pid: Pid) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_start_time(stat: &str) -> Option<u64> {
    // The name in parentheses may itself contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        None
    } else {
        fields.nth(18)?.parse().ok()
    }
}

/// A command that becomes a member of the cgroup, enters the namespaces and then becomes `program`.
pub(crate) fn command(
    cgroups: &Cgroups,
    namespace: Option<&Namespace>,
    program: impl AsRef<OsStr>,
) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", r#"echo 0 >"$1" && shift && exec "$@""#, "sh"])
        .arg(cgroups.components());
    if let Some(namespace) = namespace {
        command.args(namespace.enter());
    }
    command
        .arg(program)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .current_dir("/");
    command
}

/// Starts a component that outlives this process, its output appended to `log`.
pub(crate) fn spawn(mut command: Command, log: &Path) -> Result<Process> {
    let output = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| log.display().to_string())?;
    // A process group of its own, so that Ctrl-C at the command that started it does not reach it.
    command
        .process_group(0)
        .stdout(output.try_clone()?)
        .stderr(output);
    let child = command
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    Process::with_pid(child.id())
}

/// Runs a command to its end and returns its standard output; an error has its standard error.
pub(crate) fn output(command: &mut Command, input: Option<&str>) -> Result<String> {
    use std::io::Write;
    command.stdin(if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let (said, printed) = (
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout),
        );
        bail!(
            "{command:?} ended with {}: {}{}",
            output.status,
            said.trim(),
            printed.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
