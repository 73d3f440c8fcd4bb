#![no_main]

berth_libfuzzer::program!("node_image");
