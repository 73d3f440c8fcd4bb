//! One line makes a program of a target. Its input comes from libFuzzer, which takes half of its
//! mutations from this crate, because libFuzzer's own do not know JSON.

pub use berth_fuzz::{TARGETS, mutated};
pub use fastrand::Rng;
pub use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// The program for the target of this name.
#[macro_export]
macro_rules! program {
    ($name:literal) => {
        $crate::fuzz_target!(|data: &[u8]| {
            for target in $crate::TARGETS.iter().filter(|target| target.name == $name) {
                (target.run)(data);
            }
        });

        $crate::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            let mut random = $crate::Rng::with_seed(seed.into());
            let mutant = $crate::mutated(&data[..size], &mut random);
            if random.bool() || mutant.len() > max_size {
                return $crate::fuzzer_mutate(data, size, max_size);
            }
            data[..mutant.len()].copy_from_slice(&mutant);
            mutant.len()
        });
    };
}
