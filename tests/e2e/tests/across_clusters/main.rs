//! Three clusters, each with Berth from its chart and a kubeconfig of the others, whose budgets
//! count each other's pods.

mod place;
mod scenarios;

use std::process::ExitCode;

use berth_e2e::suite::{self, Company, Test, Tries};
use futures::FutureExt;

use place::Places;

fn main() -> ExitCode {
    // It takes some minutes, and is stable.
    let is_asked = std::env::var("BERTH_ON_CLUSTER").is_ok_and(|which| which == "all")
        || std::env::args()
            .skip(1)
            .any(|argument| !argument.starts_with('-'));
    if !is_asked {
        println!("across_clusters: in `make test-full`, or by the name of a test");
        return ExitCode::SUCCESS;
    }
    let all: [(&str, Test<Places>); 6] = [
        (
            "a_reader_can_write_nothing",
            Box::new(|places, _| {
                async move { scenarios::reads_alone(&places).await }.boxed_local()
            }),
        ),
        (
            "foo_counts_bar",
            Box::new(|places, _| async move { scenarios::one_way(&places).await }.boxed_local()),
        ),
        (
            "lying_cluster_frees_one_pod",
            Box::new(|places, _| async move { scenarios::lies(&places).await }.boxed_local()),
        ),
        (
            "foo_and_bar_count_each_other",
            Box::new(|places, _| async move { scenarios::mutual(&places).await }.boxed_local()),
        ),
        (
            "neighbours_of_a_ring",
            Box::new(|places, _| async move { scenarios::ring(&places).await }.boxed_local()),
        ),
        (
            "links_are_cut_and_healed",
            Box::new(|places, _| async move { scenarios::cut(&places).await }.boxed_local()),
        ),
    ];
    let tests = all
        .into_iter()
        .map(|(name, test)| (name.to_owned(), Company::None, test));
    suite::run(|| Places::up().boxed(), 1, Tries::One, tests)
}
