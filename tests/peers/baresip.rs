//! A baresip without a sound card: it sends a sine, and its status line tells what it receives.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

use crate::outside::{Folder, Process, free_port, wait_until};

/// Bits per second that count as a flow of G.711, which has 64,000.
fn flows(rate: u32) -> bool {
    rate > 30_000
}

pub(crate) struct Baresip {
    process: Process,
    control: u16,
}

impl Baresip {
    /// A phone that answers every call by itself.
    pub(crate) fn start(folder: &Folder, user: &str, port: u16) -> Baresip {
        let account = format!("<sip:{user}@127.0.0.1:{port}>;regint=0;answermode=auto\n");
        Self::with(folder, user, port, &account)
    }

    /// A phone that registers with the server on `server`, and answers every call by itself.
    pub(crate) fn register(folder: &Folder, user: &str, server: u16) -> Baresip {
        let account = format!(
            "<sip:{user}@127.0.0.1:{server}>;auth_pass=secret{user};regint=60;answermode=auto\n"
        );
        let mut phone = Self::with(folder, user, free_port(), &account);
        phone.wait_for("200 OK");
        phone
    }

    /// The same over TCP.
    pub(crate) fn register_over_tcp(folder: &Folder, user: &str, server: u16) -> Baresip {
        let account = format!(
            "<sip:{user}@127.0.0.1:{server};transport=tcp>;auth_pass=secret{user};regint=60;\
             answermode=auto\n"
        );
        let mut phone = Self::with(folder, user, free_port(), &account);
        phone.wait_for("200 OK");
        phone
    }

    /// The same through a proxy on `edge`.
    pub(crate) fn register_through(folder: &Folder, user: &str, server: u16, edge: u16) -> Baresip {
        let account = format!(
            "<sip:{user}@127.0.0.1:{server}>;outbound=\"sip:127.0.0.1:{edge}\";\
             auth_pass=secret{user};regint=60;answermode=auto\n"
        );
        let mut phone = Self::with(folder, user, free_port(), &account);
        phone.wait_for("200 OK");
        phone
    }

    fn with(folder: &Folder, user: &str, port: u16, account: &str) -> Baresip {
        let home = folder.inside(user);
        let (control, media) = (free_port(), free_port() & !1);
        folder.write(&format!("{user}/accounts"), account);
        folder.write(&format!("{user}/contacts"), "");
        folder.write(
            &format!("{user}/config"),
            &format!(
                "poll_method epoll\n\
                 sip_listen 127.0.0.1:{port}\n\
                 net_interface 127.0.0.1\n\
                 rtp_ports {media}-{last}\n\
                 audio_source ausine,440\n\
                 ausrc_srate 48000\nausrc_channels 2\n\
                 module_path /usr/lib/baresip/modules\n\
                 module g711.so\nmodule ausine.so\n\
                 module_tmp account.so\n\
                 module_app menu.so\nmodule_app ctrl_tcp.so\n\
                 ctrl_tcp_listen 127.0.0.1:{control}\n",
                last = media.saturating_add(100),
            ),
        );
        let mut command = Command::new("baresip");
        let process = Process::start(folder, user, command.arg("-f").arg(&home));
        let mut phone = Baresip { process, control };
        phone.wait_for("baresip is ready");
        phone
    }

    pub(crate) fn dial(&mut self, uri: &str) {
        self.command(&format!(r#"{{"command":"dial","params":"{uri}"}}"#));
    }

    pub(crate) fn hang_up(&mut self) {
        self.command(r#"{"command":"hangup"}"#);
    }

    /// Waits until the phone has said something.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let process = &mut self.process;
        wait_until(text, || {
            process.assert_running();
            process.output().contains(text)
        });
    }

    /// Waits until the phone's status line says that media goes out and comes in.
    #[track_caller]
    pub(crate) fn wait_for_media(&self) {
        wait_until("media flows both ways", || {
            let output = self.process.output();
            output.split("audio=").skip(1).any(|line| {
                let rates = line.split_once(" (bit/s)").map_or("", |(rates, _)| rates);
                let mut rates = rates.split('/').map(|rate| rate.parse().unwrap_or(0));
                rates.next().is_some_and(flows) && rates.next().is_some_and(flows)
            })
        });
    }

    /// One command in the form of its control socket: the length, a colon, JSON and a comma.
    fn command(&self, json: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.control))
            .expect("the phone's control socket listens");
        write!(stream, "{}:{json},", json.len()).expect("the phone takes a command");
    }
}
