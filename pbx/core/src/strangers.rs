//! What strangers may cost: a budget for each source that nobody vouches for.
//!
//! Each answer to an unauthenticated request, and each broken message, takes a token from its
//! source's bucket; with an empty bucket the source gets silence. Each failed authentication takes
//! a token from a second, smaller bucket; with that one empty the source is *closed*: for a while
//! nothing of it is read but what belongs to a call or a request of ours. A successful
//! authentication vouches for a source (an office behind one address): its buckets are larger then.
//! All strangers together have a bucket, too, so that a flood from many addresses is bounded.
//!
//! Challenges that nobody from there answers are counted, and forgotten one by one like failures. A
//! source with too many of them is *reported*, with each further one: its requests are no phone's.
//! A phone answers its challenge at once, so a run of challenges is looked at only when it has
//! lasted for [`UNANSWERED_FOR`]: an office that starts all its phones at once is not reported.
//!
//! ```text
//! unknown ──charge──► bucket ──empty──► silence ──refill──► bucket
//!                       └── failures' bucket empty ──► closed ──penalty over──► unknown
//! ```
//!
//! The table has a fixed size: of four places for a source the one that was quiet longest is given
//! to a new one. An IPv6 source is its /64. Each shard keeps its own table, so a source that
//! spreads its requests has as many budgets as there are shards.

use std::net::IpAddr;
use std::time::Duration;

use turn::{HashKey, Mono};

/// How much a source may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Answers that an unknown source may get at once.
    pub burst: u16,
    /// Answers a second that it may get for long.
    pub per_second: u16,
    /// Failed authentications at once before a source is closed.
    pub failures: u16,
    /// Time that it takes until one failure is forgotten.
    pub forget_after: Duration,
    /// How long a source is closed. Zero never closes one.
    pub penalty: Duration,
    /// How many times as much a source may cost that somebody vouches for.
    pub vouched_factor: u16,
    /// How long a successful authentication vouches for its source.
    pub vouched_for: Duration,
    /// Answers a second to all unknown sources together, on one shard.
    pub all_per_second: u32,
    /// Challenges without an answer that a source may leave; it is reported with each one beyond.
    /// Zero reports none.
    pub unanswered: u16,
}

impl Default for Budget {
    /// A phone needs two or three tokens; an office of 200 phones that starts at once gets through
    /// in a few seconds. A password can be guessed 10 times, then once in 6 s.
    fn default() -> Self {
        Self {
            burst: 100,
            per_second: 10,
            failures: 10,
            forget_after: Duration::from_secs(6),
            penalty: Duration::from_secs(60),
            vouched_factor: 20,
            vouched_for: Duration::from_secs(3600),
            all_per_second: 2_000,
            unanswered: 50,
        }
    }
}

/// What a stranger did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// Asked for something without saying who it is.
    Challenge,
    /// Said something that could not be believed.
    Failure,
    /// Sent something broken.
    Rubbish,
}

/// What it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its answer.
    Answer,
    /// Its answer; and it has left so many challenges without an answer, which is too many.
    Report(u32),
    /// Nothing.
    Silence,
    /// Nothing, and the source was closed by this.
    Closes,
}

/// What happened to strangers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrangerCounts {
    /// Messages of closed sources, dropped unread.
    pub closed_drops: u64,
    /// Requests that got silence because their source's bucket was empty.
    pub silenced: u64,
    /// Requests that got silence because the bucket of all strangers was empty.
    pub silenced_all: u64,
    /// Sources that were closed.
    pub closings: u64,
    /// Sources that lost their place in the table to another one.
    pub evictions: u64,
}

/// Places for a source in the table.
const WAYS: usize = 4;

/// Rows of the table: with four places each, 65,536 sources in 2 MiB.
const ROWS: usize = 16_384;

/// How long nobody must have answered a challenge before its source is reported.
const UNANSWERED_FOR: Duration = Duration::from_secs(2);

/// Tokens are counted in parts, so that a slow refill loses nothing.
const PARTS: u64 = 1_000;

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// The hash of its address; 0 is a free place.
    key: u64,
    /// Milliseconds on the monotonic clock: when it was last charged.
    last: u32,
    /// Until when it is closed, and until when somebody vouches for it; 0 is not at all.
    closed_until: u32,
    vouched_until: u32,
    /// What is left in its buckets, in [`PARTS`].
    tokens: u32,
    failures: u32,
    /// Challenges without an answer, in [`PARTS`], and since when there are some.
    unanswered: u32,
    unanswered_since: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Strangers {
    rows: Box<[[Source; WAYS]]>,
    key: HashKey,
    all_tokens: u64,
    all_last: u64,
    pub(crate) counts: StrangerCounts,
}

