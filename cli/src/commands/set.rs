//! `kubectl berth set`: changes fields of a pod template, and says how the change reaches the pods.

mod change;
mod list;
mod target;
mod ways;

use berth_workload::objects::resource::Resource;
use clap::{Args, Subcommand};
use serde_json::Value;

use self::change::{assignments, is_assignment};
use self::target::{Chosen, Targets};
use crate::exit::{Exit, WrongUsage, sentence};
use crate::in_place::Cluster;
use crate::kinds::NamedKind;
use crate::objects;
use crate::session::Session;
use crate::text::{clean, clean_lines, error_width, fitted};
use crate::write::{DryRun, Format, WriteFlags, title};

/// The field to change.
#[derive(Debug, Args)]
pub struct Set {
    /// The field.
    #[command(subcommand)]
    pub field: Field,
}

/// The fields that can be set.
#[derive(Debug, Subcommand)]
pub enum Field {
    /// Images: `set image cloneset/web app=web:2`, or `*=IMAGE` for all containers.
    Image(Image),
    /// Environment variables: `set env cloneset/web KEY=VALUE OTHER-`.
    Env(Env),
    /// Resources: `set resources cloneset/web --limits cpu=1,memory=1Gi`.
    Resources(Resources),
    /// The service account: `set serviceaccount cloneset/web NAME`.
    #[command(visible_alias = "sa")]
    Serviceaccount(ServiceAccount),
}

/// Images by container.
#[derive(Debug, Args)]
pub struct Image {
    /// The objects, TYPE/NAME, then CONTAINER=IMAGE.
    #[arg(required = true, num_args = 1.., value_name = "TYPE/NAME CONTAINER=IMAGE")]
    pub words: Vec<String>,
    /// The objects.
    #[command(flatten)]
    pub targets: Targets,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// Environment variables.
#[derive(Debug, Args)]
pub struct Env {
    /// The objects, TYPE/NAME, then KEY=VALUE to set a variable and KEY- to remove it.
    #[arg(num_args = 0.., value_name = "TYPE/NAME KEY=VALUE")]
    pub words: Vec<String>,
    /// Print the variables, and write nothing.
    #[arg(long)]
    pub list: bool,
    /// The containers, `*` stands for any characters.
    #[arg(
        short,
        long = "containers",
        visible_alias = "container",
        value_delimiter = ',',
        default_value = "*"
    )]
    pub container: Vec<String>,
    /// The objects.
    #[command(flatten)]
    pub targets: Targets,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// Resources of containers.
#[derive(Debug, Args)]
pub struct Resources {
    /// The objects, TYPE/NAME.
    #[arg(num_args = 0.., value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// The containers, `*` stands for any characters.
    #[arg(
        short,
        long = "containers",
        visible_alias = "container",
        value_delimiter = ',',
        default_value = "*"
    )]
    pub container: Vec<String>,
    /// Limits, such as cpu=200m,memory=512Mi.
    #[arg(long, value_delimiter = ',', value_name = "NAME=AMOUNT")]
    pub limits: Vec<String>,
    /// Requests, such as cpu=100m,memory=256Mi.
    #[arg(long, value_delimiter = ',', value_name = "NAME=AMOUNT")]
    pub requests: Vec<String>,
    /// The objects.
    #[command(flatten)]
    pub targets: Targets,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// The service account of the pods.
#[derive(Debug, Args)]
pub struct ServiceAccount {
    /// The objects, TYPE/NAME, then the name of the service account.
    #[arg(required = true, num_args = 1.., value_name = "TYPE/NAME SERVICEACCOUNT")]
    pub words: Vec<String>,
    /// The objects.
    #[command(flatten)]
    pub targets: Targets,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// A change of a pod's spec.
type Change<'a> = dyn Fn(&mut Value) -> anyhow::Result<()> + 'a;

/// What a command line changes, and where.
struct Order<'a> {
    words: &'a [String],
    targets: &'a Targets,
    write: WriteFlags,
    done: &'static str,
    /// The containers whose variables are listed instead of a write.
    listed: Option<&'a [String]>,
    change: Box<Change<'a>>,
}

impl Set {
    /// Whether the command needs no apiserver.
    pub const fn is_local(&self) -> bool {
        match &self.field {
            Field::Image(image) => image.targets.local,
            Field::Env(env) => env.targets.local,
            Field::Resources(resources) => resources.targets.local,
            Field::Serviceaccount(account) => account.targets.local,
        }
    }

    /// Changes objects of files, and prints them.
    ///
    /// # Errors
    /// The command line is wrong, or a file cannot be read.
    pub fn run_local(&self) -> anyhow::Result<Exit> {
        let order = self.field.order()?;
        if !order.words.is_empty() {
            let message = "--local changes the objects of --filename: name no others";
            return Err(WrongUsage(message.to_owned()).into());
        }
        if order.write.dry_run == DryRun::Server {
            let message = "--local and --dry-run=server exclude each other";
            return Err(WrongUsage(message.to_owned()).into());
        }
        let mut exit = Exit::Done;
        for (at, object) in target::read(&order.targets.filename)?.iter().enumerate() {
            let shown = target::kind_of(object)
                .map_err(anyhow::Error::from)
                .and_then(|kind| order.show(kind.resource, object, at));
            if let Err(error) = shown {
                let title = format!(
                    "{}/{}",
                    objects::text(object, "/kind").to_lowercase(),
                    objects::name(object)
                );
                report(&title, &error);
                exit = Exit::Failed;
            }
        }
        Ok(exit)
    }

