//! Reads a target of Dial: `SIP/trunk`, `SIP/trunk/number`, `SIP/number@trunk`,
//! `PJSIP/number@trunk` or `sip:user@host:port`. It is split here and never again: a variable fills
//! one hole.

use crate::app::{Address, Target, Technology};
use crate::limits::NAME_MAX;
use crate::read::args::{Arg, Reading, find_outside, outside_holes};
use crate::read::known::{shown, suggestion};
use crate::read::templates::{escaped, template};
use crate::template::{Escape, Part, Template, is_host_byte};

/// Channel technologies of Asterisk that are not built.
const UNBUILT: &[&str] = &[
    "Agent",
    "AudioSocket",
    "Bridge",
    "Console",
    "DAHDI",
    "IAX2",
    "MulticastRTP",
    "Phone",
    "Skinny",
    "UnicastRTP",
    "WebSocket",
    "Zap",
];

const WHOLE: &str = "a variable fills one hole of a target and cannot hold all of it: write \
                     SIP/${TRUNK}/${EXTEN} or sip:${EXTEN}@${HOST}";

/// Reads one target; a trunk that is named in plain text goes to `trunks`.
pub(crate) fn target<'t>(arg: Arg<'t>, trunks: &mut Vec<Arg<'t>>) -> Reading<Target> {
    if arg.text.is_empty() {
        return Err(arg.wrong("a target is missing"));
    }
    if let Some(at) = find_outside(arg.text, b'&') {
        return Err(arg.wrong_at(at..at + 1, AND));
    }
    if let Some(colon) = find_outside(arg.text, b':') {
        let scheme = &arg.text[..colon];
        if scheme.eq_ignore_ascii_case("sip") {
            let address = Address::Uri(uri(arg, colon + 1)?);
            return Ok(Target { technology: Technology::Sip, address });
        }
        if ["sips", "tel", "urn"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(arg.wrong_at(0..colon, format!("targets of {scheme}: are not built yet")));
        }
    }
    let slash = find_outside(arg.text, b'/');
    let technology = slash.map_or(arg.text, |at| &arg.text[..at]);
    if technology.contains("${") {
        return Err(arg.wrong_at(0..technology.len(), WHOLE));
    }
    let Some(slash) = slash else {
        return Err(arg.wrong("a target is SIP/trunk, SIP/trunk/number or sip:user@host"));
    };
    let address = match technology.to_ascii_uppercase().as_str() {
        "SIP" => sip(arg.from(slash + 1), trunks)?,
        "PJSIP" => pjsip(arg.from(slash + 1), trunks)?,
        "LOCAL" => {
            let address = local(arg.from(slash + 1))?;
            return Ok(Target { technology: Technology::Local, address });
        }
        _ => return Err(arg.wrong_at(0..slash, unknown(technology))),
    };
    Ok(Target { technology: Technology::Sip, address })
}

/// Reads a target that an operator typed: `SIP/100`, `Local/100@default`, `sip:a@192.0.2.1`. It
/// holds no variables.
pub fn parse_target(text: &str) -> Result<Target, String> {
    let read = target(Arg::new(text, 0), &mut Vec::new());
    let target = read.map_err(|misread| misread.wrong.message)?;
    if text.contains('$') { Err("a variable means nothing here".to_owned()) } else { Ok(target) }
}

const AND: &str = "one target per text here; a `&` of the number itself is written `\\&`";

fn unknown(technology: &str) -> String {
    if let Some(known) = UNBUILT.iter().find(|known| known.eq_ignore_ascii_case(technology)) {
        return format!("the technology {known} is not built yet");
    }
    let all = ["SIP", "PJSIP", "Local"].into_iter().chain(UNBUILT.iter().copied());
    format!("unknown technology '{}'{}", shown(technology), suggestion(technology, all))
}

/// `trunk`, `trunk/number` or `number@trunk`.
fn sip<'t>(arg: Arg<'t>, trunks: &mut Vec<Arg<'t>>) -> Reading<Address<Template>> {
    let Some(slash) = find_outside(arg.text, b'/') else {
        return at_trunk(arg, trunks);
    };
    let number = arg.from(slash + 1);
    if let Some(again) = find_outside(number.text, b'/') {
        let message = "a `/` of the number itself is written `\\/`";
        return Err(number.wrong_at(again..again + 1, message));
    }
    trunk(arg.to(slash), Some(number), trunks)
}

/// `number@endpoint` or `endpoint`.
fn pjsip<'t>(arg: Arg<'t>, trunks: &mut Vec<Arg<'t>>) -> Reading<Address<Template>> {
    if let Some(slash) = find_outside(arg.text, b'/') {
        let rest = arg.from(slash + 1);
        let message = if rest.text.to_ascii_lowercase().starts_with("sip") {
            "PJSIP/endpoint/sip:... is not built yet; write PJSIP/number@endpoint"
        } else {
            "a PJSIP target is PJSIP/number@endpoint; with `/` it is SIP/trunk/number"
        };
        return Err(rest.wrong(message));
    }
    at_trunk(arg, trunks)
}

/// `number@context`; the option `/n` is our way anyhow: the leg stays what it is.
fn local(arg: Arg<'_>) -> Reading<Address<Template>> {
    let (place, options) = match find_outside(arg.text, b'/') {
        Some(at) => (arg.to(at), arg.from(at + 1)),
        None => (arg, arg.from(arg.text.len())),
    };
    if !matches!(options.text, "" | "n") {
        return Err(options.wrong("of the options of Local, only `n` is built yet"));
    }
    let Some(at) = find_outside(place.text, b'@') else {
        return Err(place.wrong("a Local target is Local/number@context"));
    };
    let (number, context) = (place.to(at), place.from(at + 1));
    if number.text.is_empty() || context.text.is_empty() {
        return Err(place.wrong("a Local target is Local/number@context"));
    }
    Ok(Address::Local { number: template(number)?, context: template(context)? })
}

