#![no_main]

berth_libfuzzer::program!("pull_secret");
