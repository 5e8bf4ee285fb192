//! The log of the running program: the story of a call, words that change the log, the file that
//! declares it, and attached consoles. Lines are counted.

mod rig;

use pbx_control::wire::{Attach, LogChannels, LogFilter, LoggerAsk, TraceAsk, TraceWhose, View};
use pbx_control::{Command, Console, Reply};
use rig::{Folder, Phone, Program, eventually};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

fn ask(program: &Program, console: Option<&str>, ask: LoggerAsk) -> Result<Vec<String>, String> {
    let console = console.map(str::to_owned);
    let replies = program.ask(Command::Logger { console, ask });
    match replies.first() {
        Some(Reply::Text { lines }) => Ok(lines.clone()),
        Some(Reply::Refused { reason }) => Err(reason.clone()),
        other => panic!("{other:?}"),
    }
}

fn channels(program: &Program) -> LogChannels {
    let replies = program.ask(Command::Logger { console: None, ask: LoggerAsk::ShowChannels });
    match replies.first() {
        Some(Reply::LogChannels(channels)) => channels.clone(),
        other => panic!("{other:?}"),
    }
}

fn set_verbose(program: &Program, console: Option<&str>, level: u8) -> (u8, u8) {
    let (console, at_least, silent) = (console.map(str::to_owned), false, false);
    let replies = program.ask(Command::SetVerbose { level, at_least, silent, console });
    match replies.first() {
        Some(Reply::Verbose { was, now }) => (*was, *now),
        other => panic!("{other:?}"),
    }
}

/// One whole call.
fn call(program: &Program) {
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
}

/// An attached console whose lines are collected by a thread.
struct Screen {
    name: String,
    lines: Arc<Mutex<Vec<String>>>,
    stream: UnixStream,
}

impl Screen {
    fn open(program: &Program, attach: Attach) -> Self {
        let console = Console::connect(program.socket()).expect("it listens");
        let (name, reader) = console.attach(attach).expect("it is attached");
        let stream = reader.get_ref().try_clone().expect("a copy");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let collected = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                collected.lock().expect("no test panics with it").push(line);
            }
        });
        Self { name, lines, stream }
    }

    fn at(program: &Program, verbose: u8) -> Self {
        Self::open(program, Attach { verbose, ..Attach::default() })
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no test panics with it").clone()
    }

    /// Lines in which a text stands.
    fn count(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }

    fn close(self) {
        self.stream.shutdown(std::net::Shutdown::Both).expect("it was open");
    }
}

#[test]
fn case_l04_a_file_tells_the_story_of_a_call_without_a_terminal() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let screen = Screen::at(&program, 4);
    assert_eq!(set_verbose(&program, None, 4), (0, 4));
    call(&program);
    eventually("the call has ended on the console", || screen.count("Hungup") == 1);
    eventually("and in the file", || folder.read("log/messages").contains("Hungup"));
    let of_call = |text: &str| -> Vec<String> {
        let story = text.lines().filter(|line| line.contains("SIP/phones"));
        // In the file, the head stands in front.
        story.map(|line| line.rsplit(".rs: ").next().unwrap_or(line).to_owned()).collect()
    };
    let (file, console) = (of_call(&folder.read("log/messages")), screen.lines().join("\n"));
    assert_eq!(file, of_call(&console));
    let beginnings: Vec<&str> =
        file.iter().map(|line| line.split(" [").next().unwrap_or(line)).collect();
    assert!(beginnings.contains(&"    -- Executing"), "{file:?}");
    assert!(file.len() >= 4, "{file:?}");
}

