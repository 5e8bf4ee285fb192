//! Every fault with its place and its exact text.

use dialplan::parse;

/// The faults of one step, as `column in the step: message`.
#[track_caller]
fn step(step: &str, wanted: &[&str]) {
    let text = format!(
        "[[context.default.exten]]\nmatch = \"100\"\nsteps = [\n{step},\n\
         {{ app = \"NoOp\", label = \"there\" }}]\n"
    );
    let said: Vec<String> = match parse(&[("d", &text)]) {
        Ok(_) => Vec::new(),
        Err(faults) => {
            faults.iter().map(|fault| format!("{}: {}", fault.column(), fault.message())).collect()
        }
    };
    assert_eq!(said, wanted, "{step}");
}

/// The faults of a file, as `line:column: message`.
#[track_caller]
fn file(text: &str, wanted: &[&str]) {
    let said: Vec<String> = match parse(&[("d", text)]) {
        Ok(_) => Vec::new(),
        Err(faults) => faults
            .iter()
            .map(|fault| format!("{}:{}: {}", fault.line(), fault.column(), fault.message()))
            .collect(),
    };
    assert_eq!(said, wanted, "{text}");
}

#[test]
fn names_of_applications() {
    step("'Anwser()'", &["2: unknown application 'Anwser' (did you mean 'Answer'?)"]);
    step("'Playback(hello)'", &["2: the application Playback is not built yet"]);
    step("'Frobnicate()'", &["2: unknown application 'Frobnicate'"]);
    step("'(1)'", &["2: the application's name is missing"]);
    step("''", &["2: the application's name is missing"]);
    step("'Answer('", &["8: `(` is not closed: `)` is missing"]);
    step("'Answer() x'", &["10: nothing may follow the closing `)`"]);
    step("'NoOp(\"a)'", &["6: `(` is not closed: a quote inside is not closed"]);
    step("'NoOp(${A)'", &["6: `(` is not closed: a `${` inside is not closed"]);
    step("7", &["1: a step is a text such as \"Answer()\" or a table with `app`"]);
}

#[test]
fn arguments() {
    step("'Ringing(1)'", &["10: Ringing takes no arguments"]);
    step("'Answer(500)'", &["9: a delay of Answer is not built yet; write a Wait"]);
    step("'Wait()'", &["2: Wait needs the seconds, such as Wait(2)"]);
    step("'Wait(two)'", &["7: 'two' is no number of seconds from 0 to 604800"]);
    step("'Wait(1,2)'", &["9: Wait takes one argument, not 2"]);
    step("'Wait(9999999)'", &["7: '9999999' is no number of seconds from 0 to 604800"]);
    step(
        "'Hangup(200)'",
        &["9: '200' is no hang-up cause: a number from 1 to 127 or a name such as USER_BUSY"],
    );
    step(
        "'Hangup(USER_BUZY)'",
        &["9: 'USER_BUZY' is no hang-up cause: a number from 1 to 127 or a name such as \
             USER_BUSY (did you mean 'USER_BUSY'?)"],
    );
    step("'Busy(x)'", &["7: 'x' is no number of seconds from 0 to 604800"]);
    step("'Set(A)'", &["6: Set needs NAME=value; the `=` is missing"]);
    step("'Set()'", &["2: Set needs NAME=value"]);
    step("'Set(A-B=1)'", &["6: a variable's name has letters, digits and `_` only"]);
    step("'Set(__A=1)'", &[]);
    step("'Set(CALLERID(num)=1)'", &[]);
    step(
        "'Set(TIMEOUT(response)=1)'",
        &["6: of TIMEOUT, only TIMEOUT(absolute) is built yet: the others need digits"],
    );
    step("'Set(CALLERID(ani)=1)'", &["6: of CALLERID, these can be set: num, name, all"]);
    step("'Set(LEN(a)=1)'", &["6: the function LEN cannot be set"]);
    step("'Set(VOLUME(tx)=1)'", &["6: the function VOLUME is not built yet"]);
    step("'Set(DB(family)=1)'", &["6: write DB(family/key)"]);
    step(
        "'Set(PJSIP_HEADER(add,Via)=1)'",
        &["23: this is no header field that a plan may write: the call writes it itself, or it \
             is no name"],
    );
    step("'MSet(A=1,B)'", &["11: Set needs NAME=value; the `=` is missing"]);
    step("'Set(=1)'", &["6: the name of the variable is missing"]);
    step("'Set(A=$[1 + 2])'", &[]);
    step("'Set(A=$[1 + ])'", &["14: the expression ends where a value belongs"]);
    step("'Log(LOUD,x)'", &["6: the level is ERROR, WARNING, NOTICE, DEBUG or VERBOSE"]);
    step("'SIPAddHeader(X-Mark)'", &["15: SIPAddHeader needs Name: value"]);
    step("'Verbose()'", &["2: Verbose needs a text, such as Verbose(1,hello)"]);
    step("'Verbose(high,text)'", &["10: the verbosity is a number from 0 to 10"]);
}

