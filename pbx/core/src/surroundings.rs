//! The world around a shard's calls, as their plans see it ([`call::World`]): the database, global
//! variables, the states of devices. What a plan changes in the database is told, so that it can be
//! written down before anything that says so is sent.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use ::sip::registrar::{Aor, Reach};
use call::{DeviceState, World};
use turn::Rng;

use crate::database::{change_line, deletion_line};
use crate::directory::{Directory, Party, Phone};
use crate::shared::{Shared, Stored};

/// The family of global variables in their own table.
const GLOBALS: &str = "global";

/// See the module.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) shared: Shared,
    pub(crate) directory: Arc<Directory>,
    /// Whether what must survive the program can be written.
    pub(crate) has_room_to_store: Cell<bool>,
    stored: RefCell<Vec<Stored>>,
    rng: RefCell<Rng>,
}

impl Surroundings {
    pub(crate) fn new(shared: Shared, directory: Arc<Directory>, rng: Rng) -> Self {
        Self {
            shared,
            directory,
            has_room_to_store: Cell::new(true),
            stored: RefCell::default(),
            rng: RefCell::new(rng),
        }
    }

    /// What has been changed since the last time.
    pub(crate) fn drain(&self, out: &mut Vec<Stored>) {
        out.append(&mut self.stored.borrow_mut());
    }

    /// Deletes an entry, or all of a family whose keys begin so. Gives how many there were.
    pub(crate) fn delete(&self, family: &str, key: &str, is_tree: bool) -> usize {
        let (gone, number) = match is_tree {
            true => self.shared.database.delete_tree(family, key),
            false => self.shared.database.delete(family, key).map_or((0, 0), |number| (1, number)),
        };
        if gone > 0 {
            let line = deletion_line(family, key, is_tree, number);
            self.stored.borrow_mut().push(Stored::Database(line.into()));
        }
        gone
    }
}

/// The state of an endpoint: Asterisk's words for what it does and whether it is there.
pub fn phone_state(shared: &Shared, phone: &Phone) -> DeviceState {
    let mut is_there = false;
    shared.locations.view(phone.aor(), &mut |aor: &Aor| {
        is_there = aor.bindings().iter().any(|binding| binding.reach() != Reach::Unreachable);
    });
    let (calls, rings) = (phone.state.calls(), phone.state.ringing());
    let is_full = phone.calls_max.is_some_and(|most| calls >= most);
    match (calls.saturating_sub(rings) > 0, rings > 0) {
        (true, true) => DeviceState::RingInUse,
        (false, true) => DeviceState::Ringing,
        (true, false) if is_full || phone.is_dnd() => DeviceState::Busy,
        (true, false) => DeviceState::InUse,
        (false, false) if phone.is_dnd() => DeviceState::Busy,
        (false, false) if is_there => DeviceState::NotInUse,
        (false, false) => DeviceState::Unavailable,
    }
}

/// The state of a device such as `SIP/100`: an endpoint, a group or a trunk.
pub fn device_state(shared: &Shared, directory: &Directory, device: &str) -> DeviceState {
    let Some((technology, name)) = device.split_once('/') else { return DeviceState::Invalid };
    let is_sip = ["SIP", "PJSIP"].iter().any(|known| known.eq_ignore_ascii_case(technology));
    match directory.named(name).filter(|_| is_sip) {
        Some(Party::Phone(id)) => {
            let phone = directory.phone(id);
            phone.map_or(DeviceState::Invalid, |phone| phone_state(shared, phone))
        }
        Some(Party::Group(number)) => {
            let group = directory.groups().get(usize::from(number));
            let members = group.map(|group| &group.members[..]).unwrap_or_default();
            let phones = members.iter().filter_map(|id| directory.phone(*id));
            DeviceState::of_all(phones.map(|phone| phone_state(shared, phone)))
        }
        Some(Party::Trunk(id)) => match directory.trunks().view(id) {
            Some(trunk) if !trunk.state.is_any_reachable(trunk.peers.len()) => {
                DeviceState::Unavailable
            }
            Some(_) => DeviceState::NotInUse,
            None => DeviceState::Invalid,
        },
        None => DeviceState::Invalid,
    }
}

impl World for Surroundings {
    fn database(&self, family: &str, key: &str, out: &mut String) -> bool {
        self.shared.database.view(family, key, out)
    }

    fn set_database(&self, family: &str, key: &str, value: &str) -> bool {
        if !self.has_room_to_store.get() {
            return false;
        }
        let Some(number) = self.shared.database.put(family, key, value) else { return false };
        let line = change_line(family, key, value, number);
        self.stored.borrow_mut().push(Stored::Database(line.into()));
        true
    }

    fn delete_database(&self, family: &str, key: &str, is_tree: bool) {
        self.delete(family, key, is_tree);
    }

    fn global(&self, name: &str, out: &mut String) -> bool {
        self.shared.globals.view(GLOBALS, name, out)
    }

    fn set_global(&self, name: &str, value: &str) -> bool {
        self.shared.globals.put(GLOBALS, name, value).is_some()
    }

    fn device_state(&self, device: &str) -> DeviceState {
        device_state(&self.shared, &self.directory, device)
    }

    fn random(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound.max(1))
    }
}
