//! Statuses: reports, metrics, and how often they are written.

pub(crate) mod metric;
pub(crate) mod refused;
pub(crate) mod reported;
pub(crate) mod throttle;
