//! What decides where a call goes on: tests, subroutines, and applications that run on a condition.

use crate::app::{App, GotoTarget};
use crate::condition::Condition;
use crate::template::{RenderFault, Template, Variables};
use crate::time::Times;

/// What a conditional step looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// A text or an expression.
    Condition(Condition),
    /// The local time.
    Time(Clock),
}

/// Times, known at load or held by variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Known at load.
    Fixed(Times),
    /// Known in the call; what is no time then never holds.
    Computed(Template),
}

/// Where a Gosub goes, and what it takes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GosubCall {
    /// Where to.
    pub target: GotoTarget,
    /// They become `ARG1`, `ARG2` ...
    pub args: Box<[Template]>,
}

/// An application that runs on a condition, and what runs otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The condition or the times.
    pub test: Test,
    /// What runs when it holds.
    pub yes: Option<Inner>,
    /// What runs when it does not.
    pub no: Option<Inner>,
}

/// An application inside of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The application.
    pub app: App,
    /// Its arguments as written.
    pub data: Box<str>,
}

impl Test {
    /// Whether it holds.
    pub fn holds(&self, vars: &dyn Variables) -> Result<bool, RenderFault> {
        match self {
            Self::Condition(condition) => condition.holds(vars),
            Self::Time(clock) => clock.holds(vars),
        }
    }
}

impl Clock {
    /// Whether it is one of these times now.
    pub fn holds(&self, vars: &dyn Variables) -> Result<bool, RenderFault> {
        match self {
            Self::Fixed(times) => Ok(times.hold(&vars.moment(None))),
            Self::Computed(text) => {
                let read = Times::parse(&text.rendered(vars)?);
                Ok(read.is_ok_and(|times| times.hold(&vars.moment(None))))
            }
        }
    }
}

impl Execution {
    /// Its name as in the dialplan.
    pub fn name(&self) -> &'static str {
        match self.test {
            Test::Condition(_) => "ExecIf",
            Test::Time(_) => "ExecIfTime",
        }
    }

    /// What runs when the test holds, or does not.
    pub fn branch(&self, holds: bool) -> Option<&Inner> {
        if holds { self.yes.as_ref() } else { self.no.as_ref() }
    }
}
