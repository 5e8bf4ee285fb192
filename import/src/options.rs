//! A step of which only a part is not known: a Dial goes on without the options and targets that
//! the dialplan refuses, and each of them is told.

use crate::steps::{Call, Constants, Outcome, element, split, top_level};

/// The step without the parts that the dialplan does not take; `None` when nothing is left of it,
/// or when it is not of this kind.
pub(crate) fn mend(call: &Call, label: Option<&str>, constants: &Constants) -> Option<Outcome> {
    let by = |which| {
        let args = filled(&call.args, constants, which);
        let is_other = args != call.args;
        let mut outcome = mend_as_it_is(&call.with(args), label)?;
        outcome.notes.extend(is_other.then(|| WRITTEN_OUT.to_owned()));
        Some(outcome)
    };
    let (some, all) = (by(Which::Targets), by(Which::All));
    some.into_iter().chain(all).min_by_key(|outcome| outcome.left.len())
}

/// What is said of a constant that is written out.
pub(crate) const WRITTEN_OUT: &str =
    "a global variable is written out: here no variable may stand in its place";

fn mend_as_it_is(call: &Call, label: Option<&str>) -> Option<Outcome> {
    if call.is("Answer") {
        let reason = element(call, None).err()?;
        let toml = element(&call.with(String::new()), label).ok()?;
        return Some(Outcome { toml, left: vec![reason], notes: Vec::new() });
    }
    if !call.is("Dial") {
        return None;
    }
    let mut outcome = Outcome::default();
    let pieces = split(&call.args, b',');
    let targets = targets(call, pieces.first()?, &mut outcome.left)?;
    let mut args = vec![targets];
    args.extend(pieces.get(1).map(|timeout| (*timeout).to_owned()));
    if let Some(letters) = pieces.get(2) {
        args.push(options(call, letters, &mut outcome.left));
    }
    if let Some(url) = pieces.get(3).filter(|url| !url.is_empty()) {
        let reason = element(&call.with(format!("SIP/x,,,{url}")), None).err()?;
        outcome.left.push(reason);
    }
    while args.len() > 1 && args.last().is_some_and(String::is_empty) {
        args.pop();
    }
    outcome.toml = element(&call.with(args.join(",")), label).ok()?;
    Some(outcome)
}

/// The targets that can be called.
fn targets(call: &Call, text: &str, left: &mut Vec<String>) -> Option<String> {
    let takes = |target: &str| element(&call.with(target.to_owned()), None);
    let mut kept = Vec::new();
    let mut refused = Vec::new();
    for target in split(text, b'&') {
        match takes(target) {
            Ok(_) => kept.push(target.to_owned()),
            Err(why) => match of_contacts(target) {
                Some(endpoint) if takes(&endpoint).is_ok() => kept.push(endpoint),
                Some(_) | None => refused.push((target, why)),
            },
        }
    }
    if kept.is_empty() {
        return None;
    }
    for (target, why) in refused {
        left.push(format!("{why}; {target} is not called"));
    }
    Some(kept.join("&"))
}

/// Which constants are written out.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Which {
    /// Those that may hold a whole target of Dial.
    Targets,
    All,
}

/// The text with the values of constants in place of `${NAME}` and `${GLOBAL(NAME)}`.
pub(crate) fn filled(text: &str, constants: &Constants, which: Which) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        let inside = behind.get(2..).unwrap_or_default();
        let found = inside.split_once('}').and_then(|(name, behind)| {
            let global = name.strip_prefix("GLOBAL(").and_then(|name| name.strip_suffix(')'));
            let value = constants.get(global.unwrap_or(name))?;
            (which == Which::All || value.contains('/')).then_some((value, behind))
        });
        match found {
            Some((value, behind)) => {
                out.push_str(value);
                rest = behind;
            }
            None => {
                out.push_str("${");
                rest = inside;
            }
        }
    }
    out + rest
}

