//! What a call may ask of the world around it while it runs its plan: the database, global
//! variables, the states of devices. The shard answers; `call` itself keeps none of it.

use std::fmt::Debug;

/// The world around the calls of a shard.
pub trait World: Debug {
    /// Appends the value of `DB(family/key)`; false when there is none.
    fn database(&self, family: &str, key: &str, out: &mut String) -> bool;

    /// Sets `DB(family/key)`; false when there is no room for it.
    fn set_database(&self, family: &str, key: &str, value: &str) -> bool;

    /// Deletes one entry, or all of a family whose keys begin so.
    fn delete_database(&self, family: &str, key: &str, is_tree: bool);

    /// Appends the value of a global variable that a plan set; false when there is none.
    fn global(&self, name: &str, out: &mut String) -> bool;

    /// Sets a global variable; false when there is no room for it.
    fn set_global(&self, name: &str, value: &str) -> bool;

    /// The state of a device such as `SIP/100`.
    fn device_state(&self, device: &str) -> DeviceState;

    /// A number below `bound`, another one each time.
    fn random(&self, bound: u64) -> u64;
}

/// The state of a device, or of several together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Nobody knows it.
    Unknown,
    /// Reachable, and in no call.
    NotInUse,
    /// In a call.
    InUse,
    /// Has all the calls that it takes.
    Busy,
    /// There is no such device.
    Invalid,
    /// Not registered, or does not answer.
    Unavailable,
    /// Rings.
    Ringing,
    /// In a call, and rings.
    RingInUse,
}

impl DeviceState {
    /// The value of `DEVICE_STATE()`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::NotInUse => "NOT_INUSE",
            Self::InUse => "INUSE",
            Self::Busy => "BUSY",
            Self::Invalid => "INVALID",
            Self::Unavailable => "UNAVAILABLE",
            Self::Ringing => "RINGING",
            Self::RingInUse => "RINGINUSE",
        }
    }

    /// The state of several devices behind one extension, by Asterisk's rules: any one that rings
    /// while another talks is `RingInUse`, all busy is `Busy`, any one in use is `InUse`.
    pub fn of_all(states: impl IntoIterator<Item = Self>) -> Self {
        let states: Vec<Self> = states.into_iter().collect();
        let any = |wanted: &[Self]| states.iter().any(|state| wanted.contains(state));
        let all = |wanted: &[Self]| states.iter().all(|state| wanted.contains(state));
        if states.is_empty() {
            return Self::Invalid;
        }
        let (rings, talks) =
            (any(&[Self::Ringing, Self::RingInUse]), any(&[Self::InUse, Self::Busy]));
        if any(&[Self::RingInUse]) || (rings && talks) {
            Self::RingInUse
        } else if rings {
            Self::Ringing
        } else if all(&[Self::Busy]) {
            Self::Busy
        } else if talks {
            Self::InUse
        } else if all(&[Self::Unavailable, Self::Invalid, Self::Unknown]) {
            states[0]
        } else {
            Self::NotInUse
        }
    }
}

/// A world without anything in it, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Void;

impl World for Void {
    fn database(&self, _: &str, _: &str, _: &mut String) -> bool {
        false
    }

    fn set_database(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn delete_database(&self, _: &str, _: &str, _: bool) {}

    fn global(&self, _: &str, _: &mut String) -> bool {
        false
    }

    fn set_global(&self, _: &str, _: &str) -> bool {
        false
    }

    fn device_state(&self, _: &str) -> DeviceState {
        DeviceState::Unknown
    }

    fn random(&self, _: u64) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceState::{self, Busy, InUse, NotInUse, RingInUse, Ringing, Unavailable};

    #[test]
    fn several_devices_are_one() {
        let of = |states: &[DeviceState]| DeviceState::of_all(states.iter().copied());
        assert_eq!(of(&[]), DeviceState::Invalid);
        assert_eq!(of(&[NotInUse, Unavailable]), NotInUse);
        assert_eq!(of(&[Unavailable, Unavailable]), Unavailable);
        assert_eq!(of(&[Busy, Busy]), Busy);
        assert_eq!(of(&[Busy, NotInUse]), InUse);
        assert_eq!(of(&[Ringing, NotInUse]), Ringing);
        assert_eq!(of(&[Ringing, InUse]), RingInUse);
    }
}
