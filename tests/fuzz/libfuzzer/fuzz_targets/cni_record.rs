#![no_main]

berth_libfuzzer::program!("cni_record");
