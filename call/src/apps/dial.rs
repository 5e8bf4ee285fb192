//! Dial: calls its targets and joins the caller with the one who answers.

use dialplan::Dial;

use crate::call::{Call, Doing, INBOUND};
use crate::calls::Env;
use crate::cause::Cause;
use crate::facts::{CallFault, DialStatus};
use crate::interpreter::vars;
use crate::leg::{Early, LegCommand};
use crate::leg_state::LegState;
use crate::search::{self, Search};

/// Starts the search. `branch` is where the Dial stands in an ExecIf, when it does.
pub(crate) fn dial(call: &mut Call, dial: &Dial, branch: Option<bool>, env: &mut Env<'_, '_>) {
    let Some(extension) = call.cursor.extension else { return };
    let step = (extension, call.cursor.next.saturating_sub(1), branch);
    call.vars.unset("DIALSTATUS");
    let timeout = dial.ring_timeout.as_ref().map(|seconds| seconds.length(&vars(call, env)));
    if timeout == Some(None) {
        call.fault(CallFault::NotSeconds, env);
        call.dial_status = DialStatus::ChanUnavail;
        call.cause = Some(Cause::NO_ROUTE);
        return;
    }
    if call.inbound.is_waiting() && !call.is_proceeding {
        call.is_proceeding = true;
        call.command(INBOUND, LegCommand::Proceeding, env);
    }
    if call.inbound.is_waiting() && dial.ringing {
        call.inbound = LegState::Ringing;
        let early = Early::default();
        call.command(INBOUND, LegCommand::Alerting { early, answer: None }, env);
    }
    let search = Search::new(step, timeout.flatten(), env.cx.now.mono);
    call.doing = Doing::Search(Box::new(search));
    search::start(call, env);
}
