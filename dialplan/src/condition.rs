//! The condition of GotoIf, ExecIf and While: a text, most often an expression `$[ ... ]`.

use crate::expression::is_true;
use crate::template::{RenderFault, Template, Variables};

/// A condition, ready to be asked: false when its text is empty or zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(pub(crate) Template);

impl Condition {
    /// Whether it holds.
    pub fn holds(&self, vars: &dyn Variables) -> Result<bool, RenderFault> {
        match self.0.as_fixed() {
            Some(text) => Ok(is_true(text)),
            None => Ok(is_true(&self.0.rendered(vars)?)),
        }
    }
}
