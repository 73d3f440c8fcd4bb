//! The reasons why repair replaces no pod, or not this one.

use berth_workload::objects::pod::Pod;

use super::super::{InjectionCalls, Snapshot};
use super::audit::Lack;
use super::how::How;
use super::lost;
use crate::sidecarset::update::settings::{Settings, unreadable};

/// The reason why repair does nothing new to any pod.
pub(super) fn held(snapshot: &Snapshot) -> Option<String> {
    let spec = &snapshot.set.spec;
    if spec.update_strategy.paused {
        Some("it is paused by spec.updateStrategy.paused".to_owned())
    } else if spec.injection_strategy.paused {
        Some("spec.injectionStrategy.paused: another pod would lack the containers, too".to_owned())
    } else if snapshot.injection_calls != InjectionCalls::Yes {
        let until = "until the webhook answers a dry run of a pod's creation";
        Some(format!(
            "another pod may lack the containers, too, {until}: see the condition InjectionReady"
        ))
    } else {
        None
    }
}

/// The reason why repair keeps a pod that lacks this; `None` if it replaces the pod.
pub(super) fn stays(
    snapshot: &Snapshot,
    settings: &Settings,
    pod: &Pod,
    lack: Lack,
) -> Option<String> {
    if let Err(why) = How::of(pod) {
        return Some(why);
    }
    if let Some(why) = snapshot.unreadable.get(&pod.metadata.uid) {
        return Some(unreadable(why));
    }
    if let Some(why) = lost::stays(&settings.lost, pod, settings.now) {
        return Some(why);
    }
    if snapshot.taken.contains_key(&pod.metadata.uid) {
        return Some(
            "stays, for another pod would get the containers of a canary in place of these"
                .to_owned(),
        );
    }
    if lack != Lack::NotUpgradable {
        return None;
    }
    // The pod works with its present containers. A user who keeps updates from the pod keeps this
    // kind of update from it, too.
    if !snapshot.updates() {
        Some("stays, for spec.updateStrategy.type is NotUpdate".to_owned())
    } else if !settings.selects(pod) {
        Some("is not selected by spec.updateStrategy.selector".to_owned())
    } else if settings.has_partition() {
        Some("stays as long as spec.updateStrategy.partition is not 0".to_owned())
    } else if snapshot.set.spec.injection_strategy.revision.is_some() {
        Some(
            "stays, for spec.injectionStrategy.revision gives another pod an older revision"
                .to_owned(),
        )
    } else {
        None
    }
}
