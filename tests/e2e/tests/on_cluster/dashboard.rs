//! `kubectl berth dashboard` in a browser, as a member of a team with the role `edit`.

mod browser;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::kind;
use berth_e2e::site;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

use crate::world::{Case, PATIENCE};
use browser::Browser;

const USER: &str = "team-member";
/// How long the page may take to show a change.
const SOON: Duration = Duration::from_secs(20);
/// Text that would run as HTML.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

pub(crate) async fn page_in_chromium(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    case.clone_set("web", 3, &one, rolling).await?;
    make_objects(case).await?;
    let dashboard = Dashboard::start(case).await?;
    dashboard.ensure_guarded().await?;

    let mut browser = Browser::start().await?;
    let address = json!({"url": dashboard.url});
    browser.call("Page.navigate", address).await?;
    sees_list(&mut browser).await?;
    opens_workload(&mut browser).await?;
    pauses_and_resumes(case, &mut browser, &two).await?;
    looks_well_elsewhere(&mut browser).await?;
    ensure_clean(&browser, &dashboard)
}

/// The rights of the user, and an annotation and an event with hostile text.
async fn make_objects(case: &Case) -> Result<()> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "team"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    case.create(&binding).await?;
    let cause = format!("kubernetes.io/change-cause={HOSTILE}");
    let revisions = ["annotate", "controllerrevisions", "--all", &cause];
    case.kubectl(&[&revisions[..], &["-n", &case.namespace]].concat())
        .await?;
    let set = case.get(kind::CLONE_SET, "web").await?;
    let now = Timestamp::now().round(jiff::Unit::Second)?;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile"},
        "involvedObject": {
            "apiVersion": set["apiVersion"], "kind": "CloneSet", "namespace": case.namespace,
            "name": "web", "uid": set["metadata"]["uid"],
        },
        "type": "Warning", "reason": "Hostile", "message": HOSTILE, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "test"},
    });
    case.create(&event).await.map(drop)
}

async fn sees_list(browser: &mut Browser) -> Result<()> {
    let shown = "[...document.querySelectorAll('td a')].some((it) => it.textContent === 'web')";
    browser.until(shown, SOON).await?;
    ensure_accessible(browser).await?;
    browser.picture(&picture("list")?).await
}

/// Opens the workload by the keyboard alone.
async fn opens_workload(browser: &mut Browser) -> Result<()> {
    browser.tab_to("it.textContent === 'web'").await?;
    browser.press("Enter").await?;
    for heading in ["Plan", "Pods by revision", "Events"] {
        let shown = format!(
            "[...document.querySelectorAll('h2')].some((it) => it.textContent === '{heading}')"
        );
        browser.until(&shown, SOON).await?;
    }
    let pods = "document.querySelectorAll('.revision tbody tr').length === 3";
    browser.until(pods, SOON).await?;
    let hostile = json!(HOSTILE);
    for part in [".revision h3", "[data-key=events] td:nth-child(3)"] {
        let shown = format!(
            "[...document.querySelectorAll('{part}')].some((it) =>
                it.innerText.includes({hostile}))"
        );
        browser.until(&shown, SOON).await?;
    }
    let images = browser.value("document.images.length").await?;
    ensure!(images == 0, "text became {images} images");
    ensure_accessible(browser).await?;
    // A page that loads again loses the mark.
    browser.value("window.mark = 1").await.map(drop)
}

/// Pauses the rollout, sees how a change waits, and resumes it: the page follows to the end.
async fn pauses_and_resumes(case: &Case, browser: &mut Browser, image: &str) -> Result<()> {
    carries_out(case, browser, "pause", true).await?;
    case.set_image("web", image).await?;
    let waits = "document.querySelector('h1 .state').textContent === 'Paused'
        && document.querySelectorAll('.revision').length === 2
        && document.querySelector('[data-key=plan]').innerText.includes('paused')";
    browser.until(waits, SOON).await?;
    browser.picture(&picture("workload")?).await?;
    carries_out(case, browser, "resume", false).await?;
    let progress = "document.querySelector('h1 .state').textContent === 'Progressing'";
    browser.until(progress, SOON).await?;
    let done = "document.querySelector('.bar-of').innerText.includes('3 updated, 3 ready')
        && document.querySelector('h1 .state').textContent === 'Healthy'";
    browser.until(done, PATIENCE).await?;
    let mark = browser.value("window.mark").await?;
    ensure!(mark == 1, "the page was loaded again");
    Ok(())
}

/// Carries a change out: the page shows the patch, and writes only after a second Enter.
async fn carries_out(case: &Case, browser: &mut Browser, verb: &str, wanted: bool) -> Result<()> {
    let is_paused = |set: &Value| {
        let paused = &set["spec"]["updateStrategy"]["rollingUpdate"]["paused"];
        paused.as_bool().unwrap_or_default()
    };
    let button = format!("it.dataset.verb === '{verb}'");
    let shown = format!("!!document.querySelector('[data-verb={verb}]')");
    browser.until(&shown, SOON).await?;
    browser.tab_to(&button).await?;
    browser.press("Enter").await?;
    let patch = format!(
        "!!document.querySelector('dialog[open] pre')?.textContent.includes('\"paused\": {wanted}')"
    );
    browser.until(&patch, SOON).await?;
    let set = case.get(kind::CLONE_SET, "web").await?;
    ensure!(is_paused(&set) != wanted, "written before it was confirmed");
    ensure_accessible(browser).await?;
    if wanted {
        browser.picture(&picture("patch")?).await?;
    }
    browser.tab_to("it.textContent === 'Carry it out'").await?;
    browser.press("Enter").await?;
    case.until(kind::CLONE_SET, "web", |set| is_paused(set) == wanted)
        .await?;
    let done = "document.querySelector('dialog').innerText.includes('Done')";
    browser.until(done, SOON).await?;
    browser.tab_to("it.textContent === 'Close'").await?;
    browser.press("Enter").await?;
    browser
        .until("!document.querySelector('dialog').open", SOON)
        .await
}

