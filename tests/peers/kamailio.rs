//! Kamailio with a configuration of the test: as a proxy, as a client that registers, as a carrier
//! where the PBX registers, and as a server that tells too much.

use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::outside::{Folder, Process, free_port, wait_until};

/// Stays in the path of each dialog; see the files.
pub(crate) const PROXY: &str =
    concat!(include_str!("kamailio/common.cfg"), include_str!("kamailio/proxy.cfg"));
/// So does this one; it also has a registrar, and challenges the PBX.
pub(crate) const CARRIER: &str =
    concat!(include_str!("kamailio/common.cfg"), include_str!("kamailio/carrier.cfg"));
/// Phones register through it, and are called through it.
pub(crate) const EDGE: &str =
    concat!(include_str!("kamailio/common.cfg"), include_str!("kamailio/edge.cfg"));
/// Answers differently for extensions that it has.
pub(crate) const LEAKY: &str = include_str!("kamailio/leaky.cfg");

/// How long it may take to end in an orderly way.
const STOP_STEPS: u32 = 250;

/// Between whom a proxy stands.
#[derive(Default)]
pub(crate) struct Between {
    /// The port of the PBX.
    pub(crate) pbx: u16,
    /// Where what comes from the PBX goes to.
    pub(crate) called: u16,
    /// More lines of the configuration.
    pub(crate) modules: String,
}

pub(crate) struct Kamailio {
    process: Process,
    port: u16,
}

impl Kamailio {
    pub(crate) fn start(folder: &Folder, port: u16, config: &str, between: &Between) -> Kamailio {
        let config = config
            .replace("@MACHINE@", std::env::consts::ARCH)
            .replace("@PORT@", &port.to_string())
            .replace("@PBX@", &between.pbx.to_string())
            .replace("@CALLED@", &between.called.to_string())
            .replace("@MODULES@", &between.modules);
        let run = folder.inside("kamailio");
        let config = folder.write("kamailio.cfg", &config);
        let mut command = Command::new("kamailio");
        command.args(["-DD", "-E", "-m", "64", "-M", "8", "-f"]).arg(config);
        command.arg("-P").arg(run.join("pid")).arg("-Y").arg(run);
        let mut process = Process::start(folder, "kamailio", &mut command);
        wait_until("Kamailio listens", || {
            process.assert_running();
            UdpSocket::bind(("127.0.0.1", port)).is_err()
        });
        Kamailio { process, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What it wrote of the requests that it saw.
    pub(crate) fn output(&self) -> String {
        self.process.output()
    }
}

/// More lines of a configuration, by which Kamailio registers: `user` of the PBX at that port, with
/// that password. Its database is a folder of text files.
pub(crate) fn registering(folder: &Folder, own: u16, pbx: u16, password: &str) -> String {
    let database = folder.inside("database");
    let columns = "id(int,auto) l_uuid(string) l_username(string) l_domain(string) \
                   r_username(string) r_domain(string) realm(string) auth_username(string) \
                   auth_password(string) auth_ha1(string,null) auth_proxy(string) expires(int) \
                   flags(int) reg_delay(int) contact_addr(string) socket(string,null)";
    // A colon parts the columns: one within a value has a backslash before it.
    let row = format!(
        "1:1000:1000:127.0.0.1:1000:127.0.0.1:pbx:1000:{password}::sip\\:127.0.0.1\\:{pbx}:\
         60:0:0:127.0.0.1\\:{own}:"
    );
    folder.write("database/uacreg", &format!("{columns}\n{row}\n"));
    let versions = "table_name(string) table_version(int)\nuacreg:5\n";
    folder.write("database/version", versions);
    format!(
        r#"
loadmodule "db_text.so"
loadmodule "uac.so"
modparam("uac", "reg_db_url", "text://{database}")
modparam("uac", "reg_contact_addr", "127.0.0.1:{own}")
modparam("uac", "reg_timer_interval", 1)
modparam("uac", "reg_retry_interval", 2)
"#,
        database = database.display()
    )
}

/// Its main process has children, which only it can end.
impl Drop for Kamailio {
    fn drop(&mut self) {
        let kill = format!("kill -TERM {}", self.process.id());
        let _ = Command::new("sh").args(["-c", &kill]).status();
        for _ in 0..STOP_STEPS {
            if self.process.has_ended() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A port for Kamailio that is not one of these.
pub(crate) fn port_beside(others: &[u16]) -> u16 {
    let mut ports = std::iter::repeat_with(free_port);
    ports.find(|port| !others.contains(port)).unwrap_or_default()
}