/// `PJSIP/100` of `${PJSIP_DIAL_CONTACTS(100)}`: calling an endpoint calls all its contacts.
fn of_contacts(target: &str) -> Option<String> {
    let inside = target.strip_prefix("${PJSIP_DIAL_CONTACTS(")?.strip_suffix(")}")?;
    (top_level(inside, b',').next().is_none()).then(|| format!("PJSIP/{inside}"))
}

/// The options that are known, each asked for by itself.
fn options(call: &Call, text: &str, left: &mut Vec<String>) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let behind = rest.get(letter.len_utf8()..).unwrap_or_default();
        let inside = if behind.starts_with('(') { closing(behind) } else { 0 };
        let (option, next) = rest.split_at(letter.len_utf8() + inside);
        match element(&call.with(format!("SIP/x,,{option}")), None) {
            Ok(_) => kept.push_str(option),
            Err(why) => left.push(format!("{why}; the call is made without it")),
        }
        rest = next;
    }
    kept
}

/// The length of `(...)`, or of all when it is not closed.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return at + 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use crate::steps::{Constants, convert};

    #[test]
    fn a_label_stays_when_a_constant_is_written_out() {
        let constants: Constants = [("TRUNK".to_owned(), "SIP/carrier".to_owned())].into();
        let outcome = convert("Dial(${TRUNK}/1)", Some("out"), &constants);
        let toml = "{ label = \"out\", app = \"Dial\", args = [\"SIP/carrier/1\"] }";
        assert_eq!((outcome.toml.as_str(), outcome.left), (toml, vec![]));
        let outcome = convert("Dial(SIP/1)", Some("2nd"), &constants);
        assert_eq!((outcome.toml.as_str(), outcome.left.len()), ("\"Dial(SIP/1)\"", 1));
    }

    #[test]
    fn a_dial_goes_on_without_what_is_not_known() {
        let constants: Constants =
            [("TRUNK".to_owned(), "SIP/carrier".to_owned()), ("N".to_owned(), "7".to_owned())]
                .into();
        let step = |raw: &str| {
            let outcome = convert(raw, None, &constants);
            (outcome.toml, outcome.left, outcome.notes.len())
        };
        let unbuilt = |option| {
            format!("Dial's option `{option}` is not built yet; the call is made without it")
        };
        assert_eq!(
            step("Dial(SIP/100,20,nNr)"),
            ("\"Dial(SIP/100,20,r)\"".into(), vec![unbuilt('n'), unbuilt('N')], 0)
        );
        assert_eq!(
            step("Dial(SIP/100,20,P(a,b(c))g)"),
            ("\"Dial(SIP/100,20,g)\"".into(), vec![unbuilt('P')], 0)
        );
        let dahdi = "the technology DAHDI is not built yet; DAHDI/1 is not called";
        assert_eq!(
            step("Dial(SIP/100&DAHDI/1)"),
            ("\"Dial(SIP/100)\"".into(), vec![dahdi.into()], 0)
        );
        assert_eq!(
            step("Dial(${GLOBAL(TRUNK)}/${EXTEN:${N}},20)"),
            ("\"Dial(SIP/carrier/${EXTEN:7},20)\"".into(), vec![], 1)
        );
        assert_eq!(step("Set(A=${EXTEN:${N}})").0, "\"Set(A=${EXTEN:7})\"");
        assert_eq!(step("Set(A=${EXTEN:${M}})").0, "\"Hangup(FAILURE)\"");
        assert_eq!(
            step("Dial(${TRUNK}/${N}${EXTEN:1},20)"),
            ("\"Dial(SIP/carrier/${N}${EXTEN:1},20)\"".into(), vec![], 1)
        );
        assert_eq!(
            step("Dial(${PJSIP_DIAL_CONTACTS(${EXTEN})},20)"),
            ("\"Dial(PJSIP/${EXTEN},20)\"".into(), vec![], 0)
        );
        assert_eq!(step("Dial(DAHDI/1)").0, "\"Hangup(FAILURE)\"");
        assert_eq!(step("Answer(500)").0, "\"Answer()\"");
    }
}
