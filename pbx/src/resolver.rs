//! Asks the DNS for shards: the thread between [`pbx_core::Query`] and the servers of names.
//!
//! ```text
//! shard ── query ──► one search a name, whoever else asks for it ── question ──► cache ─► server
//!   ▲                 (sip::locate)                                  │
//!   └── located ──────────┘                     stale, if no server answers in time
//! ```
//!
//! The cache keeps an answer as long as its records say, within bounds. One that is too old is
//! asked for again; while no server answers, it is served all the same (RFC 8767), since a call to
//! where the peer was is better than none.

use crate::config::Dns;
use crate::mailbox::Post;
use crate::threads;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use hickory_resolver::{Resolver as Asking, TokioResolver};
use logging::{Hub, Shown, debug, warning};
use metrics::{counter, gauge};
use pbx_core::Query;
use sip::locate::{Answer, Kind, Locate, Located, Naptr, Question, Srv, Step, Wanted, Ways};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use turn::{Rng, Seed};

/// Queries of shards that wait for this thread.
const QUEUE_MAX: usize = 4_096;

/// Names that are searched for at one time; a further one is answered with silence.
const SEARCHES_MAX: usize = 256;

/// Answers in the cache; the one that goes stale first makes room.
const CACHE_MAX: usize = 4_096;

/// How long an answer is kept, whatever its records say.
const TTL_MIN: Duration = Duration::from_secs(5);
const TTL_MAX: Duration = Duration::from_secs(3_600);

/// How long it is remembered that there is no such record.
const NOTHING_TTL: Duration = Duration::from_secs(30);

/// How long a silence is remembered: callers in between need not wait to hear of it.
const SILENCE_TTL: Duration = Duration::from_secs(5);

/// For how long after its time an answer is served when no server answers.
const STALE_MAX: Duration = Duration::from_secs(86_400);

/// How long a server may take before the stale answer is served.
const STALE_WAIT: Duration = Duration::from_millis(500);

/// How long the servers may take for one question, and how long one of them until the next try.
const QUESTION_MAX: Duration = Duration::from_secs(2);
const TRY_MAX: Duration = Duration::from_millis(900);

/// How long a whole search may take: less than shards wait ([`pbx_core::LOOKUP_WAIT`]).
const SEARCH_MAX: Duration = Duration::from_millis(3_500);

const _: () = assert!(SEARCH_MAX.as_millis() < pbx_core::LOOKUP_WAIT.as_millis());

/// Where shards put their queries.
#[derive(Clone)]
pub(crate) struct Resolver {
    queries: mpsc::Sender<(Post, Query)>,
}

impl Resolver {
    /// Looks a name up; the answer goes to `post`.
    pub(crate) fn ask(&self, post: &Post, query: Query) {
        let token = query.token;
        if self.queries.try_send((post.clone(), query)).is_err() {
            counter!("pbx_dns_refused_total").increment(1);
            post.located(token, Located::Silent);
        }
    }
}

/// Starts the thread. It ends when nobody can ask any more.
pub(crate) fn start(
    config: &Dns,
    seed: Seed,
    hub: &Arc<Hub>,
) -> io::Result<(Resolver, JoinHandle<()>)> {
    let (queries, incoming) = mpsc::channel(QUEUE_MAX);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let servers = config.servers.clone();
    let thread = threads::spawn("resolver", hub, move || {
        runtime.block_on(async {
            let desk = Desk {
                servers: servers_of(&servers),
                work: Mutex::new(Work {
                    searches: HashMap::new(),
                    cache: HashMap::new(),
                    rng: Rng::new(seed),
                }),
            };
            Arc::new(desk).serve(incoming).await;
        });
    })?;
    Ok((Resolver { queries }, thread))
}

