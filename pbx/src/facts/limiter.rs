//! How many lines the security log may get: a pure machine, which reads no clock.
//!
//! Each event has a source and a reason. In each second, the first [`SINGLES_MAX`] of a source and
//! reason are written singly; the rest are counted, and told in one line when the second is over.
//!
//! ```text
//!            has a place, or there is room ─── singles left ──► a line of its own
//!           /                               └─ none left ────► counted for the source ─┐
//! event ───●                                                                           ├─► a sum
//!           \ no room ── a network has room ► counted for the network ─────────────────┤
//!                      └─ it has none ──────► counted for all others ──────────────────┘
//! ```
//!
//! Everything has a bound: sources, networks, and lines a second. Nothing is lost by a bound, only
//! told less exactly: for each reason, `offered = singles + summed + waiting` at any moment, and
//! nothing waits when [`Limiter::take_at_the_end`] has no more. A source keeps its place while it
//! is active, so that a flood from many addresses does not push out those who are at work.

use pbx_core::Refused;
use sip::path::Path;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use turn::Mono;

/// Lines of their own for a source and reason in a second. fail2ban's jail bans after ten.
pub(crate) const SINGLES_MAX: u32 = 20;

/// Lines of their own for all together in a second: fail2ban reads 13,000 on a core.
pub(crate) const ALL_SINGLES_MAX: u32 = 4_000;

/// Pairs of a source and a reason that are counted one by one: some 600 KiB.
pub(crate) const SOURCES_MAX: usize = 4_096;

/// Pairs of a network and a reason, for the sources beyond.
pub(crate) const NETWORKS_MAX: usize = 256;

/// Bits of the networks that sources beyond the table are counted by.
const NETWORK_BITS: (u8, u8) = (24, 48);

/// The second that begins after `now`.
const SECOND: Duration = Duration::from_secs(1);

/// Why the security log has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A wrong password.
    WrongPassword,
    /// Nobody calls himself so.
    UnknownUser,
    /// Credentials that cannot be read.
    Credentials,
    /// The endpoint may not come from there.
    Acl,
    /// The endpoint spoke for somebody else.
    NotHis,
    /// Nobody knows the address, and there is no password to ask for.
    Stranger,
    /// A stranger dialled a number that does not exist.
    NoExtension,
    /// A stranger's message is none.
    Malformed,
    /// Too many challenges were left without an answer.
    Unanswered,
    /// A phone has registered: no failure.
    Success,
}

impl Reason {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// All, for tables of counters.
    pub(crate) const ALL: [Self; 10] = [
        Self::WrongPassword,
        Self::UnknownUser,
        Self::Credentials,
        Self::Acl,
        Self::NotHis,
        Self::Stranger,
        Self::NoExtension,
        Self::Malformed,
        Self::Unanswered,
        Self::Success,
    ];

    /// A word for the log and for metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong_password",
            Self::UnknownUser => "unknown_user",
            Self::Credentials => "credentials",
            Self::Acl => "acl",
            Self::NotHis => "not_his",
            Self::Stranger => "stranger",
            Self::NoExtension => "no_extension",
            Self::Malformed => "malformed",
            Self::Unanswered => "unanswered",
            Self::Success => "success",
        }
    }

    /// Its place in [`Reason::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Of a refusal; `None` when that is no matter of security.
    pub(crate) const fn of_refusal(why: Refused) -> Option<Self> {
        match why {
            Refused::WrongPassword => Some(Self::WrongPassword),
            Refused::UnknownUser => Some(Self::UnknownUser),
            Refused::Credentials => Some(Self::Credentials),
            Refused::Acl => Some(Self::Acl),
            Refused::NotHis => Some(Self::NotHis),
            Refused::Stranger => Some(Self::Stranger),
            Refused::Challenged
            | Refused::Stale
            | Refused::Sojourn
            | Refused::CallsMax
            | Refused::TrunkMax
            | Refused::PhoneMax
            | Refused::StoreFull
            | Refused::Draining => None,
        }
    }
}

/// Whom a sum is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Whom {
    /// One source, by the way of its last event.
    Source(Path),
    /// A network and how many of its bits count.
    Network(IpAddr, u8),
    /// Everybody else.
    Others,
}

