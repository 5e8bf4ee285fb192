//! Request line and status line (RFC 3261 7.1, 7.2).

use super::index::Start;
use super::scan::{self, Span};
use super::uri::Uri;
use super::{Fault, Rule, URI_BYTES_MAX};

/// Reads the first line, `bytes[begin..end]` without its line end. What could be read is in
/// `start` even after an error.
pub(crate) fn read(bytes: &[u8], begin: usize, end: usize, start: &mut Start) -> Result<(), Fault> {
    let line = &bytes[begin..end];
    if line.len() >= 4 && line[..4].eq_ignore_ascii_case(b"SIP/") {
        return status_line(line, begin, start);
    }
    start.is_request = true;
    request_line(line, begin, start)
}

fn request_line(line: &[u8], begin: usize, start: &mut Start) -> Result<(), Fault> {
    let fault = |rule, at: usize| Err(Fault::new(rule, begin + at));
    let method_end = line.iter().take_while(|b| scan::is_token_byte(**b)).count();
    start.method = Span::new(begin, begin + method_end);
    if line.get(method_end) != Some(&b' ') {
        let rule = match line.get(method_end) {
            Some(b'\t') => Rule::RequestLineSpace,
            None => Rule::StartLine,
            Some(_) => Rule::Method,
        };
        return fault(rule, method_end);
    }
    // The version is the last word; the URI is what lies between, and holds no white space in a
    // sound line.
    let trimmed = line.len() - line.iter().rev().take_while(|b| is_blank(**b)).count();
    let Some(last) = line[..trimmed].iter().rposition(|b| is_blank(*b)) else {
        return fault(Rule::StartLine, trimmed);
    };
    let version = &line[last + 1..trimmed];
    let is_sip = version.len() >= 4 && version[..4].eq_ignore_ascii_case(b"SIP/");
    if last <= method_end || !is_sip {
        return fault(Rule::StartLine, last + 1);
    }
    let uri_start = method_end + 1;
    start.text = Span::new(begin + uri_start, begin + last);
    let uri = &line[uri_start..last];
    if !is_version(&version[4..]) {
        return fault(Rule::StartLine, last + 5);
    }
    if &version[4..] != b"2.0" {
        return fault(Rule::Version, last + 5);
    }
    if let Some(at) = uri.iter().position(|b| is_blank(*b)) {
        return fault(Rule::RequestLineSpace, uri_start + at);
    }
    if trimmed != line.len() {
        return fault(Rule::RequestLineSpace, trimmed);
    }
    if uri.len() > URI_BYTES_MAX {
        return fault(Rule::UriTooLong, uri_start + URI_BYTES_MAX);
    }
    let parsed = Uri::parse(uri).map_err(|f| f.shifted(begin + uri_start))?;
    match parsed.raw_headers {
        Some(headers) => fault(Rule::RequestUriHeaders, last - headers.len()),
        None => Ok(()),
    }
}

fn status_line(line: &[u8], begin: usize, start: &mut Start) -> Result<(), Fault> {
    let fault = |rule, at: usize| Err(Fault::new(rule, begin + at));
    let version_end = memchr::memchr(b' ', line).unwrap_or(line.len());
    if &line[4..version_end] != b"2.0" {
        return fault(Rule::Version, 4);
    }
    let code_start = (version_end + 1).min(line.len());
    let code = line[code_start..].split(|b| *b == b' ').next().unwrap_or_default();
    match (code.len(), scan::decimal(code)) {
        // Three digits, so it fits.
        (3, Some(number @ 100..=699)) => start.status = number as u16,
        _ => return fault(Rule::StatusCode, code_start),
    }
    // A missing reason phrase is common, and so is a missing space before it.
    let reason = (code_start + 4).min(line.len());
    start.text = Span::new(begin + reason, begin + line.len());
    Ok(())
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t')
}

fn is_version(text: &[u8]) -> bool {
    let mut parts = text.split(|b| *b == b'.');
    let mut number =
        || parts.next().is_some_and(|p| !p.is_empty() && p.iter().all(u8::is_ascii_digit));
    number() && number() && parts.next().is_none()
}
