#![no_main]

berth_libfuzzer::program!("budget");
