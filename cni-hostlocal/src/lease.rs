//! The content of a lease's file: the attachment that has the address.

use std::fmt::Write as _;

/// One interface of one container (for Kubernetes: of one pod's sandbox).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The id that the runtime gave the container.
    pub container: String,
    /// The interface's name; empty in files of very old plugins, which did not write it.
    pub interface: String,
}

/// The longest name of a file, in bytes.
const LONGEST_NAME: usize = 255;
/// The longest name of an interface, in bytes.
pub const LONGEST_INTERFACE: usize = 15;

impl Owner {
    /// The owner without blanks around its parts, because the reference plugin writes and compares
    /// the parts so.
    pub fn new(container: &str, interface: &str) -> Self {
        Self {
            container: container.trim().into(),
            interface: interface.trim().into(),
        }
    }

    /// The content of the file.
    pub fn content(&self) -> String {
        format!("{}\r\n{}", self.container, self.interface)
    }

    /// Reads a file's content. `None` if no plugin wrote it: it is empty, or not the name of a
    /// container and an interface.
    pub fn parse(content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok()?.trim();
        let (container, interface) = text.split_once("\r\n").unwrap_or((text, ""));
        let printable = |part: &str| part.chars().all(|c| c.is_ascii_graphic());
        (!container.is_empty() && printable(container) && printable(interface)).then(|| Self {
            container: container.into(),
            interface: interface.into(),
        })
    }

    /// The name of the file with this attachment's addresses. Names that are too long are cut and
    /// get a checksum of the whole.
    pub fn file_name(&self) -> String {
        file_name(&[&self.container, &self.interface])
    }

    /// Reads the name of such a file. `None` if it is cut, or not that of an attachment.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let whole = |part: &str| {
            part.replace("%2f", "/")
                .replace("%40", "@")
                .replace("%25", "%")
        };
        let (container, interface) = name.split_once('@')?;
        let owner = Self {
            container: whole(container),
            interface: whole(interface),
        };
        (owner.interface.len() <= LONGEST_INTERFACE && owner.file_name() == name).then_some(owner)
    }

    /// The same container without an interface, as very old plugins wrote it.
    pub fn without_interface(&self) -> Self {
        Self {
            container: self.container.clone(),
            interface: String::new(),
        }
    }

    /// Whether a lease with the owner `found` belongs to this owner. A lease without an interface
    /// belongs to every interface of its container.
    pub fn is(&self, found: &Self) -> bool {
        self.container == found.container
            && (found.interface.is_empty() || found.interface == self.interface)
    }
}

/// The name of a file for some parts, joined by `@`. Each `/`, `%` and `@` in a part is escaped. A
/// name of more than 255 bytes is cut, and ends with a checksum of the whole name.
pub fn file_name(parts: &[&str]) -> String {
    let mut name = String::new();
    for part in parts {
        if !name.is_empty() {
            name.push('@');
        }
        // A `/` would name a file in another directory. An `@` would end the part.
        for c in part.chars() {
            match c {
                '/' | '%' | '@' => _ = write!(name, "%{:02x}", u32::from(c)),
                c => name.push(c),
            }
        }
    }
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let sum = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let cut: String = name
        .chars()
        .filter(char::is_ascii)
        .take(LONGEST_NAME - 17)
        .collect();
    format!("{cut}~{sum:016x}")
}

#[cfg(test)]
mod tests;