impl Strangers {
    pub(crate) fn new(key: HashKey) -> Self {
        Self {
            rows: vec![[Source::default(); WAYS]; ROWS].into(),
            key,
            all_tokens: 0,
            all_last: 0,
            counts: StrangerCounts::default(),
        }
    }

    /// Whether nothing new of that source is read at the moment. Asked for each message.
    pub(crate) fn is_closed(&mut self, now: Mono, ip: IpAddr) -> bool {
        self.find(ip).is_some_and(|source| is_ahead(source.closed_until, millis(now)))
    }

    /// Takes what a stranger did from its buckets.
    pub(crate) fn charge(
        &mut self,
        budget: &Budget,
        now: Mono,
        ip: IpAddr,
        charge: Charge,
    ) -> Verdict {
        let all_is_empty = !self.has_tokens_for_all(budget, now);
        let at = millis(now);
        let source = self.enter(ip, at, budget);
        let is_vouched = is_ahead(source.vouched_until, at);
        source.refill(budget, at, is_vouched);
        if charge == Charge::Failure {
            source.unanswered = 0;
            if let Some(left) = source.failures.checked_sub(PARTS as u32) {
                source.failures = left;
            } else if !budget.penalty.is_zero() {
                source.closed_until = later(at, budget.penalty);
                self.counts.closings += 1;
                return Verdict::Closes;
            }
        }
        let Some(left) = source.tokens.checked_sub(PARTS as u32) else {
            self.counts.silenced += 1;
            return Verdict::Silence;
        };
        source.tokens = left;
        if is_vouched {
            return Verdict::Answer;
        }
        let reported = source.count_unanswered(budget, at, charge);
        if all_is_empty {
            self.counts.silenced_all += 1;
            return Verdict::Silence;
        }
        self.all_tokens -= PARTS;
        reported.map_or(Verdict::Answer, Verdict::Report)
    }

    /// Whether somebody proved who he is from there, not long ago.
    pub(crate) fn is_vouched(&self, now: Mono, ip: IpAddr) -> bool {
        self.find(ip).is_some_and(|source| is_ahead(source.vouched_until, millis(now)))
    }

    /// Somebody proved who he is from there.
    pub(crate) fn vouch(&mut self, budget: &Budget, now: Mono, ip: IpAddr) {
        let at = millis(now);
        let source = self.enter(ip, at, budget);
        source.vouched_until = later(at, budget.vouched_for);
        source.unanswered = 0;
        // The challenge before it was not a stranger's.
        source.tokens = source.tokens.saturating_add(PARTS as u32);
    }

    fn has_tokens_for_all(&mut self, budget: &Budget, now: Mono) -> bool {
        let at = now.as_millis();
        let passed = at.saturating_sub(self.all_last);
        self.all_last = at;
        let most = u64::from(budget.all_per_second) * PARTS;
        let refill = passed.saturating_mul(u64::from(budget.all_per_second));
        self.all_tokens = self.all_tokens.saturating_add(refill).min(most);
        self.all_tokens >= PARTS
    }

    fn row(&self, ip: IpAddr) -> (u64, usize) {
        let key = match ip.to_canonical() {
            IpAddr::V4(ip) => self.key.hash(&ip.octets()),
            IpAddr::V6(ip) => self.key.hash(&ip.octets()[..8]),
        };
        (key.max(1), key as usize % ROWS)
    }

    fn find(&self, ip: IpAddr) -> Option<&Source> {
        let (key, row) = self.row(ip);
        self.rows[row].iter().find(|source| source.key == key)
    }

