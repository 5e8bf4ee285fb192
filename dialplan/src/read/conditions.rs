//! Reads the condition of GotoIf, ExecIf and While.

use crate::condition::Condition;
use crate::read::args::{Arg, Reading};
use crate::read::templates::template;

/// Reads a text or `$[ ... ]`.
pub(crate) fn condition(arg: Arg<'_>) -> Reading<Condition> {
    if arg.text.starts_with("$[") && !arg.text.ends_with(']') {
        return Err(arg.wrong("`$[` is not closed: `]` is missing at the end of the condition"));
    }
    template(arg).map(Condition)
}
