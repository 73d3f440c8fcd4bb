//! The archive: files up to a bound, and a list of what it lacks.

use std::fs::File;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use tar::{Builder, Header};

/// Most bytes of all files together, before compression.
pub(super) const ALL: usize = 50 << 20;
/// Why a file is missing.
pub(super) const FULL: &str = "the report has 50 MiB already";
/// The list of what is missing.
const LACKS: &str = "lacks.txt";

/// The name and the size of a file in the archive.
pub(super) type ArchivedFile = (String, usize);

/// An archive that is being written.
pub(super) struct Archive {
    builder: Builder<GzEncoder<File>>,
    room: usize,
    files: Vec<ArchivedFile>,
    lacks: Vec<String>,
}

impl Archive {
    pub(super) fn new(file: File) -> Self {
        Self {
            builder: Builder::new(GzEncoder::new(file, Compression::default())),
            room: ALL,
            files: Vec::new(),
            lacks: Vec::new(),
        }
    }

    /// Whether no file fits any more.
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Notes what is missing, and why.
    pub(super) fn lacks(&mut self, what: &str, why: &str) {
        self.lacks.push(format!("{what}: {why}"));
    }

    /// Adds a file of JSON.
    pub(super) fn add_json(&mut self, name: &str, value: &Value) -> anyhow::Result<()> {
        self.add(name, &serde_json::to_vec_pretty(value)?)
    }

    /// Adds a file. A file that does not fit is cut, and no other file fits after it.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let fits = content.get(..self.room).unwrap_or(content);
        if fits.len() < content.len() {
            let (all, some) = (content.len(), fits.len());
            self.lacks(name, &format!("{some} of {all} bytes are in it: {FULL}"));
        }
        self.room -= fits.len();
        self.append(name, fits)
    }

    fn append(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(content.len().try_into()?);
        header.set_mode(0o600);
        self.builder.append_data(&mut header, name, content)?;
        self.files.push((name.to_owned(), content.len()));
        Ok(())
    }

    /// Ends the archive with the list of what is missing. Returns the files, and the list.
    pub(super) fn finish(mut self) -> anyhow::Result<(Vec<ArchivedFile>, Vec<String>)> {
        let lines: String = self.lacks.iter().map(|line| format!("{line}\n")).collect();
        self.append(LACKS, lines.as_bytes())?;
        self.builder.into_inner()?.finish()?;
        Ok((self.files, self.lacks))
    }
}