/// Events that were not written singly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    pub(crate) reason: Reason,
    pub(crate) whom: Whom,
    pub(crate) count: u64,
}

/// Events of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    /// That happened.
    pub(crate) offered: u64,
    /// That got a line of their own.
    pub(crate) singles: u64,
    /// That were told in sums.
    pub(crate) summed: u64,
}

/// Events by [`Reason::index`].
pub(crate) type EventCounts = [Events; Reason::COUNT];

/// What is counted of somebody.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Lines of its own in this second.
    singles: u32,
    /// Counted in this second.
    more: u64,
    /// Counted in seconds that are over, and to be told.
    owed: u64,
}

impl Tally {
    /// The second is over: whether there is something new to tell, which there was not before.
    fn close(&mut self) -> bool {
        let is_news = self.owed == 0 && self.more > 0;
        self.owed += self.more;
        self.more = 0;
        self.singles = 0;
        is_news
    }

    fn is_idle(&self) -> bool {
        self.singles == 0 && self.more == 0 && self.owed == 0
    }
}

/// Where a sum stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Source(IpAddr),
    Network(IpAddr),
    Others,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    /// Seconds on the monotonic clock.
    second: u64,
    sources: BTreeMap<(IpAddr, Reason), (Tally, Path)>,
    networks: BTreeMap<(IpAddr, Reason), Tally>,
    others: [Tally; Reason::COUNT],
    all_singles: u32,
    /// Something was counted in this second.
    has_more: bool,
    /// What has something to tell. Each stands there once at most.
    due: VecDeque<(Place, Reason)>,
    counts: EventCounts,
}

impl Limiter {
    /// An event happened. Whether it gets a line of its own.
    pub(crate) fn offer(&mut self, now: Mono, path: &Path, reason: Reason) -> bool {
        self.turn_to(now);
        self.counts[reason.index()].offered += 1;
        let source = path.remote.ip().to_canonical();
        let key = (source, reason);
        let is_full = self.sources.len() >= SOURCES_MAX;
        let tally = if !is_full || self.sources.contains_key(&key) {
            let (tally, last) = self.sources.entry(key).or_insert((Tally::default(), *path));
            *last = *path;
            if tally.singles < SINGLES_MAX && self.all_singles < ALL_SINGLES_MAX {
                tally.singles += 1;
                self.all_singles += 1;
                self.counts[reason.index()].singles += 1;
                return true;
            }
            tally
        } else {
            let key = (network_of(source).0, reason);
            let has_place = self.networks.len() < NETWORKS_MAX || self.networks.contains_key(&key);
            if has_place {
                self.networks.entry(key).or_default()
            } else {
                &mut self.others[reason.index()]
            }
        };
        tally.more += 1;
        self.has_more = true;
        false
    }

    /// When there will be something to take; `None` when nothing waits.
    pub(crate) fn due(&self) -> Option<Mono> {
        if !self.due.is_empty() {
            return Some(Mono::ZERO);
        }
        self.has_more.then(|| Mono::ZERO + SECOND * u32::try_from(self.second + 1).unwrap_or(0))
    }

    /// The next sum of the seconds that are over.
    pub(crate) fn take(&mut self, now: Mono) -> Option<Sum> {
        self.turn_to(now);
        self.next_sum()
    }

    /// The next sum of all that waits, at the end of the program.
    pub(crate) fn take_at_the_end(&mut self) -> Option<Sum> {
        if self.due.is_empty() {
            self.close();
        }
        self.next_sum()
    }

    /// What happened so far.
    pub(crate) fn counts(&self) -> &EventCounts {
        &self.counts
    }

    fn turn_to(&mut self, now: Mono) {
        let second = now.as_millis() / 1_000;
        if second > self.second {
            self.close();
            self.second = second;
        }
    }

    /// The second is over. Who was quiet in it loses his place.
    fn close(&mut self) {
        self.all_singles = 0;
        self.has_more = false;
        let Self { sources, networks, others, due, .. } = self;
        sources.retain(|(source, reason), (tally, _)| {
            let is_kept = !tally.is_idle();
            if tally.close() {
                due.push_back((Place::Source(*source), *reason));
            }
            is_kept
        });
        networks.retain(|(network, reason), tally| {
            let is_kept = !tally.is_idle();
            if tally.close() {
                due.push_back((Place::Network(*network), *reason));
            }
            is_kept
        });
        for (tally, reason) in others.iter_mut().zip(Reason::ALL) {
            if tally.close() {
                due.push_back((Place::Others, reason));
            }
        }
    }

