#![no_main]

berth_libfuzzer::program!("annotation");
