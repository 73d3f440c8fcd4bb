//! A record of a subject's memory over time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::process;

/// How often the memory is read.
const PERIOD: Duration = Duration::from_millis(250);

/// Resident memory, in KiB, at so many seconds since the beginning.
pub(crate) type Sample = (f64, u64);

/// The samples of a subject, in all its lives.
#[derive(Debug)]
pub(crate) struct Record {
    begun: Instant,
    samples: Mutex<Vec<Sample>>,
}

impl Record {
    /// A record that begins now.
    pub(crate) fn begin() -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            samples: Mutex::default(),
        })
    }

    /// Seconds since the beginning.
    pub(crate) fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Reads a process's memory until the process ends.
    pub(crate) fn follow(self: &Arc<Self>, pid: u32) -> JoinHandle<()> {
        let record = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok(used) = process::used(pid) {
                record.samples.lock().push((record.now(), used.resident));
                sleep(PERIOD).await;
            }
        })
    }

    /// The samples so far.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.samples.lock().clone()
    }
}