#[test]
fn texts_with_variables() {
    step("'NoOp(${VM_INFO(x)})'", &["9: the function VM_INFO is not built yet"]);
    step("'NoOp(${LENN(x)})'", &["9: unknown function 'LENN' (did you mean 'LEN'?)"]);
    step("'NoOp(${CALLERID(name):1})'", &[]);
    step("'NoOp(${})'", &["9: the name of the variable is missing"]);
    step("'NoOp(${A B})'", &["9: a variable's name has letters, digits and `_` only"]);
    step("'NoOp(${A:x})'", &["11: an offset or a length is a whole number"]);
    step("'NoOp(${A:${B}})'", &["11: a variable as offset or length is not built yet"]);
    step("'NoOp(${A:1:2:3})'", &["15: a variable takes an offset and a length, and no more"]);
    step("'NoOp(${A${VM_INFO(x)}})'", &["12: the function VM_INFO is not built yet"]);
    step("\"NoOp(\\u00e4\\\"\\\" ${VM_INFO(x)})\"", &["20: the function VM_INFO is not built yet"]);
    let deep = format!("'NoOp({}A{})'", "${".repeat(9), "}".repeat(9));
    step(&deep, &["23: `${` stands more than 8 deep"]);
    step(&format!("'NoOp({})'", "x".repeat(4_097)), &["7: a text is at most 4096 bytes long"]);
    step("{ app = 'NoOp', args = ['${A'] }", &["26: `${` is not closed: `}` is missing"]);
}

