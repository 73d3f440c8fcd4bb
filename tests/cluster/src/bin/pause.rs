//! Holds a pod's namespaces: sleeps until SIGTERM or SIGINT, and reaps the orphans of a shared
//! process namespace.

use nix::{
    sys::{
        signal::{SigSet, Signal},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

fn main() {
    let awaited: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD]
        .into_iter()
        .collect();
    if awaited.thread_block().is_err() {
        return;
    }
    while let Ok(Signal::SIGCHLD) = awaited.wait() {
        while matches!(
            waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
        ) {}
    }
}
