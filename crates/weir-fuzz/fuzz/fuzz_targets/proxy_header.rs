#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| (weir_fuzz::target("proxy_header").run)(data));
