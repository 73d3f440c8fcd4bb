//! A program on a pseudo terminal, and the screen as a user sees it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use tokio::time::sleep;
use vt100::{Parser, Screen};

const ROWS: u16 = 30;

/// A program on a terminal. The program ends when this value is dropped.
pub(super) struct Pty {
    keyboard: File,
    terminal: File,
    parser: Arc<Mutex<Parser>>,
    program: Child,
    /// The modes of the terminal before the program started.
    pub(super) before: String,
}

impl Pty {
    /// Starts a program on a new terminal of 30 rows and so many columns.
    pub(super) fn start(columns: u16, mut command: Command) -> Result<Pty> {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&keyboard)?;
        unlockpt(&keyboard)?;
        let name = ptsname(&keyboard, Vec::new())?.into_string()?;
        let terminal = OpenOptions::new().read(true).write(true).open(name)?;
        tcsetwinsize(&terminal, size(columns))?;
        let parser = Arc::new(Mutex::new(Parser::new(number(ROWS)?, number(columns)?, 0)));
        let (output, shown) = (keyboard.try_clone()?, Arc::clone(&parser));
        thread::spawn(move || show(output, &shown));
        let before = format!("{:?}", tcgetattr(&terminal)?);
        let program = command
            .stdin(terminal.try_clone()?)
            .stdout(terminal.try_clone()?)
            .stderr(terminal.try_clone()?)
            .spawn()
            .context("cannot start setsid")?;
        Ok(Pty {
            keyboard: keyboard.into(),
            terminal,
            parser,
            program,
            before,
        })
    }

    /// Presses keys.
    pub(super) fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.keyboard.write_all(keys.as_bytes())?)
    }

    /// Changes the number of columns, as a user does with a window.
    pub(super) fn resize(&self, columns: u16) -> Result<()> {
        let (rows, columns_now) = (number(ROWS)?, number(columns)?);
        let mut parser = self.parser.lock();
        parser.screen_mut().set_size(rows, columns_now);
        Ok(tcsetwinsize(&self.terminal, size(columns))?)
    }

    /// The modes of the terminal: echo, lines or single keys, and all others.
    pub(super) fn modes(&self) -> Result<String> {
        Ok(format!("{:?}", tcgetattr(&self.terminal)?))
    }

    /// The text on the screen.
    pub(super) fn text(&self) -> String {
        self.parser.lock().screen().contents()
    }

    /// Waits until the screen is as wanted.
    pub(super) async fn until(
        &mut self,
        wanted: &str,
        patience: Duration,
        is_so: impl Fn(&Screen) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        while !is_so(self.parser.lock().screen()) {
            let ended = self.program.try_wait()?;
            ensure!(
                ended.is_none() && Instant::now() < deadline,
                "not on the screen: {wanted} (the program: {ended:?})\n{}",
                self.text()
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Waits for the end of the program, and for its last output.
    pub(super) async fn end(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.program.try_wait()? {
                // The thread of the output needs a moment for the last bytes.
                sleep(Duration::from_millis(200)).await;
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("the program does not end: {}", self.text());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // The program may have ended.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Reads output until no program has the terminal open.
fn show(output: OwnedFd, parser: &Mutex<Parser>) {
    let (mut output, mut bytes) = (File::from(output), [0; 4096]);
    while let Ok(count @ 1..) = output.read(&mut bytes) {
        parser.lock().process(&bytes[..count]);
    }
}

fn number(of: u16) -> Result<NonZeroU16> {
    NonZeroU16::new(of).context("a terminal has at least one row and one column")
}

fn size(columns: u16) -> Winsize {
    Winsize {
        ws_row: ROWS,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
