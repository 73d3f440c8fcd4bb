//! Times that others wrote.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// A time that a client wrote. A time that the apiserver accepts and no type reads, such as the end
/// of the year 9999, becomes the last valid time. Otherwise the pod would be unreadable, and
/// budgets would keep it.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map(|text| text.parse().unwrap_or(Timestamp::MAX)))
}
