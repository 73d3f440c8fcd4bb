#![no_main]

berth_libfuzzer::program!("disruption");
