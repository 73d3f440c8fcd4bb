//! Every target on its kept inputs, and on mutations of them that are the same in every run.

use std::collections::BTreeSet;

use berth_fuzz::{TARGETS, corpus, mutated};
use fastrand::Rng;

/// Mutations of each target's inputs. More: `BERTH_MUTATIONS`; other ones: `make fuzz`.
const MUTATIONS: usize = 1000;

#[test]
fn corpus_and_its_mutations_cause_no_panic() {
    let mutations = std::env::var("BERTH_MUTATIONS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(MUTATIONS);
    let mut failures = Vec::new();
    for target in &TARGETS {
        let inputs = corpus::inputs(target.name).unwrap();
        assert!(!inputs.is_empty(), "nothing is kept for {}", target.name);
        for (name, input) in &inputs {
            failures.extend(
                corpus::run(target.run, input)
                    .err()
                    .map(|why| format!("{}/{name}: {why}", target.name)),
            );
        }
        let begun = std::time::Instant::now();
        let mut random = Rng::with_seed(1);
        for number in 0..mutations {
            let (name, input) = &inputs[number % inputs.len()];
            let mut mutant = mutated(input, &mut random);
            for _ in 0..random.usize(0..3) {
                mutant = mutated(&mutant, &mut random);
            }
            if let Err(why) = corpus::run(target.run, &mutant) {
                let mutant = String::from_utf8_lossy(&mutant);
                failures.push(format!("{}/{name} as {mutant:?}: {why}", target.name));
                break;
            }
        }
        println!(
            "{}: {} inputs, {mutations} mutations in {:?}",
            target.name,
            inputs.len(),
            begun.elapsed()
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_target_has_its_corpus_and_its_program() {
    let names: BTreeSet<_> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    assert_eq!(names.len(), TARGETS.len());
    let listed = |directory: &str, suffix: &str| -> BTreeSet<String> {
        let entries =
            std::fs::read_dir(format!("{}/{directory}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        entries
            .map(|entry| {
                entry
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .trim_end_matches(suffix)
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(listed("corpus", ""), names);
    assert_eq!(listed("libfuzzer/fuzz_targets", ".rs"), names);
}

#[test]
fn panic_is_reported() {
    let target = |input: &[u8]| assert!(input.is_empty(), "it is not empty");
    assert_eq!(corpus::run(target, b""), Ok(()));
    assert!(
        corpus::run(target, b"x")
            .unwrap_err()
            .contains("it is not empty")
    );
}