#[test]
fn case_l08_each_console_has_its_own_verbosity() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let consoles: Vec<Screen> = [0, 3, 7].map(|verbose| Screen::at(&program, verbose)).into();
    let who = ask(&program, None, LoggerAsk::ShowWho).unwrap();
    assert!(who[0].starts_with("Verbosity in effect: 7 (root: 0"), "{who:?}");
    let holder = who.iter().find(|line| line.contains("holds it up")).unwrap();
    assert!(holder.contains(&consoles[2].name), "{who:?}");
    call(&program);
    eventually("the call has ended on the loudest", || consoles[2].count("Hungup") == 1);
    eventually("and on the middle one", || consoles[1].count("Hungup") == 1);
    assert_eq!(consoles[0].count("SIP/phones"), 0);
    assert_eq!(consoles[1].count("New channel"), 0, "that is of level 4");
    assert_eq!(consoles[2].count("New channel"), 1);
    assert!(!folder.read("log/messages").contains("SIP/phones"), "the root stands at 0");

    // Typed in a console it concerns that console only.
    assert_eq!(set_verbose(&program, Some(&consoles[0].name), 3), (0, 3));
    assert_eq!(set_verbose(&program, Some(&consoles[2].name), 0), (7, 0));
    call(&program);
    eventually("the quiet one hears the second call", || consoles[0].count("Hungup") == 1);
    eventually("the middle one both", || consoles[1].count("Hungup") == 2);
    assert_eq!(consoles[2].count("Hungup"), 1);

    // One that goes takes its share along.
    for console in consoles {
        console.close();
    }
    eventually("nobody holds the gate open", || {
        ask(&program, None, LoggerAsk::ShowWho).unwrap()[0].starts_with("Verbosity in effect: 0")
    });
    assert!(channels(&program).channels.iter().all(|it| !it.name.starts_with("console-")));
}

#[test]
fn a_console_can_follow_one_call_and_narrow_what_it_sees() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let (all, one) = (Screen::at(&program, 3), Screen::at(&program, 0));
    call(&program);
    eventually("the first call is known", || all.count("Hungup") == 1);
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    // By the name of one of its channels.
    let replies = program.ask(Command::ShowChannels { view: View::Table });
    let Some(Reply::Channels { channels }) = replies.first() else { panic!("{replies:?}") };
    let (name, id) = (channels[0].name.clone(), channels[0].call.clone());
    let follow = |call: &str| LoggerAsk::Follow { call: Some(call.to_owned()) };
    let said = ask(&program, Some(&one.name), follow(&name)).unwrap();
    assert!(said[0].contains(&format!("Following call {id};")), "{said:?}");
    call(&program);
    assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
    eventually("both are over", || all.count("Hungup") == 3);
    eventually("the followed one is, too", || one.count("Hungup") == 1);
    assert_eq!(one.count(&name), one.count("SIP/phones-"), "{:?}", one.lines());
    // By its number, which the next call of the only shard will have.
    let number = u32::from_str_radix(&id[2..], 16).unwrap();
    ask(&program, Some(&one.name), follow(&format!("C-{:08x}", number + 2))).unwrap();
    let wrong = ask(&program, Some(&one.name), follow("SIP/nobody-1")).unwrap_err();
    assert!(wrong.contains("not a known channel"), "{wrong}");
    call(&program);
    call(&program);
    eventually("five are over", || all.count("Hungup") == 5);
    eventually("the followed one is, too", || one.count("Hungup") == 2);
    ask(&program, Some(&one.name), LoggerAsk::Follow { call: None }).unwrap();

    set_verbose(&program, Some(&one.name), 3);
    let filter = LogFilter::Text { text: "nobody".to_owned() };
    ask(&program, Some(&one.name), LoggerAsk::Filter(filter)).unwrap();
    call(&program);
    eventually("all see the call", || all.count("Hungup") == 6);
    assert_eq!(one.count("Hungup"), 2);
    ask(&program, Some(&one.name), LoggerAsk::Filter(LogFilter::Off)).unwrap();
    call(&program);
    eventually("the filter is off", || one.count("Hungup") == 3);
    let stranger = ask(&program, None, LoggerAsk::Mute).unwrap_err();
    assert!(stranger.contains("pbxctl -v"), "{stranger}");
}

#[test]
fn a_paused_console_counts_what_it_misses() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let (all, one) = (Screen::at(&program, 3), Screen::at(&program, 3));
    let pause = |is_on| ask(&program, Some(&one.name), LoggerAsk::Pause { is_on }).unwrap();
    call(&program);
    eventually("both have seen the call", || all.count("Hungup") + one.count("Hungup") == 2);
    let (seen_all, seen_one) = (all.lines().len(), one.lines().len());
    pause(true);
    call(&program);
    eventually("the other one goes on", || all.count("Hungup") == 2);
    let missed = all.lines().len() - seen_all;
    let said = pause(false);
    assert_eq!(said, [format!("{missed} lines were dropped")]);
    assert_eq!(one.lines().len(), seen_one);
    call(&program);
    eventually("it sees again", || one.count("Hungup") == 2);
}

