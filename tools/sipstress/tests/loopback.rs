//! Caller and answerer over real sockets. Nothing here depends on the machine being fast: the
//! limits of lateness are far out, except where lateness is the point.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use sipstress::answerer::{Answerer, Answering, Misbehaviour};
use sipstress::caller::{Behaviour, Caller};
use sipstress::drive::{Generator, Plan};
use sipstress::identity::Run;
use sipstress::link::Link;
use sipstress::report::StepReport;
use sipstress::schedule::Arrivals;
use sipstress::serve::serve;
use sipstress::tally::Cause;
use sipstress::template::Parties;
use sipstress::verdict::{Limits, Verdict};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use turn::Rng;

const PATIENT: Limits =
    Limits { lag_p99_ms: 60_000.0, setup_p99_ms: 60_000.0, retransmissions_percent: 1_000.0 };

struct Callee {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<sipstress::answerer::AnswerCounts>>,
}

impl Callee {
    fn start(listen: &str, code: u16, misbehaviour: Misbehaviour) -> Option<Self> {
        let mut link = match Link::bind(listen.parse().unwrap()) {
            Ok(link) => link,
            Err(error) => {
                println!("skipped: {error:#}");
                return None;
            }
        };
        let address = link.port.local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let answering =
                Answering { code, ring: Duration::ZERO, calls_max: 10_000, misbehaviour };
            let now = link.clock.mono();
            let mut answerer = Answerer::new(Run(2), answering, Rng::new([1; 32]), now);
            serve(&mut link, &mut answerer, &told);
            answerer.counts
        });
        Some(Self { address, stop, thread: Some(thread) })
    }

    fn end(mut self) -> sipstress::answerer::AnswerCounts {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn step(target: SocketAddr, rate: f64, timeout: Duration, limits: &Limits) -> StepReport {
    step_by(target, rate, timeout, limits, Duration::ZERO)
}

fn step_by(
    target: SocketAddr,
    rate: f64,
    timeout: Duration,
    limits: &Limits,
    tick: Duration,
) -> StepReport {
    let stop = AtomicBool::new(false);
    let link = Link::bind(SocketAddr::new(target.ip(), 0)).unwrap();
    let parties = Parties { user: "x".into(), target, local: link.port.local_addr() };
    let behaviour = Behaviour { hold: Some(Duration::ZERO), timeout, calls_max: 10_000 };
    let caller = Caller::new(Run(1), &parties, behaviour, link.clock.mono());
    let mut generator = Generator::new(link, Box::new(caller), &stop);
    let span = Duration::from_millis(500);
    let plan = Plan { rate, span, arrivals: Arrivals::Uniform, seed: [0; 32], tick };
    generator.begin(plan, None);
    while generator.advance(generator.step_end()) {}
    generator.settle(generator.step_end() + Duration::from_secs(60));
    generator.finish(None, limits)
}

#[test]
fn a_sound_callee_is_clean_on_both_families() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let Some(callee) = Callee::start(listen, 200, Misbehaviour::default()) else { continue };
        let report = step(callee.address, 200.0, Duration::from_secs(32), &PATIENT);
        let counts = callee.end();
        assert_eq!(report.verdict, Verdict::Clean, "{report:?}");
        assert_eq!((report.scheduled, report.sent, report.answered), (100, 100, 100));
        assert_eq!((report.completed, report.failed), (100, 0));
        assert_eq!(report.setup_ms.count, 100);
        assert_eq!((counts.invites, counts.acked, counts.byes), (100, 100, 100));
        // INVITE, ACK, BYE and two 200s a call, when nothing had to be repeated.
        if report.retransmissions == 0 && report.repeated_answers == 0 {
            assert_eq!((report.packets_out, report.packets_in), (300, 200));
        }
    }
}

#[test]
fn ticks_make_calls_together_and_the_lag_shows_it() {
    let callee = Callee::start("127.0.0.1:0", 200, Misbehaviour::default()).unwrap();
    let tick = Duration::from_millis(100);
    let report = step_by(callee.address, 200.0, Duration::from_secs(32), &PATIENT, tick);
    callee.end();
    assert_eq!((report.sent, report.answered), (100, 100), "{report:?}");
    // Due every 5 ms, made every 100 ms: the second of a tick waits 95 ms, the last 5.
    assert!(report.generator.send_lag_ms.max >= 94.0, "{report:?}");
    assert!(report.generator.send_lag_ms.p50 >= 44.0, "{report:?}");
}

