//! Endpoints, contacts and trunks in the columns of `pjsip show endpoints` and its kin.

use super::line;
use crate::wire::{Contact, Endpoint, Trunk};

pub(super) fn endpoint_header(out: &mut String) {
    let dots = |count: usize| ".".repeat(count);
    let (cid, aor) = (dots(37), dots(44));
    line(out, format_args!(" Endpoint:  <Endpoint/CID{cid}>  <State.....>  <Channels.>"));
    line(out, format_args!("        Aor:  <Aor{aor}>  <MaxContact>"));
    contact_columns("    ", 26, out);
}

pub(super) fn endpoint(endpoint: &Endpoint, out: &mut String) {
    let Endpoint { name, caller_id, state, calls, calls_max, contacts_max, dnd, .. } = endpoint;
    let shown = match caller_id.as_str() {
        "" => name.clone(),
        number => format!("{name}/{number}"),
    };
    let most = if *calls_max == 0 { "inf".to_owned() } else { calls_max.to_string() };
    let note = if *dnd { "  do not disturb" } else { "" };
    line(out, format_args!(" Endpoint:  {shown:<51.51}  {state:<12} {calls:>4} of {most}{note}"));
    line(out, format_args!("        Aor:  {name:<49.49}  {contacts_max:>12}"));
    for one in &endpoint.contacts {
        contact(one, out);
    }
    line(out, format_args!(""));
}

pub(super) fn contact_header(out: &mut String) {
    contact_columns("", 30, out);
}

fn contact_columns(indent: &str, dots: usize, out: &mut String) {
    let uri = ".".repeat(dots);
    let (status, rtt) = ("<Status>", "<RTT(ms)..>");
    line(out, format_args!("{indent}  Contact:  <Aor/ContactUri{uri}> <Hash....> {status} {rtt}"));
    line(out, format_args!("{}", "=".repeat(90)));
    line(out, format_args!(""));
}

/// The hash is of the URI, as a short name for scripts.
pub(super) fn contact(contact: &Contact, out: &mut String) {
    let Contact { aor, uri, status, rtt_us, .. } = contact;
    let place = format!("{aor}/{uri}");
    let rtt = rtt_us.map_or("nan".to_owned(), |rtt| format!("{:.3}", f64::from(rtt) / 1e3));
    let hash = short_hash(uri);
    line(out, format_args!("  Contact:  {place:<46.46} {hash:<10} {status:<8} {rtt:>10}"));
}

/// FNV-1a: it only has to be short and the same tomorrow.
fn short_hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{:010x}", hash & 0xff_ffff_ffff)
}

pub(super) fn trunk_header(out: &mut String) {
    trunk_row(["Trunk", "Context", "Calls max", "Registration", "Peers"], out);
}

fn trunk_row([name, context, most, registration, peers]: [&str; 5], out: &mut String) {
    line(out, format_args!("{name:<24} {context:<16} {most:>9}  {registration:<12} {peers}"));
}

pub(super) fn trunk(trunk: &Trunk, out: &mut String) {
    let Trunk { name, context, peers, calls_max, registration, unreachable } = trunk;
    let most = if *calls_max == 0 { "inf".to_owned() } else { calls_max.to_string() };
    let shown = |peer: &String| match unreachable.contains(peer) {
        true => format!("{peer} (UNREACHABLE)"),
        false => peer.clone(),
    };
    let peers: Vec<String> = peers.iter().map(shown).collect();
    let registration = if registration.is_empty() { "-" } else { registration };
    trunk_row([name, context, &most, registration, &peers.join(", ")], out);
}
