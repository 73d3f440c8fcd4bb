//! The demo: an image changed in place, and the same by new pods; then pods of StatefulSets that
//! come back to their nodes, the state of each node, one application over three of them, and a
//! rollout that is stuck.

mod nodes;
pub mod report;
pub mod screen;
mod sets;
mod stuck;
pub mod verify;
mod zones;

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use berth_cluster::Image;
use clap::Args;
use serde_json::{Value, json};

use crate::ask::{Asker, Target};
use crate::objects::{self, CONTAINER, kind};
use crate::record::{PodView, Record};
use crate::site::{Site, UserContext, plugin, user_context};
use crate::watch::{PodWatch, ReadyIps};
use crate::{ask, install};
use report::{Evidence, PodOutcome, Summary};
use screen::Screen;

const NAMESPACE: &str = "berth-demo";
const NAME: &str = "web";
const PATIENCE: Duration = Duration::from_secs(180);
/// The pause between two updates of the live table.
const TICK: Duration = Duration::from_millis(100);
/// How long pods get requests before and after a rollout, so that the table shows calm around it.
const CALM: Duration = Duration::from_secs(1);

/// The options of the demo.
#[derive(Debug, Args)]
pub struct Options {
    /// With your own cluster (KUBECONFIG): a registry that you may push to and that its nodes pull
    /// from, as HOST[:PORT][/PATH].
    #[arg(long, env = "REGISTRY")]
    registry: Option<String>,
    /// Speak HTTP to that registry.
    #[arg(long)]
    plain_http: bool,
    /// Do not ask before changing your own cluster.
    #[arg(long, short)]
    yes: bool,
    /// Nodes of the cluster that is made where there is none.
    #[arg(long, default_value_t = 3)]
    nodes: u8,
    /// Pods of the CloneSet.
    #[arg(long, default_value_t = 6)]
    pods: usize,
}

/// Runs the demo and removes the objects that it made.
///
/// # Errors
/// When a step fails; the objects are removed then, too.
pub async fn run(options: &Options) -> Result<()> {
    let Some(context) = user_context()? else {
        println!(
            "KUBECONFIG is not set: making a cluster of {} nodes on this machine.",
            options.nodes
        );
        let started = Instant::now();
        let site = Arc::new(Site::make(options.nodes).await?);
        println!(
            "The cluster is up after {:.1} s.",
            started.elapsed().as_secs_f32()
        );
        return until_interrupted(show(&site, options)).await;
    };
    let registry = options
        .registry
        .as_deref()
        .filter(|registry| !registry.is_empty());
    let registry = registry.context(
        "KUBECONFIG is set, so the demo is to run in your cluster, and needs a registry for its images: give one that \
         you may push to and that the nodes can pull from, as in `make demo REGISTRY=ghcr.io/you`; or unset KUBECONFIG, \
         and the demo makes a cluster of its own",
    )?;
    agree(&context, registry, options.yes)?;
    let site = Arc::new(Site::of_user(registry, options.plain_http).await?);
    install::check_free(&site).await?;
    let shown = until_interrupted(show(&site, options)).await;
    println!("\nRemoving what the demo made from {} …", context.name);
    let removed = clean_up(&site).await;
    shown.and(removed)
}

/// Asks the user whether the demo may use this cluster.
fn agree(context: &UserContext, registry: &str, yes: bool) -> Result<()> {
    println!(
        "The demo installs Berth into the cluster of your current context, shows it, and removes it again:"
    );
    println!("  context   {}", context.name);
    println!("  server    {}", context.server);
    println!(
        "  makes     namespaces {} and {NAMESPACE}, Berth's cluster roles and its kinds",
        install::NAMESPACE
    );
    println!("  pushes    berth-controller, berth-daemon and hello to {registry}");
    if yes {
        return Ok(());
    }
    ensure!(
        io::stdin().is_terminal(),
        "standard input is not a terminal: run it in a terminal, or with --yes"
    );
    print!("Go on? (y/N) ");
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    ensure!(
        matches!(answer.trim(), "y" | "Y" | "yes"),
        "nothing was done"
    );
    Ok(())
}

/// The user may stop the demo at any time; the clean-up after it still happens.
async fn until_interrupted(work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = ended.recv() => bail!("told to end"),
    }
}

