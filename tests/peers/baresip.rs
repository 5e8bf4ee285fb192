//! A baresip without a sound card: it plays a sine and writes what it hears to a file.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use crate::outside::{Folder, Process, free_port, wait_until};

/// Samples that must have been heard, in bytes of the file: a quarter of a second at 48 kHz.
const HEARD_MIN: u64 = 24_000;

pub(crate) struct Baresip {
    process: Process,
    control: u16,
    heard: PathBuf,
}

impl Baresip {
    /// A phone that answers every call by itself.
    pub(crate) fn start(folder: &Folder, user: &str, port: u16) -> Baresip {
        let home = folder.inside(user);
        let (control, media) = (free_port(), free_port() & !1);
        let heard = home.join("heard.wav");
        folder.write(
            &format!("{user}/accounts"),
            &format!("<sip:{user}@127.0.0.1:{port}>;regint=0;answermode=auto\n"),
        );
        folder.write(&format!("{user}/contacts"), "");
        folder.write(
            &format!("{user}/config"),
            &format!(
                "poll_method epoll\n\
                 sip_listen 127.0.0.1:{port}\n\
                 net_interface 127.0.0.1\n\
                 rtp_ports {media}-{last}\n\
                 audio_source ausine,440\n\
                 audio_player aufile,{heard}\n\
                 ausrc_srate 48000\nausrc_channels 2\n\
                 auplay_srate 48000\nauplay_channels 1\n\
                 module_path /usr/lib/baresip/modules\n\
                 module g711.so\nmodule ausine.so\nmodule aufile.so\n\
                 module_tmp account.so\n\
                 module_app menu.so\nmodule_app ctrl_tcp.so\n\
                 ctrl_tcp_listen 127.0.0.1:{control}\n",
                last = media.saturating_add(100),
                heard = heard.display(),
            ),
        );
        let mut command = Command::new("baresip");
        let process = Process::start(folder, user, command.arg("-f").arg(&home));
        let mut phone = Baresip { process, control, heard };
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

    /// Waits until the phone has heard a part of a second of the other one.
    #[track_caller]
    pub(crate) fn wait_for_media(&self) {
        wait_until("media is heard", || {
            fs::metadata(&self.heard).is_ok_and(|file| file.len() >= HEARD_MIN)
        });
    }

    /// One command in the form of its control socket: the length, a colon, JSON and a comma.
    fn command(&self, json: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.control))
            .expect("the phone's control socket listens");
        write!(stream, "{}:{json},", json.len()).expect("the phone takes a command");
    }
}
