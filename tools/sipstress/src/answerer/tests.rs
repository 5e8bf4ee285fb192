//! Caller and answerer against each other on virtual time, over a network that loses.

use super::*;
use crate::caller::{Behaviour, Caller};
use crate::tally::Cause;
use crate::template::Parties;

const NONE: Answering = Answering {
    code: 200,
    ring: Duration::ZERO,
    calls_max: 1_000,
    misbehaviour: Misbehaviour {
        busy_above: 0,
        drop_percent: 0,
        ignore_bye: false,
        late: Duration::ZERO,
    },
};

struct World {
    caller: Caller,
    answerer: Answerer,
    now: Mono,
    network: Rng,
    loss_percent: u64,
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

impl World {
    fn new(answering: Answering, hold: Duration, seed: u8, loss_percent: u64) -> Self {
        let parties = Parties {
            user: "answer".into(),
            target: address("127.0.0.1:5070"),
            local: address("127.0.0.1:40000"),
        };
        let behaviour =
            Behaviour { hold: Some(hold), timeout: TRANSACTION_TIMEOUT, calls_max: 1_000 };
        let now = Mono::from_nanos(1);
        Self {
            caller: Caller::new(Run(1), &parties, behaviour, now),
            answerer: Answerer::new(Run(2), answering, Rng::new([seed; 32]), now),
            now,
            network: Rng::new([seed; 32]),
            loss_percent,
        }
    }

    /// Delivers until nothing is under way.
    fn exchange(&mut self) {
        while self.caller.waiting() + self.answerer.outbox.len() > 0 {
            let requests: Vec<_> =
                self.caller.outbox().sends().map(|(_, bytes)| bytes.to_vec()).collect();
            for (place, bytes) in requests.iter().enumerate() {
                self.caller.on_sent(place, self.now);
                if self.network.below(100) >= self.loss_percent {
                    let (local, remote) = (address("127.0.0.1:5070"), address("127.0.0.1:40000"));
                    self.answerer.receive(bytes, local, remote, self.now);
                }
            }
            self.caller.clear_sends();
            let responses: Vec<_> =
                self.answerer.outbox.sends().map(|(_, bytes)| bytes.to_vec()).collect();
            self.answerer.outbox.clear();
            for bytes in responses {
                if self.network.below(100) >= self.loss_percent {
                    self.caller.receive(&bytes, self.now, self.now);
                }
            }
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.exchange();
            let next =
                [self.caller.next_timeout(), self.answerer.next_timeout()].into_iter().flatten();
            match next.min().filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            self.caller.fire(self.now);
            self.answerer.fire(self.now);
        }
        self.now = end;
    }