async fn clean_up(site: &Site) -> Result<()> {
    // First the pods and their owner, while there is still a controller that removes finalizers.
    objects::delete_namespace(site.client(), NAMESPACE).await?;
    install::uninstall(site).await
}

/// Installs Berth and shows both rollouts.
async fn show(site: &Arc<Site>, options: &Options) -> Result<()> {
    let images = prepare(site).await?;
    let demo = Demo {
        site,
        images,
        pods: options.pods,
    };
    demo.create().await?;
    println!(
        "\n{} pods run {}. Now the image of the CloneSet is changed, updates in place allowed:",
        demo.pods, demo.images[0]
    );
    let in_place = demo.rollout(&demo.images[1], "InPlaceIfPossible").await?;
    println!("\nThe same by new pods, as a Deployment does it:");
    let recreate = demo.rollout(&demo.images[2], "ReCreate").await?;
    println!("\nIn place:\n{}", report::table(&in_place.outcomes));
    println!("By new pods:\n{}", report::table(&recreate.outcomes));
    println!(
        "{}",
        report::side_by_side(&in_place.summary, &recreate.summary)
    );
    let kept = in_place.summary.in_place;
    ensure!(
        kept == demo.pods,
        "only {kept} of {} pods were updated in place: see the table above",
        demo.pods
    );
    sets::show(site, NAMESPACE, &demo.images).await?;
    nodes::show(site, NAMESPACE, &demo.images).await?;
    zones::show(site, NAMESPACE, &demo.images).await?;
    stuck::show(site, NAMESPACE, &demo.images).await
}

/// Pushes all images and installs the chart; returns three images for the pods.
async fn prepare(site: &Arc<Site>) -> Result<[String; 3]> {
    println!("Building Berth and pushing its images (a first build takes some minutes) …");
    let pushing = Arc::clone(site);
    let images = tokio::task::spawn_blocking(move || {
        for name in pushing.push_berth(true)? {
            println!("  {name}");
        }
        plugin()?;
        let images = [1, 2, 3].map(|version| {
            let name = format!("hello:v{version}");
            pushing.push(&Image::hello(&name)?, &[&name])?;
            anyhow::Ok(pushing.image(&name))
        });
        images.into_iter().collect::<Result<Vec<_>>>()
    });
    let images = images.await??;
    println!("Installing the chart …");
    let started = Instant::now();
    let installing = Arc::clone(site);
    tokio::task::spawn_blocking(move || install::install(&installing, &[])).await??;
    println!(
        "Berth is ready after {:.1} s.",
        started.elapsed().as_secs_f32()
    );
    images
        .try_into()
        .map_err(|images| anyhow::anyhow!("{images:?} are not three images"))
}

struct Demo<'a> {
    site: &'a Site,
    images: [String; 3],
    pods: usize,
}

/// A rollout and its results.
struct Shown {
    outcomes: Vec<PodOutcome>,
    summary: Summary,
}