/// A dark page has other colours, and a narrow one fits into its 400 pixels.
async fn looks_well_elsewhere(browser: &mut Browser) -> Result<()> {
    let back = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(back).await?;
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.call("Emulation.setEmulatedMedia", dark).await?;
    ensure!(
        browser.value(back).await? != light,
        "the dark page is {light}"
    );
    browser.picture(&picture("dark")?).await?;
    let light = json!({"features": []});
    browser.call("Emulation.setEmulatedMedia", light).await?;
    let narrow = json!({"width": 400, "height": 800, "deviceScaleFactor": 2, "mobile": true});
    browser
        .call("Emulation.setDeviceMetricsOverride", narrow)
        .await?;
    let fits = "[document.documentElement, ...document.querySelectorAll('.wide')]
        .every((it) => it.scrollWidth <= it.clientWidth && it.clientWidth <= 400)";
    browser.until(fits, SOON).await?;
    browser.picture(&picture("narrow-workload")?).await?;
    browser.value("location.hash = '#/'").await?;
    browser
        .until("!!document.querySelector('td a')", SOON)
        .await?;
    browser.until(fits, SOON).await?;
    browser.picture(&picture("narrow-list")?).await
}

/// A screen reader finds a heading, and a name for each element that takes input.
async fn ensure_accessible(browser: &mut Browser) -> Result<()> {
    let tree = browser
        .call("Accessibility.getFullAXTree", json!({}))
        .await?;
    let nodes = tree["nodes"].as_array().context("no tree")?;
    let seen = nodes.iter().filter(|node| node["ignored"] != true);
    let mut headings = 0;
    for node in seen {
        let name = node["name"]["value"].as_str().unwrap_or_default();
        match node["role"]["value"].as_str().unwrap_or_default() {
            "heading" => headings += 1,
            "button" | "link" | "textbox" | "searchbox" | "dialog" | "region" => {
                ensure!(!name.trim().is_empty(), "has no name: {node}");
            }
            _ => {}
        }
    }
    ensure!(headings > 0, "the page has no heading");
    Ok(())
}

/// No error, no breach of the page's policy, no dialog of a script, and no request to other
/// servers.
fn ensure_clean(browser: &Browser, dashboard: &Dashboard) -> Result<()> {
    let problems = [
        "Runtime.exceptionThrown",
        "Runtime.consoleAPICalled",
        "Log.entryAdded",
        "Page.javascriptDialogOpening",
    ];
    let problems = browser.events(&problems);
    ensure!(problems.is_empty(), "the browser complains: {problems:?}");
    let requests = browser.events(&["Network.requestWillBeSent"]);
    ensure!(!requests.is_empty(), "no request is known");
    let origin = format!("http://{}/", dashboard.host);
    for request in requests {
        let url = request["request"]["url"].as_str().unwrap_or_default();
        ensure!(
            url.starts_with(&origin) || url.starts_with("data:"),
            "a request to {url}"
        );
    }
    Ok(())
}

/// The file of a screenshot. The directory of tests' files is `target/TRIPLE/tmp`.
fn picture(name: &str) -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).ancestors().nth(2);
    let folder = target.context("no directory target")?.join("screenshots");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{name}.png")))
}

/// The server of the page. It ends when this value is dropped.
struct Dashboard {
    _process: Child,
    _output: Lines<BufReader<ChildStdout>>,
    url: String,
    host: String,
    token: String,
}

impl Dashboard {
    async fn start(case: &Case) -> Result<Dashboard> {
        let mut process = Command::new(site::plugin()?)
            .args(["dashboard", "--port", "0", "--as", USER])
            .args(["-n", &case.namespace])
            .env("KUBECONFIG", case.cluster()?.kubeconfig())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().context("no output")?;
        let mut output = BufReader::new(output).lines();
        let line = output.next_line().await?;
        let line = line.context("the dashboard ended")?;
        let url = line.rsplit(' ').next().unwrap_or_default().to_owned();
        let rest = url.strip_prefix("http://").unwrap_or_default();
        let (host, token) = rest.split_once("/#token=").context(line.clone())?;
        Ok(Dashboard {
            _process: process,
            _output: output,
            host: host.to_owned(),
            token: token.to_owned(),
            url,
        })
    }

    /// A page of another site, and a user without the token, get no data.
    async fn ensure_guarded(&self) -> Result<()> {
        let right = format!("Authorization: Bearer {}\r\n", self.token);
        let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
        let foreign = format!("{right}Origin: http://example.com\r\n");
        let host = self.host.as_str();
        for (host, headers, status) in [
            (host, right.as_str(), 200),
            (host, "", 401),
            (host, &wrong, 401),
            (host, &foreign, 403),
            ("example.com", &right, 421),
        ] {
            let answer = self.answer(host, headers).await?;
            let expected = format!("HTTP/1.1 {status} ");
            let is_right = answer.starts_with(&expected);
            let has_data = answer.contains("\"workloads\"");
            ensure!(
                is_right && has_data == (status == 200),
                "Host {host}, {headers:?}: {answer}"
            );
        }
        Ok(())
    }

    async fn answer(&self, host: &str, headers: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.host).await?;
        let request = format!(
            "GET /api/workloads HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}
