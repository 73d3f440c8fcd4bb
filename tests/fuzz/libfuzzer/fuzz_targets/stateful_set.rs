#![no_main]

berth_libfuzzer::program!("stateful_set");
