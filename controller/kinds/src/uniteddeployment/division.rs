//! How the replicas of a UnitedDeployment are divided among its subsets.
//!
//! Each mode gives every subset a floor and a ceiling. One walk serves all of them: first each
//! floor in order, then each ceiling in order, as far as the replicas suffice.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use berth_api::IntOrString;
use berth_workload::objects::intstr::{Round, resolve};

/// What happens to the replicas of an unschedulable subset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They stay.
    Fixed,
    /// They go to other subsets for good.
    Adaptive,
    /// They stay, and other subsets run substitutes until they serve.
    Reserve,
}

/// A subset as the spec and its workload have it.
#[derive(Debug, Clone, Copy)]
pub struct Subset<'a> {
    /// Breaks ties between equal subsets.
    pub name: &'a str,
    /// `replicas`. Counts only with [`Mode::Fixed`] and if no subset has `min` or `max`.
    pub replicas: Option<&'a IntOrString>,
    /// `minReplicas`.
    pub min: Option<&'a IntOrString>,
    /// `maxReplicas`.
    pub max: Option<&'a IntOrString>,
    /// `spec.replicas` of the workload, 0 without a workload.
    pub present: i32,
    /// Ready pods of the workload.
    pub ready: i32,
    /// Reserved pods. In a marked subset the pods that the workload has not created yet count, too.
    pub reserved: i32,
    /// Whether nodes take further pods. True without a workload.
    pub schedulable: bool,
    /// Whether the subset recovers or is new, so that its new pods do not count until they serve.
    pub marked: bool,
}

/// The bounds that the spec sets for a subset, in pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// At least this many, if the replicas suffice.
    pub min: i64,
    /// At most this many.
    pub max: Option<i64>,
}

/// The reason why a subset gets its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// `replicas` of the subset says so.
    Specified,
    /// An even share of the replicas that no subset specifies.
    EvenShare,
    /// `minReplicas`, and no replicas are left for more.
    Min,
    /// `maxReplicas`.
    Max,
    /// All replicas that the other subsets leave.
    Rest,
    /// Other subsets get all replicas.
    NothingLeft,
    /// There are fewer replicas than the subset should have.
    TooFewReplicas,
    /// An adaptive subset keeps its ready pods.
    Ready,
    /// An unschedulable subset keeps its pods and gets no more.
    Unschedulable,
    /// This many of the pods are substitutes for pods of other subsets that do not serve yet.
    Substitutes(i64),
}

/// The share of one subset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Replicas for the workload.
    pub replicas: i32,
    /// How many of them do not serve yet, so that other subsets run substitutes.
    pub reserved: i32,
    /// The bounds that the spec sets.
    pub bounds: Bounds,
    /// The reason for `replicas`.
    pub reason: Reason,
}

/// A finding that the division differs from the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A subset's minimum is above its maximum. The minimum wins.
    MinAboveMax {
        /// Index of the subset.
        subset: usize,
        /// `minReplicas`.
        min: i64,
        /// `maxReplicas`.
        max: i64,
    },
    /// The subsets' `replicas` are more than there are, or fewer if each subset has `replicas`.
    Sum {
        /// Sum of the subsets' `replicas`.
        specified: i64,
        /// The replicas that are divided.
        total: i64,
    },
    /// This many replicas are in no subset, or stay without a substitute.
    Unplaced(i64),
}

/// The replicas of all subsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// The replicas that are divided.
    pub total: i64,
    /// One for each subset, in the order of the spec.
    pub shares: Vec<Share>,
    /// The findings that the division differs from the spec.
    pub findings: Vec<Finding>,
}

/// The replicas of a subset after each of the two passes of the walk.
struct Target {
    floor: i64,
    ceiling: i64,
    /// Pods beyond these do not serve yet.
    serving: i64,
    at_floor: Reason,
    at_ceiling: Reason,
}

/// The replicas that the walk has given to a subset so far.
#[derive(Clone, Default)]
struct Given {
    replicas: i64,
    substitutes: i64,
}

