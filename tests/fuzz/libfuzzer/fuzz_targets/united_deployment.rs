#![no_main]

berth_libfuzzer::program!("united_deployment");