    /// Changes the field of each object.
    ///
    /// # Errors
    /// The command line is wrong, the object has no such container, or the apiserver refused the
    /// change. With several objects, the errors go to standard error.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let order = self.field.order()?;
        let all = match target::chosen(order.words, order.targets)? {
            Chosen::Named(all) => all,
            Chosen::Selected(kinds, labels) => selected(session, kinds, &labels).await?,
        };
        if all.is_empty() {
            anstream::eprintln!(
                "No resources found in {} namespace.",
                clean(&session.namespace)
            );
            return Ok(Exit::Done);
        }
        let cluster = match order.listed {
            Some(_) => Cluster::default(),
            None => Cluster::read(session).await?,
        };
        let mut exit = Exit::Done;
        for (at, (kind, name)) in all.iter().enumerate() {
            let done = match order.listed {
                Some(_) => session
                    .get(kind, name)
                    .await
                    .and_then(|object| order.show(kind.resource, &object, at)),
                None => {
                    let place = (at, all.len());
                    order.set(session, (kind, name), &cluster, place).await
                }
            };
            match done {
                Ok(()) => {}
                Err(error) if all.len() == 1 => return Err(error),
                Err(error) => {
                    report(&title(kind.resource, name), &error);
                    exit = Exit::Failed;
                }
            }
        }
        Ok(exit)
    }
}

/// Prints the error of one object of several.
fn report(title: &str, error: &anyhow::Error) {
    let line = format!("error: {}: {}", clean(title), sentence(error));
    anstream::eprintln!("{}", fitted(&line, error_width()));
}

/// The names of all objects of the kinds with these labels.
async fn selected(
    session: &Session,
    kinds: Vec<NamedKind>,
    labels: &str,
) -> anyhow::Result<Vec<(NamedKind, String)>> {
    let mut all = Vec::new();
    for kind in kinds {
        let listed = session
            .list(kind.resource, &session.namespace, labels)
            .await?;
        let names = listed.iter().map(|one| objects::name(one).to_owned());
        all.extend(names.map(|name| (kind.clone(), name)));
    }
    Ok(all)
}

impl Field {
    fn order(&self) -> anyhow::Result<Order<'_>> {
        Ok(match self {
            Self::Image(image) => {
                let (words, pairs) = assignments(&image.words)?;
                Order {
                    words,
                    targets: &image.targets,
                    write: image.write,
                    done: "image updated",
                    listed: None,
                    change: Box::new(move |spec| change::images(spec, &pairs)),
                }
            }
            Self::Env(env) => {
                let (words, pairs) =
                    match env.list && !env.words.iter().any(|word| is_assignment(word)) {
                        true => (env.words.as_slice(), Vec::new()),
                        false => assignments(&env.words)?,
                    };
                Order {
                    words,
                    targets: &env.targets,
                    write: env.write,
                    done: "env updated",
                    listed: env.list.then_some(env.container.as_slice()),
                    change: Box::new(move |spec| change::env(spec, &env.container, &pairs)),
                }
            }
            Self::Resources(resources) => {
                let lists = change::amounts(&resources.limits, &resources.requests)?;
                let containers = &resources.container;
                Order {
                    words: &resources.object,
                    targets: &resources.targets,
                    write: resources.write,
                    done: "resource requirements updated",
                    listed: None,
                    change: Box::new(move |spec| change::resources(spec, containers, &lists)),
                }
            }
            Self::Serviceaccount(account) => {
                let Some((name, words)) = account.words.split_last() else {
                    let message = "name an object and a service account";
                    return Err(WrongUsage(message.to_owned()).into());
                };
                Order {
                    words,
                    targets: &account.targets,
                    write: account.write,
                    done: "serviceaccount updated",
                    listed: None,
                    change: Box::new(move |spec| change::service_account(spec, name)),
                }
            }
        })
    }
}

impl Order<'_> {
    /// Prints the object as it would be, or its variables; writes nothing.
    fn show(&self, resource: Resource, object: &Value, at: usize) -> anyhow::Result<()> {
        let new = change::applied(resource, object, &self.change)?;
        let Some(containers) = self.listed else {
            return self.print(resource, &new, self.done, at);
        };
        let lines = list::lines(resource, &new, containers)?;
        for line in lines {
            anstream::println!("{}", clean_lines(&line));
        }
        Ok(())
    }

    /// Prints what was done; a line parts YAML documents.
    fn print(&self, resource: Resource, new: &Value, done: &str, at: usize) -> anyhow::Result<()> {
        if at > 0 && self.write.output == Some(Format::Yaml) {
            anstream::println!("---");
        }
        self.write.print(resource, new, done)
    }

    /// Changes the pod's spec of an object. Before the write, standard error gets the way to the
    /// pods, with the object if there are several.
    async fn set(
        &self,
        session: &Session,
        (kind, name): (&NamedKind, &str),
        cluster: &Cluster,
        (at, count): (usize, usize),
    ) -> anyhow::Result<()> {
        let before = session.get(kind, name).await?;
        let current = ways::current(session, kind.resource, &before).await;
        let mut said = Vec::new();
        let changed = |old: &Value| {
            let new = change::applied(kind.resource, old, &self.change)?;
            let mut ways = ways::of(kind.resource, (old, current.as_ref()), &new, cluster)?;
            if count > 1 {
                let title = title(kind.resource, name);
                ways = ways.iter().map(|way| format!("{title}: {way}")).collect();
            }
            // The change is made again if another writer was first.
            if ways != said {
                let lines = clean_lines(&ways.join("\n"));
                anstream::eprintln!("{}", fitted(&lines, error_width()));
                said = ways;
            }
            Ok(new)
        };
        let (old, new) = self.write.update(session, kind, name, changed).await?;
        let is_changed = old["spec"] != new["spec"];
        let done = if is_changed { self.done } else { "unchanged" };
        self.print(kind.resource, &new, done, at)
    }
}