#[test]
fn targets_of_dial() {
    step("'Dial()'", &["2: Dial needs a target, such as Dial(SIP/trunk/${EXTEN},30)"]);
    step("'Dial(100)'", &["7: a target is SIP/trunk, SIP/trunk/number or sip:user@host"]);
    step(
        "'Dial(${TARGET})'",
        &["7: a variable fills one hole of a target and cannot hold all of it: write \
             SIP/${TRUNK}/${EXTEN} or sip:${EXTEN}@${HOST}"],
    );
    step(
        "'Dial(${TECH}/trunk/1)'",
        &["7: a variable fills one hole of a target and cannot hold all of it: write \
             SIP/${TRUNK}/${EXTEN} or sip:${EXTEN}@${HOST}"],
    );
    step("'Dial(DAHDI/g1/1)'", &["7: the technology DAHDI is not built yet"]);
    step("'Dial(SIPP/a/1)'", &["7: unknown technology 'SIPP' (did you mean 'SIP'?)"]);
    step("'Dial(SIP/)'", &["11: the trunk's name is missing"]);
    step("'Dial(SIP/a/)'", &["13: the number is missing"]);
    step("'Dial(SIP/a/1/2)'", &["14: a `/` of the number itself is written `\\/`"]);
    step(
        "'Dial(SIP/a b/1)'",
        &["11: a trunk's name has letters, digits, `-`, `_` and `.`, at most 80"],
    );
    step("'Dial(SIP/a/1&)'", &["15: a target is missing"]);
    step(
        "'Dial(PJSIP/a/1)'",
        &["15: a PJSIP target is PJSIP/number@endpoint; with `/` it is SIP/trunk/number"],
    );
    step(
        "'Dial(PJSIP/a/sip:b@c)'",
        &["15: PJSIP/endpoint/sip:... is not built yet; write PJSIP/number@endpoint"],
    );
    step("'Dial(sips:a@b)'", &["7: targets of sips: are not built yet"]);
    step("'Dial(sip:@host)'", &["11: the user before `@` is missing"]);
    step("'Dial(sip:a@b@c)'", &["14: this cannot stand in a URI's host"]);
    step("'Dial(sip:a:b@c)'", &["12: `:` cannot stand in a URI's user; write %3A"]);
    step("'Dial(sip:a@b:0)'", &["13: the port is a number from 1 to 65535"]);
    step("'Dial(sip:a@b:99999)'", &["13: the port is a number from 1 to 65535"]);
    step("'Dial(sip:a@[::1)'", &["13: this is not an IPv6 address in brackets"]);
    step("'Dial(sip:a@[x])'", &["13: this is not an IPv6 address in brackets"]);
    step("'Dial(sip:a@h_st)'", &["14: this cannot stand in a URI's host"]);
    step(
        "'Dial(sip:a@b;transport=tls)'",
        &["14: a transport other than udp and tcp is not built yet"],
    );
    step("'Dial(sip:a@b;x=${Y})'", &["14: a variable in the parameters of a URI is not built yet"]);
    step("'Dial(sip:a@b;x?y=z)'", &["16: headers in a URI are not built yet"]);
    step("'Dial(SIP/a/1,soon)'", &["15: 'soon' is no number of seconds from 0 to 604800"]);
    step("'Dial(SIP/a/1,30,m)'", &["18: Dial's option `m` is not built yet"]);
    step("'Dial(SIP/a/1,30,y)'", &["18: Dial has no option `y`"]);
    step("'Dial(SIP/a/1,30,r(x))'", &["18: a tone for Dial's option `r` is not built yet"]);
    step("'Dial(SIP/a/1,30,,http://x)'", &["19: the URL of Dial is not built yet"]);
    step("'Dial(SIP/a/1,30,,,5)'", &["20: Dial takes at most 4 arguments, not 5"]);
    let many = vec!["SIP/a"; 33].join("&");
    step(&format!("'Dial({many})'"), &["199: a Dial has at most 32 targets"]);
}

#[test]
fn case_dp06_a_target_without_a_host_is_a_fault_at_load() {
    step("'Dial(sip:123456789@)'", &["21: the URI has no host"]);
    step("'Dial(sip:@)'", &["11: the user before `@` is missing"]);
}

#[test]
fn tables_of_steps() {
    step("{ args = [] }", &["1: a step needs `app`"]);
    step("{ app = 7 }", &["9: `app` is a text in quotes, not an integer; write \"7\""]);
    step("{ app = 'Answer()' }", &["16: in a table the arguments go into `args = [...]`"]);
    step(
        "{ app = 'Answer', arg = [] }",
        &["19: unknown key 'arg' in a step (did you mean 'args'?)"],
    );
    step("{ app = 'Answer', args = 'x' }", &["26: `args` is a list in brackets, not a string"]);
    step(
        "{ app = 'Wait', args = [2] }",
        &["25: each of `args` is a text in quotes, not an integer; write \"2\""],
    );
    step("{ app = 'Answer', mode = 'parallel' }", &["19: only Dial takes `mode`"]);
    step(
        "{ app = 'Dial', args = ['SIP/a'], mode = 'parallel' }",
        &["35: either `args` or `mode`, not both"],
    );
    step(
        "{ app = 'Dial', targets = ['SIP/a&SIP/b'] }",
        &["34: one target per text here; a `&` of the number itself is written `\\&`"],
    );
    step(
        "{ app = 'Dial', targets = ['SIP/a'], mode = 'both' }",
        &["45: `mode` is \"parallel\" (all at once) or \"sequential\" (in turn)"],
    );
    step(
        "{ app = 'Dial', targets = ['SIP/a'], ring_timeout_s = true }",
        &["55: `ring_timeout_s` is a number of seconds"],
    );
    step(
        "{ app = 'Dial', targets = ['SIP/a'], ring_timeout_s = -1 }",
        &["55: `ring_timeout_s` is a number of seconds"],
    );
    step(
        "{ app = 'Dial', targets = ['SIP/a'], options = 'rm' }",
        &["50: Dial's option `m` is not built yet"],
    );
    step("{ app = 'Dial' }", &["10: Dial needs a target, such as Dial(SIP/trunk/${EXTEN},30)"]);
    step(
        "{ app = 'NoOp', label = '1st' }",
        &["25: a label starts with a letter and has letters, digits, `_` and `-`, at most 80"],
    );
    step("{ app = 'NoOp', args = ['a', 'b'] }", &["31: NoOp takes one argument, not 2"]);
}