    /// The place of a source, which it gets from the quietest other one if it has none.
    fn enter(&mut self, ip: IpAddr, at: u32, budget: &Budget) -> &mut Source {
        let (key, row) = self.row(ip);
        let row = &mut self.rows[row];
        let way = row.iter().position(|source| source.key == key).unwrap_or_else(|| {
            let quiet = |way: &usize| match row[*way].key {
                0 => u32::MAX,
                _ => at.wrapping_sub(row[*way].last),
            };
            let way = (0..WAYS).max_by_key(quiet).unwrap_or(0);
            self.counts.evictions += u64::from(row[way].key != 0);
            row[way] = Source {
                key,
                last: at,
                tokens: u32::from(budget.burst) * PARTS as u32,
                failures: u32::from(budget.failures) * PARTS as u32,
                ..Source::default()
            };
            way
        });
        &mut row[way]
    }
}

impl Source {
    fn refill(&mut self, budget: &Budget, at: u32, is_vouched: bool) {
        let passed = u64::from(at.wrapping_sub(self.last));
        self.last = at;
        let factor = if is_vouched { u64::from(budget.vouched_factor.max(1)) } else { 1 };
        let filled = |has: u32, refill: u64, most: u16| {
            let most = u64::from(most) * PARTS * factor;
            u32::try_from((u64::from(has) + refill).min(most)).unwrap_or(u32::MAX)
        };
        let tokens = passed * u64::from(budget.per_second) * factor;
        self.tokens = filled(self.tokens, tokens, budget.burst);
        let forget = u64::try_from(budget.forget_after.as_millis()).unwrap_or(u64::MAX).max(1);
        let forgotten = passed * PARTS * factor / forget;
        self.failures = filled(self.failures, forgotten, budget.failures);
        let forgotten = u32::try_from(forgotten).unwrap_or(u32::MAX);
        self.unanswered = self.unanswered.saturating_sub(forgotten);
    }

    /// A challenge that was sent counts as unanswered until somebody answers one from there. Says
    /// how many there are when these are too many.
    fn count_unanswered(&mut self, budget: &Budget, at: u32, charge: Charge) -> Option<u32> {
        if charge != Charge::Challenge {
            return None;
        }
        if self.unanswered == 0 {
            self.unanswered_since = at;
        }
        self.unanswered = self.unanswered.saturating_add(PARTS as u32);
        let count = self.unanswered.div_ceil(PARTS as u32);
        let most = u32::from(budget.unanswered);
        let lasted = u128::from(at.wrapping_sub(self.unanswered_since));
        (most > 0 && count > most && lasted >= UNANSWERED_FOR.as_millis()).then_some(count)
    }
}

/// Milliseconds as they are kept; they wrap after 49 days. Never 0.
fn millis(now: Mono) -> u32 {
    (now.as_millis() as u32).max(1)
}

fn later(at: u32, span: Duration) -> u32 {
    // Half of the circle is as far ahead as can be told from the past.
    let span = u32::try_from(span.as_millis()).unwrap_or(u32::MAX).min(1 << 30);
    at.wrapping_add(span).max(1)
}

