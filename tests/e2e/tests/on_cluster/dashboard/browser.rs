//! A page in headless Chromium, by the protocol of its developer tools.
//!
//! With `--remote-debugging-pipe`, Chromium reads messages from file descriptor 3 and writes them
//! to 4, each with a zero byte at its end, and exits when the pipe closes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

const CHROMIUM: &str = "/usr/bin/chromium";
/// The shell connects the pipes with the file descriptors, because Rust cannot safely.
const SCRIPT: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A browser with one page. It ends when this value is dropped.
pub(super) struct Browser {
    _process: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    _profile: TempDir,
    number: u64,
    session: Option<String>,
    events: Vec<Value>,
}

impl Browser {
    /// Starts Chromium, and records each event of the page from its beginning.
    pub(super) async fn start() -> Result<Browser> {
        ensure!(
            Path::new(CHROMIUM).exists(),
            "{CHROMIUM} is missing: run `make test-prerequisites`"
        );
        let profile = tempfile::tempdir()?;
        let data = format!("--user-data-dir={}", profile.path().display());
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT, CHROMIUM, "--headless=new", "--no-sandbox"])
            .args(["--remote-debugging-pipe", "--window-size=1280,900", &data])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut browser = Browser {
            commands: process.stdin.take().context("no pipe to Chromium")?,
            messages: BufReader::new(process.stdout.take().context("no pipe from Chromium")?),
            _process: process,
            _profile: profile,
            number: 0,
            session: None,
            events: Vec::new(),
        };
        browser.session = Some(browser.tab().await?);
        for domain in ["Page", "Runtime", "Network", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(browser)
    }

    /// Opens an empty tab, and returns its session.
    async fn tab(&mut self) -> Result<String> {
        let blank = json!({"url": "about:blank"});
        let target = self.call("Target.createTarget", blank).await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().context("no session")?;
        Ok(session.to_owned())
    }

    /// Calls a method, and returns its result.
    pub(super) async fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let bytes = [message.to_string().as_bytes(), &[0]].concat();
        self.commands.write_all(&bytes).await?;
        loop {
            let mut bytes = Vec::new();
            let read = self.messages.read_until(0, &mut bytes);
            let read = timeout(PATIENCE, read).await;
            read.with_context(|| format!("Chromium does not answer {method}"))??;
            ensure!(bytes.pop() == Some(0), "Chromium ended during {method}");
            let mut message: Value = serde_json::from_slice(&bytes)?;
            if message["id"] == self.number {
                ensure!(message["error"].is_null(), "{method}: {message}");
                return Ok(message["result"].take());
            }
            self.events.push(message);
        }
    }

    /// The value of an expression of JavaScript.
    pub(super) async fn value(&mut self, script: &str) -> Result<Value> {
        let parameters = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut result = self.call("Runtime.evaluate", parameters).await?;
        ensure!(result["exceptionDetails"].is_null(), "{script}: {result}");
        Ok(result["result"]["value"].take())
    }

    /// Waits until an expression is true.
    pub(super) async fn until(&mut self, script: &str, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        while self.value(script).await? != true {
            if Instant::now() > deadline {
                bail!(
                    "is not true: {script}; the page: {}",
                    self.value("document.body.innerText").await?
                );
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Presses Tab or Enter.
    pub(super) async fn press(&mut self, key: &str) -> Result<()> {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => bail!("the test has no key {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({
                "type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// Presses Tab until this is true of the element `it` with the focus.
    pub(super) async fn tab_to(&mut self, is_it: &str) -> Result<()> {
        for _ in 0..60 {
            let script = format!("((it) => {is_it})(document.activeElement)");
            if self.value(&script).await? == true {
                return Ok(());
            }
            self.press("Tab").await?;
        }
        bail!("60 times Tab do not lead to an element with {is_it}");
    }

    /// Writes the whole page as a PNG file. The picture has many colours, because letters have
    /// smooth edges; a page that shows nothing has one.
    pub(super) async fn picture(&mut self, file: &Path) -> Result<()> {
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let mut picture = self.call("Page.captureScreenshot", whole).await?;
        let data = picture["data"].take();
        let encoded = data.as_str().context("no picture")?;
        std::fs::write(file, BASE64_STANDARD.decode(encoded)?)?;
        let colours = self.colours(encoded).await?;
        ensure!(colours >= 16, "{}: {colours} colours", file.display());
        Ok(())
    }

    /// The number of colours of a PNG file, in a tab of its own: the page's policy forbids much.
    async fn colours(&mut self, png: &str) -> Result<u64> {
        let script = format!(
            "(async () => {{
                const image = new Image();
                image.src = 'data:image/png;base64,{png}';
                await image.decode();
                const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
                canvas.drawImage(image, 0, 0);
                const {{ data }} = canvas.getImageData(0, 0, image.width, image.height);
                return new Set(new Uint32Array(data.buffer)).size;
            }})()"
        );
        let page = self.session.take();
        let blank = self.tab().await?;
        self.session = Some(blank);
        let colours = self.value(&script).await;
        self.call("Page.close", json!({})).await?;
        self.session = page;
        colours?.as_u64().context("no number of colours")
    }

    /// The parameters of all events of these names so far.
    pub(super) fn events(&self, names: &[&str]) -> Vec<&Value> {
        let named = |event: &&Value| names.iter().any(|name| event["method"] == *name);
        let events = self.events.iter().filter(named);
        events.map(|event| &event["params"]).collect()
    }
}
