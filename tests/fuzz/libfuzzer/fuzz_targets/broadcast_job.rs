#![no_main]

berth_libfuzzer::program!("broadcast_job");
