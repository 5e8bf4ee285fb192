//! Every bound of a conversion by name. At each of them the thing is left out and listed.

/// How deep files include files (Asterisk: 10).
pub const INCLUDE_DEPTH_MAX: usize = 10;
/// Files of one conversion.
pub const FILES_MAX: usize = 1_024;
/// Bytes of all files together; a plan of 100,000 extensions has about 10 MB.
pub const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Entries of all sections after templates are filled in: templates of templates grow without end.
pub const ENTRIES_MAX: usize = 1_000_000;
/// How deep block comments nest (Asterisk: 128).
pub const COMMENT_DEPTH_MAX: usize = 128;
/// Priorities that may be missing in a row of an extension. As many steps that do nothing keep the
/// numbers of those behind; beyond it those behind are counted anew, and labels alone lead there.
pub const GAP_MAX: u32 = 200;
/// Bytes of a text in a message; a longer one is cut and marked so.
pub const SHOWN_MAX: usize = 200;
