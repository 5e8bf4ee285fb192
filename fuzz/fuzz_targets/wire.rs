//! `RUSTC_BOOTSTRAP=1 cargo fuzz run wire` in this folder.
#![no_main]

#[path = "../entries/wire.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::run(bytes));
