//! How a thing is, as a symbol and a colour.

use super::health::Health;

/// How a thing is, for symbols and colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Broken.
    Bad,
    /// A person should look at it.
    Warning,
    /// On its way.
    Waiting,
    /// At rest, without a judgement.
    Plain,
    /// In order.
    Good,
}

impl Tone {
    /// The symbol.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Good => "✔",
            Self::Waiting => "◌",
            Self::Bad => "✖",
            Self::Warning => "⚠",
            Self::Plain => "•",
        }
    }
}

impl From<Health> for Tone {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::Good,
            Health::Progressing => Self::Waiting,
            Health::Paused | Health::AtPartition => Self::Plain,
            Health::Blocked => Self::Warning,
            Health::Failed => Self::Bad,
        }
    }
}
