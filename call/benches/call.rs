//! What a whole call costs in this crate: a held answered one and a bridged one, from set-up to
//! record.

use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use call::*;
use criterion::{Criterion, criterion_group, criterion_main};
use dialplan::Plan;
use turn::{Mono, Now, Wall};

const PLAN: &str = r#"
[context.sipp]
[[context.sipp.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Wait(86400)"]
[[context.sipp.exten]]
match = "bridge"
steps = ["Dial(sip:bridge@127.0.0.1:5070,30)"]
"#;

const OFFER: &[u8] = b"v=0\r\no=user1 53655765 2353687637 IN IP4 127.0.0.1\r\ns=-\r\n\
    c=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

struct Rig {
    calls: Calls,
    out: CallOut,
    plan: Arc<Plan>,
    endpoint: Arc<Endpoint>,
    now: Now,
    line: Vec<u8>,
}

impl Rig {
    fn new() -> Self {
        let plan = dialplan::parse(&[("bench.toml", PLAN)]).expect("the plan is right");
        let naming = Naming { system: "pbx".into(), shard: 0, shards: 1 };
        let mono = Mono::from_nanos(1_000_000_000);
        Self {
            calls: Calls::new(CallLimits::default(), &naming),
            out: CallOut::new(),
            plan: Arc::new(plan),
            endpoint: Arc::new(Endpoint {
                channel: "SIP/sipp".into(),
                name: "sipp".into(),
                context: "sipp".into(),
            }),
            now: Now { mono, wall: Wall::from_micros(1_796_000_000_000_000), utc_offset_s: 0 },
            line: Vec::with_capacity(1024),
        }
    }

    fn setup(&mut self, digits: &str) -> LegId {
        let text = SetupText {
            digits,
            caller_number: "sipp",
            caller_name: "sipp",
            foreign_id: "1-12345@127.0.0.1",
            peer: "127.0.0.1:5080",
        };
        let setup = Setup {
            endpoint: Arc::clone(&self.endpoint),
            text: Text::pack(&text),
            may_grow: false,
            hops: 70,
            local: IpAddr::from([127, 0, 0, 1]),
            offer: Some((OfferId(1), description())),
            headers: Box::default(),
            variables: Vec::new(),
            is_answered: false,
        };
        let mut cx = Cx { now: self.now, out: &mut self.out, world: &Void, verbose_wanted: 0 };
        let leg = self.calls.setup(&mut cx, &self.plan, setup).expect("room");
        self.drain();
        leg
    }

    fn event(&mut self, leg: LegId, event: LegEvent) {
        let mut cx = Cx { now: self.now, out: &mut self.out, world: &Void, verbose_wanted: 0 };
        self.calls.on_leg(&mut cx, leg, event);
        self.drain();
    }

    fn drain(&mut self) {
        black_box(&self.out);
        self.out.commands.clear();
        self.out.timers.clear();
        self.out.facts.clear();
        for record in self.out.records.drain(..) {
            self.line.clear();
            record.to_json_line(&mut self.line);
            black_box(&self.line);
        }
    }

    fn answered(&mut self) {
        let a = self.setup("answer");
        self.event(a, LegEvent::Released(Cause::NORMAL_CLEARING));
    }

    fn bridged(&mut self) {
        let a = self.setup("bridge");
        let b = LegId { leg: 1, ..a };
        self.event(b, LegEvent::Proceeding);
        self.event(b, LegEvent::Alerting { early: Early(0), answer: None });
        let session = SessionPart::Answer(OfferId(2), description());
        self.event(b, LegEvent::Answered { early: Early(0), session });
        self.event(a, LegEvent::Released(Cause::NORMAL_CLEARING));
        self.event(b, LegEvent::Released(Cause::NORMAL_CLEARING));
        assert!(self.calls.is_empty());
    }
}

fn description() -> Description {
    let content_type = Bytes::from_static(b"application/sdp");
    Description { content_type, body: Bytes::from_static(OFFER) }
}

fn benches(c: &mut Criterion) {
    let mut rig = Rig::new();
    c.bench_function("call/answered", |b| b.iter(|| rig.answered()));
    c.bench_function("call/bridged", |b| b.iter(|| rig.bridged()));
}

criterion_group!(all, benches);
criterion_main!(all);
