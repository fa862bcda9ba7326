#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| (weir_fuzz::target("admin_commands").run)(data));
