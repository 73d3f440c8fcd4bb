//! `kubectl berth check`: whether Berth can be installed, works, or can change hands with
//! OpenKruise.

mod access;
mod certificate;
mod context;
mod controller;
mod daemon;
mod definitions;
mod kubernetes;
mod namespace;
mod objects;
mod openkruise;
mod outcome;
mod print;
mod return_path;
mod takeover;

use std::time::Duration;

use anyhow::Context as _;
use berth_api::kinds::releases;
use clap::Args;
use tokio::time::{Instant, sleep};

use self::context::Context;
pub(crate) use self::namespace::must_exist;
use self::outcome::{Category, Judged, Outcome};
use self::print::Output;
use crate::exit::{Exit, WrongUsage};
use crate::flags::duration;
use crate::session::Session;
use crate::text::clean;

/// The time between two tries of `--wait`.
const AGAIN: Duration = Duration::from_secs(2);

/// What to check, and how the results look. With `-n`, only objects of that namespace are judged.
#[derive(Debug, Args)]
pub struct Check {
    /// Whether Berth can be installed into this cluster.
    #[arg(long, group = "what")]
    pub pre: bool,
    /// Whether Berth can take over from OpenKruise.
    #[arg(long, group = "what")]
    pub takeover: bool,
    /// Whether Berth can be replaced by OpenKruise: by HEAD, or by this release, such as
    /// `--return=1.9.0`.
    #[arg(long = "return", group = "what", value_name = "RELEASE", num_args = 0..=1, require_equals = true, default_missing_value = "HEAD")]
    pub return_to: Option<String>,
    /// How long to try again while a check fails, such as 5m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,
    /// `short` prints what is not in order.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
}

impl Check {
    /// Prints the results; with `--wait`, those of the last try.
    ///
    /// # Errors
    /// The release of `--return` is not known.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let categories = self.categories(session)?;
        must_exist(session).await?;
        if let Some(namespace) = &session.global.namespace {
            anstream::eprintln!("note: of objects, only those of namespace {namespace} are judged");
        }
        let end = match self.wait {
            Some(wait) => Some(
                Instant::now()
                    .checked_add(wait)
                    .context("--wait is too long")?,
            ),
            None => None,
        };
        loop {
            let context = Context::new(session, self.return_to.as_deref().unwrap_or_default());
            let results = judge(&categories, &context).await;
            let failed = first_failure(&results);
            let is_last = end.is_none_or(|end| Instant::now() + AGAIN > end);
            if let Some(failed) = failed.filter(|_| !is_last) {
                anstream::eprintln!("waiting: {}", clean(failed));
                sleep(AGAIN).await;
                continue;
            }
            print::results(&results, self.output, &self.command(session))?;
            return Ok(match (failed, end) {
                (None, _) => Exit::Done,
                (Some(_), None) => Exit::Failed,
                (Some(_), Some(_)) => Exit::TimedOut,
            });
        }
    }

    /// The command without its output.
    fn command(&self, session: &Session) -> String {
        let what = match &self.return_to {
            _ if self.pre => " --pre".to_owned(),
            _ if self.takeover => " --takeover".to_owned(),
            Some(release) => format!(" --return={release}"),
            None => String::new(),
        };
        let namespace = session.global.namespace.as_ref();
        let scope = namespace.map(|namespace| format!(" -n {namespace}"));
        format!("kubectl berth check{what}{}", scope.unwrap_or_default())
    }

    fn categories(&self, session: &Session) -> anyhow::Result<Vec<&'static Category>> {
        Ok(if self.pre {
            vec![
                &kubernetes::VERSIONS,
                &access::CATEGORY,
                &namespace::CATEGORY,
                &openkruise::LEFTOVERS,
            ]
        } else if self.takeover {
            vec![
                &kubernetes::VERSIONS,
                &openkruise::MANAGER,
                &takeover::CATEGORY,
            ]
        } else if let Some(release) = &self.return_to {
            if release != context::HEAD && releases::named(release).is_none() {
                let known = releases::RELEASES.iter().map(|release| release.version);
                let known: Vec<_> = [context::HEAD].into_iter().chain(known).collect();
                return Err(WrongUsage(format!(
                    "--return: no way back to release {release:?} is known; known are {}",
                    known.join(", ")
                ))
                .into());
            }
            vec![
                &kubernetes::VERSIONS,
                &return_path::TEMPLATES,
                &return_path::STATES,
            ]
        } else {
            vec![
                &kubernetes::CATEGORY,
                &definitions::CATEGORY,
                &controller::CATEGORY,
                &daemon::CATEGORY,
                match session.global.namespace {
                    Some(_) => &objects::OF_NAMESPACE,
                    None => &objects::CATEGORY,
                },
            ]
        })
    }
}

/// The outcomes of all rules, in their order; only the first one if the apiserver does not answer.
async fn judge(categories: &[&'static Category], context: &Context<'_>) -> Vec<Judged> {
    let mut results = Vec::new();
    for category in categories {
        let begin = results.len();
        for rule in category.rules {
            let outcome = (rule.judge)(context).await.unwrap_or_else(Outcome::from);
            let is_end = rule.is_fatal && matches!(outcome, Outcome::Fail(..));
            results.push(Judged {
                category: category.name,
                rule: rule.name,
                outcome,
            });
            if is_end {
                return results;
            }
        }
        let unjudged = category.unjudged(results.get(begin..).unwrap_or_default());
        results.extend(unjudged);
    }
    results
}

fn first_failure(results: &[Judged]) -> Option<&str> {
    results.iter().find_map(|one| match &one.outcome {
        Outcome::Fail(text, _) => Some(text.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
