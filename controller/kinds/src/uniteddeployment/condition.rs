//! Conditions of a UnitedDeployment and of its subsets.

use berth_api::v1beta1::uniteddeployment::UnitedDeploymentCondition;
use berth_workload::objects::condition::whole_seconds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The new condition. Its time is that of the one before, if the status is the same.
pub(super) fn since(
    before: Option<&UnitedDeploymentCondition>,
    type_: &str,
    is_true: bool,
    (reason, message): (&str, String),
    now: Timestamp,
) -> UnitedDeploymentCondition {
    let status = if is_true { "True" } else { "False" };
    let before = before.filter(|before| before.status == status);
    let time = before.and_then(|before| before.last_transition_time.clone());
    UnitedDeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(time.unwrap_or_else(|| Time(whole_seconds(now)))),
        reason: reason.to_owned(),
        message,
    }
}
