//! Where things lie when nobody says otherwise; server and console must agree.

use std::path::PathBuf;

/// The environment variable that names the control socket.
pub const SOCKET_VARIABLE: &str = "PBX_SOCKET";

/// The socket's name inside the data directory.
pub const SOCKET_NAME: &str = "control.sock";

/// Where the system's service keeps its socket (`etc/systemd/pbx.service`).
pub const SYSTEM_SOCKET: &str = "/run/pbx/control.sock";

/// Where a PBX that was started without a configuration keeps its files:
/// `$XDG_STATE_HOME/pbx`, else `~/.local/state/pbx`, else `./var`.
pub fn data_dir() -> PathBuf {
    data_dir_from(|name| std::env::var_os(name).map(PathBuf::from))
}

fn data_dir_from(variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    // A relative XDG_STATE_HOME is invalid by its specification and ignored.
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(state) = absolute("XDG_STATE_HOME") {
        return state.join("pbx");
    }
    match absolute("HOME") {
        Some(home) => home.join(".local/state/pbx"),
        None => PathBuf::from("var"),
    }
}

/// The socket that a console tries when none is named: `$PBX_SOCKET`, else that of the system's
/// service if it exists, else the one in [`data_dir`].
pub fn socket() -> PathBuf {
    if let Some(named) = std::env::var_os(SOCKET_VARIABLE) {
        return PathBuf::from(named);
    }
    let system = PathBuf::from(SYSTEM_SOCKET);
    if system.exists() { system } else { data_dir().join(SOCKET_NAME) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_wins_over_home_and_both_must_be_absolute() {
        let from = |state: Option<&str>, home: Option<&str>| {
            data_dir_from(|name| match name {
                "XDG_STATE_HOME" => state.map(PathBuf::from),
                "HOME" => home.map(PathBuf::from),
                _ => None,
            })
        };
        assert_eq!(from(Some("/s"), Some("/h")), PathBuf::from("/s/pbx"));
        assert_eq!(from(Some("s"), Some("/h")), PathBuf::from("/h/.local/state/pbx"));
        assert_eq!(from(None, Some("")), PathBuf::from("var"));
    }
}