/// Divides `replicas` among `subsets`. `replicas` is the spec's field.
///
/// # Errors
/// The sentence names the field, the value and the remedy: a negative number, or a string that is
/// no whole percentage.
pub fn divide(
    mode: Mode,
    replicas: Option<i32>,
    subsets: &[Subset<'_>],
) -> Result<Division, String> {
    let bounded = mode != Mode::Fixed
        || subsets
            .iter()
            .any(|subset| subset.min.or(subset.max).is_some());
    let total = total(replicas, subsets);
    let bounds = subsets.iter().enumerate();
    let bounds: Vec<Bounds> = bounds
        .map(|(index, subset)| bounds_of(subset, index, total, bounded))
        .collect::<Result<_, _>>()?;
    let mut targets: Vec<Target> = bounds
        .iter()
        .zip(subsets)
        .map(|(bounds, subset)| target(mode, *bounds, subset))
        .collect();
    let mut findings = if bounded {
        min_above_max(&bounds)
    } else {
        share_evenly(total, subsets, &mut targets)
    };
    let (given, rest) = walk(total, &targets);
    // Below a ceiling, the rest is the pods of a marked subset that do not serve yet.
    let full = given
        .iter()
        .zip(&targets)
        .all(|(given, target)| given.replicas == target.ceiling);
    findings.extend((full && rest > 0).then_some(Finding::Unplaced(rest)));
    let shares = given.iter().zip(&targets).zip(bounds);
    let shares = shares.map(|((given, target), bounds)| Share {
        replicas: pods(given.replicas),
        reserved: pods((given.replicas - target.serving).max(0)),
        bounds,
        reason: reason(given, target),
    });
    Ok(Division {
        total,
        shares: shares.collect(),
        findings,
    })
}

/// `replicas`, without it the sum of the subsets' numbers if each has one, else 1.
fn total(replicas: Option<i32>, subsets: &[Subset<'_>]) -> i64 {
    let numbers = subsets.iter().map(|subset| match subset.replicas {
        Some(IntOrString::Int(number)) => Some(i64::from(*number)),
        _ => None,
    });
    let sum = || numbers.sum::<Option<i64>>().filter(|_| !subsets.is_empty());
    replicas.map(i64::from).or_else(sum).unwrap_or(1).max(0)
}

fn bounds_of(
    subset: &Subset<'_>,
    index: usize,
    total: i64,
    bounded: bool,
) -> Result<Bounds, String> {
    let number = |field: &str, value: Option<&IntOrString>| {
        let parsed = value.map(|value| number(value, total)).transpose();
        parsed.map_err(|problem| format!("spec.topology.subsets[{index}].{field}: {problem}"))
    };
    let (min, max) = if bounded {
        (
            number("minReplicas", subset.min)?,
            number("maxReplicas", subset.max)?,
        )
    } else {
        let specified = number("replicas", subset.replicas)?;
        (specified, specified)
    };
    Ok(Bounds {
        min: min.unwrap_or(0),
        max,
    })
}

/// A number, or a whole percentage of `total`, rounded half up.
fn number(value: &IntOrString, total: i64) -> Result<i64, String> {
    let percent = resolve(value, 100, Round::Up)?;
    match value {
        IntOrString::String(text) if text.contains('.') || percent > 100 => Err(format!(
            "{text:?} is not a whole percentage from 0% to 100%; write one, or a number such as 2"
        )),
        _ => {
            let total = usize::try_from(total).unwrap_or(0);
            Ok(i64::try_from(resolve(value, total, Round::HalfUp)?).unwrap_or(i64::MAX))
        }
    }
}

fn target(mode: Mode, bounds: Bounds, subset: &Subset<'_>) -> Target {
    let Bounds { min, max } = bounds;
    let [present, ready, reserved] =
        [subset.present, subset.ready, subset.reserved].map(|pods| i64::from(pods.max(0)));
    let ceiling = max.unwrap_or(i64::MAX).max(min);
    let at_ceiling = if max.is_some_and(|max| max >= min) {
        Reason::Max
    } else {
        Reason::Min
    };
    let bounded = Target {
        floor: min,
        ceiling,
        serving: i64::MAX,
        at_floor: Reason::Min,
        at_ceiling,
    };
    let kept = |floor, ceiling| Target {
        floor,
        ceiling,
        at_ceiling: Reason::Unschedulable,
        ..bounded
    };
    match mode {
        Mode::Fixed => bounded,
        Mode::Adaptive if !subset.schedulable => kept(ready.max(min), ready.max(min)),
        Mode::Adaptive if ready > min => Target {
            floor: ready.min(ceiling),
            at_floor: Reason::Ready,
            ..bounded
        },
        Mode::Adaptive => bounded,
        Mode::Reserve if subset.schedulable && !subset.marked => bounded,
        Mode::Reserve => {
            let serving = (present - reserved).max(0);
            let sized = if subset.schedulable {
                bounded
            } else {
                kept(min.min(present), ceiling.min(present))
            };
            Target { serving, ..sized }
        }
    }
}

/// Gives the replicas that no subset specifies to the subsets that specify nothing, or else to all.
fn share_evenly(total: i64, subsets: &[Subset<'_>], targets: &mut [Target]) -> Vec<Finding> {
    for target in targets.iter_mut() {
        (target.ceiling, target.at_ceiling) = (target.floor, Reason::Specified);
    }
    let specified: i64 = targets.iter().map(|target| target.floor).sum();
    let rest = (total - specified).max(0);
    let mut sharing: Vec<usize> = (0..subsets.len())
        .filter(|&index| subsets[index].replicas.is_none())
        .collect();
    // The remainder goes where pods are, so that dividing again moves none.
    sharing.sort_by_key(|&index| Reverse((subsets[index].present, subsets[index].name)));
    let all_specify = sharing.is_empty();
    if all_specify {
        sharing = (0..subsets.len()).collect();
    }
    let count = i64::try_from(sharing.len()).unwrap_or(i64::MAX);
    for (position, index) in (0..).zip(sharing) {
        let extra = rest / count + i64::from(position < rest % count);
        targets[index].ceiling += extra;
        if extra > 0 || !all_specify {
            targets[index].at_ceiling = Reason::EvenShare;
        }
    }
    let differs = specified > total || (all_specify && specified < total && count > 0);
    differs
        .then_some(Finding::Sum { specified, total })
        .into_iter()
        .collect()
}

fn min_above_max(bounds: &[Bounds]) -> Vec<Finding> {
    let found = bounds.iter().enumerate().filter_map(|(subset, bounds)| {
        let (min, max) = (bounds.min, bounds.max?);
        (min > max).then_some(Finding::MinAboveMax { subset, min, max })
    });
    found.collect()
}

/// Gives the replicas to the targets, and returns the rest. Pods that do not serve yet stay in the
/// rest, so that later targets run substitutes for them.
fn walk(total: i64, targets: &[Target]) -> (Vec<Given>, i64) {
    let mut given = vec![Given::default(); targets.len()];
    let (mut rest, mut to_substitute) = (total, 0);
    for ceilings in [false, true] {
        for (target, given) in targets.iter().zip(&mut given) {
            let to = if ceilings {
                target.ceiling
            } else {
                target.floor
            };
            let served = given.replicas.min(target.serving);
            // No substitute runs beside the pod for which it stands in.
            let added = (to.min(rest + served) - given.replicas).max(0);
            given.replicas += added;
            let serves = given.replicas.min(target.serving) - served;
            rest -= serves;
            to_substitute += added - serves;
            if ceilings && target.serving == i64::MAX {
                given.substitutes = added.min(to_substitute);
                to_substitute -= given.substitutes;
            }
        }
    }
    (given, rest)
}

fn reason(given: &Given, target: &Target) -> Reason {
    match given.replicas {
        _ if given.substitutes > 0 => Reason::Substitutes(given.substitutes),
        replicas if replicas < target.floor => Reason::TooFewReplicas,
        replicas if replicas == target.ceiling => target.at_ceiling,
        0 => Reason::NothingLeft,
        replicas if replicas == target.floor => target.at_floor,
        _ => Reason::Rest,
    }
}

/// A share fits because no share is above the total or a field of the spec.
fn pods(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
