//! From the command line to a running controller, and its end.

pub(crate) mod command;
pub(crate) mod pod_rules;
pub(crate) mod prepare_return;
pub(crate) mod process;
#[cfg(test)]
pub(crate) mod real_apiserver;
pub(crate) mod resize;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod switched_off;
