//! Opens the control socket on the server's side.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest path that fits a socket address (`sun_path` less its zero byte).
pub const PATH_MAX: usize = 107;

/// A listening socket whose file goes away with it.
#[derive(Debug)]
pub struct ControlSocket {
    /// Accepts consoles.
    pub listener: UnixListener,
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Whoever replaced the file owns the new one; a second unlink would take it away. That can
        // only happen when somebody removed ours first, so a failure here means nothing.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens on `path` with permissions `mode`. A socket that nobody listens on is replaced; one that
/// is in use, or a file of another kind, is not.
///
/// The socket is bound under another name, given its mode and then renamed, so there is no moment
/// at which it can be reached with the wrong permissions.
pub fn listen(path: &Path, mode: u32) -> io::Result<ControlSocket> {
    refuse_if_used(path)?;
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    if fresh.as_os_str().len() > PATH_MAX {
        let text = format!("a socket's path has at most {PATH_MAX} bytes, some for a suffix");
        return Err(io::Error::new(ErrorKind::InvalidFilename, text));
    }
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    let placed = fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))
        .and_then(|()| fs::rename(&fresh, path));
    if let Err(error) = placed {
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(ControlSocket { listener, path: path.to_owned() })
}

fn refuse_if_used(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is no socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another server listens there")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pbx-sock-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = folder("stale");
        let path = folder.join("control.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a closed listener leaves its file");
        let live = listen(&path, 0o600).unwrap();
        assert_eq!(listen(&path, 0o600).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok());
        drop(live);
        assert!(!path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_mode_is_what_was_asked_for() {
        let folder = folder("mode");
        let path = folder.join("control.sock");
        let _live = listen(&path, 0o660).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_plain_file_is_never_removed() {
        let folder = folder("plain");
        let path = folder.join("control.sock");
        fs::write(&path, "precious").unwrap();
        assert_eq!(listen(&path, 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_path_that_is_too_long_is_told_so() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(120)));
        assert_eq!(listen(&path, 0o600).unwrap_err().kind(), ErrorKind::InvalidFilename);
    }
}
