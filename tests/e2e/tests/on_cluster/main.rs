//! Berth on a real cluster of three nodes, from the chart to every promise of a rollout.
//!
//! All tests share one cluster. Needs root, as the cluster does. Slow tests that have little to do
//! with a rollout run only if the command line names them, or if `BERTH_ON_CLUSTER` is `all`.

mod apiserver_away;
mod attacks;
mod bad_input;
mod budget_storm;
mod claims;
mod clock_ahead;
mod clock_jumps;
mod cluster_faults;
mod containers;
mod credentials;
mod daemon_set;
mod dashboard;
mod deletion_protection;
mod deprecations;
mod distributed_budgets;
mod exactness;
mod examples;
mod faults;
mod gates;
mod hooks;
mod joining_node;
mod kept_ips;
mod limits;
mod newcomer;
mod newer_fields;
mod no_controller;
mod node_faults;
mod node_jobs;
mod pages;
mod plugin;
mod pod_budgets;
mod pod_pinning;
mod predownload;
mod pulls;
mod recreate_faults;
mod remedies;
mod resize;
mod rollout;
mod sidecar_set;
mod stateful_nodes;
mod stateful_set;
mod stuck;
mod stuck_daemons;
mod stuck_sets;
mod takeover;
mod terminal;
mod trust;
mod united_deployment;
mod wording;
mod world;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use berth_e2e::suite::{self, Company, Tries};
use futures::FutureExt;
use futures::future::BoxFuture;
use world::{Case, World};

type Test = for<'a> fn(&'a Case) -> BoxFuture<'a, Result<()>>;

macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), |case| $module::$name(case).boxed()),)*]
    };
}

