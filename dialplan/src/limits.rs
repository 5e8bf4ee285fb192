//! Every bound of a plan by name. At load, going over one is a fault; in a call, the answer at the
//! limit is said at each constant.

/// Files of one plan: a hand-written plan has a few, a generated one some dozens.
pub const FILES_MAX: usize = 256;
/// Bytes of one file; a plan of 100,000 extensions has about 10 MB.
pub const FILE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Faults reported for one load; one mistake in a template of a generator repeats without end.
pub const FAULTS_MAX: usize = 100;
/// Contexts of one plan; a provider has one or two per customer.
pub const CONTEXTS_MAX: usize = 16_384;
/// Contexts that one context reaches through includes, itself counted (as deep and as wide as
/// Asterisk's include stack). It bounds one search for a number.
pub const INCLUDES_MAX: usize = 128;
/// Extensions of one plan.
pub const EXTENSIONS_MAX: usize = 1_000_000;
/// Steps of one extension; more than one person reads.
pub const STEPS_MAX: usize = 1_000;
/// Global variables of one plan.
pub const GLOBALS_MAX: usize = 4_096;
/// Bytes of the name of an extension, or of its pattern as written.
pub const PATTERN_MAX: usize = 128;
/// Positions of the patterns of one context, all together; they become a tree in memory.
pub const PATTERN_POSITIONS_MAX: usize = 4_000_000;
/// Bytes of a context's name, a label or a variable's name.
pub const NAME_MAX: usize = 80;
/// Bytes of a number that is looked up. A longer one matches nothing.
pub const NUMBER_MAX: usize = 256;
/// Bytes of one text with variables as written.
pub const TEMPLATE_MAX: usize = 4_096;
/// How deep `${...}` stands inside `${...}`, and parentheses inside parentheses.
pub const NESTING_MAX: usize = 8;
/// Bytes of a text after its variables are filled in (Asterisk: 4,096). A longer one is refused
/// in the call: the step fails, nothing is cut.
pub const VALUE_MAX: usize = 4_096;
/// Targets of one Dial.
pub const TARGETS_MAX: usize = 32;
/// Seconds of one wait or ring timeout; a week.
pub const SECONDS_MAX: u64 = 7 * 24 * 3_600;