#[test]
fn json_consoles_get_an_object_a_line_and_nobody_gets_colours_unasked() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let json = Screen::open(&program, Attach { verbose: 3, json: true, colour: false });
    let plain = Screen::at(&program, 3);
    call(&program);
    eventually("the call is over", || json.count("Hungup") == 1 && plain.count("Hungup") == 1);
    for line in json.lines() {
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(value["logmsg"]["message"].is_string(), "{line}");
    }
    let mut stranger = Phone::at("127.0.0.2", program.address);
    stranger.call("answer");
    eventually("a notice comes", || plain.count("NOTICE") > 0);
    assert!(plain.lines().iter().all(|line| !line.contains('\x1b')), "{:?}", plain.lines());
}

#[test]
fn channels_are_added_rotated_and_removed_by_words() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let add = |name: &str, levels: &str| {
        let (name, levels) = (name.to_owned(), levels.to_owned());
        ask(&program, None, LoggerAsk::Add { name, levels })
    };
    add("calls.log", "verbose(3)").unwrap();
    assert!(add("calls.log", "notice").unwrap_err().contains("taken"));
    assert!(add("../evil", "notice").unwrap_err().contains("a log's name"));
    assert!(add("x", "loud").unwrap_err().contains("unknown level"));
    call(&program);
    eventually("it is written", || folder.read("log/calls.log").contains("Hungup"));
    let rotate = LoggerAsk::Rotate { name: Some("calls.log".to_owned()) };
    assert_eq!(ask(&program, None, rotate), Ok(vec!["log 'calls.log' rotated".to_owned()]));
    assert_eq!(folder.read("log/calls.log"), "");
    let listed = channels(&program).channels;
    let it = listed.iter().find(|it| it.name.ends_with("log/calls.log")).unwrap();
    assert_eq!((it.kind.as_str(), it.format.as_str()), ("File", "default"));
    assert_eq!((it.status.as_str(), it.dropped_keep + it.dropped_verbose), ("Enabled", 0));
    assert!(it.written >= 4, "{it:?}");
    let remove = || ask(&program, None, LoggerAsk::Remove { name: "calls.log".to_owned() });
    remove().unwrap();
    assert!(remove().unwrap_err().contains("Unable to find"));
    let levels = ask(&program, None, LoggerAsk::ShowLevels).unwrap();
    assert!(levels.contains(&"SECURITY".to_owned()), "{levels:?}");
}

#[test]
fn a_changed_file_applies_by_itself_and_a_broken_one_changes_nothing() {
    let folder = Folder::new();
    folder.configure("logging.files.messages.levels = \"notice,warning\"\n");
    let program = Program::start(&folder, &[]);
    let inode = || {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(folder.0.join("log/messages")).unwrap().ino()
    };
    let before = inode();
    folder.configure(
        "logging.files.messages.levels = \"notice,warning,verbose(3)\"\n\
         logging.files.more.levels = \"notice\"\nlogging.files.more.format = \"json\"\n",
    );
    eventually("the change is told", || {
        let text = folder.read("log/messages");
        text.contains("log 'messages' changed") && text.contains("log 'more' added")
    });
    assert_eq!(inode(), before, "the file stays open");
    call(&program);
    eventually("its levels are new", || folder.read("log/messages").contains("Hungup"));

    folder.configure("logging.files.messages.levels = \"notcie\"\n");
    let fault = "pbx.toml:10:33: unknown level 'notcie'";
    eventually("the fault is told", || folder.read("log/messages").contains(fault));
    let refused = ask(&program, None, LoggerAsk::Reload).unwrap_err();
    assert!(refused.contains(fault), "{refused}");
    call(&program);
    let hung_up = || folder.read("log/messages").matches("Hungup").count();
    eventually("it still logs calls", || hung_up() == 2);

    folder.configure("logging.files.messages.levels = \"notice,warning\"\n");
    let lines = ask(&program, None, LoggerAsk::Reload);
    // The file's watcher may have been faster.
    assert!(lines.is_ok(), "{lines:?}");
    eventually("the other log is gone", || {
        !channels(&program).channels.iter().any(|it| it.name.ends_with("more"))
    });
    call(&program);
    assert_eq!(hung_up(), 2);
    assert!(folder.read("log/more").lines().all(|line| line.starts_with("{\"hostname\":")));
}

