//! Commands that messages print. A shell on the node runs them as they are written.

use std::{env, path::Path};

use crate::config::DATA_DIR;

/// The plugin's path if this program's own path is not known.
const PROGRAM: &str = "/opt/cni/bin/host-local";

/// The command that repairs the leases of a network, or of all.
pub fn repair(data_dir: &Path, network: Option<&str>, sandboxes: Option<&str>) -> String {
    let program = env::current_exe().ok().filter(|path| path.exists());
    let mut words = vec![program.map_or(PROGRAM.into(), |path| path.display().to_string())];
    words.extend(["doctor".into(), "--fix".into()]);
    if data_dir != Path::new(DATA_DIR) {
        words.extend(["--data-dir".into(), data_dir.display().to_string()]);
    }
    for (option, value) in [("--network", network), ("--sandboxes", sandboxes)] {
        words.extend(
            value
                .into_iter()
                .flat_map(|value| [option.into(), value.into()]),
        );
    }
    // The earlier standard input is not known any more. This is what it should be.
    let input = if sandboxes == Some("-") {
        "crictl pods -q | "
    } else {
        ""
    };
    format!(
        "{input}{}",
        words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" ")
    )
}

/// The command that removes the file or directory at a path.
pub fn remove(path: &Path) -> String {
    format!("rm -rf {}", quoted(&path.display().to_string()))
}

/// One word of a shell's command.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.:_-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
