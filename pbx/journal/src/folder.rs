//! The folder of the rings: private to one user, used by one process.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Call records say who called whom: nobody else may read the folder.
pub const RING_FOLDER_MODE: u32 = 0o700;

/// `/dev/shm/pbx-<uid>-<hash of the data folder>`: on tmpfs, and another one for each instance.
pub fn default_ring_folder(data_folder: &Path) -> PathBuf {
    let whole = std::path::absolute(data_folder).unwrap_or_else(|_| data_folder.to_owned());
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(whole);
    PathBuf::from(format!("/dev/shm/pbx-{}-{hash:016x}", user()))
}

fn user() -> u32 {
    // SAFETY: a plain call that cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes `folder` if it is missing and checks that it is a real folder of ours that is closed to
/// others: /dev/shm is open to everybody, so somebody may have put something there before us.
pub(crate) fn private(folder: &Path) -> io::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(RING_FOLDER_MODE).create(folder);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(folder)?;
    let refuse = |text: String| Err(io::Error::new(ErrorKind::PermissionDenied, text));
    if !found.is_dir() {
        return refuse("it is no folder".to_owned());
    }
    if found.uid() != user() {
        return refuse(format!("it belongs to user {}", found.uid()));
    }
    if found.mode() & 0o077 != 0 {
        return refuse(format!("others may enter it (mode {:o})", found.mode() & 0o777));
    }
    Ok(())
}

/// Takes the folder for this process; the lock goes with the returned file, so a killed process
/// leaves none.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).open(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(ErrorKind::ResourceBusy, "another process uses it"))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn each_data_folder_has_rings_of_its_own() {
        let one = default_ring_folder(Path::new("/var/lib/pbx"));
        assert_eq!(one, default_ring_folder(Path::new("/var/lib/pbx")));
        assert_ne!(one, default_ring_folder(Path::new("/var/lib/pbx2")));
    }

    #[test]
    fn a_folder_open_to_others_is_refused_and_a_lock_is_exclusive() {
        let folder = std::env::temp_dir().join(format!("pbx-folder-{}", std::process::id()));
        private(&folder).unwrap();
        let held = lock(&folder).unwrap();
        assert_eq!(lock(&folder).unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(held);
        assert!(lock(&folder).is_ok());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(private(&folder).unwrap_err().kind(), ErrorKind::PermissionDenied);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_in_the_folders_place_is_refused() {
        let place = std::env::temp_dir().join(format!("pbx-link-{}", std::process::id()));
        std::os::unix::fs::symlink("/", &place).unwrap();
        assert!(private(&place).is_err());
        fs::remove_file(&place).unwrap();
    }
}
