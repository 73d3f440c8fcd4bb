#![no_main]

berth_libfuzzer::program!("clone_set");