fn at_trunk<'t>(arg: Arg<'t>, trunks: &mut Vec<Arg<'t>>) -> Reading<Address<Template>> {
    match find_outside(arg.text, b'@') {
        Some(at) => trunk(arg.from(at + 1), Some(arg.to(at)), trunks),
        None => trunk(arg, None, trunks),
    }
}

fn trunk<'t>(
    name: Arg<'t>,
    number: Option<Arg<'t>>,
    trunks: &mut Vec<Arg<'t>>,
) -> Reading<Address<Template>> {
    if name.text.is_empty() {
        return Err(name.wrong("the trunk's name is missing"));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let read = template(name)?;
    let fixed = read.as_fixed().is_some();
    if fixed && (name.text.len() > NAME_MAX || !name.text.bytes().all(allowed)) {
        return Err(name.wrong(format!(
            "a trunk's name has letters, digits, `-`, `_` and `.`, at most {NAME_MAX}"
        )));
    }
    if fixed {
        trunks.push(name);
    }
    let number = match number {
        Some(number) if number.text.is_empty() => {
            return Err(number.wrong("the number is missing"));
        }
        Some(number) => Some(template(number)?),
        None => None,
    };
    Ok(Address::Trunk { name: read, number })
}

/// `sip:[user@]host[:port][;parameters]`; `start` is behind the scheme.
fn uri(arg: Arg<'_>, start: usize) -> Reading<Template> {
    let rest = arg.from(start);
    let mut parts = vec![Part::Text("sip:".into())];
    let host = match find_outside(rest.text, b'@') {
        None => rest,
        Some(at) => {
            parts.extend(user(rest.to(at))?.parts);
            parts.push(Part::Text("@".into()));
            rest.from(at + 1)
        }
    };
    let semicolon = find_outside(host.text, b';').unwrap_or(host.text.len());
    let (host, parameters) = (host.to(semicolon), host.from(semicolon));
    parts.extend(host_port(host)?.parts);
    check_parameters(parameters)?;
    if !parameters.text.is_empty() {
        parts.push(Part::Text(parameters.text.into()));
    }
    Ok(Template { parts: parts.into() })
}

fn user(arg: Arg<'_>) -> Reading<Template> {
    if arg.text.is_empty() {
        return Err(arg.wrong("the user before `@` is missing"));
    }
    let stands = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/%\\".contains(&byte);
    match outside_holes(arg.text).find(|(_, byte)| !stands(*byte)) {
        None => escaped(arg, Escape::UriUser),
        Some((at, byte)) if byte.is_ascii_graphic() => {
            let message =
                format!("`{0}` cannot stand in a URI's user; write %{byte:02X}", byte as char);
            Err(arg.wrong_at(at..at + 1, message))
        }
        Some((at, _)) => Err(arg.wrong_at(at..at + 1, "this cannot stand in a URI's user")),
    }
}

fn host_port(arg: Arg<'_>) -> Reading<Template> {
    if arg.text.is_empty() {
        return Err(arg.wrong("the URI has no host"));
    }
    let wrong_byte = |byte: u8| !is_host_byte(byte) && byte != b'$';
    if let Some((at, _)) = outside_holes(arg.text).find(|(_, byte)| wrong_byte(*byte)) {
        let length = arg.text[at..].chars().next().map_or(1, char::len_utf8);
        return Err(arg.wrong_at(at..at + length, "this cannot stand in a URI's host"));
    }
    let read = escaped(arg, Escape::UriHost)?;
    if let Some(fixed) = read.as_fixed() {
        check_host(arg, fixed)?;
    }
    Ok(read)
}

fn check_host(arg: Arg<'_>, text: &str) -> Reading<()> {
    let (host, port) = match text.rfind(']') {
        Some(end) if text.starts_with('[') => (&text[1..end], &text[end + 1..]),
        _ => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let bracketed = text.starts_with('[');
    if host.is_empty() {
        return Err(arg.wrong("the URI has no host"));
    }
    if bracketed && host.parse::<std::net::Ipv6Addr>().is_err() {
        return Err(arg.wrong("this is not an IPv6 address in brackets"));
    }
    if !bracketed && host.contains(['[', ']']) {
        return Err(arg.wrong("this is not a host"));
    }
    let port_is_right = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => {
            digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok_and(|p| p > 0)
        }
    };
    if port_is_right { Ok(()) } else { Err(arg.wrong("the port is a number from 1 to 65535")) }
}

fn check_parameters(arg: Arg<'_>) -> Reading<()> {
    if arg.text.contains("${") {
        return Err(arg.wrong("a variable in the parameters of a URI is not built yet"));
    }
    if let Some(at) = arg.text.find('?') {
        return Err(arg.from(at).wrong("headers in a URI are not built yet"));
    }
    if !arg.text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\",\\".contains(&byte)) {
        return Err(arg.wrong("these are no parameters of a URI"));
    }
    for parameter in arg.text.split(';') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_built = ["udp", "tcp"].iter().any(|known| value.eq_ignore_ascii_case(known));
        if name.eq_ignore_ascii_case("transport") && !is_built {
            return Err(arg.wrong("a transport other than udp and tcp is not built yet"));
        }
    }
    Ok(())
}
