#![no_main]
#[global_allocator]
static ALLOCATOR: weir_memory::Counting = weir_memory::Counting;

libfuzzer_sys::fuzz_target!(|data: &[u8]| (weir_fuzz::target("http2").run)(data));
