//! `kubectl berth get -w` on a terminal.

mod pty;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_cluster::Valve;
use berth_e2e::objects::kind;
use berth_e2e::site;
use serde_json::json;

use crate::world::{Case, PATIENCE};
use pty::Pty;

/// How long a key may take to show its effect.
const SOON: Duration = Duration::from_secs(20);
const DOWN: &str = "\x1b[B";
const ENTER: &str = "\r";
const LOST: &str = "the apiserver does not answer; trying again";

pub(crate) async fn screen_follows_and_is_restored(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2});
    case.clone_set("web", 3, &one, rolling).await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let valve = through_valve(case, &kubeconfig)?;
    let mut screen = start(case, &kubeconfig)?;

    screen
        .until("the tree of a healthy set", PATIENCE, |screen| {
            let text = screen.contents();
            screen.alternate_screen()
                && screen.hide_cursor()
                && text.contains("✔ Healthy")
                && text.matches("✔ Running").count() == 3
        })
        .await?;
    ensure!(
        screen.modes()? != screen.before,
        "the terminal waits for lines"
    );
    rolls_out(case, &mut screen, &two).await?;
    survives_silence(case, &mut screen, &valve).await?;

    // The next key takes the message "web resumed" away. crossterm may delay a key that comes
    // together with another size, so that the test waits for the key first.
    screen.press(DOWN)?;
    screen
        .until("the keys on the last line", SOON, |screen| {
            screen.contents().contains("q quit")
        })
        .await?;
    screen.resize(40)?;
    let fits = |text: &str| text.contains("web-") && text.lines().all(|l| l.chars().count() <= 40);
    screen
        .until("the tree at 40 columns", SOON, |screen| {
            let text = screen.contents();
            fits(&text) && text.contains("✔ Healthy") && text.contains("q quit")
        })
        .await?;

    screen.press("q")?;
    let status = screen.end(SOON).await?;
    ensure!(status.code() == Some(0), "q ends with {status}");
    screen
        .until("the first screen, with its cursor", SOON, |screen| {
            !screen.alternate_screen() && !screen.hide_cursor()
        })
        .await?;
    ensure!(!screen.text().contains("panicked"), "{}", screen.text());
    let after = screen.modes()?;
    ensure!(after == screen.before, "{} became {after}", screen.before);
    Ok(())
}

/// Starts the command on a terminal of 100 columns.
fn start(case: &Case, kubeconfig: &Path) -> Result<Pty> {
    let mut command = Command::new("setsid");
    // A session of its own, so that the terminal sends the signal of another size.
    command
        .args(["--ctty", "--wait"])
        .arg(site::plugin()?)
        .args(["get", "clone/web", "-w", "-n", &case.namespace])
        .args(["--request-timeout", "3s"])
        .env("KUBECONFIG", kubeconfig)
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR");
    Pty::start(100, command)
}

/// A paused rollout says its reason; resumed by the same key, it goes on to its end.
async fn rolls_out(case: &Case, screen: &mut Pty, image: &str) -> Result<()> {
    screen.press("p")?;
    screen
        .until("web paused", SOON, |screen| {
            screen.contents().contains("web paused")
        })
        .await?;
    case.until(kind::CLONE_SET, "web", |set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["paused"] == true
    })
    .await?;
    case.set_image("web", image).await?;
    screen.press(DOWN)?;
    screen.press(ENTER)?;
    screen
        .until("the reason of the selected pod", SOON, |screen| {
            let text = screen.contents();
            let mut lines = text.lines().filter(|line| line.starts_with("web-"));
            text.contains("Paused") && text.contains("0/3") && lines.any(|l| l.contains(": stays"))
        })
        .await?;
    screen.press(ENTER)?;
    screen.press("p")?;
    screen
        .until("pods that are updated", PATIENCE, |screen| {
            screen.contents().contains("◌ Progressing")
        })
        .await?;
    screen
        .until("the end of the rollout", PATIENCE, |screen| {
            let text = screen.contents();
            text.contains("✔ Healthy") && text.contains("✔ 3/3")
        })
        .await
}

/// The apiserver answers nothing for some seconds, as behind a broken network.
async fn survives_silence(case: &Case, screen: &mut Pty, valve: &Valve) -> Result<()> {
    // The next plan begins within a second after a change.
    let annotate = async |text: &str| {
        let patch = json!({"metadata": {"annotations": {"example.com/note": text}}});
        case.patch(kind::CLONE_SET, "web", patch).await.map(drop)
    };
    annotate("before").await?;
    valve.allow_only(0);
    let is_lost = screen
        .until(LOST, SOON, |screen| screen.contents().contains(LOST))
        .await;
    valve.open();
    is_lost?;
    screen
        .until("the tree without the note", SOON, |screen| {
            let text = screen.contents();
            !text.contains(LOST) && text.contains("✔ Healthy")
        })
        .await
}

/// Writes a kubeconfig that reaches the apiserver through a valve.
fn through_valve(case: &Case, file: &Path) -> Result<Valve> {
    const SERVER: &str = "https://127.0.0.1:";
    let kubeconfig = std::fs::read_to_string(case.cluster()?.kubeconfig())?;
    let (_, port) = kubeconfig.split_once(SERVER).context("no server")?;
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let valve = Valve::start(port.parse()?)?;
    let through = kubeconfig.replace(
        &format!("{SERVER}{port}"),
        &format!("{SERVER}{}", valve.port()),
    );
    std::fs::write(file, through)?;
    Ok(valve)
}
