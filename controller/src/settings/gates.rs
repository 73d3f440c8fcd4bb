//! Feature gates from the command line.

use berth_workload::feature_gates::{ELSEWHERE, Gate, Gates, KNOWN, Maturity};

/// Reads `Name=true,Other=false`. `AllAlpha` and `AllBeta` stand for all feature gates of a stage
/// that are not named themselves. A feature gate without a meaning here is accepted, and a log line
/// says why.
///
/// # Errors
/// The sentence names the feature gate that is not known, or the value that is neither true nor
/// false.
pub fn parse(text: &str) -> Result<Gates, String> {
    let mut entries = Vec::new();
    for entry in text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (name, value) = entry
            .split_once('=')
            .ok_or_else(|| format!("feature gate {entry:?}: write {entry}=true"))?;
        let on: bool = value
            .parse()
            .map_err(|_| format!("feature gate {name}: {value:?} is neither true nor false"))?;
        entries.push((name, on));
    }
    let mut gates = Gates::default();
    for (all, maturity) in [("AllAlpha", Maturity::Alpha), ("AllBeta", Maturity::Beta)] {
        let Some((_, on)) = entries.iter().rfind(|(name, _)| *name == all) else {
            continue;
        };
        let of_stage = KNOWN
            .iter()
            .filter(|known| known.maturity == maturity)
            .filter_map(|known| known.meaning.ok());
        gates = of_stage.fold(gates, |gates, gate| gates.with(gate, *on));
    }
    for (name, on) in entries
        .into_iter()
        .filter(|(name, _)| !["AllAlpha", "AllBeta"].contains(name))
    {
        if ELSEWHERE.contains(&name) {
            tracing::warn!("feature gate {name} has no effect: what it is of, Berth does not have");
            continue;
        }
        let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
            let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
            return Err(format!(
                "feature gate {name:?} is not known; known are {}, AllAlpha and AllBeta",
                names.join(", ")
            ));
        };
        match known.meaning {
            Ok(gate) => gates = gates.with(gate, on),
            Err(why) => {
                tracing::info!("feature gate {name} changes nothing in the controller: {why}")
            }
        }
    }
    Ok(depend(gates))
}

/// Turns off feature gates that need another one: daemons pull images and restart containers,
/// ImagePullJobs pull ahead, and the pod webhook changes pods of other controllers. The feature
/// gates of budgets stay on without the webhook, because Berth's own workloads respect budgets
/// without it.
fn depend(gates: Gates) -> Gates {
    let off = |gates: Gates, dependent: &[Gate]| {
        dependent
            .iter()
            .fold(gates, |gates, gate| gates.with(*gate, false))
    };
    let by_webhook = [Gate::KruisePodReadinessGate, Gate::AnyPodMetadata];
    let gates = if gates.has(Gate::PodWebhook) {
        gates
    } else {
        off(gates, &by_webhook)
    };
    if !gates.has(Gate::KruiseDaemon) {
        let of_daemons = [
            Gate::PreDownloadImageForInPlaceUpdate,
            Gate::PreDownloadImageForDaemonSetUpdate,
            Gate::InPlaceUpdateEnvFromMetadata,
            Gate::ImagePullJob,
        ];
        return off(gates, &of_daemons);
    }
    let pulls = [
        Gate::ImagePullJob,
        Gate::PreDownloadImageForInPlaceUpdate,
        Gate::PreDownloadImageForDaemonSetUpdate,
    ];
    let pulls = pulls.into_iter().any(|gate| gates.has(gate));
    gates.with(Gate::ImagePullJob, pulls)
}

#[cfg(test)]
mod tests;