    fn next_sum(&mut self) -> Option<Sum> {
        let (place, reason) = self.due.pop_front()?;
        let (whom, tally) = match place {
            Place::Source(source) => {
                let (tally, path) = self.sources.get_mut(&(source, reason))?;
                (Whom::Source(*path), tally)
            }
            Place::Network(network) => {
                let tally = self.networks.get_mut(&(network, reason))?;
                (Whom::Network(network, network_of(network).1), tally)
            }
            Place::Others => (Whom::Others, &mut self.others[reason.index()]),
        };
        let count = std::mem::take(&mut tally.owed);
        self.counts[reason.index()].summed += count;
        Some(Sum { reason, whom, count })
    }
}

/// The network of an address, and its bits.
fn network_of(address: IpAddr) -> (IpAddr, u8) {
    match address {
        IpAddr::V4(ip) => {
            let bits = NETWORK_BITS.0;
            (IpAddr::V4((ip.to_bits() & u32::MAX << (32 - bits)).into()), bits)
        }
        IpAddr::V6(ip) => {
            let bits = NETWORK_BITS.1;
            (IpAddr::V6((ip.to_bits() & u128::MAX << (128 - bits)).into()), bits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::path::Transport;
    use std::net::{Ipv4Addr, SocketAddr};
    use turn::Rng;

    fn from(number: u32) -> Path {
        let ip = Ipv4Addr::from(0x0a00_0000 + number);
        let (local, remote) = ("127.0.0.1:5060".parse().unwrap(), SocketAddr::new(ip.into(), 5060));
        Path { transport: Transport::Udp, local, remote }
    }

    fn at(ms: u64) -> Mono {
        Mono::from_nanos(ms * 1_000_000)
    }

    fn taken(limiter: &mut Limiter, now: Mono) -> Vec<Sum> {
        std::iter::from_fn(|| limiter.take(now)).collect()
    }

    fn rest(limiter: &mut Limiter) -> Vec<Sum> {
        std::iter::from_fn(|| limiter.take_at_the_end()).collect()
    }

    fn summed(sums: &[Sum]) -> u64 {
        sums.iter().map(|sum| sum.count).sum()
    }

    #[test]
    fn twenty_a_second_are_written_singly_and_the_rest_is_one_line() {
        let mut limiter = Limiter::default();
        let offer = |limiter: &mut Limiter, ms, reason, times: u32| {
            (0..times).filter(|_| limiter.offer(at(ms), &from(1), reason)).count()
        };
        assert_eq!(offer(&mut limiter, 5_000, Reason::Malformed, 20), 20);
        assert_eq!(limiter.due(), None, "nothing was counted");
        assert_eq!(offer(&mut limiter, 5_999, Reason::Malformed, 30), 0);
        assert_eq!(offer(&mut limiter, 5_999, Reason::Acl, 30), 20, "another reason has its own");
        assert_eq!(limiter.due(), Some(at(6_000)));
        assert_eq!(taken(&mut limiter, at(5_999)), [], "the second is not over");
        let sum = |reason, count| Sum { reason, whom: Whom::Source(from(1)), count };
        let sums = [sum(Reason::Acl, 10), sum(Reason::Malformed, 30)];
        assert_eq!(taken(&mut limiter, at(6_000)), sums);
        assert_eq!(offer(&mut limiter, 6_100, Reason::Malformed, 1), 1, "a new second");
        assert_eq!(rest(&mut limiter), []);
        let events = Events { offered: 51, singles: 21, summed: 30 };
        assert_eq!(limiter.counts()[Reason::Malformed.index()], events);
    }

    #[test]
    fn a_sum_waits_until_it_is_taken_and_grows_meanwhile() {
        let mut limiter = Limiter::default();
        for second in 1..=3 {
            (0..50).for_each(|_| _ = limiter.offer(at(second * 1_000), &from(1), Reason::Acl));
        }
        assert_eq!(limiter.due(), Some(Mono::ZERO), "at once");
        assert_eq!(summed(&taken(&mut limiter, at(3_500))), 60);
        assert_eq!(summed(&rest(&mut limiter)), 30, "the end needs no second");
    }

    #[test]
    fn beyond_the_table_networks_are_counted_and_beyond_them_all_others() {
        let mut limiter = Limiter::default();
        let sources = SOURCES_MAX as u32;
        (0..sources).for_each(|number| _ = limiter.offer(at(100), &from(number), Reason::Acl));
        assert_eq!(limiter.sources.len(), SOURCES_MAX);
        for number in 0..10 {
            assert!(!limiter.offer(at(200), &from(1 << 20 | number), Reason::Acl));
        }
        for network in 1..=NETWORKS_MAX as u32 {
            limiter.offer(at(200), &from(1 << 20 | network << 8), Reason::Acl);
        }
        let sums = taken(&mut limiter, at(1_000));
        let network = Whom::Network("10.16.0.0".parse().unwrap(), 24);
        assert!(sums.contains(&Sum { reason: Reason::Acl, whom: network, count: 10 }));
        assert!(sums.contains(&Sum { reason: Reason::Acl, whom: Whom::Others, count: 1 }));
        // Who is active keeps his place; the others make room.
        limiter.offer(at(1_100), &from(7), Reason::Acl);
        taken(&mut limiter, at(2_000));
        assert_eq!(limiter.sources.len(), 1);
        assert_eq!(network_of("2001:db8:1:2::3".parse().unwrap()).0.to_string(), "2001:db8:1::");
    }

    /// 50,000 sources, each with several events in 3 s: tables within their bounds, lines too, and
    /// nothing is lost.
    #[test]
    fn fifty_thousand_sources_sum_exactly() {
        let mut limiter = Limiter::default();
        let (mut singles, mut told, mut offered) = (0, 0, 0);
        for ms in (0..3_000_u64).step_by(10) {
            let mut lines = 0;
            for step in 0..1_000 {
                let number = (ms as u32 * 100 + step) % 50_000;
                offered += 1;
                lines += u64::from(limiter.offer(at(ms), &from(number), Reason::Malformed));
            }
            singles += lines;
            told += summed(&taken(&mut limiter, at(ms)));
            assert!(limiter.sources.len() <= SOURCES_MAX);
            assert!(limiter.networks.len() <= NETWORKS_MAX);
        }
        assert!(singles <= 3 * u64::from(ALL_SINGLES_MAX), "{singles}");
        told += summed(&rest(&mut limiter));
        assert_eq!((offered, singles + told), (300_000, 300_000));
        let events = Events { offered, singles, summed: told };
        assert_eq!(limiter.counts()[Reason::Malformed.index()], events);
    }

    /// Whatever comes when, however late sums are taken: each event is told once.
    #[test]
    fn every_event_is_told_exactly_once() {
        for seed in 0..200_u8 {
            let mut rng = Rng::new([seed; 32]);
            let mut limiter = Limiter::default();
            let mut told: EventCounts = Default::default();
            let mut ms = 0;
            let note = |told: &mut EventCounts, sum: Sum| {
                assert!(sum.count > 0, "an empty sum, seed {seed}");
                told[sum.reason.index()].summed += sum.count;
            };
            for _ in 0..3_000 {
                let (pause, most) = (rng.below(11), rng.below(16));
                ms += rng.below(1 << pause);
                let reason = Reason::ALL[rng.below(Reason::COUNT as u64) as usize];
                let path = from(rng.below(1 << most) as u32);
                for _ in 0..rng.below(40) {
                    let events = &mut told[reason.index()];
                    events.offered += 1;
                    events.singles += u64::from(limiter.offer(at(ms), &path, reason));
                }
                for _ in 0..rng.below(4) {
                    let Some(sum) = limiter.take(at(ms)) else { break };
                    note(&mut told, sum);
                }
            }
            rest(&mut limiter).into_iter().for_each(|sum| note(&mut told, sum));
            assert_eq!(limiter.counts(), &told, "seed {seed}");
            for events in told {
                assert_eq!(events.offered, events.singles + events.summed, "seed {seed}");
            }
            assert_eq!(limiter.due(), None);
        }
    }
}
