//! Conditions of kinds that have a type of their own for them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

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

/// Says of a type that it is a condition, `with` the field of the last check, `in` the status that
/// has it.
macro_rules! status_condition {
    ($condition:ident $(with $checked:ident)? $(in $status:ident)?) => {
        $(impl crate::fields::condition::WorkloadStatus for $status {
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

        impl crate::fields::condition::StatusCondition for $condition {
            fn new(
                type_: &str,
                since: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
                _checked: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
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

            fn fields(&self) -> crate::fields::condition::Fields<'_> {
                crate::fields::condition::Fields {
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
    };
}

pub(crate) use status_condition;
