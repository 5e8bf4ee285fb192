//! Q.850 causes and SIP status codes: RFC 3398 §7.2.4.1 and §8.2.6.1, as FIELD-tested systems use
//! them, and the Reason header field (RFC 3326).
//!
//! `call` decides by the Q.850 value; the status that a SIP leg gave travels along as the origin
//! and is read back here, so 486, 600, 603, 488, a 3xx with its contacts and Retry-After survive
//! between two SIP legs. A 503 does not: RFC 3261 §16.7 step 6 makes it a 500 for the caller, since
//! his next call may well go through.

use bytes::Bytes;
use call::{Cause, Origin};
use dialplan::Technology;
use sip::usage::{End, Why};
use sip::wire::{Message, Name, Params};

/// The cause of a final response (RFC 3398 §8.2.6.1).
pub(crate) const fn q850_of_status(status: u16) -> u8 {
    match status {
        400 | 401 | 402 | 403 | 407 | 503 => match status {
            400 | 503 => 41,
            _ => 21,
        },
        404 | 604 => 1,
        405 => 63,
        406 | 415 | 416 => 79,
        408 | 504 => 102,
        410 => 22,
        413 | 414 | 420 | 421 | 481 | 493 => 127,
        423 | 505 | 513 => 127,
        480 => 18,
        482 | 483 => 25,
        484 => 28,
        485 => 1,
        486 | 600 => 17,
        487 => 16,
        488 | 606 => 88,
        491 => 44,
        500 => 41,
        501 => 79,
        502 => 38,
        603 | 607 | 608 => 21,
        300..=399 => 23,
        _ => 31,
    }
}

/// The status for a caller whose call ends with this cause (RFC 3398 §7.2.4.1; FIELD 3.7).
pub(crate) const fn status_of_q850(q850: u8) -> u16 {
    match q850 {
        1..=3 => 404,
        17 => 486,
        18 => 408,
        16 | 19 | 20 | 31 => 480,
        21 => 403,
        22 => 410,
        23 => 302,
        25 => 482,
        26 => 404,
        27 => 502,
        28 => 484,
        29 => 501,
        34 | 42 => 503,
        38 | 41 | 127 => 500,
        44 => 491,
        55 | 57 => 403,
        58 => 503,
        63 | 79 => 501,
        65 | 70 | 88 => 488,
        66 => 503,
        102 => 504,
        _ => 480,
    }
}

/// How a leg is to be ended for `cause`.
pub(crate) fn end_of(cause: &Cause) -> End {
    let origin = cause.origin.as_ref().filter(|origin| origin.technology == Technology::Sip);
    let status = match origin.map(|origin| origin.code) {
        Some(503) => 500,
        // A redirection without a place to go to tells nothing.
        Some(300..=399) if origin.is_none_or(|origin| origin.contacts.is_none()) => 480,
        // What was said between us and the callee says nothing about the caller (§16.7 step 6).
        Some(401 | 407 | 408 | 481 | 487 | 491) | None => status_of_q850(cause.q850),
        Some(code) => code,
    };
    // 302 without contacts, from the table, likewise.
    let contacts = origin.and_then(|origin| origin.contacts.clone());
    let status = if status == 302 && contacts.is_none() { 480 } else { status };
    End {
        status,
        q850: Some(cause.q850),
        retry_after_s: origin.and_then(|origin| origin.retry_after_s),
        contacts,
    }
}

/// Why a usage ended, as a cause.
pub(crate) fn cause_of(why: Why, message: Option<&Message<'_>>) -> Cause {
    match why {
        Why::Refused(status) => refused(status, message),
        Why::TimedOut => with_code(18, 408),
        Why::Unreachable => with_code(27, 502),
        Why::Cancelled => Cause::NORMAL_CLEARING,
        Why::Bye => Cause::of(message.and_then(reason_q850).unwrap_or(16)),
        Why::AckMissing | Why::DialogGone => Cause::of(102),
    }
}

/// The cause when nothing can be reached, or nobody knows where it is.
pub(crate) fn cause_of_unreachable() -> Cause {
    with_code(27, 502)
}

/// The cause of a refusal by `status`, without a response at hand.
pub(crate) fn cause_of_status(status: u16) -> Cause {
    with_code(q850_of_status(status), status)
}

