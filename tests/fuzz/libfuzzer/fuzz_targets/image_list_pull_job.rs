#![no_main]

berth_libfuzzer::program!("image_list_pull_job");
