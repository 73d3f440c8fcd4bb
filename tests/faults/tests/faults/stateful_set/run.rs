//! One run: a StatefulSet, in a namespace of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::record::{Moment, Record};
use berth_e2e::watch::PodWatch;
use http::Method;
use jiff::SignedDuration;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::owner::HOOK;
use crate::scenario::Run;
use crate::stateful_set::ending::Ending;
use crate::stateful_set::expected::Expected;
use crate::stateful_set::{SET, Stateful};
use crate::world::{PATIENCE, World};
use crate::{laws, run, volumes};

/// A StatefulSet, the pods before the change, and the history of its pods.
pub(crate) struct StatefulRun<'a> {
    pub(super) world: &'a World,
    what: Stateful,
    pub(super) namespace: String,
    watch: PodWatch,
    /// The uids of the claims after the set-up, by name.
    claims: BTreeMap<String, String>,
    /// The end of the set-up, counted from the start of the watch.
    from: Duration,
}

impl<'a> Run<'a> for StatefulRun<'a> {
    type Scenario = Stateful;

    async fn begin(world: &'a World, namespace: &str, what: Stateful) -> Result<Self> {
        let watch = PodWatch::start(
            &world.client,
            namespace,
            &format!("{APP}={SET}"),
            Instant::now(),
        )
        .await?;
        let (namespace, claims, from) = (namespace.to_owned(), BTreeMap::new(), Duration::ZERO);
        Ok(StatefulRun {
            world,
            what,
            namespace,
            watch,
            claims,
            from,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        if self.what.has_set() {
            if self.what == Stateful::Resized {
                volumes::make_class(&self.world.client, &self.namespace).await?;
            }
            self.create().await?;
            run::rest(&self.world.controller, || self.look_for(self.what.before())).await?;
        }
        self.claims = self.claims().await?;
        self.from = self.watch.began().elapsed();
        Ok(())
    }

    async fn act(&self) -> Result<()> {
        self.what.act(self).await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(self.what.expected()).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let wanted = self.what.expected();
        let all_serve = |now: &Moment<'_>| now.available(Duration::ZERO) == wanted.pods.len();
        self.watch
            .until("all pods serve", PATIENCE, all_serve)
            .await?;
        self.check_writes(&wanted)?;
        self.check_record(&self.watch.record()?.since(self.from), &wanted)?;
        self.claims_stay(&wanted).await
    }

    /// Deletes the set, and its pods with it.
    async fn clean_up(&self) -> Result<()> {
        self.delete(kind::STATEFUL_SET, SET, PropagationPolicy::Background)
            .await
    }
}

impl StatefulRun<'_> {
    /// The ledger lacks the writes of the set-up.
    fn check_writes(&self, wanted: &Expected) -> Result<()> {
        let before = self.what.before();
        let claims = wanted
            .claims
            .iter()
            .filter(|at| !before.claims.contains(at))
            .count();
        let claims = claims + (wanted.templates - 1) * wanted.claims.len();
        let generated = usize::from(self.what == Stateful::Generated);
        let counts = [
            (Method::POST, "pods", wanted.makes),
            (Method::DELETE, "pods", wanted.deletes),
            (Method::POST, "persistentvolumeclaims", claims),
            (Method::DELETE, "persistentvolumeclaims", 0),
            (Method::POST, "persistentpodstates", generated),
            (Method::PATCH, "persistentpodstates", generated),
            (Method::DELETE, "persistentpodstates", generated),
        ];
        let ledger = self.world.controller.ledger();
        laws::writes_are(&ledger, counts)?;
        if wanted.grows > 0 {
            laws::writes_are(
                &ledger,
                [(Method::PATCH, "persistentvolumeclaims", wanted.grows)],
            )?;
        }
        laws::no_claim_is_made_twice(&ledger)?;
        laws::grace_goes_by(
            &ledger,
            SignedDuration::from_secs(self.what.grace_seconds()),
        )
    }

    fn check_record(&self, record: &Record, wanted: &Expected) -> Result<()> {
        let limits = Limits {
            available: wanted.serve,
            active: wanted.most,
            ..Limits::default()
        };
        laws::limits_hold(record, &limits)?;
        laws::only_these_are_there(record, &self.names(wanted))?;
        laws::no_image_changes_in_service(record, None)?;
        laws::restarts_are_for_image_changes(record, usize::from(self.what.updates_in_place()))?;
        match self.what {
            Stateful::Guarded => laws::deletions_wait_for(record, HOOK)?,
            Stateful::Hooked => laws::updates_wait_for(record, HOOK)?,
            _ => {}
        }
        if self.what.is_in_order() {
            for moment in record.moments() {
                let idle = moment.active() - moment.available(Duration::ZERO);
                ensure!(
                    idle <= 1,
                    "{idle} pods are in motion in order: {}",
                    moment.describe()
                );
            }
        }
        Ok(())
    }

    /// The pods that exist before or in the end.
    fn names(&self, wanted: &Expected) -> Vec<String> {
        let before = self.what.before();
        before
            .pods
            .iter()
            .chain(wanted.pods)
            .map(|at| format!("{SET}-{at}"))
            .collect()
    }

    /// The claims that exist both before and in the end are the same.
    async fn claims_stay(&self, wanted: &Expected) -> Result<()> {
        let now = self.claims().await?;
        for at in wanted.claims {
            let name = format!("data-{SET}-{at}");
            let before = self.claims.get(&name);
            ensure!(
                before.is_none_or(|uid| now.get(&name) == Some(uid)),
                "claim {name} is another than before"
            );
        }
        Ok(())
    }

    async fn claims(&self) -> Result<BTreeMap<String, String>> {
        let claims = objects::list(&self.world.client, &self.namespace, kind::CLAIM, "").await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(claims
            .iter()
            .map(|it| (text(&it["metadata"]["name"]), text(&it["metadata"]["uid"])))
            .collect())
    }

    pub(super) async fn create(&self) -> Result<()> {
        objects::create(
            &self.world.client,
            &self.namespace,
            &self.what.set(&self.namespace),
        )
        .await
        .map(drop)
    }

    /// Changes the spec of the set.
    pub(super) async fn patch(&self, spec: Value) -> Result<()> {
        self.patch_object(kind::STATEFUL_SET, SET, &json!({"spec": spec}))
            .await
    }

    pub(super) async fn annotate(&self, annotations: Value) -> Result<()> {
        self.patch_object(
            kind::STATEFUL_SET,
            SET,
            &json!({"metadata": {"annotations": annotations}}),
        )
        .await
    }

    pub(super) async fn patch_object(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        objects::patch(&self.world.client, &self.namespace, kind, name, patch)
            .await
            .map(drop)
    }

    pub(super) async fn delete(
        &self,
        of_kind: &str,
        name: &str,
        propagation: PropagationPolicy,
    ) -> Result<()> {
        let how = DeleteParams {
            propagation_policy: Some(propagation),
            ..DeleteParams::default()
        };
        objects::delete(&self.world.client, &self.namespace, of_kind, name, &how).await
    }

    /// The state, and the reason why it is not the wanted one, if it is not.
    async fn look_for(&self, wanted: Expected) -> Result<(Value, Option<String>)> {
        let ending = Ending::read(&self.world.client, &self.namespace, self.what).await?;
        Ok(ending.judged(&wanted, self.what))
    }
}
