#![no_main]

berth_libfuzzer::program!("daemon_set");
