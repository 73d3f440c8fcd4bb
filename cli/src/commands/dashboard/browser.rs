//! The browser of the user.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::guard::Token;

/// The program that opens a file, with the arguments before the file.
const OPENER: &[&str] = if cfg!(target_os = "macos") {
    &["open"]
} else if cfg!(target_os = "windows") {
    &["rundll32", "url.dll,FileProtocolHandler"]
} else {
    &["xdg-open"]
};

/// A file that leads the browser to the page. All users of the machine can read the arguments of
/// processes, so the address with its token must not be an argument. The file is removed on drop.
#[derive(Debug)]
pub(super) struct Opened(PathBuf);

impl Opened {
    /// Opens an address in the browser.
    ///
    /// # Errors
    /// The file cannot be written, or there is no program that opens it.
    pub(super) fn new(url: &str) -> io::Result<Self> {
        let name = Token::new().map_err(io::Error::other)?;
        let folder =
            std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let file = Self(folder.join(format!("kubectl-berth-{}.html", name.text())));
        create(&file.0)?.write_all(leads_to(url).as_bytes())?;
        if let [program, arguments @ ..] = OPENER {
            Command::new(program)
                .args(arguments)
                .arg(&file.0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        }
        Ok(file)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = fs::remove_file(&self.0);
    }
}

fn leads_to(url: &str) -> String {
    format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\">\n")
}

/// Creates a file that only this user can read.
fn create(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}
