//! `prepare-return`: stores objects in the version that a release of OpenKruise knows, with the
//! rights of an administrator.

use std::io::Read;
use std::time::Duration;

use crate::settings::flags::PrepareReturn;
use anyhow::{Context, ensure};
use berth_api::kinds::releases;
use berth_runtime::metrics::Metrics;
use serde_json::json;

/// Time after which each apiserver knows a changed definition. Kubernetes itself waits five seconds
/// for that.
const SETTLE: Duration = Duration::from_secs(10);
/// The longest token that is read, in bytes.
const LONGEST_TOKEN: u64 = 64 << 10;
const RIGHTS: &str = "the step needs the rights of an administrator, which the controller does not have: \
                      run the commands of \"Back to a release\" in charts/berth/TAKEOVER.md";

/// Prepares the way back, and prints what it does.
///
/// # Errors
/// An object would lose fields, or the apiserver refused or did not answer.
pub(crate) async fn prepare_return(
    flags: &PrepareReturn,
    mut config: kube::Config,
) -> anyhow::Result<()> {
    let release = releases::named(&flags.to)
        .with_context(|| format!("--to {:?} is no known release", flags.to))?;
    if flags.token_stdin {
        let mut token = String::new();
        std::io::stdin()
            .take(LONGEST_TOKEN)
            .read_to_string(&mut token)
            .context("cannot read the token")?;
        let token = token.trim();
        ensure!(
            !token.is_empty(),
            "--token-stdin: the standard input is empty: {RIGHTS}"
        );
        config.auth_info =
            serde_json::from_value(json!({"token": token})).context("cannot use the token")?;
    }
    let client = berth_runtime::client::connect(config, Metrics::new(|_| {}))?;
    let done =
        berth_webhook::prepare_return(&client, release, SETTLE, &mut |line| println!("{line}"))
            .await;
    let done = match done {
        Err(error) if is_forbidden(&error) => return Err(error).context(RIGHTS),
        done => done?,
    };
    println!(
        "wrote {} objects of {} definitions: go on with the next step of the way back",
        done.objects, done.crds
    );
    Ok(())
}

fn is_forbidden(error: &berth_webhook::ReturnError) -> bool {
    use berth_webhook::{Error, ReturnError};
    matches!(error, ReturnError::Webhook(Error::Api { source: kube::Error::Api(status), .. }) if status.is_forbidden())
}
