//! Conditions of our own kinds, as Kubernetes' type has them, and those of OpenKruise's kinds, of which each has a type.

use berth_api::v1beta1::broadcastjob::JobCondition;
use berth_api::v1beta1::cloneset::{CloneSetCondition, CloneSetStatus};
use berth_api::v1beta1::daemonset::{DaemonSetCondition, DaemonSetStatus};
use berth_api::v1beta1::statefulset::{StatefulSetCondition, StatefulSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition since now.
pub fn condition(
    type_: &str,
    is_true: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        last_transition_time: Time(whole_seconds(now)),
        reason: reason.to_owned(),
        message,
        observed_generation: None,
    }
}

/// Whether one of this type is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Puts a condition in the place of the one of its type. Its time stays where the status does.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition) {
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == new.type_)
    {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// Puts a condition in the place of the one of its type, or takes that one away.
pub fn put(conditions: &mut Vec<Condition>, type_: &str, new: Option<Condition>) {
    match new {
        Some(new) => set(conditions, new),
        None => conditions.retain(|condition| condition.type_ != type_),
    }
}

/// A number of pods as statuses have it.
pub fn number(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// The API's times have no fractions.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The fields that the conditions of all OpenKruise's kinds have.
pub struct Fields<'a> {
    /// Its type.
    pub type_: &'a str,
    /// Its status is `True`.
    pub is_true: bool,
    /// When its status last changed.
    pub since: &'a Option<Time>,
    /// In one CamelCase word.
    pub reason: &'a str,
    /// A whole sentence.
    pub message: &'a str,
}

/// A condition of one of OpenKruise's kinds.
pub trait StatusCondition: Sized {
    /// A condition that is `True`. Only some types have a field for the time of the last check.
    fn new(
        type_: &str,
        since: Option<Time>,
        checked: Option<Time>,
        reason: &str,
        message: String,
    ) -> Self;

    /// The fields that all types have.
    fn fields(&self) -> Fields<'_>;

    /// Removes the message and the times, which the controller itself writes.
    fn clear_words(&mut self);
}

/// The status of an owner of pods that has revisions.
pub trait WorkloadStatus: Clone + Default {
    /// The type of its conditions.
    type Condition: StatusCondition;

    /// The generation of the spec that the status is about.
    fn observed_generation(&mut self) -> &mut i64;
    /// How often the name of a new revision was another object's.
    fn collision_count(&mut self) -> &mut Option<i32>;
    /// Its conditions.
    fn conditions(&mut self) -> &mut Vec<Self::Condition>;
}

macro_rules! status_conditions {
    ($($condition:ident $(with $checked:ident)? $(in $status:ident)?),+) => {$(
        $(impl WorkloadStatus for $status {
            type Condition = $condition;

            fn observed_generation(&mut self) -> &mut i64 {
                &mut self.observed_generation
            }
            fn collision_count(&mut self) -> &mut Option<i32> {
                &mut self.collision_count
            }
            fn conditions(&mut self) -> &mut Vec<$condition> {
                &mut self.conditions
            }
        })?

        impl StatusCondition for $condition {
            fn new(
                type_: &str,
                since: Option<Time>,
                _checked: Option<Time>,
                reason: &str,
                message: String,
            ) -> Self {
                Self {
                    type_: type_.to_owned(),
                    status: "True".to_owned(),
                    $($checked: _checked,)?
                    last_transition_time: since,
                    reason: reason.to_owned(),
                    message,
                }
            }

            fn fields(&self) -> Fields<'_> {
                Fields {
                    type_: &self.type_,
                    is_true: self.status == "True",
                    since: &self.last_transition_time,
                    reason: &self.reason,
                    message: &self.message,
                }
            }

            fn clear_words(&mut self) {
                self.message.clear();
                $(self.$checked = None;)?
                self.last_transition_time = None;
            }
        }
    )+};
}

status_conditions!(
    CloneSetCondition with last_update_time in CloneSetStatus,
    DaemonSetCondition in DaemonSetStatus,
    StatefulSetCondition in StatefulSetStatus,
    JobCondition with last_probe_time
);
