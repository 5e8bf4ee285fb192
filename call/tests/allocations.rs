//! How many allocations a call makes in this crate, and what it keeps while it is held.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use call::*;
use turn::Now;

const OFFER: &[u8] = b"v=0\r\no=user1 53655765 2353687637 IN IP4 127.0.0.1\r\ns=-\r\n\
    c=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// Bytes that a held answered call keeps beside its place in the table: its texts.
const HELD_BYTES_MAX: i64 = 256;
/// Bytes that a held bridged call keeps beside its place in the table.
const HELD_BRIDGED_BYTES_MAX: i64 = 768;

struct Rig {
    calls: Calls,
    out: CallOut,
    plan: Arc<dialplan::Plan>,
    endpoint: Arc<Endpoint>,
    line: Vec<u8>,
}

impl Rig {
    fn new(steps: &str) -> Self {
        let text = format!("[[context.in.exten]]\nmatch = \"x\"\nsteps = [{steps}]\n");
        let plan = dialplan::parse(&[("plan.toml", &text)]).expect("the plan is right");
        let naming = Naming { system: "pbx".into(), shard: 0, shards: 1 };
        Self {
            calls: Calls::new(CallLimits { calls_max: 1000, ..CallLimits::default() }, &naming),
            out: CallOut::new(),
            plan: Arc::new(plan),
            endpoint: Arc::new(Endpoint {
                channel: "SIP/sipp".into(),
                name: "sipp".into(),
                context: "in".into(),
            }),
            line: Vec::with_capacity(1024),
        }
    }

    fn setup(&mut self) -> LegId {
        let text = SetupText {
            digits: "x",
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
        let mut cx =
            Cx { now: Now::default(), out: &mut self.out, world: &Void, verbose_wanted: 0 };
        let leg = self.calls.setup(&mut cx, &self.plan, setup).expect("room");
        self.drain();
        leg
    }

    fn event(&mut self, leg: LegId, event: LegEvent) {
        let mut cx =
            Cx { now: Now::default(), out: &mut self.out, world: &Void, verbose_wanted: 0 };
        self.calls.on_leg(&mut cx, leg, event);
        self.drain();
    }

    fn drain(&mut self) {
        self.out.commands.clear();
        self.out.timers.clear();
        self.out.facts.clear();
        for record in self.out.records.drain(..) {
            self.line.clear();
            record.to_json_line(&mut self.line);
        }
    }

    fn bridge(&mut self) -> LegId {
        let a = self.setup();
        let b = LegId { leg: 1, ..a };
        self.event(b, LegEvent::Alerting { early: Early(0), answer: None });
        let session = SessionPart::Answer(OfferId(2), description());
        self.event(b, LegEvent::Answered { early: Early(0), session });
        a
    }

    fn end(&mut self, a: LegId) {
        self.event(a, LegEvent::Released(Cause::NORMAL_CLEARING));
        self.event(LegId { leg: 1, ..a }, LegEvent::Released(Cause::NORMAL_CLEARING));
    }
}

fn description() -> Description {
    let content_type = Bytes::from_static(b"application/sdp");
    Description { content_type, body: Bytes::from_static(OFFER) }
}

#[test]
fn an_answered_call_makes_few_allocations_and_keeps_little() {
    let mut rig = Rig::new("'Ringing()', 'Answer()', 'Wait(86400)'");
    let warm = rig.setup();
    rig.end(warm);
    let whole = allocation_counter::measure(|| {
        let a = rig.setup();
        rig.end(a);
    });
    println!("answered call: {} allocations, {} bytes", whole.count_total, whole.bytes_total);
    // The texts, the description's bytes and its shared owner.
    assert!(whole.count_total <= 3, "{whole:?}");
    assert_eq!(whole.count_current, 0, "{whole:?}");
    let held = allocation_counter::measure(|| {
        for _ in 0..100 {
            rig.setup();
        }
    });
    let each = held.bytes_current / 100;
    println!("held answered call: {each} bytes and its place of {} bytes", Calls::PLACE_BYTES);
    assert!(each <= HELD_BYTES_MAX, "{held:?}");
}

#[test]
fn a_bridged_call_makes_few_allocations_and_keeps_little() {
    let mut rig = Rig::new("'Dial(sip:bridge@127.0.0.1:5070,30)'");
    let warm = rig.bridge();
    rig.end(warm);
    let whole = allocation_counter::measure(|| {
        let a = rig.bridge();
        rig.end(a);
    });
    println!("bridged call: {} allocations, {} bytes", whole.count_total, whole.bytes_total);
    assert!(whole.count_total <= 12, "{whole:?}");
    assert_eq!(whole.count_current, 0, "{whole:?}");
    let held = allocation_counter::measure(|| {
        for _ in 0..100 {
            rig.bridge();
        }
    });
    let each = held.bytes_current / 100;
    println!("held bridged call: {each} bytes and its place of {} bytes", Calls::PLACE_BYTES);
    assert!(each <= HELD_BRIDGED_BYTES_MAX, "{held:?}");
}