fn is_ahead(until: u32, at: u32) -> bool {
    until != 0 && until.wrapping_sub(at) < 1 << 31 && until != at
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget {
        burst: 5,
        per_second: 2,
        failures: 3,
        forget_after: Duration::from_secs(10),
        penalty: Duration::from_secs(60),
        vouched_factor: 4,
        vouched_for: Duration::from_secs(100),
        all_per_second: 50,
        unanswered: 4,
    };

    fn at(seconds: u64) -> Mono {
        Mono::from_nanos(seconds * 1_000_000_000)
    }

    fn ip(last: u16) -> IpAddr {
        IpAddr::from([10, 0, (last >> 8) as u8, last as u8])
    }

    fn answers(strangers: &mut Strangers, now: Mono, ip: IpAddr, times: usize) -> usize {
        let answered = |_: &usize| {
            let verdict = strangers.charge(&BUDGET, now, ip, Charge::Challenge);
            matches!(verdict, Verdict::Answer | Verdict::Report(_))
        };
        (0..times).filter(answered).count()
    }

    #[test]
    fn an_unknown_source_gets_its_burst_then_its_rate() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        assert_eq!(answers(&mut strangers, at(10), ip(1), 20), 5);
        assert_eq!(answers(&mut strangers, at(11), ip(1), 20), 2);
        assert_eq!(answers(&mut strangers, at(11), ip(2), 20), 5, "another source has its own");
        assert_eq!(strangers.counts.silenced, 15 + 18 + 15);
    }

    #[test]
    fn too_many_failures_close_a_source_for_a_while() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        let fail = |s: &mut Strangers, now| s.charge(&BUDGET, now, ip(1), Charge::Failure);
        for _ in 0..3 {
            assert_eq!(fail(&mut strangers, at(10)), Verdict::Answer);
        }
        assert_eq!(fail(&mut strangers, at(10)), Verdict::Closes);
        assert!(strangers.is_closed(at(69), ip(1)));
        assert!(!strangers.is_closed(at(69), ip(2)));
        assert!(!strangers.is_closed(at(70), ip(1)));
        assert_eq!(strangers.counts.closings, 1);
        assert_eq!(fail(&mut strangers, at(110)), Verdict::Answer, "10 s forget one failure");
    }

    #[test]
    fn a_vouched_source_may_cost_more() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        answers(&mut strangers, at(10), ip(1), 20);
        strangers.vouch(&BUDGET, at(10), ip(1));
        assert_eq!(answers(&mut strangers, at(13), ip(1), 100), 20, "four times the burst");
        assert_eq!(answers(&mut strangers, at(200), ip(1), 100), 5, "nobody vouches any more");
    }

    #[test]
    fn all_strangers_together_are_bounded() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        let answered: usize =
            (0..1000).map(|last| answers(&mut strangers, at(10), ip(last), 1)).sum();
        assert_eq!(answered, 50);
        assert_eq!(strangers.counts.silenced_all, 950);
    }

    /// The counts that are told of a source that asks at these times, in milliseconds.
    fn told(strangers: &mut Strangers, times: impl Iterator<Item = u64>) -> Vec<u32> {
        let ask = |ms: u64| {
            let now = Mono::from_nanos(ms * 1_000_000);
            match strangers.charge(&BUDGET, now, ip(1), Charge::Challenge) {
                Verdict::Report(count) => Some(count),
                Verdict::Answer | Verdict::Silence | Verdict::Closes => None,
            }
        };
        times.filter_map(ask).collect()
    }

    #[test]
    fn challenges_that_nobody_answers_are_reported_with_each_one_beyond() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        let every_half_second = (20..30).map(|step| step * 500);
        // One is forgotten in 10 s: from the fifth on there are too many.
        assert_eq!(told(&mut strangers, every_half_second), [5, 6, 7, 8, 9, 10]);
        strangers.vouch(&BUDGET, at(15), ip(1));
        assert!(told(&mut strangers, (30..60).map(|step| step * 500)).is_empty(), "vouched for");
    }

    #[test]
    fn an_office_that_starts_at_once_is_not_reported() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        assert!(told(&mut strangers, (0..5).map(|step| 10_000 + step * 300)).is_empty());
        strangers.vouch(&BUDGET, at(12), ip(1));
        assert!(told(&mut strangers, (0..5).map(|step| 12_000 + step * 300)).is_empty());
    }

    #[test]
    fn whoever_asks_now_and_then_is_not_reported() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        assert!(told(&mut strangers, (1..500).map(|step| step * 10_000)).is_empty(), "one in 10 s");
    }

    #[test]
    fn a_full_row_gives_the_quietest_place_away() {
        let mut strangers = Strangers::new(HashKey::new(1, 2));
        let (_, row) = strangers.row(ip(0));
        let same: Vec<IpAddr> = (0..u16::MAX)
            .map(ip)
            .chain((0..=u16::MAX).map(|low| IpAddr::from([10, 1, (low >> 8) as u8, low as u8])))
            .filter(|ip| strangers.row(*ip).1 == row)
            .take(5)
            .collect();
        assert_eq!(same.len(), 5, "131,000 addresses share 16,384 rows");
        for (second, ip) in same.iter().enumerate() {
            strangers.charge(&BUDGET, at(10 + second as u64), *ip, Charge::Rubbish);
        }
        assert_eq!(strangers.counts.evictions, 1);
        assert!(strangers.find(same[0]).is_none() && strangers.find(same[4]).is_some());
    }

    #[test]
    fn times_may_wrap() {
        let wrapped = Mono::from_nanos((u64::from(u32::MAX) + 500) * 1_000_000);
        let before = Mono::from_nanos((u64::from(u32::MAX) - 500) * 1_000_000);
        let until = later(millis(before), Duration::from_secs(60));
        assert!(is_ahead(until, millis(wrapped)));
        let much_later = Mono::from_nanos(wrapped.as_nanos() + 61_000_000_000);
        assert!(!is_ahead(until, millis(much_later)));
    }
}
