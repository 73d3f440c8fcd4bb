//! The clocks of the node.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::tasks::Now;

/// Now, with the time of day in the whole seconds that the API knows.
pub(super) fn now() -> Now {
    let time = Timestamp::now();
    Now {
        steady: Instant::now(),
        time: Timestamp::from_second(time.as_second()).unwrap_or(time),
    }
}
