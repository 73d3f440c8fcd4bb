//! `clock FILE PROGRAM [ARGUMENT…]`: runs a program whose time of day is off by as many seconds as
//! the file contains, which may change at any time; without the file it is the machine's own. Its
//! monotonic clock is left alone, as it is when a user sets a clock.
//!
//! Nothing can be preloaded into a static program, and it reads the time from the kernel's page
//! (the vDSO), not by a call. So this traces the program: it hides that page when the program
//! begins, and then sets the answer of each `clock_gettime`.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context, Result, bail};
use nix::{
    libc,
    sys::{
        ptrace::{self, AddressType, Options},
        signal::{SigSet, Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

const USAGE: &str = "usage: clock FILE PROGRAM [ARGUMENT…]";
/// In place of the file: this process becomes traced, and then becomes the program.
const TRACED: &str = "--traced";
/// The size of a word on the stack.
const WORD: u64 = 8;

fn main() -> Result<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let file = arguments.next().context(USAGE)?;
    let command_line: Vec<OsString> = arguments.collect();
    let (program, arguments) = command_line.split_first().context(USAGE)?;
    let ends: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    if file == TRACED {
        ends.thread_unblock()?;
        ptrace::traceme().context("cannot be traced")?;
        return Err(Command::new(program).args(arguments).exec())
            .with_context(|| format!("cannot run {program:?}"));
    }
    // Blocked before the first thread starts, and passed on by it.
    ends.thread_block()?;
    let child = Command::new(env::current_exe()?)
        .arg(TRACED)
        .args(&command_line)
        .spawn()?;
    let child = Pid::from_raw(i32::try_from(child.id())?);
    thread::spawn(move || {
        while let Ok(signal) = ends.wait() {
            let _ = kill(child, signal);
        }
    });
    begin(child)?;
    follow(child, Path::new(&file))
}

/// Waits until the process is the program, and hides the page with the time from it.
fn begin(child: Pid) -> Result<()> {
    match waitpid(child, None)? {
        WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
        other => bail!("the program does not begin: {other:?}"),
    }
    ptrace::setoptions(
        child,
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL,
    )?;
    hide_page(child)?;
    Ok(ptrace::syscall(child, None)?)
}

/// The stack holds the number of arguments, the arguments, the environment, and then pairs, one of
/// which has the address of the page.
fn hide_page(child: Pid) -> Result<()> {
    let stack = ptrace::getregs(child)?.rsp;
    let word = |address: u64| anyhow::Ok(ptrace::read(child, address as AddressType)? as u64);
    let mut address = stack + (1 + word(stack)? + 1) * WORD;
    while word(address)? != 0 {
        address += WORD;
    }
    address += WORD;
    loop {
        match word(address)? {
            libc::AT_NULL => return Ok(()),
            libc::AT_SYSINFO_EHDR => {
                ptrace::write(child, address as AddressType, libc::AT_IGNORE as i64)?
            }
            _ => {}
        }
        address += 2 * WORD;
    }
}

/// Traces the program and its threads until the end.
fn follow(child: Pid, file: &Path) -> Result<ExitCode> {
    loop {
        let (stopped, signal) = match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::__WALL))? {
            WaitStatus::PtraceSyscall(thread) => {
                // A thread may be killed between any two of these calls.
                let _ = set_answer(thread, file);
                (thread, None)
            }
            // A new thread begins so.
            WaitStatus::Stopped(thread, Signal::SIGSTOP) => (thread, None),
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Exited(process, code) if process == child => {
                return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
            }
            WaitStatus::Signaled(process, signal, _) if process == child => {
                bail!("the program ended by {signal}")
            }
            _ => continue,
        };
        let _ = ptrace::syscall(stopped, signal);
    }
}

/// Sets the time of day that the kernel is about to return.
fn set_answer(thread: Pid, file: &Path) -> Result<()> {
    let registers = ptrace::getregs(thread)?;
    let asked = (registers.orig_rax, registers.rdi)
        == (libc::SYS_clock_gettime as u64, libc::CLOCK_REALTIME as u64);
    // Before the call the register of the answer holds an error.
    if !asked || registers.rax != 0 {
        return Ok(());
    }
    let off: i64 = fs::read_to_string(file)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    let seconds = registers.rsi as AddressType;
    Ok(ptrace::write(
        thread,
        seconds,
        ptrace::read(thread, seconds)? + off,
    )?)
}
