//! One phase, measured.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::audit::Requests;
use super::process;
use super::program::Program;
use super::stage::{Look, Stage};

/// The measurements of a phase.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Phase {
    pub(crate) subject: String,
    pub(crate) round: usize,
    pub(crate) name: &'static str,
    /// The pods of the phase; 0 without pods.
    pub(crate) pods: usize,
    /// Seconds from the subject's own start to the beginning of the phase.
    pub(crate) began: f64,
    pub(crate) seconds: f64,
    /// CPU seconds of the subject.
    pub(crate) cpu: f64,
    /// Resident memory of the subject at the end, KiB.
    pub(crate) resident: u64,
    /// Peak memory of the subject, KiB.
    pub(crate) peak: u64,
    pub(crate) apiserver_cpu: f64,
    pub(crate) etcd_cpu: f64,
    pub(crate) simnode_cpu: f64,
    pub(crate) reconciles: u64,
    pub(crate) requests: Requests,
    pub(crate) writes: u64,
    /// With several CloneSets, the seconds until each was done.
    pub(crate) each: Vec<f64>,
}

/// The values at the beginning of a phase.
pub(crate) struct Begun {
    started: Instant,
    began: f64,
    look: Look,
    reconciles: u64,
}

/// After a phase, work that is still under way gets so much time. It counts as well; its time does
/// not.
const SETTLE: Duration = Duration::from_secs(1);

/// Begins a phase of a subject, which may be a process.
pub(crate) async fn begin(stage: &mut Stage, program: Option<&Program>) -> Result<Begun> {
    let id = program.map(Program::id).transpose()?;
    id.into_iter().for_each(process::forget_peak);
    stage.requests()?;
    let reconciles = match program {
        Some(program) => program.reconciles().await,
        None => 0,
    };
    Ok(Begun {
        look: stage.look(id)?,
        reconciles,
        began: stage.record.now(),
        started: Instant::now(),
    })
}

impl Begun {
    /// Ends the phase.
    pub(crate) async fn end(
        self,
        stage: &mut Stage,
        program: Option<&Program>,
        (subject, round): (&str, usize),
        (name, pods): (&'static str, usize),
    ) -> Result<Phase> {
        let seconds = self.started.elapsed().as_secs_f64();
        tokio::time::sleep(SETTLE).await;
        let reconciles = match program {
            Some(program) => program.reconciles().await,
            None => 0,
        };
        let (before, after) = (
            self.look,
            stage.look(program.map(Program::id).transpose()?)?,
        );
        let requests = stage.requests()?;
        let phase = Phase {
            subject: subject.to_owned(),
            round,
            name,
            pods,
            began: self.began,
            seconds,
            cpu: after.subject.cpu - before.subject.cpu,
            resident: after.subject.resident,
            peak: after.subject.peak,
            apiserver_cpu: after.apiserver - before.apiserver,
            etcd_cpu: after.etcd - before.etcd,
            simnode_cpu: after.simnode - before.simnode,
            reconciles: reconciles.saturating_sub(self.reconciles),
            writes: requests.writes(),
            each: Vec::new(),
            requests,
        };
        println!(
            "  {subject:<6} {name:<12} {seconds:>7.2} s  {:>6} writes",
            phase.writes
        );
        Ok(phase)
    }
}
