//! One step: `App(arguments)` as Asterisk has it, in its forms of all ages, to an element of
//! `steps`. Whether the dialplan takes it is asked of the dialplan.

use crate::macros::as_subroutine;
use crate::options::{self, WRITTEN_OUT, Which, filled};
use crate::write::quoted;
use std::collections::BTreeMap;

/// Global variables whose values nothing changes.
pub(crate) type Constants = BTreeMap<String, String>;

/// What became of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The element of `steps`.
    pub(crate) toml: String,
    /// What could not be converted.
    pub(crate) left: Vec<String>,
    /// What was written in another way.
    pub(crate) notes: Vec<String>,
}

/// Applications after which Asterisk goes on whatever came of them, and nothing asks what did:
/// they play, record or note something. This is about Asterisk, not about what is built here.
const GOES_ON: &[&str] = &[
    "Answer",
    "CELGenUserEvent",
    "ChangeMonitor",
    "DumpChan",
    "Festival",
    "ForkCDR",
    "Log",
    "MixMonitor",
    "Monitor",
    "Morsecode",
    "NoCDR",
    "NoOp",
    "PauseMonitor",
    "Playback",
    "PlayTones",
    "Proceeding",
    "Progress",
    "QueueLog",
    "ResetCDR",
    "Ringing",
    "SayAlpha",
    "SayDigits",
    "SayNumber",
    "SayPhonetic",
    "SayUnixTime",
    "SendDTMF",
    "SendImage",
    "SendText",
    "SendURL",
    "SetAMAFlags",
    "StartMusicOnHold",
    "StopMixMonitor",
    "StopMonitor",
    "StopMusicOnHold",
    "StopPlayTones",
    "UnpauseMonitor",
    "UserEvent",
    "Verbose",
];

/// What Set may set without a step behind it asking.
const MARKS: &[&str] = &[
    "AGC(",
    "CDR(",
    "CHANNEL(",
    "DENOISE(",
    "JITTERBUFFER(",
    "TIMEOUT(digit)",
    "TIMEOUT(response)",
    "VOLUME(",
];

/// Applications whose argument may hold a `|` of its own.
const FREE_TEXT: &[&str] =
    &["Log", "MSet", "NoOp", "Return", "Set", "SIPAddHeader", "Verbose", "While"];

/// An application with its arguments as one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: String,
}

impl Call {
    pub(crate) fn text(&self) -> String {
        format!("{}({})", self.name, self.args)
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    pub(crate) fn with(&self, args: String) -> Self {
        Self { name: self.name.clone(), args }
    }
}

/// Converts a step.
pub(crate) fn convert(raw: &str, label: Option<&str>, constants: &Constants) -> Outcome {
    let nothing = Call { name: "NoOp".to_owned(), args: String::new() };
    if label.is_some()
        && let Err(reason) = element(&nothing, label)
    {
        let mut outcome = convert(raw, None, constants);
        outcome.left.push(format!("{reason}; the step has no label now"));
        return outcome;
    }
    let forms = forms(raw);
    let mut why = None;
    for call in &forms {
        match element(call, label) {
            Ok(toml) => return Outcome { toml, ..Outcome::default() },
            Err(reason) => why.get_or_insert(reason),
        };
    }
    let reason = why.unwrap_or_default();
    let Some(call) = forms.first() else { return failed(raw, label, &reason) };
    for which in [Which::Targets, Which::All] {
        let args = filled(&call.args, constants, which);
        if args != call.args
            && let Ok(toml) = element(&call.with(args), label)
        {
            let notes = vec![WRITTEN_OUT.to_owned()];
            return Outcome { toml, left: Vec::new(), notes };
        }
    }
    options::mend(call, label, constants).unwrap_or_else(|| failed(raw, label, &reason))
}

/// What stands for a step that cannot be converted.
pub(crate) fn failed(raw: &str, label: Option<&str>, reason: &str) -> Outcome {
    let forms = forms(raw);
    let goes_on = forms.first().is_some_and(|call| {
        let args = call.args.trim_start();
        let marks = |mark: &&str| {
            args.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark))
        };
        GOES_ON.iter().any(|name| call.is(name)) || (call.is("Set") && MARKS.iter().any(marks))
    });
    let (name, args) = if goes_on { ("NoOp", "not converted") } else { ("Hangup", "FAILURE") };
    let stand_in = Call { name: name.to_owned(), args: args.to_owned() };
    let toml = element(&stand_in, label).unwrap_or_else(|_| quoted(&stand_in.text()));
    Outcome { toml, left: vec![reason.to_owned()], notes: Vec::new() }
}

