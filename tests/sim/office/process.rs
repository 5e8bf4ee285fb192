//! One life of the program: its shards, what they share, and how it begins with what an earlier
//! life has written.

use std::sync::Arc;
use std::time::Duration;

use call::Endpoint;
use dialplan::Plan;
use pbx_core::{
    Budget, Changes, Directory, DirectorySpec, Forward, Limits, Locals, Phone, Router, Shard,
    ShardConfig, Shared,
};
use sip::digest::{Algorithm, Secret};
use sip::registrar::{Aor, Line};
use sip::transaction::Timing;
use turn::{Now, Rng};

use super::mutant::{Journal, Mutant};

pub(crate) const PBX: &str = "127.0.0.1:5060";
pub(crate) const FIRST_EPOCH: u16 = 7;
const REALM: &str = "pbx";

/// The second one lets phones ring shorter and tells nobody about it.
const PLANS: [&str; 2] = [
    r#"
[[context.office.exten]]
match = "echo"
steps = ["Answer()", "Wait(86400)"]
[[context.office.exten]]
match = "_1XX"
steps = ["Set(DB(last/${CALLERID(num)})=${EXTEN})", "Dial(SIP/${EXTEN},20)"]
"#,
    r#"
[[context.office.exten]]
match = "_1XX"
steps = ["Dial(SIP/${EXTEN},15)", "Hangup()"]
[[context.office.exten]]
match = "echo"
steps = ["Wait(1)", "Answer()", "Wait(86400)"]
"#,
];

/// Whose account each configuration has: in another order, and without the first.
pub(crate) fn accounts(is_second: bool, names: &[String]) -> Vec<&str> {
    let all = names.iter().map(|name| &**name);
    match is_second {
        false => all.take(names.len() - 1).collect(),
        true => all.skip(1).rev().collect(),
    }
}

/// Where the calls of three accounts go when they do not take them.
fn forward(name: &str) -> Forward {
    let to = |number: &str| Some(number.into());
    match name {
        "104" => Forward { always: to("103"), ..Forward::default() },
        "105" => Forward { busy: to("106"), ..Forward::default() },
        "106" => {
            let no_answer = Some(("102".into(), Duration::from_secs(5)));
            Forward { no_answer, ..Forward::default() }
        }
        _ => Forward::default(),
    }
}

/// Whether calls of that account go on elsewhere when it does not take them.
pub(crate) fn goes_on(name: &str) -> bool {
    forward(name) != Forward::default()
}

/// What is read anew at a reload.
pub(crate) fn configuration(is_second: bool, names: &[String]) -> (Arc<Plan>, Directory) {
    let text = PLANS[usize::from(is_second)];
    let plan = dialplan::parse(&[("office.toml", text)]).unwrap_or_else(|e| panic!("{e}"));
    let phone = |name: &str| Phone {
        forward: forward(name),
        dnd: is_second && name == "107",
        secret: Some(Secret::of_password(name, REALM, &format!("secret{name}"))),
        ..Phone::named(Arc::new(Endpoint {
            channel: format!("SIP/{name}").into(),
            name: name.into(),
            context: "office".into(),
        }))
    };
    let hashes = [vec![Algorithm::Md5], vec![Algorithm::Sha256, Algorithm::Md5]];
    let directory = Directory::new(DirectorySpec {
        realm: REALM.into(),
        algorithms: hashes[usize::from(is_second)].clone(),
        phones: accounts(is_second, names).into_iter().map(phone).collect(),
        // Who is a stranger for a while comes again and again, and the network repeats him.
        strangers: Budget { failures: 200, ..Budget::default() },
        ..DirectorySpec::default()
    });
    (Arc::new(plan), directory)
}

pub(crate) struct Process {
    pub(crate) shards: Vec<Shard>,
    pub(crate) shared: Shared,
    pub(crate) directory: Arc<Directory>,
    router: Router,
}

