//! Asterisk's macros, which became subroutines: `Macro(name,a,b)` is
//! `Gosub(macro-name,s,1(a,b))`, and the end of a macro goes back.

use crate::steps::{Call, split, top_level};

/// How the contexts of macros are named.
const PREFIX: &str = "macro-";

/// Whether a context is that of a macro.
pub(crate) fn is_macro(context: &str) -> bool {
    context.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// The call of a subroutine that stands for a macro's; `None` when it is none.
pub(crate) fn as_subroutine(call: &Call) -> Option<Call> {
    let named = |name: &str, args: String| Some(Call { name: name.to_owned(), args });
    if call.is("Macro") {
        return named("Gosub", place(&call.args));
    }
    if call.is("MacroExit") {
        return named("Return", String::new());
    }
    if !call.is("MacroIf") {
        return None;
    }
    let question = top_level(&call.args, b'?').next()?;
    let (test, choice) = (call.args.get(..question)?, call.args.get(question + 1..)?);
    let choice: Vec<String> = split(choice, b':')
        .iter()
        .map(|one| if one.is_empty() { String::new() } else { place(one) })
        .collect();
    named("GosubIf", format!("{test}?{}", choice.join(":")))
}

fn place(args: &str) -> String {
    let pieces = split(args, b',');
    let (name, rest) = pieces.split_first().unwrap_or((&"", &[]));
    let given = if rest.is_empty() { String::new() } else { format!("({})", rest.join(",")) };
    format!("{PREFIX}{name},s,1{given}")
}

/// Whether a step of the output leads away anyhow, so that nothing need go back behind it.
pub(crate) fn leads_away(toml: &str) -> bool {
    let step = toml.trim_start_matches(['"', '\'']);
    ["Goto(", "Hangup(", "Return("].iter().any(|start| step.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_macro_is_called_as_a_subroutine() {
        let read = |name: &str, args: &str| {
            let call = Call { name: name.to_owned(), args: args.to_owned() };
            as_subroutine(&call).map(|call| call.text())
        };
        assert_eq!(read("macro", "a").as_deref(), Some("Gosub(macro-a,s,1)"));
        assert_eq!(read("Macro", "a,1,${B:1}").as_deref(), Some("Gosub(macro-a,s,1(1,${B:1}))"));
        assert_eq!(read("MacroExit", "").as_deref(), Some("Return()"));
        assert_eq!(
            read("MacroIf", "$[1]?a,x:b").as_deref(),
            Some("GosubIf($[1]?macro-a,s,1(x):macro-b,s,1)")
        );
        assert_eq!(read("MacroIf", "$[1]?:b").as_deref(), Some("GosubIf($[1]?:macro-b,s,1)"));
        assert_eq!(read("Gosub", "a,s,1"), None);
    }

    #[test]
    fn contexts_of_macros_are_known_by_their_names() {
        assert!(is_macro("macro-a") && is_macro("Macro-b"));
        assert!(!is_macro("macr") && !is_macro("the-macro-"));
    }
}
