//! The words about SIP messages: `sip set trace ...`.

use super::Said;
use crate::wire::{Command, TraceAsk, TraceWhose};

pub(super) fn set(rest: &[&str]) -> Option<Said> {
    let [word, rest @ ..] = rest else { return None };
    let ask = match (word.to_ascii_lowercase().as_str(), rest) {
        ("on", rest) => TraceAsk::On { of: whose(rest)?.unwrap_or(TraceWhose::All), file: None },
        ("off", rest) => TraceAsk::Off { of: whose(rest)? },
        ("to", [file, rest @ ..]) => TraceAsk::On {
            of: whose(rest)?.unwrap_or(TraceWhose::All),
            file: Some((*file).to_owned()),
        },
        _ => return None,
    };
    Some(Said::Ask(Command::Trace(ask)))
}

/// Nothing, an address, or a kind and a name; `None`: none of these.
fn whose(rest: &[&str]) -> Option<Option<TraceWhose>> {
    Some(match *rest {
        [] => None,
        [word] if word.eq_ignore_ascii_case("all") => Some(TraceWhose::All),
        [address] => Some(TraceWhose::Peer { address: address.parse().ok()? }),
        [word, it] => Some(match word.to_ascii_lowercase().as_str() {
            "peer" | "host" => TraceWhose::Peer { address: it.parse().ok()? },
            "endpoint" | "trunk" => TraceWhose::Endpoint { name: it.to_owned() },
            "call" => TraceWhose::Call { call: it.to_owned() },
            _ => return None,
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::parse;

    fn ask(line: &str) -> Option<TraceAsk> {
        match parse([line]) {
            Ok(Said::Ask(Command::Trace(ask))) => Some(ask),
            Ok(_) | Err(_) => None,
        }
    }

    #[test]
    fn a_trace_is_of_all_a_peer_an_endpoint_or_a_call() {
        let on = |of| Some(TraceAsk::On { of, file: None });
        let peer = || TraceWhose::Peer { address: [192, 0, 2, 1].into() };
        assert_eq!(ask("sip set trace on"), on(TraceWhose::All));
        assert_eq!(ask("sip set trace on 192.0.2.1"), on(peer()));
        assert_eq!(ask("pjsip set logger host 192.0.2.1"), on(peer()));
        let alice = || TraceWhose::Endpoint { name: "alice".into() };
        assert_eq!(ask("sip set trace on endpoint alice"), on(alice()));
        assert_eq!(ask("sip set trace off"), Some(TraceAsk::Off { of: None }));
        assert_eq!(
            ask("sip set trace off endpoint alice"),
            Some(TraceAsk::Off { of: Some(alice()) })
        );
        let call = TraceWhose::Call { call: "C-0000001a".into() };
        let to = TraceAsk::On { of: call, file: Some("a.pcap".into()) };
        assert_eq!(ask("sip set trace to a.pcap call C-0000001a"), Some(to));
        assert_eq!(ask("sip show traces"), Some(TraceAsk::Show));
        for wrong in
            ["sip set trace", "sip set trace to", "sip set trace on nobody", "sip set trace x"]
        {
            assert_eq!(ask(wrong), None, "{wrong}");
        }
    }
}