#[test]
fn places_to_go_to() {
    step("'Goto(nowhere)'", &["7: the extension '100' has no label 'nowhere'"]);
    step("'Goto(thera)'", &["7: the extension '100' has no label 'thera' (did you mean 'there'?)"]);
    step("'Goto(3)'", &["7: the extension '100' has no step 3; its steps are 1 to 2"]);
    step("'Goto(0)'", &["7: the extension '100' has no step 0; its steps are 1 to 2"]);
    step("'Goto(n+1)'", &["7: a Goto leads to a label, or to a step by its number from 1"]);
    step("'Goto()'", &["2: it needs a label, or [[context,]number,]label"]);
    step("'Goto(100,)'", &["2: a part of the place to go to is empty"]);
    step("'Goto(101,1)'", &["7: there is no extension '101' in context 'default'"]);
    step("'Goto(defualt,100,1)'", &["7: there is no context 'defualt' (did you mean 'default'?)"]);
    step("'Goto(default,100,7)'", &["19: the extension '100' has no step 7; its steps are 1 to 2"]);
    step("'Goto(a,b,c,d)'", &["13: Goto takes at most 3 arguments, not 4"]);
    step("'Goto(default,${EXTEN},7)'", &[]);
}

#[test]
fn conditions() {
    step("'GotoIf()'", &["2: GotoIf needs condition?label or condition?label:label"]);
    step(
        "'GotoIf(1)'",
        &["9: the `?` is missing: GotoIf needs condition?label or condition?label:label"],
    );
    step(
        "'GotoIf(1?)'",
        &["9: nothing stands behind the `?`: GotoIf needs condition?label or \
             condition?label:label"],
    );
    step("'GotoIf(1?nowhere)'", &["11: the extension '100' has no label 'nowhere'"]);
    step("'GotoIf($[1 = 2?there)'", &["8: `(` is not closed: a `$[` inside is not closed"]);
    step("'GotoIf($[1 ~ 2]?there)'", &["13: there is no operator `~`"]);
    step("'GotoIf($[1 ? 2]?there)'", &["13: `?` needs a `::` and what holds otherwise"]);
    step("'GotoIf($[1 2]?there)'", &["13: an operator is missing before this"]);
    step("'GotoIf($[1 = ]?there)'", &["15: the expression ends where a value belongs"]);
    step("'GotoIf($[= 1]?there)'", &["11: a value belongs before this operator"]);
    step("'GotoIf($[(1 = 1]?there)'", &["8: `(` is not closed: `)` is missing"]);
    step("'GotoIf($[!!!!!!!!!!1]?there)'", &["18: expressions nest 8 deep at most"]);
    step(
        "{ app = 'GotoIf', args = ['$[\"a]?there'] }",
        &["28: the `?` is missing: a quote inside is not closed"],
    );
    step("'GotoIf($[${A} = ${VM_INFO(b)}]?there)'", &["20: the function VM_INFO is not built yet"]);
    step("'GotoIfTime(25:00?there)'", &["13: '25:00' is no time such as 09:30"]);
    step("'GotoIfTime(*,*,*,*,UTC?there)'", &["21: a time zone of its own is not built yet"]);
    step("'ExecIf(1?ExecIf(1?NoOp()))'", &["11: an ExecIf inside an ExecIf: use GotoIf"]);
    step("'ExecIf(1?While(1))'", &["11: a loop cannot begin or end inside an ExecIf"]);
    step("'ExecIf(1?Frob())'", &["11: unknown application 'Frob'"]);
    step("'EndWhile'", &["1: EndWhile without a While before it"]);
    step("'While(1)'", &["1: While without an EndWhile behind it"]);
    step("'ExitWhile'", &["1: ExitWhile outside of a loop"]);
    step("'Gosub(nowhere(1,2))'", &["8: the extension '100' has no label 'nowhere'"]);
    step("'Gosub()'", &["2: Gosub needs [[context,]number,]label[(arguments)]"]);
}

