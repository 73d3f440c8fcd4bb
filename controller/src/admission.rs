//! Changes to new and changed pods before the apiserver stores them.

pub(crate) mod injection;
pub(crate) mod pod_pinning;
pub(crate) mod pod_states;
pub(crate) mod webhook_rules;
