//! The inputs that are kept, and running a target on one.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::{fs, io};

/// The kept inputs of a target by name, sorted.
///
/// # Errors
/// The directory cannot be read.
pub fn inputs(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut inputs = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        inputs.push((
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?,
        ));
    }
    inputs.sort();
    Ok(inputs)
}

/// Runs a target on an input.
///
/// # Errors
/// The words of its panic.
pub fn run(target: fn(&[u8]), input: &[u8]) -> Result<(), String> {
    panic::catch_unwind(AssertUnwindSafe(|| target(input))).map_err(|why| {
        let text = why.downcast_ref::<String>().cloned();
        text.or_else(|| why.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_default()
    })
}