#[test]
fn the_old_name_of_the_table_is_refused_with_the_new_one() {
    let folder = Folder::new();
    folder.configure("log.verbose = 3\n");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pbx"))
        .arg("--check")
        .arg("--config")
        .arg(folder.0.join("pbx.toml"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("'log' is called 'logging' now"), "{text}");
}

#[test]
fn a_syslog_gets_what_it_is_declared_for() {
    let folder = Folder::new();
    let socket = folder.0.join("dev-log");
    let server = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    server.set_read_timeout(Some(rig::PATIENCE)).unwrap();
    folder.configure(&format!(
        "logging.syslog.local.to = \"{}\"\nlogging.syslog.local.levels = \"verbose(3)\"\n\
         logging.syslog.local.facility = \"local3\"\n",
        socket.display()
    ));
    let program = Program::start(&folder, &[]);
    call(&program);
    let mut datagram = [0; 2048];
    let mut text = String::new();
    while !text.contains("Hungup") {
        let length = server.recv(&mut datagram).unwrap();
        text = String::from_utf8_lossy(&datagram[..length]).into_owned();
        // local3 is 19; VERBOSE is of severity 6.
        assert!(text.starts_with("<158>") && text.contains(" asterisk["), "{text}");
    }
    let listed = channels(&program).channels;
    assert!(listed.iter().any(|it| it.kind == "Syslog" && it.format == "syslog"), "{listed:?}");
}

/// A terminal on which somebody pressed Ctrl-S, and went home.
#[test]
fn a_console_that_takes_nothing_loses_its_own_lines_and_releases_the_level() {
    let folder = Folder::new();
    folder.configure("logging.files.messages.levels = \"notice,warning,verbose(3)\"\n");
    let program = Program::start(&folder, &[]);
    let console = Console::connect(program.socket()).expect("it listens");
    let attach = Attach { verbose: 10, ..Attach::default() };
    let (name, stalled) = console.attach(attach).expect("it is attached");
    program.ask(Command::Trace(TraceAsk::On { of: TraceWhose::All, file: None }));
    let of = |name: &str| {
        let all = channels(&program).channels;
        all.into_iter().find(|it| it.name.ends_with(name)).expect("it is listed")
    };
    let mut phone = Phone::new(program.address);
    eventually("its queue is full", || {
        for _ in 0..50 {
            assert!(phone.options().starts_with("SIP/2.0 200 "));
        }
        of(&name).dropped_verbose > 0
    });
    eventually("it is told, once", || {
        phone.options();
        let text = folder.read("log/messages");
        text.matches(&format!("Log '{name}' takes nothing")).count() == 1
    });
    let files = of("log/messages");
    assert_eq!((files.dropped_verbose, files.dropped_keep), (0, 0), "the file has everything");
    assert_eq!(of(&name).dropped_keep, 0, "{:?}", of(&name));
    assert_eq!(of(&name).status, "takes nothing");
    eventually("its share of the level is released", || {
        phone.options();
        let who = ask(&program, None, LoggerAsk::ShowWho).unwrap();
        who[0].starts_with("Verbosity in effect: 3") && who.join("\n").contains("has released")
    });
    // The operator comes back: it reads what waited, and then has its level again.
    let lines = Arc::new(AtomicUsize::new(0));
    let (counted, stream) = (Arc::clone(&lines), stalled.get_ref().try_clone().unwrap());
    let reader = thread::spawn(move || {
        let read = stalled.lines().map_while(Result::ok);
        read.for_each(|_| _ = counted.fetch_add(1, Ordering::Relaxed));
    });
    eventually("it flows again", || folder.read("log/messages").contains("takes lines again"));
    eventually("it has its level back", || {
        ask(&program, None, LoggerAsk::ShowWho).unwrap()[0].starts_with("Verbosity in effect: 10")
    });
    program.ask(Command::Trace(TraceAsk::Off { of: None }));
    eventually("every line is accounted for", || {
        let it = of(&name);
        it.written == lines.load(Ordering::Relaxed) as u64
    });
    stream.shutdown(std::net::Shutdown::Both).unwrap();
    reader.join().unwrap();
}