/// The step as the dialplan may read it, the likeliest form first.
fn forms(raw: &str) -> Vec<Call> {
    let raw = raw.trim();
    let (open, comma) = (raw.find('('), raw.find(','));
    let (name, args, is_old) = match (open, comma) {
        (Some(open), comma) if comma.is_none_or(|comma| open < comma) => {
            let (name, rest) = raw.split_at(open);
            let inside = rest.get(1..).unwrap_or_default();
            // A `)` that is missing or has something behind it is for the dialplan to refuse.
            let Some(args) = closed(inside) else {
                let call = Call { name: name.trim().to_owned(), args: inside.to_owned() };
                return vec![call];
            };
            (name, args, false)
        }
        (_, Some(comma)) => {
            let (name, rest) = raw.split_at(comma);
            (name, rest.get(1..).unwrap_or_default(), true)
        }
        (Some(_) | None, None) => (raw, "", false),
    };
    let mut forms =
        with_commas(Call { name: name.trim().to_owned(), args: args.trim().to_owned() }, is_old);
    for call in &mut forms {
        if let Some(subroutine) = as_subroutine(call) {
            *call = subroutine;
        }
    }
    forms
}

/// The forms that a call may have had with `|` between its arguments, and itself.
fn with_commas(call: Call, is_old: bool) -> Vec<Call> {
    let has_bars = top_level(&call.args, b'|').next().is_some();
    let has_commas = top_level(&call.args, b',').next().is_some();
    if !has_bars || (has_commas && !is_old) {
        return vec![call];
    }
    let is_free = FREE_TEXT.iter().any(|name| call.is(name));
    match without_bars(&call) {
        Some(without) if is_old || !is_free || without.name != call.name => vec![without, call],
        Some(_) | None => vec![call],
    }
}

/// The arguments, without the `)` that ends them.
fn closed(inside: &str) -> Option<&str> {
    inside.trim_end().strip_suffix(')')
}

/// Asterisk 1.4 and before had `|` between arguments.
fn without_bars(call: &Call) -> Option<Call> {
    let pieces = split(&call.args, b'|');
    if call.is("ExecIf") {
        let [test, name, args @ ..] = &pieces[..] else { return None };
        if top_level(test, b'?').next().is_some() {
            return None;
        }
        return Some(call.with(format!("{test}?{name}({})", args.join(","))));
    }
    let is_assignment = |piece: &&str| {
        let name = piece.split('=').next().unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        piece.contains('=') && !name.is_empty() && name.chars().all(fits)
    };
    if call.is("Set") {
        let all = pieces.iter().all(is_assignment);
        return all.then(|| Call { name: "MSet".to_owned(), args: pieces.join(",") });
    }
    Some(call.with(pieces.join(",")))
}

/// The element of `steps`, or why the dialplan does not take it.
pub(crate) fn element(call: &Call, label: Option<&str>) -> Result<String, String> {
    let Some(label) = label else {
        let toml = quoted(&call.text());
        return match fault(&toml) {
            Some(reason) => Err(reason),
            None => Ok(toml),
        };
    };
    let mut why = None;
    let mut tried: Vec<Vec<&str>> = Vec::new();
    // A table wants its arguments apart. How many the application takes, the dialplan knows; what
    // has fewer than its text has commas takes them as part of the last one.
    let pieces = split(&call.args, b',');
    if !call.args.is_empty() {
        tried.push(pieces.clone());
        if let Some((first, rest)) = split_once(&call.args) {
            tried.push(vec![first, rest]);
        }
        tried.push(vec![call.args.trim()]);
    } else {
        tried.push(Vec::new());
    }
    for args in tried {
        let args = match args.is_empty() {
            true => String::new(),
            false => format!(", args = {}", crate::write::list(args)),
        };
        let app = quoted(&call.name);
        let toml = format!("{{ label = {}, app = {app}{args} }}", quoted(label));
        match fault(&toml) {
            Some(reason) => why.get_or_insert(reason),
            None => return Ok(toml),
        };
    }
    // The text alone may say it better: a table's fault may be about the way of writing it.
    Err(fault(&quoted(&call.text())).or(why).unwrap_or_default())
}

/// What is wrong with an element of `steps`, whatever stands around it: the plan that is asked is
/// broken for another reason too, so that labels and contexts are not looked for.
fn fault(toml: &str) -> Option<String> {
    let text = format!("[[context.c.exten]]\nmatch = \"1\"\nsteps = [\n{toml},\n\"(\"]\n");
    let faults = dialplan::parse(&[("", &text)]).err()?;
    faults.iter().find(|fault| fault.line() == 4).map(|fault| fault.message().to_owned())
}

/// The places of a byte that stands in no `${}`, `$[]`, parentheses or quotes, and behind no `\`.
pub(crate) fn top_level(text: &str, wanted: u8) -> impl Iterator<Item = usize> {
    let mut closers: Vec<u8> = Vec::new();
    let (mut is_quoted, mut is_escaped, mut before) = (false, false, 0_u8);
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        let after_dollar = std::mem::replace(&mut before, byte) == b'$';
        if std::mem::take(&mut is_escaped) {
            return None;
        }
        match byte {
            b'\\' => {
                is_escaped = true;
                return None;
            }
            b'"' => is_quoted = !is_quoted,
            b'{' if after_dollar => closers.push(b'}'),
            b'[' if after_dollar => closers.push(b']'),
            _ if is_quoted && closers.is_empty() => {}
            b'(' => closers.push(b')'),
            _ if closers.last() == Some(&byte) => {
                closers.pop();
                return None;
            }
            _ => {}
        }
        (!is_quoted && closers.is_empty() && byte == wanted).then_some(at)
    })
}

