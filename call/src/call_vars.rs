//! The variables of a call as its plan sees them: what the system knows first, then what the plan
//! set, then the globals, those that a plan set before those of the file.

use std::fmt::Write as _;
use std::sync::Arc;

use dialplan::{Moment, Plan, Question, Variables};
use turn::Now;

use crate::call::Call;
use crate::interpreter;
use crate::leg_state::LegState;
use crate::world::{DeviceState, World};

/// See the module.
pub(crate) struct CallVars<'c> {
    pub(crate) call: &'c Call,
    pub(crate) plan: &'c Plan,
    pub(crate) system: &'c Arc<str>,
    pub(crate) now: Now,
    pub(crate) world: &'c dyn World,
}

impl Variables for CallVars<'_> {
    fn value(&self, name: &str, out: &mut String) -> bool {
        let call = self.call;
        // Writing to a string cannot fail.
        match name {
            "EXTEN" | "CHANNEL(exten)" => out.push_str(call.exten()),
            "CONTEXT" | "CHANNEL(context)" => out.push_str(call.context()),
            "PRIORITY" => _ = write!(out, "{}", call.cursor.priority()),
            "CHANNEL" | "CHANNEL(name)" => _ = write!(out, "{}", call.channel()),
            "UNIQUEID" | "CHANNEL(uniqueid)" | "CDR(uniqueid)" => {
                _ = write!(out, "{}", call.unique_id(self.system));
            }
            "CALLERID(num)" | "CALLERID(number)" | "CDR(src)" => {
                out.push_str(call.caller_number());
            }
            "CALLERID(name)" => out.push_str(call.caller_name()),
            "CALLERID(all)" => {
                _ = write!(out, "\"{}\" <{}>", call.caller_name(), call.caller_number());
            }
            "CDR(dst)" => out.push_str(call.text.digits()),
            "CHANNEL(channeltype)" => {
                out.push_str(call.endpoint.channel.split('/').next().unwrap_or_default());
            }
            "CHANNEL(endpoint)" => out.push_str(&call.endpoint.name),
            "CHANNEL(peerip)" => out.push_str(peer_ip(call.text.peer())),
            "CHANNEL(state)" => out.push_str(state_of(call.inbound)),
            "EPOCH" => _ = write!(out, "{}", self.now.wall.as_micros().div_euclid(1_000_000)),
            "TIMEOUT(absolute)" => _ = write!(out, "{}", self.seconds_left()),
            "HANGUPCAUSE" => {
                _ = write!(out, "{}", call.cause.as_ref().map_or(0, |cause| cause.q850));
            }
            _ => return self.set_before(name, out),
        }
        true
    }

    fn ask(&self, question: Question, args: &[Box<str>], out: &mut String) {
        let flag = |is_so: bool, out: &mut String| out.push(if is_so { '1' } else { '0' });
        match (question, args) {
            (Question::Database, [family, key]) => _ = self.world.database(family, key, out),
            (Question::DatabaseExists, [family, key]) => {
                let is_there = self.world.database(family, key, &mut String::new());
                flag(is_there, out);
            }
            (Question::DatabaseDelete, [family, key]) => {
                self.world.database(family, key, out);
                self.world.delete_database(family, key, false);
            }
            (Question::Global, [name]) => self.global(name, out),
            (Question::DeviceState, [device]) => {
                out.push_str(self.world.device_state(device).as_str());
            }
            (Question::DialplanExists, [context, number]) => {
                let who = self.seeker();
                flag(self.plan.find_complete(context, number, who).is_some(), out);
            }
            (Question::Header, [name, number]) => {
                let number = number.trim().parse().unwrap_or(1);
                let found = self.call.extras.as_ref().and_then(|it| it.header(name, number));
                out.push_str(found.unwrap_or_default());
            }
            (Question::Hint, [place]) => {
                out.push_str(&self.devices(place).unwrap_or_default().join("&"));
            }
            (Question::ExtensionState, [place]) => {
                let states = self.devices(place).unwrap_or_default();
                let states = states.iter().map(|device| self.world.device_state(device));
                out.push_str(DeviceState::of_all(states).as_str());
            }
            // The plan's reader gives each question its arguments.
            _ => {}
        }
    }

    fn moment(&self, epoch: Option<i64>) -> Moment {
        interpreter::moment(self.now, epoch)
    }

    fn random(&self, bound: u64) -> u64 {
        self.world.random(bound)
    }
}

impl CallVars<'_> {
    /// What the plan set, for this call or for all.
    fn set_before(&self, name: &str, out: &mut String) -> bool {
        let call = self.call;
        let set = call.vars.value(name);
        let dialled = (name == "DIALSTATUS").then(|| call.dial_status.as_str());
        if let Some(value) = set.or(dialled) {
            out.push_str(value);
            return true;
        }
        if self.world.global(name, out) {
            return true;
        }
        let global = self.plan.global(name);
        out.push_str(global.unwrap_or_default());
        global.is_some()
    }

    fn global(&self, name: &str, out: &mut String) {
        if !self.world.global(name, out) {
            out.push_str(self.plan.global(name).unwrap_or_default());
        }
    }

    fn seeker(&self) -> dialplan::Seeker<'_> {
        let at = self.plan.has_times().then(|| self.moment(None));
        dialplan::Seeker { caller: self.call.caller_number(), at }
    }

    /// The devices behind `number@context`.
    fn devices(&self, place: &str) -> Option<Vec<Box<str>>> {
        let (number, context) = place.split_once('@').unwrap_or((place, self.call.context()));
        self.plan.hint(context, number, self.seeker())
    }

    fn seconds_left(&self) -> u64 {
        let limit = self.call.extras.as_ref().and_then(|extras| extras.limit);
        limit
            .filter(|limit| limit.is_absolute)
            .map_or(0, |limit| (limit.at - self.now.mono).as_secs())
    }
}

fn peer_ip(peer: &str) -> &str {
    let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Asterisk's words for the state of a channel.
fn state_of(state: LegState) -> &'static str {
    match state {
        LegState::Up => "Up",
        LegState::Ringing => "Ringing",
        LegState::Ring | LegState::Dialing => "Ring",
        LegState::Releasing | LegState::Gone => "Down",
    }
}
