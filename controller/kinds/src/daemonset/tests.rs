//! Tests of a DaemonSet's decisions, by tables and by whole histories.

mod blocked;
mod held;
mod merge;
mod nodes;
mod properties;
mod restart;
mod rollout_status;
mod surge;
mod update;
