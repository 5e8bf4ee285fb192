//! fail2ban of Debian 12 and of Debian sid, fetched and unpacked below the target folder.
//!
//! The tests pipe the log of a running `pbx` through the `fail2ban-regex` and the stock filter of
//! both. Nothing is installed, so nothing is started that touches a firewall. The mirror is the one
//! that apt already uses here; apt checks the signatures, with lists of its own that leave those of
//! the system alone, and needs no root for that.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run::{finish, output, program, target_folder};

/// The suites whose package is wanted: 1.0.2, and the newest that there is.
const SUITES: [&str; 2] = ["bookworm", "sid"];

/// What must be there after all.
const PARTS: [&str; 2] = ["usr/bin/fail2ban-regex", "etc/fail2ban/filter.d/asterisk.conf"];

/// Debian's keys; the first that is there signs the lists.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

/// Fetches what is missing.
pub(crate) fn fetch() -> Result<()> {
    let folder = target_folder()?.join("fail2ban");
    for suite in SUITES {
        let place = folder.join(suite);
        if PARTS.iter().all(|part| place.join(part).is_file()) {
            continue;
        }
        println!("fetching fail2ban of Debian {suite}");
        fetch_suite(suite, &folder).with_context(|| {
            format!(
                "fail2ban of Debian {suite} cannot be fetched from the mirror that apt uses; the \
                 tests of the security log need it in {}",
                place.display()
            )
        })?;
    }
    Ok(())
}

fn fetch_suite(suite: &str, folder: &Path) -> Result<()> {
    let work = folder.join(format!("{suite}.new"));
    let _ = fs::remove_dir_all(&work);
    for inside in ["lists/partial", "cache/archives/partial", "root"] {
        fs::create_dir_all(work.join(inside))?;
    }
    let signed = KEYRINGS.iter().find(|path| Path::new(path).is_file());
    let signed = signed.map(|path| format!("[signed-by={path}] ")).unwrap_or_default();
    let list = work.join("sources.list");
    fs::write(&list, format!("deb {signed}{} {suite} main\n", mirror()?))?;
    let options = [
        format!("Dir::Etc::sourcelist={}", list.display()),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State::lists={}", work.join("lists").display()),
        format!("Dir::Cache={}", work.join("cache").display()),
        // The folder belongs to whoever runs this, also when that is root.
        "APT::Sandbox::User=root".to_owned(),
        "APT::Default-Release=".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        "Acquire::Retries=3".to_owned(),
    ];
    let apt = |words: &[&str]| {
        let mut command = program("apt-get");
        command.current_dir(&work).arg("-qq");
        options.iter().for_each(|option| _ = command.args(["-o", option]));
        command.args(words);
        command
    };
    finish(&mut apt(&["update"]))?;
    finish(&mut apt(&["download", "fail2ban"]))?;
    let entries = fs::read_dir(&work)?.flatten().map(|entry| entry.path());
    let package = entries.into_iter().find(|path| path.extension().is_some_and(|it| it == "deb"));
    let package = package.context("apt-get download has left no package")?;
    let root = work.join("root");
    finish(program("dpkg").arg("-x").arg(&package).arg(&root))?;
    if let Some(part) = PARTS.iter().find(|part| !root.join(part).is_file()) {
        bail!("{} has no {part}", package.display());
    }
    let place = folder.join(suite);
    let _ = fs::remove_dir_all(&place);
    fs::rename(&root, &place)?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// Where apt gets Debian's packages here.
fn mirror() -> Result<String> {
    let targets = output(program("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let is_debian = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    let found = targets.lines().map(str::trim).find(is_debian);
    found.map(str::to_owned).context("apt has no mirror of Debian in its sources")
}
