//! What only some calls have: subroutines under way, header lines to send, inherited variables, the
//! header lines of the request that began the call, a limit of time. In a box of its own, so that a
//! plain call does not pay for it.

use std::time::Duration;

use dialplan::{ExtensionId, HeaderChange, Heirs};
use turn::Mono;

use crate::call::Call;
use crate::calls::Env;
use crate::interpreter::Place;
use crate::out::{CallTimer, TIMER_SLICE, TimerKind};

/// Subroutines inside of subroutines; beyond, Gosub ends the call as an endless plan does.
pub const GOSUB_DEPTH_MAX: usize = 64;
/// Header lines that a plan may add to its outbound legs; the next one is refused.
pub const HEADERS_MAX: usize = 32;
/// Bytes of the value of such a line.
pub const HEADER_BYTES_MAX: usize = 1_024;
/// Variables that a plan may mark as inherited; the next one stays, but is not inherited.
pub const HEIRLOOMS_MAX: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) frames: Vec<Frame>,
    /// Names and values.
    pub(crate) headers: Vec<(Box<str>, Box<str>)>,
    /// The names of variables that outbound legs get.
    pub(crate) heirlooms: Vec<(Box<str>, Heirs)>,
    /// Lines `Name: value`, each ended by a line feed; empty unless the plan reads them.
    pub(crate) request: Box<str>,
    pub(crate) limit: Option<TimeLimit>,
    pub(crate) limit_serial: u32,
}

/// When the call has had its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    pub(crate) at: Mono,
    /// Whether the plan's `T` runs then (`TIMEOUT(absolute)`), or the call just ends (Dial's `L`).
    pub(crate) is_absolute: bool,
}

/// Where a Gosub came from.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) extension: Option<ExtensionId>,
    pub(crate) next: u16,
    pub(crate) place: Option<Box<Place>>,
    /// Variables that this subroutine hides, with what they were.
    pub(crate) hidden: Vec<(Box<str>, Option<Box<str>>)>,
}

impl Extras {
    /// Adds, replaces or removes header lines; false when there is no room or the value cannot
    /// stand in a header line.
    pub(crate) fn change_header(&mut self, change: HeaderChange, name: &str, value: &str) -> bool {
        let is_it = |known: &str| match name.strip_suffix('*') {
            Some(start) => {
                known.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start))
            }
            None => name.is_empty() || known.eq_ignore_ascii_case(name),
        };
        if change == HeaderChange::Remove {
            self.headers.retain(|(known, _)| !is_it(known));
            return true;
        }
        let fits = dialplan::is_free_header(name)
            && value.len() <= HEADER_BYTES_MAX
            && !value.chars().any(|c| c.is_control() && c != '\t');
        if !fits {
            return false;
        }
        if change == HeaderChange::Update {
            self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        }
        if self.headers.len() == HEADERS_MAX {
            return false;
        }
        self.headers.push((name.into(), value.into()));
        true
    }

    /// The `number`th header line of that name (from 1) of the request that began the call.
    pub(crate) fn header(&self, name: &str, number: usize) -> Option<&str> {
        let named = self.request.lines().filter_map(|line| line.split_once(": "));
        let same = named.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value).nth(number.checked_sub(1)?)
    }
}

impl Call {
    pub(crate) fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Ends the call so long from now, in place of what held before; `None` takes it back.
    pub(crate) fn limit(
        &mut self,
        span: Option<Duration>,
        is_absolute: bool,
        env: &mut Env<'_, '_>,
    ) {
        let extras = self.extras_mut();
        extras.limit_serial = extras.limit_serial.wrapping_add(1);
        extras.limit = span.map(|span| TimeLimit { at: env.cx.now.mono + span, is_absolute });
        self.arm_limit(env);
    }

    /// Whether the limit that came due has been reached; arms the next slice when it has not.
    pub(crate) fn is_limit_due(
        &mut self,
        timer: CallTimer,
        env: &mut Env<'_, '_>,
    ) -> Option<TimeLimit> {
        let extras = self.extras.as_mut()?;
        let limit = extras.limit.filter(|_| extras.limit_serial == timer.serial)?;
        if env.cx.now.mono < limit.at {
            self.arm_limit(env);
            return None;
        }
        extras.limit.take()
    }

    fn arm_limit(&self, env: &mut Env<'_, '_>) {
        let Some(extras) = &self.extras else { return };
        let Some(limit) = extras.limit else { return };
        let at = limit.at.min(env.cx.now.mono + TIMER_SLICE);
        let timer =
            CallTimer { call: self.id, serial: extras.limit_serial, kind: TimerKind::Limit };
        env.cx.out.timers.push((at, timer));
    }
}