fn refused(status: u16, message: Option<&Message<'_>>) -> Cause {
    let mut cause = cause_of_status(status);
    let Some(message) = message else { return cause };
    if let Some(q850) = reason_q850(message) {
        cause.q850 = q850;
    }
    if let Some(origin) = &mut cause.origin {
        origin.retry_after_s = message.number(Name::RetryAfter);
        origin.contacts = (300..400).contains(&status).then(|| contact_lines(message)).flatten();
    }
    cause
}

fn with_code(q850: u8, code: u16) -> Cause {
    let origin = Origin { technology: Technology::Sip, code, retry_after_s: None, contacts: None };
    Cause { q850, origin: Some(origin) }
}

/// Most contacts of a redirection that are passed on, and most bytes of them: the answer to the
/// caller must fit a datagram, and nobody tries more places than these.
const CONTACTS_MAX: usize = 16;
const CONTACT_BYTES_MAX: usize = 4_096;

fn contact_lines(message: &Message<'_>) -> Option<Bytes> {
    let mut lines = Vec::new();
    for contact in message.values(Name::Contact).take(CONTACTS_MAX) {
        if lines.len() + contact.len() > CONTACT_BYTES_MAX {
            break;
        }
        lines.extend_from_slice(b"Contact: ");
        sip::wire::unfold(contact, &mut lines);
        lines.extend_from_slice(b"\r\n");
    }
    (!lines.is_empty()).then(|| lines.into())
}

/// The Q.850 cause among the Reason values, wherever it stands (RFC 3326 §2, case TD05).
fn reason_q850(message: &Message<'_>) -> Option<u8> {
    message.values(Name::Reason).find_map(|reason| {
        let at = reason.iter().position(|byte| *byte == b';')?;
        let (protocol, params) = reason.split_at(at);
        if !protocol.trim_ascii().eq_ignore_ascii_case(b"Q.850") {
            return None;
        }
        let cause = Params::of_header(params).value(b"cause")?;
        std::str::from_utf8(cause).ok()?.parse().ok().filter(|cause| *cause < 128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3398 §8.2.6.1 for what is in its table, and what case TD04 asks.
    #[test]
    fn statuses_become_causes() {
        let table = [
            (400, 41),
            (401, 21),
            (402, 21),
            (403, 21),
            (404, 1),
            (405, 63),
            (406, 79),
            (407, 21),
            (408, 102),
            (410, 22),
            (413, 127),
            (414, 127),
            (415, 79),
            (416, 79),
            (420, 127),
            (421, 127),
            (423, 127),
            (480, 18),
            (481, 127),
            (482, 25),
            (483, 25),
            (484, 28),
            (485, 1),
            (486, 17),
            (488, 88),
            (500, 41),
            (501, 79),
            (502, 38),
            (503, 41),
            (504, 102),
            (505, 127),
            (513, 127),
            (600, 17),
            (603, 21),
            (604, 1),
            (606, 88),
        ];
        for (status, q850) in table {
            assert_eq!(q850_of_status(status), q850, "status {status}");
        }
    }

    #[test]
    fn causes_become_statuses() {
        let table = [
            (1, 404),
            (2, 404),
            (3, 404),
            (17, 486),
            (18, 408),
            (19, 480),
            (20, 480),
            (21, 403),
            (22, 410),
            (27, 502),
            (28, 484),
            (29, 501),
            (31, 480),
            (34, 503),
            (38, 500),
            (41, 500),
            (42, 503),
            (58, 503),
            (65, 488),
            (66, 503),
            (79, 501),
            (88, 488),
            (102, 504),
            (127, 500),
        ];
        for (q850, status) in table {
            assert_eq!(status_of_q850(q850), status, "cause {q850}");
        }
    }

    #[test]
    fn what_a_sip_leg_said_survives() {
        for status in [404, 480, 486, 488, 600, 603, 606] {
            assert_eq!(end_of(&cause_of_status(status)).status, status);
        }
        assert_eq!(end_of(&cause_of_status(503)).status, 500, "§16.7 step 6");
        assert_eq!(end_of(&Cause::USER_BUSY).status, 486);
        assert_eq!(end_of(&cause_of_status(302)).status, 480, "no contact to go to");
    }

    #[test]
    fn every_cause_gives_a_final_failure() {
        for q850 in 0..=127 {
            let end = end_of(&Cause::of(q850));
            assert!((400..700).contains(&end.status), "cause {q850} gave {}", end.status);
        }
    }
}
