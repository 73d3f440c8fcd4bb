//! When may the gate of a pod open again after its image has changed? Trials on real kubelets, by
//! hand and without a controller.
//!
//! In each trial a pod is taken out of service, its image changes, and its gate is opened in one of
//! several [`Way`]s. The trial searches for an instant at which the pod is Ready and does not run
//! the new image. A kubelet repeats its last status every ten seconds if the server's status
//! differs: a Ready that comes from this, behind a closed gate, is counted by itself.

mod case;
mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects;
use berth_e2e::site::Site;
use clap::Args;
use futures::future::try_join_all;
use serde::Serialize;
use tokio::sync::Barrier;

use crate::median::median;
use case::Case;
use trial::{Trial, Way};

/// The options of the trials.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Trials of each case and way.
    #[arg(long, default_value_t = 12)]
    times: usize,
    /// How many pods at once.
    #[arg(long, default_value_t = 6)]
    at_once: usize,
    /// Seconds before the pods' images change. A kubelet that has just synced a pod takes longer.
    #[arg(long, default_value_t = 15)]
    rest: u64,
    /// Only the cases whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench-gates.json")]
    json: PathBuf,
}

/// The results of all trials of a case in one way.
#[derive(Debug, Serialize)]
struct Figures {
    case: &'static str,
    way: &'static str,
    trials: usize,
    /// Trials in which the pod was Ready without the new image, and its gate open.
    early: Vec<String>,
    /// Trials in which the kubelet repeated an earlier Ready, behind a closed gate, before it had
    /// seen the image.
    repeated: usize,
    /// From the first patch until the kubelet said that it had seen the image, in seconds: the
    /// median.
    acknowledged: f64,
    /// From the first patch until the pod was Ready with the new image, in seconds: the median, and
    /// the longest.
    ready: Option<(f64, f64)>,
}

const NODES: u8 = 3;
const NAMESPACE: &str = "berth-gates";

/// Runs the trials.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.times > 0 && options.at_once > 0,
        "--times and --at-once are to be 1 or more"
    );
    println!("Making a cluster of {NODES} nodes …");
    let site = Site::make(NODES).await?;
    objects::make_namespace(site.client(), NAMESPACE).await?;
    let digests = case::push_images(&site)?;
    let mut figures = Vec::new();
    for case in Case::ALL
        .into_iter()
        .filter(|case| case.name().contains(&options.only))
    {
        for way in case.ways() {
            let of_way = try_all(&site, (case, *way), &digests, options).await;
            let of_way = of_way.with_context(|| format!("{}, {}", case.name(), way.name()))?;
            println!("{}", line(&of_way));
            of_way
                .early
                .iter()
                .for_each(|early| println!("    {early}"));
            figures.push(of_way);
        }
    }
    std::fs::write(&options.json, serde_json::to_string_pretty(&figures)?)
        .with_context(|| format!("cannot write {}", options.json.display()))?;
    println!("The figures are in {}.", options.json.display());
    Ok(())
}

async fn try_all(
    site: &Site,
    (case, way): (Case, Way),
    digests: &BTreeMap<String, String>,
    options: &Options,
) -> Result<Figures> {
    let mut trials: Vec<Trial> = Vec::new();
    while trials.len() < options.times {
        let first = trials.len();
        let count = options.at_once.min(options.times - first);
        // Moments from the patch to well after the usual end, spread over all rounds.
        let moment = first as f64 / options.times as f64;
        let all = Barrier::new(count + 1);
        let of_round = (first..first + count).map(|number| {
            trial::run(
                site,
                (case, way),
                digests,
                (number, &all),
                Duration::from_secs(options.rest),
            )
        });
        let (done, ()) =
            tokio::try_join!(try_join_all(of_round), case.disturb(site, &all, moment))?;
        trials.extend(done);
    }
    let ready: Vec<f64> = trials.iter().filter_map(|trial| trial.ready).collect();
    let longest = ready.iter().copied().fold(0.0, f64::max);
    Ok(Figures {
        case: case.name(),
        way: way.name(),
        trials: trials.len(),
        early: trials
            .iter()
            .filter_map(|trial| trial.early.clone())
            .collect(),
        repeated: trials.iter().filter(|trial| trial.repeated).count(),
        acknowledged: median(trials.iter().map(|trial| trial.acknowledged).collect()),
        ready: (!ready.is_empty()).then(|| (median(ready), longest)),
    })
}

fn line(figures: &Figures) -> String {
    let ready = figures.ready.map_or_else(
        || "never".to_owned(),
        |(median, most)| format!("{median:.2} s, at most {most:.2} s"),
    );
    format!(
        "  {:<36} {:<20} {:>4} trials, {:>2} Ready too early, {:>2} repeated; seen after {:.2} s, Ready after {ready}",
        figures.case,
        figures.way,
        figures.trials,
        figures.early.len(),
        figures.repeated,
        figures.acknowledged,
    )
}