#[test]
fn extensions() {
    let ok = "steps = ['Answer']\n";
    let exten = |rest: &str| format!("[[context.a.exten]]\n{rest}");
    file(&exten(ok), &["1:1: an extension needs `match`: a number, a name or a pattern"]);
    file(&exten("match = '1'\n"), &["2:9: the extension has no `steps`"]);
    file(&exten("match = '1'\nsteps = []\n"), &["3:9: the extension has no steps"]);
    file(
        &exten("match = '1'\nsteps = 'Answer'\n"),
        &["3:9: `steps` is a list in brackets, not a string"],
    );
    file(
        &exten(&format!("match = 100\n{ok}")),
        &["2:9: `match` is a text in quotes, not an integer; write \"100\""],
    );
    file(&exten(&format!("match = ''\n{ok}")), &["2:9: the name is empty"]);
    file(
        &exten(&format!("match = '1/2'\n{ok}")),
        &["2:11: a `/` cannot be dialled here; for a match on the caller's number write \
             caller = \"...\" beside match"],
    );
    file(
        &exten(&format!("match = '_1[2'\n{ok}")),
        &["2:12: the set is not closed: `]` is missing"],
    );
    file(&exten(&format!("match = '_'\n{ok}")), &["2:11: the pattern is empty"]);
    file(
        &exten(&format!("match = 'o'\n{ok}")),
        &["2:9: the extension `o`, run for the operator of voice mail, is not built yet"],
    );
    file(
        &exten(&format!("match = \"a\\u0007\"\n{ok}")),
        &["2:11: a control character cannot be dialled"],
    );
    file(
        &exten(&format!("match = '{}'\n{ok}", "1".repeat(129))),
        &["2:9: a name or pattern has at most 128 bytes"],
    );
    file(
        &exten(&format!("match = '1'\ncaller = '_['\n{ok}")),
        &["3:12: the set is not closed: `]` is missing"],
    );
    file(
        &exten(&format!("match = '1'\nstep = []\n{ok}")),
        &["3:1: unknown key 'step' in an extension (did you mean 'steps'?)"],
    );
    file(
        &format!("[context.a.exten]\nmatch = '1'\n{ok}"),
        &["1:1: an extension is written with two brackets: [[context.NAME.exten]]"],
    );
}