    fn place(&mut self, calls: u32, every: Duration) {
        for _ in 0..calls {
            assert!(self.caller.place(self.now, self.now));
            self.run(every);
        }
    }
}

#[test]
fn every_call_is_answered_and_both_sides_end_empty() {
    let ringing = Answering { ring: Duration::from_millis(300), ..NONE };
    for (answering, rings) in [(NONE, 0), (ringing, 1)] {
        let mut world = World::new(answering, Duration::from_secs(2), 1, 0);
        world.place(50, Duration::from_millis(10));
        world.run(Duration::from_secs(100));
        let (tally, counts) = (&world.caller.tally, world.answerer.counts);
        assert_eq!((tally.answered, tally.completed, tally.failed()), (50, 50, 0));
        assert_eq!((tally.retransmissions, tally.ringing), (0, 50 * rings));
        assert_eq!((counts.invites, counts.acked, counts.byes), (50, 50, 50));
        assert_eq!((counts.repeated_responses, counts.unacked), (0, 0));
        assert_eq!((world.caller.open(), world.answerer.open()), (0, 0));
        assert!(world.answerer.by_invite.is_empty());
    }
}

#[test]
fn loss_costs_repeats_but_leaves_nothing_behind() {
    for seed in 0..20 {
        let mut world = World::new(NONE, Duration::from_secs(2), seed, 10);
        world.place(50, Duration::from_millis(10));
        world.run(Duration::from_secs(300));
        let (tally, counts) = (&world.caller.tally, world.answerer.counts);
        assert_eq!(tally.answered + tally.failed(), 50, "seed {seed}: {tally:?}");
        assert_eq!(counts.answered, 50, "seed {seed}: one answer a call");
        assert!(tally.retransmissions > 0, "seed {seed}");
        assert_eq!((world.caller.open(), world.answerer.open()), (0, 0), "seed {seed}");
        assert!(world.answerer.by_invite.is_empty(), "seed {seed}");
    }
}

#[test]
fn nearly_total_loss_leaks_no_call() {
    // Case G01: memory must not grow with message loss.
    let mut world = World::new(NONE, Duration::ZERO, 3, 99);
    world.place(200, Duration::from_millis(100));
    world.run(Duration::from_secs(200));
    assert_eq!((world.caller.open(), world.answerer.open()), (0, 0));
    let tally = &world.caller.tally;
    assert!(tally.failures[&Cause::Timeout] > 150, "{tally:?}");
}

#[test]
fn failures_on_purpose_show_with_their_cause() {
    let busy = Misbehaviour { busy_above: 50, ..NONE.misbehaviour };
    let deaf = Misbehaviour { ignore_bye: true, ..NONE.misbehaviour };
    let gone = Misbehaviour { drop_percent: 100, ..NONE.misbehaviour };
    let cases = [
        (Answering { code: 486, ..NONE }, Cause::Refused, 20),
        (Answering { code: 603, ..NONE }, Cause::Declined, 20),
        (Answering { misbehaviour: busy, ..NONE }, Cause::Unavailable, 10),
        (Answering { misbehaviour: deaf, ..NONE }, Cause::ByeTimeout, 20),
        (Answering { misbehaviour: gone, ..NONE }, Cause::Timeout, 20),
    ];
    for (answering, cause, failed) in cases {
        let mut world = World::new(answering, Duration::ZERO, 1, 0);
        world.place(20, Duration::from_millis(10));
        world.run(Duration::from_secs(100));
        let tally = &world.caller.tally;
        assert_eq!(tally.failures.get(&cause), Some(&failed), "{cause:?}: {:?}", tally.failures);
        assert_eq!(world.caller.open(), 0);
    }
}

#[test]
fn a_late_answer_costs_a_repeat() {
    let late = Misbehaviour { late: Duration::from_millis(800), ..NONE.misbehaviour };
    let mut world = World::new(Answering { misbehaviour: late, ..NONE }, Duration::ZERO, 1, 0);
    world.place(10, Duration::from_millis(10));
    world.run(Duration::from_secs(60));
    let tally = &world.caller.tally;
    assert_eq!((tally.answered, tally.failed(), tally.retransmissions), (10, 0, 10));
    assert!(tally.setup.quantiles().p50 >= 800.0);
    assert_eq!(world.answerer.counts.repeated_invites, 10);
}

#[test]
fn a_cancel_ends_a_ringing_call() {
    let ringing = Answering { ring: Duration::from_secs(60), ..NONE };
    let mut world = World::new(ringing, Duration::ZERO, 1, 0);
    world.place(1, Duration::from_secs(40));
    world.run(Duration::from_secs(60));
    assert_eq!(world.answerer.counts.cancels, 1);
    assert_eq!(world.caller.tally.failures[&Cause::Timeout], 1);
    assert_eq!((world.caller.open(), world.answerer.open()), (0, 0));
}

#[test]
fn a_full_table_refuses_with_503() {
    let mut world = World::new(Answering { calls_max: 2, ..NONE }, Duration::from_secs(5), 1, 0);
    world.place(3, Duration::from_millis(1));
    world.run(Duration::from_secs(60));
    assert_eq!(world.answerer.counts.full, 1);
    let tally = &world.caller.tally;
    assert_eq!((tally.failures[&Cause::Unavailable], tally.retry_after), (1, 1));
    assert_eq!(tally.completed, 2);
}

#[test]
fn strangers_get_the_answer_of_the_rules() {
    let mut world = World::new(NONE, Duration::ZERO, 1, 0);
    let (local, remote) = (address("127.0.0.1:5070"), address("127.0.0.1:40000"));
    for (method, status) in
        [("OPTIONS", "200"), ("BYE", "481"), ("CANCEL", "481"), ("REFER", "501")]
    {
        let request = format!(
            "{method} sip:x@127.0.0.1 SIP/2.0\r\n\
             Via: SIP/2.0/UDP 127.0.0.1:40000;branch=z9hG4bKx\r\n\
             From: <sip:a@b>;tag=f\r\nTo: <sip:c@d>;tag=foreign\r\n\
             Call-ID: 1\r\nCSeq: 1 {method}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        world.answerer.receive(request.as_bytes(), local, remote, world.now);
        let answers: Vec<_> =
            world.answerer.outbox.sends().map(|(_, bytes)| bytes.to_vec()).collect();
        world.answerer.outbox.clear();
        let text = String::from_utf8_lossy(&answers[0]);
        assert!(text.starts_with(&format!("SIP/2.0 {status} ")), "{method}: {text}");
    }
}