impl Process {
    /// Starts, with nothing but what is in the journal.
    pub(crate) fn start(
        (epoch, shards, turns): (u16, u8, u64),
        (plan, directory): (Arc<Plan>, Directory),
        journal: &Journal,
        now: Now,
        rng: &mut Rng,
    ) -> Self {
        let shared = pbx_shared::shared(100, Duration::from_secs(60));
        let mut changes = Changes::default();
        for line in journal.read(turns) {
            apply(line, &shared, &mut changes);
        }
        assert_eq!(changes.apply(&*shared.database), 0);
        let directory = Arc::new(directory);
        let (mint_key, route_key) = (rng.hash_key(), rng.hash_key());
        let mut nonce_key = [0; 32];
        nonce_key.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
        let names = names_in_use(&shared, journal.mutant, now);
        let mut all = Vec::new();
        for shard in 0..shards {
            let mut seed = [shard; 32];
            seed[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
            let config = ShardConfig {
                shard,
                shards,
                epoch,
                seed,
                mint_key,
                start: now.mono,
                limits: Limits {
                    calls_max: 256,
                    calls_soft_max: 250,
                    legs_max: 1024,
                    tombstones_max: 8192,
                    ..Limits::default()
                },
                timing: Timing::default(),
                agent: "sim".into(),
                system: "sim".into(),
                locals: Locals {
                    v4: PBX.parse().ok(),
                    tcp_v4: PBX.parse().ok(),
                    switches: true,
                    ..Locals::default()
                },
                nonce_key,
                directory: Arc::clone(&directory),
                shared: shared.clone(),
                plan: Arc::clone(&plan),
            };
            let mut made = Shard::new(&config);
            let of_shard = |at: &usize| at % usize::from(shards) == usize::from(shard);
            let part = names.iter().enumerate().filter(|(at, _)| of_shard(at));
            let part: Vec<Box<str>> = part.map(|(_, name)| name.clone()).collect();
            for name in &part {
                shared.locations.change(name, &mut |aor: &mut Aor| aor.set_keeper(shard));
            }
            if journal.mutant != Some(Mutant::KeptByNobody) {
                made.restore(part);
            }
            all.push(made);
        }
        let router = Router::new(epoch, shards, mint_key, route_key);
        Self { shards: all, shared, directory, router }
    }

    pub(crate) fn route(&self, bytes: &[u8]) -> usize {
        usize::from(self.router.route(bytes))
    }

    pub(crate) fn reload(&mut self, (plan, directory): (Arc<Plan>, Directory)) {
        self.directory = Arc::new(directory.inherit(&self.directory));
        for shard in &mut self.shards {
            shard.reload(Arc::clone(&plan), Arc::clone(&self.directory));
        }
    }

    /// Everything that must survive, as text: bindings that are good at `now`, and the database.
    pub(crate) fn state(&self, now: Now) -> Vec<String> {
        let mut state = Vec::new();
        for name in self.shared.locations.names() {
            self.shared.locations.view(&name, &mut |aor: &Aor| {
                for binding in aor.targets(now.wall) {
                    let mut line = String::new();
                    binding.to_line(&name, &mut line);
                    state.push(line);
                }
            });
        }
        let entries = self.shared.database.page("", None, 1_000);
        state.extend(entries.iter().map(|entry| format!("{entry:?}")));
        state.sort_unstable();
        state
    }

    /// Whether that contact of that endpoint is there.
    pub(crate) fn has(&self, name: &str, contact: &str, now: Now) -> bool {
        let mut is_there = false;
        self.shared.locations.view(name, &mut |aor: &Aor| {
            let contacts = aor.targets(now.wall);
            is_there = contacts.iter().any(|it| it.contact() == contact.as_bytes());
        });
        is_there
    }
}

/// As `pbx/src/state.rs` does it.
fn apply(line: &str, shared: &Shared, changes: &mut Changes) {
    if line.starts_with('[') {
        assert!(changes.read(line), "{line}");
        return;
    }
    let mut line = Some(Line::parse(line).unwrap_or_else(|bad| panic!("{line}: {bad}")));
    let aor: Box<str> = line.as_ref().map(Line::aor).unwrap_or_default().into();
    shared.locations.change(&aor, &mut |aor: &mut Aor| {
        if let Some(line) = line.take() {
            line.apply(aor);
        }
    });
}

/// The endpoints whose bindings are not over, in order.
fn names_in_use(shared: &Shared, mutant: Option<Mutant>, now: Now) -> Vec<Box<str>> {
    let mut names = shared.locations.names();
    names.sort_unstable();
    if mutant == Some(Mutant::ForgottenBinding)
        && let Some(name) = names.first()
    {
        shared.locations.change(name, &mut |aor: &mut Aor| drop(aor.remove(|_| true)));
    }
    if mutant == Some(Mutant::ShortBinding) {
        let half = |until: i64| now.wall.as_micros() + (until - now.wall.as_micros()) / 2;
        for name in &names {
            shared.locations.change(name, &mut |aor: &mut Aor| {
                aor.remove(|it| {
                    half(it.expires_at().as_micros()) < now.wall.as_micros() + 20_000_000
                });
            });
        }
    }
    names.retain(|name| {
        let mut is_used = false;
        shared.locations.change(name, &mut |aor: &mut Aor| {
            aor.expire(now.wall);
            is_used = !aor.is_empty();
        });
        is_used
    });
    names
}