#[test]
fn contexts() {
    file(
        "[context.a]\ninclude = [{ context = 'b', hours = '9-17', days = 'x', timezone = 'UTC' \
         }]\n[context.b]\n",
        &[
            "2:37: '9' is no time such as 09:30",
            "2:52: 'x' is no day of the week such as mon",
            "2:57: `timezone` is not built yet",
        ],
    );
    file(
        "[[context.a.hint]]\nexten = '1'\ndevice = 'DAHDI/1'\n",
        &["3:10: a device is SIP/name or PJSIP/name, several with `&` between"],
    );
    file("[[context.a.hint]]\nexten = '1'\n", &["1:1: a hint needs `exten` and `device`"]);
    file(
        "[context]\n'a b' = {}\n",
        &["2:1: a context's name has no blanks and none of `[ ] , @ \"`, at most 80 bytes"],
    );
    file(
        "[context.a]\nswitch = []\nincldue = []\n",
        &[
            "2:1: `switch` is not built yet",
            "3:1: unknown key 'incldue' in a context (did you mean 'include'?)",
        ],
    );
    file("[context.a]\ninclude = ['b']\n", &["2:12: there is no context 'b'"]);
    file("[context.a]\ninclude = 'b'\n", &["2:11: `include` is a list in brackets, not a string"]);
    file(
        "[context.a]\ninclude = [{ }, 7]\n",
        &[
            "2:12: an include needs `context`",
            "2:17: an include is a text in quotes, not an integer; write \"7\"",
        ],
    );
    file(
        "[context.a]\ninclude = ['b', 'b']\n[context.b]\n",
        &["2:17: the context 'b' is included twice"],
    );
    file("[context.a]\ninclude = ['a']\n", &["2:12: the context 'a' includes itself: a > a"]);
    file(
        "[context.a]\ninclude = ['b']\n[context.b]\ninclude = ['c']\n[context.c]\ninclude = ['a']",
        &["6:12: the context 'a' includes itself: a > b > c > a"],
    );
    file("[contexts.a]\n", &["1:2: unknown key 'contexts' in a plan (did you mean 'context'?)"]);
    file("context = 7\n", &["1:11: `context` is a table, not an integer"]);
    file(
        "[globals]\nA = 1\n'B-C' = 'x'\nD = '${A}'\n",
        &[
            "2:5: a global variable is a text in quotes, not an integer; write \"1\"",
            "3:1: a variable's name has letters, digits and `_` only, at most 80",
            "4:5: a variable in the value of a global variable is not built yet",
        ],
    );
}

#[test]
fn things_that_stand_twice() {
    let ok = "steps = ['Answer']\n";
    let exten = |rest: &str| format!("[[context.a.exten]]\n{rest}");
    let twice = format!("match = '_[2-9]'\n{ok}[[context.a.exten]]\nmatch = '_N'\n{ok}");
    file(
        &exten(&twice),
        &["5:9: the extension '_N' is in this context already: d:2 '_[2-9]' matches the \
             same numbers"],
    );
    let labels =
        "match = '1'\nsteps = [{ app = 'NoOp', label = 'a' }, { app = 'NoOp', label = 'a' }]";
    file(&exten(labels), &["3:65: the label 'a' stands twice in this extension"]);
}

#[test]
fn no_toml() {
    file(
        "[context.a\nexten = [\n",
        &[
            "1:11: not TOML: unclosed table, expected `]`",
            "2:10: not TOML: unclosed array, expected `]`",
        ],
    );
    file(
        "a = \"x\nb = ]\n[context.a]\ninclude = ['gone']\nfoo = 1\n",
        &[
            "1:7: not TOML: invalid basic string, expected `\"`",
            "2:5: not TOML: missing array opening, expected `[`",
            "5:1: unknown key 'foo' in a context",
        ],
    );
    file("[globals]\nA = 'x'\nA = 'y'\n", &["3:1: not TOML: duplicate key"]);
}

#[test]
fn a_fault_shows_its_place_with_a_caret() {
    let text = "[[context.a.exten]]\r\nmatch = '1'\r\nsteps = [\t'Äöü', 'Anwser()']\r\n";
    let faults = parse(&[("etc/dialplan.toml", text)]).unwrap_err();
    let wanted = "\
etc/dialplan.toml:3:12: unknown application 'Äöü'
 3 | steps = [\t'Äöü', 'Anwser()']
   |          \t ^^^
etc/dialplan.toml:3:19: unknown application 'Anwser' (did you mean 'Answer'?)
 3 | steps = [\t'Äöü', 'Anwser()']
   |          \t        ^^^^^^
";
    assert_eq!(faults.to_string(), wanted);
}

