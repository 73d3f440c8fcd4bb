#![no_main]

berth_libfuzzer::program!("custom_resource");