/// Tests that keep to their namespace, several at once.
const BESIDE_EACH_OTHER: &[(&str, Test)] = tests![
    // The longest begin first.
    stuck::every_cause_is_named_until_it_is_mended,
    stuck::a_pod_that_does_not_end_is_named,
    remedies::each_message_has_commands_that_run,
    containers::another_time_restarts_all_containers_in_place,
    attacks::released_pods_outlive_no_budget,
    rollout::an_image_changes_in_place,
    rollout::a_new_environment_variable_recreates,
    rollout::labels_and_annotations_change_without_a_restart,
    rollout::a_rollback_is_recognised,
    rollout::a_paused_rollout_waits,
    rollout::both_versions_of_the_api_work,
    rollout::a_request_to_a_ready_pod_is_answered,
    newcomer::edit_reaches_each_namespaced_kind,
    newcomer::edit_follows_readme_to_a_restart,
    rollout::partition_keeps_image_over_zero_pods,
    stateful_set::partition_keeps_image_over_zero_pods,
    united_deployment::subsets_roll_out_in_place_by_partition,
    united_deployment::reserved_pods_have_substitutes,
    united_deployment::refused_change_is_reported_once,
    attacks::united_deployments_hide_no_pods,
    trust::a_daemon_gets_its_own_secrets_only,
    trust::the_controller_writes_barriers_only,
    trust::a_daemon_writes_its_own_node_only,
    attacks::forged_owners_reach_no_other_namespace,
    attacks::jobs_over_a_limit_are_refused,
    attacks::secrets_of_anothers_tag_are_not_given,
    attacks::forged_workloads_join_no_united_deployment,
    attacks::a_history_without_end_is_refused,
    attacks::no_pod_gets_rid_of_its_sidecar,
    attacks::pods_of_a_tenant_stop_no_rollout,
    attacks::a_stolen_token_makes_no_pods_of_its_own,
    attacks::a_stolen_token_makes_no_tokens,
    attacks::a_stolen_token_writes_what_the_controller_writes,
    attacks::a_stolen_token_changes_no_definition,
    attacks::a_stolen_token_holds_up_no_writes,
    attacks::a_stolen_daemon_token_writes_small_statuses,
    attacks::a_namespace_with_a_fragment_makes_nothing,
    attacks::collections_pass_no_budget,
    attacks::pre_stop_hooks_scan_no_ports,
    attacks::budgets_tell_of_no_secret,
    limits::in_place_with_max_unavailable,
    limits::in_place_with_partition,
    limits::in_place_with_surge,
    limits::in_place_with_min_ready_seconds,
    limits::recreate_with_max_unavailable,
    limits::recreate_with_surge_alone,
    limits::recreate_with_surge_and_partition,
    examples::a_partition_with_surge_alone,
    examples::a_percentage_under_100_updates_one_pod,
    examples::max_unavailable_and_surge_select_pods_to_delete,
    examples::the_order_of_priorities_and_of_scattering,
    examples::broken_pods_are_updated_first,
    claims::claims_stay_in_place_and_go_with_a_pod,
    claims::the_next_pod_takes_over_the_claims,
    claims::a_set_that_is_applied_again_has_its_orphans_back,
    claims::a_pod_out_of_the_selector_is_released_with_its_claims,
    claims::a_claim_template_that_cannot_be_is_refused,
    claims::ended_pods_go_with_their_claims,
    claims::pods_that_end_at_once_are_reported,
    stateful_set::pods_come_change_and_go_in_order,
    stateful_set::a_native_set_becomes_an_advanced_one_with_its_pods,
    stateful_set::what_takes_a_name_is_named,
    stateful_set::bad_sets_are_refused,
    stateful_set::an_older_manifest_says_which_ordinals_are_reserved,
    stateful_set::five_pods_with_a_partition_go_three_at_a_time,
    stateful_set::ordered_set_updates_two_at_a_time,
    stateful_set::a_recreated_pod_is_on_its_node,
    stateful_set::bad_persistent_pod_states_are_refused,
    stateful_set::claims_grow_pod_by_pod,
    daemon_set::a_change_goes_in_place_node_by_node,
    daemon_set::another_time_restarts_containers_node_by_node,
    daemon_set::a_surge_never_leaves_a_node_without_a_ready_pod,
    daemon_set::a_native_set_becomes_an_advanced_one_with_its_pods,
    daemon_set::bad_sets_are_refused,
    newer_fields::newer_fields_reach_running_pods,
    node_jobs::a_job_runs_once_on_each_node_and_goes,
    node_jobs::a_job_that_fails_pauses_and_is_resumed,
    node_jobs::bad_jobs_are_refused,
    node_jobs::a_container_is_restarted_in_its_pod,
    node_jobs::late_stop_is_reported_at_once,
    node_jobs::bad_requests_are_refused,
    pod_budgets::one_pod_at_a_time_goes,
    pod_budgets::a_workload_that_shrinks_is_not_held,
    pod_budgets::a_number_needs_no_scale,
    pod_budgets::pods_that_never_served_are_replaced,
    pod_budgets::both_versions_are_checked_and_alike,
    pod_budgets::a_rollout_by_new_pods_keeps_to_a_budget,
    pod_budgets::a_rollout_in_place_keeps_to_a_budget,
    pod_budgets::the_only_pod_is_replaced_before_it_goes,
    distributed_budgets::one_counts_the_pods_of_another,
    distributed_budgets::neighbours_never_go_together,
    distributed_budgets::a_pod_has_one_native_budget_at_most,
    distributed_budgets::bad_budgets_are_refused,
    pod_pinning::pods_of_a_native_set_go_back,
    sidecar_set::pods_get_containers_that_are_updated,
    sidecar_set::a_hot_upgrade_leaves_one_at_work,
    sidecar_set::a_canary_is_taken_in_right_after_its_base,
    sidecar_set::a_native_sidecar_is_updated_in_place,
    sidecar_set::pods_that_lack_the_containers_are_replaced,
    sidecar_set::protected_namespaces_are_named,
    exactness::two_tags_of_one_digest,
    exactness::a_rollback_in_the_grace_period,
    exactness::a_crash_loop_is_left_by_an_update,
    hooks::a_pod_is_deleted_when_its_hook_lets_it_go,
    hooks::an_update_waits_for_its_hook_before_and_after,
    hooks::a_new_pod_is_available_when_its_hook_says_so,
    hooks::held_pods_may_be_left_out_of_the_count,
    containers::a_label_restarts_the_container_that_reads_it,
    resize::cpu_is_raised_without_a_restart,
    resize::cpu_and_image_change_together,
    resize::infeasible_resize_is_reported_and_reverted,
    resize::sidecar_is_resized_in_place,
    containers::containers_start_and_are_updated_in_order,
    wording::kubectl_get_reads_like_the_peers,
    wording::kubectl_explain_helps,
    wording::explain_says_what_is_waited_for,
    plugin::team_member_uses_each_command,
    terminal::screen_follows_and_is_restored,
    dashboard::page_in_chromium,
    bad_input::refused_by_the_server,
    bad_input::an_invalid_pod_template,
    bad_input::in_place_only_names_the_field,
    bad_input::an_image_that_does_not_exist,
    bad_input::a_wrong_secret,
    stuck::explain_shows_what_a_budget_holds,
    stuck::overlapping_selectors_are_named_by_the_younger,
    stuck::progress_is_reported_like_openkruise,
    stuck::it_scales_by_its_subresource,
    predownload::an_image_list_pull_job_completes,
    pulls::limits_follow_the_jobs_of_an_image,
    pulls::a_job_without_nodes_says_so,
    deprecations::chart_brings_no_warning,
];

