//! The real program in a folder of its own, and a phone that speaks raw UDP to it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses its part")]

use pbx_control::{Command as Ask, Console, Counts, Reply, wire::View};
use rustix::process::{Pid, Signal, kill_process};
use sip::digest::{Account, Answering, Password};
use sip::wire::{Framing, Index};
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The longest that anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const DIALPLAN: &str = r#"
[[context.in.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Wait(3600)"]
[[context.in.exten]]
match = "busy"
steps = ["Busy(1)"]
"#;

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder that goes away with its owner.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pbx-program-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let folder = Self(folder);
        folder.write("dialplan.toml", DIALPLAN);
        folder.configure("");
        folder
    }

    /// A configuration with `more` at its end; no metrics and no SQLite unless `more` says so.
    pub(crate) fn configure(&self, more: &str) {
        let mut more = more.to_owned();
        for (key, value) in [
            ("sip.listen", "[\"127.0.0.1:0\"]"),
            ("metrics.listen", "\"none\""),
            ("records.sqlite", "false"),
        ] {
            if !more.contains(key) {
                more = format!("{key} = {value}\n{more}");
            }
        }
        self.write(
            "pbx.toml",
            &format!(
                "server.name = \"test\"\nserver.data_dir = \".\"\n\
                 trunks.phones.from = [\"127.0.0.1\", \"::1\"]\ntrunks.phones.context = \"in\"\n\
                 records.ring_folder = \"rings\"\nrecords.ring = \"1MiB\"\n{more}"
            ),
        );
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    pub(crate) fn records(&self) -> Vec<String> {
        self.read("records/calls-000001.jsonl").lines().map(str::to_owned).collect()
    }

    pub(crate) fn dialplan(&self) -> &'static str {
        DIALPLAN
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("left for you to look at: {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// The running program; killed when it is dropped.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Vec<SocketAddr>,
    socket: PathBuf,
}

impl Program {
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Self {
        Self::start_with(folder, arguments, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_with(
        folder: &Folder,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pbx"))
            .arg("--config")
            .arg(folder.0.join("pbx.toml"))
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listed = line.split("udp ").nth(1).and_then(|rest| rest.split(';').next());
        let listed = listed.unwrap_or_else(|| panic!("it did not start: {line:?}"));
        let addresses: Vec<SocketAddr> =
            listed.split(", ").map(|address| address.parse().unwrap()).collect();
        let socket = folder.0.join("control.sock");
        Self { child, address: addresses[0], addresses, socket }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn ask(&self, command: Ask) -> Vec<Reply> {
        let mut console = Console::connect(&self.socket).unwrap();
        let mut replies = Vec::new();
        console.ask(command, |reply| replies.push(reply.clone())).unwrap();
        replies
    }

    pub(crate) fn counts(&self) -> Counts {
        let replies = self.ask(Ask::ShowChannels { view: View::Count });
        match replies.first() {
            Some(Reply::Counts(counts)) => *counts,
            other => panic!("no counts: {other:?}"),
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The body of a page.
pub(crate) fn http_get(server: SocketAddr, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(server).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A phone with one call at a time.
pub(crate) struct Phone {
    socket: UdpSocket,
    server: SocketAddr,
    call_id: String,
    to_tag: String,
    cseq: u32,
    first: String,
}

static CALLS: AtomicU32 = AtomicU32::new(0);

impl Phone {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self::at("127.0.0.1", server)
    }

    pub(crate) fn at(own: &str, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((own, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            server,
            call_id: String::new(),
            to_tag: String::new(),
            cseq: 0,
            first: String::new(),
        }
    }

    /// Registers as `user`; the final response.
    pub(crate) fn register(&mut self, user: &str, password: &str) -> String {
        self.begin();
        let challenge = self.register_with(user, "");
        if !challenge.starts_with("SIP/2.0 401 ") {
            return challenge;
        }
        let mut index = Index::new();
        let message = index.parse(challenge.as_bytes(), Framing::Datagram).unwrap();
        let password = Password::of_text(password);
        let accounts = [Account { user: user.into(), realm: None, password }];
        let mut answering = Answering::default();
        answering.on_challenge(&message, &accounts).unwrap();
        let uri = format!("sip:{}", self.server);
        let mut line = Vec::new();
        answering.write(&accounts, b"REGISTER", uri.as_bytes(), 7, &mut line);
        self.register_with(user, &String::from_utf8(line).unwrap())
    }

    fn register_with(&mut self, user: &str, credentials: &str) -> String {
        self.cseq += 1;
        let own = self.socket.local_addr().unwrap();
        let (call_id, cseq, server) = (&self.call_id, self.cseq, self.server);
        self.transmit(&format!(
            "REGISTER sip:{server} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {own};branch=z9hG4bK{call_id}REG{cseq};rport\r\n\
             From: <sip:{user}@{server}>;tag=from\r\nTo: <sip:{user}@{server}>\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} REGISTER\r\nMax-Forwards: 70\r\n\
             Contact: <sip:{user}@{own}>\r\n{credentials}Content-Length: 0\r\n\r\n"
        ));
        self.final_response()
    }

    fn send(&mut self, method: &str, user: &str, body: &str) {
        if method != "ACK" {
            self.cseq += 1;
        }
        let own = self.socket.local_addr().unwrap();
        let (call_id, cseq, server) = (&self.call_id, self.cseq, self.server);
        let to_tag = &self.to_tag;
        let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let message = format!(
            "{method} sip:{user}@{server} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {own};branch=z9hG4bK{call_id}{method}{cseq};rport\r\n\
             From: <sip:tester@{own}>;tag=from\r\nTo: <sip:{user}@{server}>{to_tag}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nMax-Forwards: 70\r\n\
             Contact: <sip:tester@{own}>\r\n{content}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.transmit(&message);
    }

    /// The next message.
    pub(crate) fn receive(&mut self) -> String {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("a message in time");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// The next final response, its status line first.
    pub(crate) fn final_response(&mut self) -> String {
        self.first.clear();
        loop {
            let message = self.receive();
            if self.first.is_empty() {
                self.first.clone_from(&message);
            }
            if message.starts_with("SIP/2.0 ") && !message.starts_with("SIP/2.0 1") {
                return message;
            }
        }
    }

    /// What came first on the last request.
    pub(crate) fn first(&self) -> &str {
        &self.first
    }

    /// Hears nobody but the server's address from now on.
    pub(crate) fn connect(&mut self) {
        self.socket.connect(self.server).unwrap();
    }

    pub(crate) fn options(&mut self) -> String {
        self.begin();
        self.send("OPTIONS", "anybody", "");
        self.final_response()
    }

    /// Calls `user` and returns the final response.
    pub(crate) fn call(&mut self, user: &str) -> String {
        self.dial(user);
        self.answered(user)
    }

    /// Begins a call.
    pub(crate) fn dial(&mut self, user: &str) {
        self.begin();
        let own = self.socket.local_addr().unwrap();
        let offer = format!(
            "v=0\r\no=- 1 1 IN IP4 {0}\r\ns=-\r\nc=IN IP4 {0}\r\nt=0 0\r\n\
             m=audio 4000 RTP/AVP 0\r\n",
            own.ip()
        );
        self.send("INVITE", user, &offer);
    }

    /// Waits for the final response to [`Phone::dial`]. An answer is acknowledged.
    pub(crate) fn answered(&mut self, user: &str) -> String {
        let response = self.final_response();
        let to = response.lines().find(|line| line.starts_with("To:")).unwrap();
        let tag = to.split(";tag=").nth(1).expect("a final response has a To tag");
        self.to_tag = format!(";tag={}", tag.trim());
        self.send("ACK", user, "");
        response
    }

    pub(crate) fn bye(&mut self, user: &str) -> String {
        self.send("BYE", user, "");
        self.final_response()
    }

    /// Answers a request with 200.
    pub(crate) fn accept(&mut self, request: &str) {
        self.respond(request, "200 OK", "");
    }

    /// Rings and answers an incoming INVITE, and hears its ACK.
    pub(crate) fn pick_up(&mut self, invite: &str) {
        assert!(invite.starts_with("INVITE "), "{invite}");
        self.respond(invite, "180 Ringing", "");
        let own = self.socket.local_addr().unwrap();
        self.respond(
            invite,
            "200 OK",
            &format!(
                "v=0\r\no=- 2 2 IN IP4 {0}\r\ns=-\r\nc=IN IP4 {0}\r\nt=0 0\r\n\
                 m=audio 5000 RTP/AVP 0\r\n",
                own.ip()
            ),
        );
        let ack = self.receive();
        assert!(ack.starts_with("ACK "), "{ack}");
    }

    /// Speaks to another server from now on.
    pub(crate) fn call_back(&mut self, server: SocketAddr) {
        self.server = server;
    }

    /// Ends the call that `invite` began, as its callee, and hears the 200.
    pub(crate) fn hang_up(&mut self, invite: &str) {
        let line = |name: &str| {
            let found = invite.lines().find(|line| line.starts_with(name)).unwrap();
            found[name.len()..].trim().to_owned()
        };
        let (from, to, call_id) = (line("From:"), line("To:"), line("Call-ID:"));
        let contact = line("Contact:");
        let target = contact.split(['<', '>']).nth(1).unwrap();
        let own = self.socket.local_addr().unwrap();
        let message = format!(
            "BYE {target} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKbye{call_id};rport\r\n\
             From: {to};tag=callee\r\nTo: {from}\r\nCall-ID: {call_id}\r\nCSeq: 7 BYE\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        self.transmit(&message);
        let response = self.final_response();
        assert!(response.starts_with("SIP/2.0 200 "), "{response}");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn respond(&mut self, request: &str, status: &str, body: &str) {
        let own = self.socket.local_addr().unwrap();
        let copied: Vec<&str> = request
            .lines()
            .filter(|line| {
                ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|n| line.starts_with(n))
            })
            .collect();
        let mut head = copied.join("\r\n");
        if !request.contains(";tag=callee") && request.starts_with("INVITE ") {
            let to = copied.iter().find(|line| line.starts_with("To:")).unwrap();
            head = head.replace(to, &format!("{to};tag=callee"));
        }
        let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let answer = format!(
            "SIP/2.0 {status}\r\n{head}\r\nContact: <sip:callee@{own}>\r\n{content}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.transmit(&answer);
    }

    fn transmit(&self, message: &str) {
        let sent = match self.socket.peer_addr() {
            Ok(_) => self.socket.send(message.as_bytes()),
            Err(_) => self.socket.send_to(message.as_bytes(), self.server),
        };
        sent.unwrap();
    }

    fn begin(&mut self) {
        let number = CALLS.fetch_add(1, Ordering::Relaxed);
        self.call_id = format!("c{}-{number}", std::process::id());
        self.to_tag.clear();
    }
}
