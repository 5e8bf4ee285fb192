//! `RUSTC_BOOTSTRAP=1 cargo fuzz run dialplan` in this folder.
#![no_main]

#[path = "../entries/dialplan.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::run(bytes);
});
