//! What an operator sees of a call's channels (`core show channels`).

use std::sync::Arc;
use std::time::Duration;

use turn::Now;

use crate::call::{Call, Doing, INBOUND};
use crate::channel::CallNumber;
use crate::leg::LegId;
use crate::leg_state::LegState;

/// One channel, as text. Made only when somebody looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelView {
    /// The leg, for commands about it.
    pub leg: LegId,
    /// Its name.
    pub name: String,
    /// The context of the call; empty for an outbound leg.
    pub context: String,
    /// The extension; empty for an outbound leg.
    pub exten: String,
    /// The number of the current step, from 1; for an outbound leg 1.
    pub priority: u32,
    /// Its state.
    pub state: LegState,
    /// The application that runs; for an outbound leg `AppDial`.
    pub app: &'static str,
    /// The application's arguments.
    pub data: String,
    /// The caller's number.
    pub caller: String,
    /// Since when it exists.
    pub duration: Duration,
    /// The channel that it talks to.
    pub bridged_to: Option<String>,
    /// The unique id of its call; with the leg's own number for an outbound leg.
    pub unique_id: String,
    /// The number of its call.
    pub call: CallNumber,
}

/// Appends the channels of a call.
pub(crate) fn channels_of(call: &Call, now: Now, system: &Arc<str>, views: &mut Vec<ChannelView>) {
    let peer = match &call.doing {
        Doing::Bridge(bridge) => call.leg(bridge.peer),
        Doing::Digits | Doing::Ready | Doing::Pause { .. } | Doing::Search(_) | Doing::Ended => {
            None
        }
    };
    let name = call.channel().to_string();
    let unique_id = call.unique_id(system);
    let number = call.channel().call();
    if call.inbound != LegState::Gone {
        let (app, data) = current_step(call);
        views.push(ChannelView {
            leg: LegId { call: call.id, leg: INBOUND },
            name: name.clone(),
            context: call.context().to_owned(),
            exten: call.exten().to_owned(),
            priority: call.cursor.priority(),
            state: call.inbound,
            app,
            data,
            caller: call.caller_number().to_owned(),
            duration: now.mono - call.began.1,
            bridged_to: peer.map(|leg| leg.channel.to_string()),
            unique_id: unique_id.to_string(),
            call: number,
        });
    }
    for leg in &call.legs {
        let is_peer = peer.is_some_and(|peer| peer.number == leg.number);
        views.push(ChannelView {
            leg: LegId { call: call.id, leg: leg.number },
            name: leg.channel.to_string(),
            context: String::new(),
            exten: String::new(),
            priority: 1,
            state: leg.state,
            app: "AppDial",
            data: "(Outgoing Line)".to_owned(),
            caller: call.exten().to_owned(),
            duration: now.mono - leg.placed,
            bridged_to: is_peer.then(|| name.clone()),
            unique_id: format!("{unique_id}.{}", leg.channel.number),
            call: number,
        });
    }
}

fn current_step(call: &Call) -> (&'static str, String) {
    let step = call.plan.as_ref().zip(call.cursor.extension).and_then(|(plan, extension)| {
        let index = usize::from(call.cursor.next).checked_sub(1)?;
        plan.steps(extension).get(index)
    });
    step.map_or(("", String::new()), |step| (step.app.name(), step.data.to_string()))
}
