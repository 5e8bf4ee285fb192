//! `RUSTC_BOOTSTRAP=1 cargo fuzz run framing` in the project's root.
#![no_main]

#[path = "../entries/framing.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::run(bytes);
});
