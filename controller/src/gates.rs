//! Feature gates from the command line.

use berth_workload::gates::{ELSEWHERE, Gate, Gates, KNOWN, Maturity};

/// Reads `Name=true,Other=false`. `AllAlpha` and `AllBeta` stand for all gates of a stage that are not named themselves.
/// A gate that has no meaning here is accepted, and a line in the log says why.
///
/// # Errors
/// The sentence names the gate that is not known, or the value that is neither true nor false.
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

/// Turns off what cannot be without another gate: daemons pull images and restart containers, ImagePullJobs pull ahead, and
/// the pod webhook changes pods of other controllers. The gates of budgets stay on without the webhook, because Berth's own
/// workloads keep to budgets without it.
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
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_and_mistakes_named() {
        assert!(
            parse("CloneSetShortHash=true")
                .unwrap()
                .has(Gate::CloneSetShortHash)
        );
        assert_eq!(parse(" ").unwrap(), Gates::default());
        assert_eq!(
            parse("TemplateNoDefaults=true").unwrap(),
            Gates::default(),
            "accepted, without a meaning"
        );
        let of_others = "EnableExternalCerts=false,WorkloadSpread=true,WorkloadSpread=true";
        assert_eq!(
            parse(of_others).unwrap(),
            Gates::default(),
            "accepted, and nothing to turn on"
        );
        for (text, says) in [
            ("CloneSetShortHash", "=true"),
            ("CloneSetShortHash=1", "neither"),
            ("Other=true", "not known; known are CloneSetShortHash, "),
        ] {
            assert!(parse(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_stage_is_turned_on_as_a_whole_but_for_what_is_named() {
        let gates =
            parse("CloneSetShortHash=false,AllAlpha=true,AllBeta=false,KruiseDaemon=true").unwrap();
        assert!(gates.has(Gate::CloneSetPartitionRollback) && !gates.has(Gate::CloneSetShortHash));
        assert!(gates.has(Gate::KruiseDaemon) && !gates.has(Gate::InPlaceUpdateEnvFromMetadata));
    }

    #[test]
    fn gates_follow_those_that_they_need() {
        assert!(
            parse("PreDownloadImageForInPlaceUpdate=true")
                .unwrap()
                .has(Gate::ImagePullJob)
        );
        let without_daemons = parse("ImagePullJobGate=true,KruiseDaemon=false").unwrap();
        assert!(
            !without_daemons.has(Gate::ImagePullJob)
                && !without_daemons.has(Gate::InPlaceUpdateEnvFromMetadata)
        );
        for webhook in [true, false] {
            let gates = parse(&format!("AllAlpha=true,PodWebhook={webhook}")).unwrap();
            for gate in [Gate::KruisePodReadinessGate, Gate::AnyPodMetadata] {
                assert_eq!(gates.has(gate), webhook, "{gate:?}");
            }
            assert!(
                gates.has(Gate::PodUnavailableBudgetDelete)
                    && gates.has(Gate::PodUnavailableBudgetUpdate)
            );
        }
    }
}