/// Tests that use more than their own namespace, in the order in which they run: tests that break
/// things come last.
const ALONE: &[(&str, Test)] = tests![
    // Kubelets that start report pods as not ready for a moment.
    exactness::a_moved_tag_is_reported,
    exactness::back_before_the_kubelet_saw_it,
    exactness::back_after_the_kubelet_saw_it,
    credentials::pulled_image_is_open_unless_verified,
    bad_input::a_registry_that_is_down,
    pod_pinning::kinds_of_others_are_followed_as_they_are_listed,
    pod_pinning::silent_webhook_holds_up_only_pods_to_pin,
    attacks::forged_updates_fill_no_node_image,
    attacks::times_for_two_leaders_are_refused,
    attacks::the_controller_listens_on_ipv6,
    united_deployment::spec_change_costs_few_writes,
    attacks::a_deep_clone_set_breaks_no_list,
    attacks::huge_clone_set_blocks_no_other_user,
    attacks::huge_pods_block_no_other_user,
    attacks::forged_reviews_take_one_pod_at_most,
    attacks::long_namespaces_make_no_metrics,
    attacks::federation_reads_for_no_stranger,
    faults::a_killed_controller_is_replaced,
    faults::a_killed_daemon_goes_on,
    node_faults::containerd_killed_during_a_pull,
    node_faults::kubelets_restarted,
    node_faults::a_node_is_deleted_in_a_rollout,
    kept_ips::a_stateful_set_keeps_its_ips,
    daemon_set::pods_follow_their_nodes,
    joining_node::a_node_has_its_images_before_it_takes_pods,
    no_controller::pods_come_and_go,
    sidecar_set::repair_after_an_outage_waits_for_calls,
    pod_budgets::only_what_is_protected_waits_for_a_controller,
    attacks::preemption_passes_budgets,
    deletion_protection::a_label_protects_without_a_controller,
    resize::infeasible_resize_is_tried_with_one_pod,
    takeover::from_openkruise_and_back,
    pages::each_command_of_readme_runs,
    deprecations::no_request_is_for_a_deprecated_api,
];

/// How many of the tests above run at once. Most of the time they wait for kubelets.
const AT_ONCE: usize = 5;

/// The tests that `make test-full` adds, each alone.
const MORE: &[(&str, Test)] = tests![
    attacks::evictions_of_no_pod_block_no_other_user,
    remedies::each_command_runs_twice,
    pages::each_command_of_a_page_runs_twice,
    attacks::idle_posts_block_no_other_client,
    attacks::thousand_idle_connections_block_no_other_client,
    attacks::two_hundred_streams_of_grpc_fit,
    attacks::a_hundred_bodies_at_once_fit,
    attacks::bodies_that_never_end_give_way,
    attacks::unread_answers_fit_in_memory,
    attacks::giant_bodies_stop_no_replica,
    attacks::simultaneous_bombs_block_no_other_user,
    daemon_set::a_rollout_leaves_two_dead_nodes_alone,
    budget_storm::a_budget_holds_at_every_moment,
    recreate_faults::each_container_is_stopped_once,
    stuck_sets::each_cause_is_named,
    stuck_daemons::each_cause_is_named,
    stuck_sets::claims_and_records_are_named,
    cluster_faults::rights_vanish_in_a_rollout,
    cluster_faults::an_admission_refuses_one_pod,
    stateful_nodes::pods_come_back_to_a_node_that_was_away,
    node_faults::registry_cut_halfway,
    node_faults::disk_full,
    clock_jumps::ahead_and_back_and_behind,
    apiserver_away::for_a_minute,
    apiserver_away::standing_still_for_a_minute,
    gates::changed_claim_templates_need_new_pods,
    gates::image_pull_jobs_are_refused,
    predownload::images_are_pulled_ahead_and_waited_for,
    gates::without_daemons,
    gates::only_some_kinds,
    kept_ips::a_pod_that_moves_frees_its_ip,
    kept_ips::the_plugin_that_was_there_comes_back,
    kept_ips::the_plugin_stays_while_rights_are_away,
    apiserver_away::for_ten_minutes,
    cluster_faults::the_definition_of_node_images_vanishes,
    cluster_faults::a_refused_pod_returns_with_its_template,
    clock_ahead::conversion_goes_on_beside_a_replica_that_is_ahead,
    attacks::a_replica_that_is_cut_off_is_not_ready,
    attacks::a_strangers_lease_is_outlived,
    attacks::a_registry_that_stands_still_leaves_slots,
    attacks::one_namespace_does_not_fill_a_node,
    cluster_faults::etcd_comes_back_from_an_old_snapshot,
];

fn main() -> ExitCode {
    let all = std::env::var("BERTH_ON_CLUSTER").is_ok_and(|which| which == "all")
        || std::env::args().len() > 1;
    let more = if all { MORE } else { &[] };
    let with = |company: Company| {
        move |(name, test): &'static (&str, Test)| {
            let run: suite::Test<World> =
                Box::new(move |world, number| run(world, name, number, *test).boxed_local());
            ((*name).to_owned(), company, run)
        }
    };
    let beside_each_other = BESIDE_EACH_OTHER.iter().map(with(Company::Others));
    let alone = more.iter().chain(ALONE).map(with(Company::None));
    // Before a release, each test has one try.
    let tries = if all { Tries::One } else { Tries::Two };
    suite::run(
        || World::up().boxed(),
        AT_ONCE,
        tries,
        beside_each_other.chain(alone),
    )
}

async fn run(world: Arc<World>, name: &str, number: u8, test: Test) -> Result<()> {
    let tested = async {
        let case = Case::begin(&world, name, number).await?;
        let tested = suite::caught(test(&case)).await;
        tested.and(case.end().await)
    };
    // The error comes last, where a reader looks first, and a report that is truncated at its
    // beginning still has it.
    tested
        .await
        .map_err(|error: anyhow::Error| error.context(format!("{}\n{name}", world.logs())))
}