#[test]
fn a_fault_shows_no_control_characters_and_the_part_of_a_long_line_that_matters() {
    let text = format!("[globals]\nA = '{}' # \u{7f}\n", "x".repeat(5_000));
    let fault = parse(&[("d", &text)]).unwrap_err();
    let shown = fault.to_string();
    assert!(shown.starts_with("d:2:5: a value has at most 4096 bytes\n 2 | A = 'xxx"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 160), "{shown}");
    let text = format!("[globals]\n'{}' = 1\n", "ä\u{1b}x".repeat(1_000));
    let shown = parse(&[("d", &text)]).unwrap_err().to_string();
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn faults_beyond_the_limit_are_counted() {
    let text =
        "A = 1\n".to_owned() + &(0..150).map(|n| format!("key{n} = 1\n")).collect::<String>();
    let faults = parse(&[("d", &text)]).unwrap_err();
    assert_eq!((faults.len(), faults.iter().count()), (151, 100));
    assert!(faults.to_string().ends_with("\n... and 51 more faults\n"));
}

#[test]
fn limits_of_contexts_includes_and_steps_are_faults() {
    let chain: String = (0..129)
        .map(|n| format!("[context.c{n}]\ninclude = ['c{}']\n", n + 1))
        .chain(["[context.c129]\n".to_owned()])
        .collect();
    file(
        &chain,
        &[
            "2:12: the context 'c0' reaches more than 128 contexts",
            "4:12: the context 'c1' reaches more than 128 contexts",
        ],
    );
    let steps = "'NoOp',".repeat(1_001);
    let text = format!("[[context.a.exten]]\nmatch = '1'\nsteps = [{steps}]\n");
    file(&text, &["3:7010: an extension has at most 1000 steps"]);
    let contexts: String = (0..16_385).map(|n| format!("[context.c{n}]\n")).collect();
    file(&contexts, &["16385:10: a plan has at most 16384 contexts"]);
    let globals: String = (0..4_097).map(|n| format!("A{n} = ''\n")).collect();
    file(&format!("[globals]\n{globals}"), &["1:1: a plan has at most 4096 global variables"]);
}

#[test]
fn all_faults_of_all_files_come_at_once_and_in_order() {
    let first = "[[context.a.exten]]\nmatch = '_['\nsteps = ['Foo', 'Goto(b)']\n";
    let second = "[context.a]\ninclude = ['b']\nswitch = []\n";
    let faults = parse(&[("one", first), ("two", second)]).unwrap_err();
    let said: Vec<String> = faults
        .iter()
        .map(|fault| format!("{}:{} {}", fault.file(), fault.line(), fault.message()))
        .collect();
    assert_eq!(
        said,
        [
            "one:2 the set is not closed: `]` is missing",
            "one:3 unknown application 'Foo'",
            "two:2 there is no context 'b'",
            "two:3 `switch` is not built yet",
        ]
    );
}

#[test]
fn a_trunk_that_the_configuration_does_not_know_can_be_refused_with_its_place() {
    let text = "[[context.a.exten]]\nmatch = '1'\nsteps = ['Dial(SIP/t1/1&SIP/t2&SIP/t1)']\n";
    let plan = parse(&[("d", text)]).unwrap();
    let faults: Vec<String> =
        plan.trunks_referenced().iter().map(|trunk| trunk.fault("no trunk").to_string()).collect();
    let shown = "steps = ['Dial(SIP/t1/1&SIP/t2&SIP/t1)']";
    let wanted = |column: usize| {
        let blanks = " ".repeat(column - 1);
        format!("d:3:{column}: no trunk\n 3 | {shown}\n   | {blanks}^^")
    };
    assert_eq!(faults, [wanted(20), wanted(29)]);
}

#[test]
fn faults_of_other_files_of_configuration_look_alike() {
    let faults: dialplan::Faults = [
        dialplan::Fault::at("b", "x = 1\ny = 2\n", 6..7, "second"),
        dialplan::Fault::at("a", "z", 0..1, "other file"),
        dialplan::Fault::at("b", "x = 1\ny = 2\n", 0..1, "first"),
    ]
    .into_iter()
    .collect();
    let said: Vec<&str> = faults.iter().map(dialplan::Fault::message).collect();
    assert_eq!(said, ["first", "second", "other file"]);
}