impl Demo<'_> {
    /// Creates the CloneSet, and has the later images pulled ahead, so that only the update itself
    /// is compared.
    async fn create(&self) -> Result<()> {
        let client = self.site.client();
        objects::make_namespace(client, NAMESPACE).await?;
        for image in &self.images {
            let name = image.rsplit(':').next().unwrap_or_default();
            let job = json!({
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "ImagePullJob",
                "metadata": {"name": format!("hello-{name}")},
                "spec": {"image": image, "parallelism": "100%", "completionPolicy": {"type": "Always"}},
            });
            objects::create(client, NAMESPACE, &job).await?;
        }
        objects::create(client, NAMESPACE, &objects::service(NAME)).await?;
        let rolling_update =
            json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "34%"});
        let clone_set = objects::clone_set(NAME, self.pods, &self.images[0], &rolling_update);
        objects::create(client, NAMESPACE, &clone_set).await?;
        println!(
            "Pulling the images ahead on every node, and starting {} pods …",
            self.pods
        );
        objects::until(
            client,
            NAMESPACE,
            kind::CLONE_SET,
            NAME,
            PATIENCE,
            objects::is_done,
        )
        .await?;
        for image in &self.images {
            let name = format!("hello-{}", image.rsplit(':').next().unwrap_or_default());
            let done = |job: &Value| !job["status"]["completionTime"].is_null();
            let job = objects::until(
                client,
                NAMESPACE,
                kind::IMAGE_PULL_JOB,
                &name,
                PATIENCE,
                done,
            )
            .await?;
            let failed = job["status"]["failed"].as_i64().unwrap_or(0);
            ensure!(
                failed == 0,
                "{failed} nodes could not pull {image}: {}",
                job["status"]
            );
        }
        Ok(())
    }

    /// Changes the image, shows the live table until the status says that the rollout is done, and
    /// returns the results.
    async fn rollout(&self, image: &str, policy: &str) -> Result<Shown> {
        let client = self.site.client();
        let began = Instant::now();
        let watch = Arc::new(
            PodWatch::start(
                client,
                NAMESPACE,
                &format!("{}={NAME}", objects::APP),
                began,
            )
            .await?,
        );
        let ready = ReadyIps::start(client, NAMESPACE, NAME).await?;
        let asker = Asker::start(self.site.way(NAMESPACE), targets(&watch, ready), began);
        tokio::time::sleep(CALM).await;

        let before = objects::get(client, NAMESPACE, kind::CLONE_SET, NAME).await?;
        let mut change = objects::image_patch(&before, image);
        change["spec"]["updateStrategy"] = json!({"rollingUpdate": {"podUpdatePolicy": policy}});
        let from = began.elapsed();
        objects::patch(client, NAMESPACE, kind::CLONE_SET, NAME, &change).await?;
        let done = objects::until(
            client,
            NAMESPACE,
            kind::CLONE_SET,
            NAME,
            PATIENCE,
            objects::is_done,
        );
        let to = self.show_until(done, &watch, &asker, from).await?;

        tokio::time::sleep(CALM).await;
        let end = began.elapsed();
        let asked = tokio::task::spawn_blocking(move || asker.stop()).await??;
        let record = watch.record()?;
        let verified = self.verified(&record).await?;
        let outcomes = Evidence {
            record: &record,
            asked: &asked,
            from,
            to: end,
            verified,
        }
        .outcomes();
        let summary = Summary::of(to - from, &outcomes);
        Ok(Shown { outcomes, summary })
    }

    /// Redraws the table until `done` ends; returns the time of that.
    async fn show_until(
        &self,
        done: impl Future<Output = Result<Value>>,
        watch: &PodWatch,
        asker: &Asker,
        from: Duration,
    ) -> Result<Duration> {
        let mut screen = Screen::stdout();
        let mut tick = tokio::time::interval(TICK);
        tokio::pin!(done);
        loop {
            let ended = tokio::select! {
                done = &mut done => Some(done.map(|_| watch.began().elapsed())),
                _ = tick.tick() => None,
            };
            let pods = watch.pods()?;
            let lines = asker.look(|asked| screen::lines(&pods, CONTAINER, asked));
            screen.show(watch.began().elapsed().saturating_sub(from), &lines)?;
            if let Some(ended) = ended {
                screen.leave();
                return ended;
            }
        }
    }

    /// Compares each pod's image id with the image's ids in its NodeImage.
    async fn verified(&self, record: &Record) -> Result<BTreeMap<String, verify::Verified>> {
        let client = self.site.client();
        let mut verified = BTreeMap::new();
        for (uid, standing) in record.last().pods {
            let node = objects::get(client, "", kind::NODE_IMAGE, &standing.pod.node)
                .await
                .unwrap_or_default();
            let pod = objects::get(client, NAMESPACE, kind::POD, &standing.pod.name).await?;
            let annotations = &pod["metadata"]["annotations"];
            verified.insert(
                uid.to_owned(),
                verify::verify(standing.pod, CONTAINER, annotations, &node),
            );
        }
        Ok(verified)
    }
}

/// Every pod with an IP that is not gone.
fn targets(watch: &Arc<PodWatch>, ready: ReadyIps) -> ask::Targets {
    let watch = Arc::clone(watch);
    Arc::new(move || {
        let ready = ready.now();
        let pods = watch
            .pods()
            .unwrap_or_default()
            .into_iter()
            .filter(|pod| !pod.ip.is_empty());
        let target = |pod: PodView| Target {
            called_ready: ready.contains(&pod.ip),
            pod: pod.name,
            ip: pod.ip,
        };
        pods.map(target).collect()
    })
}
