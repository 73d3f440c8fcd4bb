//! Berth on a real cluster of three nodes, from the chart to every promise of a rollout.
//!
//! All tests share one cluster and run one after the other. Needs root, as the cluster does. Some that take long and
//! have little to do with a rollout run when they are named on the command line, or where `BERTH_ON_CLUSTER` is `all`.

mod apiserver_away;
mod bad_input;
mod claims;
mod clock_jumps;
mod containers;
mod exactness;
mod examples;
mod faults;
mod gates;
mod hooks;
mod kept_ips;
mod limits;
mod no_controller;
mod node_faults;
mod predownload;
mod pulls;
mod resize;
mod rollout;
mod stuck;
mod takeover;
mod trust;
mod wording;
mod world;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use berth_e2e::suite;
use futures::FutureExt;
use futures::future::BoxFuture;
use world::{Case, World};

type Test = for<'a> fn(&'a Case) -> BoxFuture<'a, Result<()>>;

macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), |case| $module::$name(case).boxed()),)*]
    };
}

/// In the order in which they run: what breaks things comes last.
const TESTS: &[(&str, Test)] = tests![
    rollout::an_image_changes_in_place,
    rollout::a_new_environment_variable_recreates,
    rollout::labels_and_annotations_change_without_a_restart,
    rollout::a_rollback_is_recognised,
    rollout::a_paused_rollout_waits,
    rollout::both_versions_of_the_api_work,
    rollout::a_request_to_a_ready_pod_is_answered,
    limits::in_place_with_max_unavailable,
    limits::in_place_with_partition,
    limits::in_place_with_surge,
    limits::in_place_with_min_ready_seconds,
    limits::recreate_with_max_unavailable,
    limits::recreate_with_surge_alone,
    limits::recreate_with_surge_and_partition,
    examples::a_partition_with_surge_alone,
    examples::a_percentage_under_100_updates_one_pod,
    examples::who_is_asked_to_go,
    examples::the_order_of_priorities_and_of_scattering,
    examples::broken_pods_are_updated_first,
    claims::claims_stay_in_place_and_go_with_a_pod,
    claims::the_next_pod_takes_over_the_claims,
    claims::a_pod_out_of_the_selector_is_released_with_its_claims,
    claims::a_claim_template_that_cannot_be_is_refused,
    exactness::two_tags_of_one_digest,
    exactness::a_rollback_in_the_grace_period,
    exactness::back_before_the_kubelet_saw_it,
    exactness::back_after_the_kubelet_saw_it,
    exactness::a_crash_loop_is_left_by_an_update,
    exactness::a_moved_tag_is_reported,
    hooks::a_pod_is_deleted_when_its_hook_lets_it_go,
    hooks::an_update_waits_for_its_hook_before_and_after,
    hooks::a_new_pod_is_available_when_its_hook_says_so,
    hooks::held_pods_may_be_left_out_of_the_count,
    containers::a_label_restarts_the_container_that_reads_it,
    resize::cpu_is_raised_without_a_restart,
    resize::cpu_and_image_change_together,
    resize::more_than_the_node_has_is_told_and_taken_back,
    containers::containers_start_and_are_updated_in_order,
    wording::kubectl_get_reads_like_the_peers,
    wording::kubectl_explain_helps,
    wording::explain_says_what_is_waited_for,
    bad_input::refused_by_the_server,
    bad_input::an_invalid_pod_template,
    bad_input::in_place_only_names_the_field,
    bad_input::an_image_that_does_not_exist,
    bad_input::a_wrong_secret,
    bad_input::a_registry_that_is_down,
    stuck::every_cause_is_named_until_it_is_mended,
    stuck::overlapping_selectors_are_named_by_both,
    stuck::a_pod_that_does_not_end_is_named,
    stuck::progress_is_told_as_the_peer_does,
    stuck::it_scales_by_its_subresource,
    predownload::an_image_list_pull_job_completes,
    predownload::images_are_pulled_ahead_and_waited_for,
    gates::image_pull_jobs_are_refused,
    trust::a_daemon_writes_its_own_node_only,
    trust::a_daemon_gets_its_own_secrets_only,
    trust::the_controller_writes_barriers_only,
    faults::a_killed_controller_is_replaced,
    faults::a_killed_daemon_goes_on,
    node_faults::containerd_killed_during_a_pull,
    node_faults::registry_cut_halfway,
    node_faults::disk_full,
    node_faults::kubelets_restarted,
    clock_jumps::ahead_and_back_and_behind,
    apiserver_away::for_a_minute,
    apiserver_away::standing_still_for_a_minute,
    kept_ips::a_stateful_set_keeps_its_ips,
    no_controller::pods_come_and_go,
    takeover::from_openkruise_and_back,
];

/// What `make test-full` adds.
const MORE_TESTS: &[(&str, Test)] = tests![
    gates::changed_claim_templates_need_new_pods,
    gates::without_daemons,
    gates::only_some_kinds,
    kept_ips::a_pod_that_moves_frees_its_ip,
    kept_ips::the_plugin_that_was_there_comes_back,
    apiserver_away::for_ten_minutes,
];

fn main() -> ExitCode {
    let all = std::env::var("BERTH_ON_CLUSTER").is_ok_and(|which| which == "all") || std::env::args().len() > 1;
    let more = if all { MORE_TESTS } else { &[] };
    let tests = more.iter().chain(TESTS).map(|(name, test)| {
        let (name, test) = (*name, *test);
        let run: suite::Test<World> = Box::new(move |world| run(world, name, test).boxed_local());
        (name.to_owned(), run)
    });
    suite::run(|| World::up().boxed(), tests)
}

async fn run(world: Arc<World>, name: &str, test: Test) -> Result<()> {
    let tested = async {
        let case = Case::begin(&world, name).await?;
        let tested = suite::caught(test(&case)).await;
        tested.and(case.end().await)
    };
    tested.await.map_err(|error: anyhow::Error| anyhow!("{error:#}\n{}", world.logs()))
}