#[test]
fn a_callee_that_refuses_is_blamed_with_its_own_word() {
    let busy = Misbehaviour { busy_above: 1, ..Misbehaviour::default() };
    for (code, misbehaviour, cause) in
        [(486, Misbehaviour::default(), Cause::Refused), (200, busy, Cause::Unavailable)]
    {
        let callee = Callee::start("127.0.0.1:0", code, misbehaviour).unwrap();
        let report = step(callee.address, 100.0, Duration::from_secs(32), &PATIENT);
        callee.end();
        assert!(matches!(report.verdict, Verdict::ServerFailed(_)), "{report:?}");
        assert!(report.failures[&cause] >= 40, "{:?}", report.failures);
    }
}

#[test]
fn a_silent_callee_times_out() {
    let silent = Misbehaviour { drop_percent: 100, ..Misbehaviour::default() };
    let callee = Callee::start("127.0.0.1:0", 200, silent).unwrap();
    let report = step(callee.address, 40.0, Duration::from_secs(2), &PATIENT);
    callee.end();
    assert_eq!(report.failures[&Cause::Timeout], 20);
    assert!(report.retransmissions >= 20, "{report:?}");
    assert!(matches!(report.verdict, Verdict::ServerFailed(_)));
}

#[test]
fn a_late_callee_is_late_and_not_the_generator() {
    let late = Misbehaviour { late: Duration::from_millis(300), ..Misbehaviour::default() };
    let callee = Callee::start("127.0.0.1:0", 200, late).unwrap();
    let limits = Limits { setup_p99_ms: 250.0, ..PATIENT };
    let report = step(callee.address, 40.0, Duration::from_secs(32), &limits);
    callee.end();
    assert!(matches!(report.verdict, Verdict::ServerLate(_)), "{report:?}");
    assert!(report.setup_ms.p50 >= 300.0);
    // Of 20 calls in half a second those of the last 300 ms are answered after it.
    assert_eq!(report.answered, 20);
    assert!(report.answered_cps <= 26.0, "{}", report.answered_cps);
}

#[test]
fn a_generator_beyond_its_means_says_so() {
    // A million calls per second is beyond any machine.
    let callee = Callee::start("127.0.0.1:0", 200, Misbehaviour::default()).unwrap();
    let limits = Limits { lag_p99_ms: 10.0, ..PATIENT };
    let report = step(callee.address, 1e6, Duration::from_secs(2), &limits);
    callee.end();
    assert!(matches!(report.verdict, Verdict::GeneratorLimit(_)), "{report:?}");
    assert!(report.generator.not_made + report.generator.table_full > 0);
}

#[test]
fn a_port_where_nobody_listens_is_told_soon() {
    let gone = Link::bind("127.0.0.1:0".parse().unwrap()).unwrap().port.local_addr();
    let report = step(gone, 100.0, Duration::from_secs(32), &PATIENT);
    let Verdict::ServerFailed(why) = &report.verdict else { panic!("{report:?}") };
    assert!(why.contains("nothing listens"), "{why}");
}

#[test]
fn a_server_that_has_gone_is_told_by_the_errors_that_come_back() {
    let callee = Callee::start("127.0.0.1:0", 200, Misbehaviour::default()).unwrap();
    let target = callee.address;
    assert_eq!(step(target, 20.0, Duration::from_secs(2), &PATIENT).failed, 0);
    callee.end();
    let report = step(target, 1_000.0, Duration::from_secs(1), &PATIENT);
    assert!(report.unreachable > 0, "{report:?}");
    assert!(matches!(report.verdict, Verdict::ServerFailed(_)));
}

#[test]
fn a_run_stopped_by_hand_says_so_and_ends_soon() {
    let late = Misbehaviour { late: Duration::from_secs(60), ..Misbehaviour::default() };
    let callee = Callee::start("127.0.0.1:0", 200, late).unwrap();
    let stop = AtomicBool::new(false);
    let link = Link::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (target, local) = (callee.address, link.port.local_addr());
    let parties = Parties { user: "x".into(), target, local };
    let timeout = Duration::from_secs(32);
    let behaviour = Behaviour { hold: Some(Duration::ZERO), timeout, calls_max: 100 };
    let caller = Caller::new(Run(1), &parties, behaviour, link.clock.mono());
    let mut generator = Generator::new(link, Box::new(caller), &stop);
    let (arrivals, tick) = (Arrivals::Uniform, Duration::ZERO);
    let span = Duration::from_secs(3_600);
    generator.begin(Plan { rate: 10.0, span, arrivals, seed: [0; 32], tick }, None);
    let soon = generator.step_end();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        while generator.advance(soon) {}
    });
    assert!(!generator.settle(soon));
    let report = generator.finish(None, &PATIENT);
    callee.end();
    assert_eq!(report.verdict, Verdict::Interrupted);
    assert!(report.sent > 0 && report.unfinished == report.sent, "{report:?}");
    // What was not due yet when it was stopped is not held against anybody.
    assert_eq!((report.scheduled, report.generator.not_made), (report.sent, 0));
}