/// Splits at the top level; blanks around a piece go.
pub(crate) fn split(text: &str, separator: u8) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for at in top_level(text, separator) {
        pieces.push(text.get(start..at).unwrap_or_default().trim());
        start = at + 1;
    }
    pieces.push(text.get(start..).unwrap_or_default().trim());
    pieces
}

fn split_once(text: &str) -> Option<(&str, &str)> {
    let at = top_level(text, b',').next()?;
    Some((text.get(..at)?.trim(), text.get(at + 1..)?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(raw: &str) -> String {
        let outcome = convert(raw, None, &Constants::new());
        assert_eq!(outcome.left, [""; 0], "{raw}");
        outcome.toml
    }

    #[test]
    fn forms_of_all_ages_are_read() {
        assert_eq!(toml("Hangup"), "\"Hangup()\"");
        assert_eq!(toml("Dial,SIP/100|30|r"), "\"Dial(SIP/100,30,r)\"");
        assert_eq!(toml("Dial(SIP/100|30)"), "\"Dial(SIP/100,30)\"");
        assert_eq!(toml("Dial(SIP/100,30)"), "\"Dial(SIP/100,30)\"");
        assert_eq!(toml("Goto,default|s|1"), "\"Goto(default,s,1)\"");
        assert_eq!(toml("Set(A=1|B=2)"), "\"MSet(A=1,B=2)\"");
        assert_eq!(toml("Set(A=x|y)"), "\"Set(A=x|y)\"");
        assert_eq!(toml("NoOp(a|b)"), "\"NoOp(a|b)\"");
        assert_eq!(toml("ExecIf($[1 | 0]|Set|A=1)"), "\"ExecIf($[1 | 0]?Set(A=1))\"");
        assert_eq!(
            toml("GotoIfTime(9:00-17:00|mon-fri|*|*?open|s|1)"),
            "\"GotoIfTime(9:00-17:00,mon-fri,*,*?open,s,1)\""
        );
        assert_eq!(toml("GotoIf($[\"${A}\" = \"b\"]?x)"), "'GotoIf($[\"${A}\" = \"b\"]?x)'");
    }

    #[test]
    fn with_a_label_it_means_what_it_means_without() {
        for raw in [
            "Answer",
            "Busy(5)",
            "Set(A=b,c)",
            "MSet(A=1,B=2)",
            "NoOp(one, two)",
            "Verbose(2,a,b)",
            "Log(NOTICE,a,b)",
            "Dial(SIP/100&SIP/101,20,r)",
            "Dial(SIP/100/${EXTEN:1},,g)",
            "ExecIf($[1]?Set(A=1):NoOp(a,b))",
            "SIPAddHeader(X-A: b,c)",
            "Return(a,b)",
            "Goto(c,1,1)",
            "GotoIf($[1]?c,1,1:1)",
            "GotoIfTime(9:00-17:00,mon-fri,*,*?c,1,1)",
            "Gosub(c,1,1(a,b))",
        ] {
            let apps: Vec<dialplan::App> = [None, Some("here")]
                .iter()
                .map(|label| {
                    let outcome = convert(raw, *label, &Constants::new());
                    assert_eq!(outcome.left, [""; 0], "{raw}");
                    let step = outcome.toml;
                    let text = format!("[[context.c.exten]]\nmatch = \"1\"\nsteps = [{step}]\n");
                    let plan = dialplan::parse(&[("", &text)]).unwrap();
                    plan.steps(plan.find("c", "1", "").extension.unwrap())[0].app.clone()
                })
                .collect();
            assert_eq!(apps[0], apps[1], "{raw}");
        }
    }

    #[test]
    fn what_may_guard_ends_the_call_and_what_only_plays_does_not() {
        let stand_in = |raw: &str| convert(raw, None, &Constants::new()).toml;
        for raw in ["VMAuthenticate(1)", "ADSIProg(x)", "GotoIf(${CURL(x)}?a)", "Frobnicate", ""] {
            assert_eq!(stand_in(raw), "\"Hangup(FAILURE)\"", "{raw}");
        }
        for raw in ["SendImage(hi)", "Set(CDR(x)=1)", "NoOp(${CURL(x)})"] {
            assert_eq!(stand_in(raw), "\"NoOp(not converted)\"", "{raw}");
        }
        let labelled = convert("SendImage(hi)", Some("l"), &Constants::new()).toml;
        assert_eq!(labelled, "{ label = \"l\", app = \"NoOp\", args = [\"not converted\"] }");
    }
}
