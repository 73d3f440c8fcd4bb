#![no_main]

berth_libfuzzer::program!("image_pull_job");