/// The servers that are configured, else those of the system; `None`: there are none.
fn servers_of(servers: &[SocketAddr]) -> Option<TokioResolver> {
    let mut builder = if servers.is_empty() {
        match TokioResolver::builder_tokio() {
            Ok(builder) => builder,
            Err(error) => {
                warning!("No host name can be looked up: /etc/resolv.conf: {}", Shown(&error));
                return None;
            }
        }
    } else {
        let config = ResolverConfig::from_name_servers(servers.iter().map(server).collect());
        Asking::builder_with_config(config, TokioRuntimeProvider::default())
    };
    set(builder.options_mut());
    match builder.build() {
        Ok(asking) => Some(asking),
        Err(error) => {
            warning!("No host name can be looked up: {}", Shown(&error));
            None
        }
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    NameServerConfig::new(address.ip(), true, connections.map(at_port).into())
}

fn set(options: &mut ResolverOpts) {
    // The cache here knows how to serve what is stale.
    options.cache_size = 0;
    options.timeout = TRY_MAX;
    options.attempts = 2;
    options.use_hosts_file = ResolveHosts::Always;
}

/// What one search is for.
type Sought = (Wanted, Ways);

/// Whom to tell, by their tokens.
type Askers = Vec<(Post, u64)>;

struct Desk {
    servers: Option<TokioResolver>,
    work: Mutex<Work>,
}

struct Work {
    /// The searches that run, and who waits for them.
    searches: HashMap<Sought, Askers>,
    cache: HashMap<Question, Kept>,
    rng: Rng,
}

/// An answer in the cache.
struct Kept {
    answer: Answer,
    fresh_until: Instant,
}

/// What the cache has.
enum Cached {
    Fresh(Answer),
    Stale(Answer),
    Missing,
}

impl Desk {
    async fn serve(self: Arc<Self>, mut queries: mpsc::Receiver<(Post, Query)>) {
        for name in ["pbx_dns_questions_total", "pbx_dns_refused_total", "pbx_dns_stale_total"] {
            counter!(name).increment(0);
        }
        while let Some((post, query)) = queries.recv().await {
            let Query { token, wanted, ways } = query;
            let sought = (wanted, ways);
            let mut work = self.work();
            if let Some(askers) = work.searches.get_mut(&sought) {
                askers.push((post, token));
            } else if work.searches.len() >= SEARCHES_MAX {
                counter!("pbx_dns_refused_total").increment(1);
                post.located(token, Located::Silent);
            } else {
                work.searches.insert(sought.clone(), vec![(post, token)]);
                tokio::spawn(Arc::clone(&self).search(sought));
            }
            gauge!("pbx_dns_searches").set(work.searches.len() as f64);
        }
    }

    async fn search(self: Arc<Self>, sought: Sought) {
        let machine = Locate::new(sought.0.clone(), sought.1);
        let located = tokio::time::timeout(SEARCH_MAX, self.drive(machine)).await;
        let located = located.unwrap_or(Located::Silent);
        let mut work = self.work();
        let askers = work.searches.remove(&sought).unwrap_or_default();
        gauge!("pbx_dns_searches").set(work.searches.len() as f64);
        drop(work);
        for (post, token) in askers {
            post.located(token, located.clone());
        }
    }

    async fn drive(self: &Arc<Self>, mut machine: Locate) -> Located {
        let mut step = machine.start();
        loop {
            let question = match step {
                Step::Done(located) => return located,
                Step::Ask(question) => question,
            };
            let answer = self.answer(question).await;
            step = machine.answer(answer, &mut self.work().rng);
        }
    }

    /// The answer to one question: the cache's, the servers', or a stale one.
    async fn answer(self: &Arc<Self>, question: Question) -> Answer {
        let cached = self.work().cached(&question, Instant::now());
        let stale = match cached {
            Cached::Fresh(answer) => {
                counter!("pbx_dns_cache_hits_total").increment(1);
                return answer;
            }
            Cached::Stale(answer) => Some(answer),
            Cached::Missing => None,
        };
        let asked = tokio::spawn(Arc::clone(self).ask(question));
        let Some(stale) = stale else { return asked.await.unwrap_or(Answer::Silence) };
        match tokio::time::timeout(STALE_WAIT, asked).await {
            Ok(Ok(answer)) if answer != Answer::Silence => answer,
            Ok(Ok(_) | Err(_)) | Err(_) => {
                counter!("pbx_dns_stale_total").increment(1);
                stale
            }
        }
    }

    /// Asks the servers and keeps what they say.
    async fn ask(self: Arc<Self>, question: Question) -> Answer {
        counter!("pbx_dns_questions_total").increment(1);
        let Some(servers) = &self.servers else { return Answer::Silence };
        let name = format!("{}.", question.name);
        let asked = servers.lookup(name.as_str(), type_of(question.kind));
        let (answer, ttl) = match tokio::time::timeout(QUESTION_MAX, asked).await {
            Ok(Ok(lookup)) => read(question.kind, lookup.answers()),
            Ok(Err(error)) => read_error(&question, &error),
            Err(_) => (Answer::Silence, SILENCE_TTL),
        };
        let what = match &answer {
            Answer::Naptr(_) | Answer::Srv(_) | Answer::Addresses(_) => "found",
            Answer::Nothing => "nothing",
            Answer::Silence => "silence",
        };
        counter!("pbx_dns_answers_total", "what" => what).increment(1);
        self.work().keep(question, answer.clone(), (Instant::now(), ttl));
        answer
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn cached(&self, question: &Question, now: Instant) -> Cached {
        match self.cache.get(question) {
            Some(kept) if now < kept.fresh_until => Cached::Fresh(kept.answer.clone()),
            Some(kept) if is_found(&kept.answer) && now < kept.fresh_until + STALE_MAX => {
                Cached::Stale(kept.answer.clone())
            }
            Some(_) | None => Cached::Missing,
        }
    }

    /// Keeps an answer. A silence leaves what was found before, and puts off the next question.
    fn keep(&mut self, question: Question, answer: Answer, (now, ttl): (Instant, Duration)) {
        let fresh_until = now + ttl;
        if answer == Answer::Silence
            && let Some(kept) = self.cache.get_mut(&question)
            && is_found(&kept.answer)
            && now < kept.fresh_until + STALE_MAX
        {
            kept.fresh_until = kept.fresh_until.max(fresh_until);
            return;
        }
        if self.cache.len() >= CACHE_MAX && !self.cache.contains_key(&question) {
            let first = self.cache.iter().min_by_key(|(_, kept)| kept.fresh_until);
            if let Some(first) = first.map(|(question, _)| question.clone()) {
                self.cache.remove(&first);
                counter!("pbx_dns_cache_evictions_total").increment(1);
            }
        }
        self.cache.insert(question, Kept { answer, fresh_until });
        gauge!("pbx_dns_cache_entries").set(self.cache.len() as f64);
    }
}

fn is_found(answer: &Answer) -> bool {
    match answer {
        Answer::Naptr(_) | Answer::Srv(_) | Answer::Addresses(_) => true,
        Answer::Nothing | Answer::Silence => false,
    }
}

const fn type_of(kind: Kind) -> RecordType {
    match kind {
        Kind::Naptr => RecordType::NAPTR,
        Kind::Srv => RecordType::SRV,
        Kind::A => RecordType::A,
        Kind::Aaaa => RecordType::AAAA,
    }
}

/// The records of that kind, and how long they are good for.
fn read(kind: Kind, records: &[Record]) -> (Answer, Duration) {
    let (mut naptrs, mut srvs, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    let mut ttl = TTL_MAX;
    for record in records {
        ttl = ttl.min(Duration::from_secs(record.ttl.into()));
        if let RData::A(it) = &record.data {
            addresses.push(IpAddr::V4(it.0));
        } else if let RData::AAAA(it) = &record.data {
            addresses.push(IpAddr::V6(it.0));
        } else if let RData::SRV(it) = &record.data {
            let target = it.target.to_ascii().into();
            let (priority, weight, port) = (it.priority, it.weight, it.port);
            srvs.push(Srv { priority, weight, port, target });
        } else if let RData::NAPTR(it) = &record.data {
            naptrs.push(Naptr {
                order: it.order,
                preference: it.preference,
                flags: String::from_utf8_lossy(&it.flags).into(),
                service: String::from_utf8_lossy(&it.services).into(),
                replacement: it.replacement.to_ascii().into(),
            });
        }
    }
    let is_empty = match kind {
        Kind::Naptr => naptrs.is_empty(),
        Kind::Srv => srvs.is_empty(),
        Kind::A | Kind::Aaaa => addresses.is_empty(),
    };
    let answer = match kind {
        _ if is_empty => return (Answer::Nothing, NOTHING_TTL),
        Kind::Naptr => Answer::Naptr(naptrs),
        Kind::Srv => Answer::Srv(srvs),
        Kind::A | Kind::Aaaa => Answer::Addresses(addresses),
    };
    (answer, ttl.max(TTL_MIN))
}

fn read_error(question: &Question, error: &NetError) -> (Answer, Duration) {
    if is_nothing(error) {
        return (Answer::Nothing, NOTHING_TTL);
    }
    debug!(1, "DNS: no answer for '{}': {}", &*question.name, Shown(error));
    (Answer::Silence, SILENCE_TTL)
}

/// Whether a server said that there is no such record; other errors are no answer.
fn is_nothing(error: &NetError) -> bool {
    let NetError::Dns(DnsError::NoRecordsFound(nothing)) = error else { return false };
    matches!(nothing.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work { searches: HashMap::new(), cache: HashMap::new(), rng: Rng::new([1; 32]) }
    }

    fn question(name: &str) -> Question {
        Question { name: name.into(), kind: Kind::A }
    }

    fn found(last: u8) -> Answer {
        Answer::Addresses(vec![IpAddr::from([192, 0, 2, last])])
    }

    #[test]
    fn an_answer_is_fresh_then_stale_then_gone() {
        let (mut work, now) = (work(), Instant::now());
        work.keep(question("a"), found(1), (now, TTL_MIN));
        let is_fresh =
            |work: &Work, at| matches!(work.cached(&question("a"), at), Cached::Fresh(_));
        let is_stale =
            |work: &Work, at| matches!(work.cached(&question("a"), at), Cached::Stale(_));
        assert!(is_fresh(&work, now) && is_stale(&work, now + TTL_MIN));
        let gone = now + TTL_MIN + STALE_MAX;
        assert!(!is_stale(&work, gone) && !is_fresh(&work, gone));
        // A silence leaves it, and puts off the next question.
        let later = now + TTL_MIN * 10;
        work.keep(question("a"), Answer::Silence, (later, SILENCE_TTL));
        assert!(is_fresh(&work, later) && is_stale(&work, later + SILENCE_TTL));
        // That there is nothing replaces it, and is never stale.
        work.keep(question("a"), Answer::Nothing, (later, NOTHING_TTL));
        assert!(is_fresh(&work, later) && !is_stale(&work, later + NOTHING_TTL));
    }

    #[test]
    fn the_cache_is_bounded() {
        let (mut work, now) = (work(), Instant::now());
        for number in 0..CACHE_MAX as u64 + 1 {
            let ttl = TTL_MIN + Duration::from_secs(number);
            work.keep(question(&number.to_string()), found(1), (now, ttl));
        }
        assert_eq!(work.cache.len(), CACHE_MAX);
        assert!(!work.cache.contains_key(&question("0")), "it goes stale first");
    }

    #[test]
    fn how_long_an_answer_is_kept_has_bounds() {
        use hickory_resolver::proto::rr::Name;
        let record = |ttl| {
            let data = RData::A("192.0.2.1".parse().unwrap());
            Record::from_rdata(Name::from_ascii("a.example.").unwrap(), ttl, data)
        };
        let ttl = |ttls: &[u32]| {
            let records: Vec<Record> = ttls.iter().map(|ttl| record(*ttl)).collect();
            read(Kind::A, &records).1
        };
        assert_eq!(ttl(&[60, 30]), Duration::from_secs(30));
        assert_eq!((ttl(&[0]), ttl(&[100_000])), (TTL_MIN, TTL_MAX));
        assert_eq!(read(Kind::Srv, &[record(60)]), (Answer::Nothing, NOTHING_TTL));
    }
}
