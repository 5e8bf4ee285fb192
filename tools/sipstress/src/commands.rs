//! The subcommands: they drive the generator and print.

mod answer;
mod hold;
mod quiet;
mod run;
mod sweep;

pub use answer::answer;
pub use hold::hold;
pub use quiet::{Best, Quiet};
pub use run::run;
pub use sweep::{Rates, sweep};

use crate::caller::{Behaviour, Caller};
use crate::cli::Common;
use crate::drive::{Generator, ServerWatch};
use crate::identity::Run as RunId;
use crate::link::Link;
use crate::registrant::{self, Registrant, Users};
use crate::report::StepReport;
use crate::template::Parties;
use crate::verdict::{Conclusion, Limits};
use crate::workload::Workload;
use crate::{process, table, target};
use anyhow::{Context as _, bail};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use turn::{Rng, Seed};

/// The longest tick: calls due at the end of a step must still be made.
const TICK_MAX: Duration = Duration::from_millis(100);

/// A generator that is ready, and what belongs to it.
struct Setup<'a> {
    generator: Generator<'a>,
    watch: Option<ServerWatch>,
    limits: Limits,
    target: SocketAddr,
    seed: Seed,
}

fn set_up<'a>(
    common: &Common,
    hold: Option<Duration>,
    stop: &'a AtomicBool,
) -> anyhow::Result<Setup<'a>> {
    let target = target::parse(&common.target)?;
    target::check(target, common.i_own_this_target)?;
    if common.user.is_empty() || !common.user.bytes().all(is_user_byte) {
        bail!("--user {}: letters, digits and -_.!~*'()&=+$,;?/ only", common.user);
    }
    if common.timeout.is_zero() {
        bail!("--timeout must be longer than 0");
    }
    if common.tick > TICK_MAX {
        bail!("--tick must not be longer than {TICK_MAX:?}");
    }
    let link = Link::bind(target::local(common.local.as_deref(), target)?)?;
    let seed = seed(common.seed);
    let run = RunId(Rng::new(seed).next_u32());
    let watch = watch(common.server_pid, target)?;
    let work = workload(common, hold, (target, &link), (run, seed))?;
    let limits = Limits {
        lag_p99_ms: common.lag_max.as_secs_f64() * 1e3,
        setup_p99_ms: common.setup_max.as_secs_f64() * 1e3,
        retransmissions_percent: common.retransmissions_max,
    };
    Ok(Setup { generator: Generator::new(link, work, stop), watch, limits, target, seed })
}

/// What is to be made: calls, or registrations.
fn workload(
    common: &Common,
    hold: Option<Duration>,
    (target, link): (SocketAddr, &Link),
    (run, seed): (RunId, Seed),
) -> anyhow::Result<Box<dyn Workload>> {
    let (local, now) = (link.port.local_addr(), link.clock.mono());
    if common.register {
        let users = Users::parse(&common.users, &common.password)?;
        let behaviour = registrant::Behaviour {
            timeout: common.timeout,
            open_max: common.calls_max,
            expires: common.expires,
        };
        let registrant = Registrant::new((run, seed), &users, (local, target), behaviour, now);
        return Ok(Box::new(registrant));
    }
    let parties = Parties { user: common.user.clone(), target, local };
    let behaviour = Behaviour { hold, timeout: common.timeout, calls_max: common.calls_max };
    Ok(Box::new(Caller::new(run, &parties, behaviour, now)))
}

/// Bytes of a user part that need no escape (RFC 3261 25.1).
fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/".contains(&byte)
}

/// The seed asked for, else one from the system.
fn seed(asked: Option<u64>) -> Seed {
    use std::hash::BuildHasher as _;
    let number = asked
        .unwrap_or_else(|| std::hash::RandomState::new().hash_one(std::time::SystemTime::now()));
    let mut seed = Seed::default();
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed
}

fn watch(asked: Option<u32>, target: SocketAddr) -> anyhow::Result<Option<ServerWatch>> {
    if let Some(pid) = asked {
        let watch = ServerWatch::new(pid, target);
        return watch.map(Some).with_context(|| format!("--server-pid {pid}: no such process"));
    }
    let owner = target.ip().is_loopback().then(|| process::owner_of_udp(target)).flatten();
    // In a test the server may be a thread of this process: its CPU is then ours.
    let owner = owner.filter(|pid| *pid != std::process::id());
    Ok(owner.and_then(|pid| ServerWatch::new(pid, target)))
}

/// Everything that a run has found, for `--json`.
#[derive(serde::Serialize)]
struct Record<'a> {
    tool: &'static str,
    version: &'static str,
    command: &'static str,
    target: SocketAddr,
    user: &'a str,
    profile: Option<&'a str>,
    limits: &'a Limits,
    steps: &'a [StepReport],
    #[serde(flatten)]
    more: serde_json::Value,
    conclusion: &'a Conclusion,
    text: String,
    exit_code: u8,
}

/// Writes the files asked for and prints the verdict; the exit code.
fn conclude(
    common: &Common,
    setup: &Setup<'_>,
    command: &'static str,
    (steps, more): (&[StepReport], serde_json::Value),
    conclusion: &Conclusion,
) -> anyhow::Result<u8> {
    println!("\nverdict: {conclusion}");
    let exit_code = conclusion.exit_code();
    if let Some(path) = &common.json {
        let record = Record {
            tool: "sipstress",
            version: env!("CARGO_PKG_VERSION"),
            command,
            target: setup.target,
            user: &common.user,
            profile: common.profile.as_deref(),
            limits: &setup.limits,
            steps,
            more,
            conclusion,
            text: conclusion.to_string(),
            exit_code,
        };
        let text = serde_json::to_string_pretty(&record)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &common.csv {
        let mut text = table::csv_heading();
        steps.iter().for_each(|step| text.push_str(&table::csv(step)));
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(exit_code)
}

/// The first line of a run.
fn announce(common: &Common, setup: &Setup<'_>, what: &str) {
    let server = match &setup.watch {
        Some(watch) => format!("server pid {}", watch.pid),
        None => "server's CPU unknown".to_owned(),
    };
    let profile =
        common.profile.as_ref().map_or(String::new(), |label| format!(", profile {label}"));
    let who = if common.register {
        format!("REGISTER of {}", common.users)
    } else {
        format!("sip:{}", common.user)
    };
    println!(
        "sipstress {what}: {who}@{} from {}, {server}{profile}",
        setup.target,
        setup.generator.link.port.local_addr()
    );
}
