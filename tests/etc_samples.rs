//! Every file below `etc/` is loaded by the code that reads it in a running program, so that a
//! sample cannot rot. A file of a kind that this test does not know fails it.

use std::path::Path;

use clap::Parser;
use pbx::cli::Options;
use pbx::config;
use tests::tree::{files, root, text};

#[test]
fn every_sample_is_loaded() {
    let samples: Vec<String> =
        files(&[""]).into_iter().filter(|path| path.starts_with("etc/")).collect();
    assert!(samples.iter().any(|path| path == "etc/bench/pbx.toml"), "{samples:?}");
    let faults: Vec<String> = samples.iter().filter_map(|path| load(path).err()).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn load(path: &str) -> Result<(), String> {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        _ if name.starts_with("pbx") && name.ends_with(".toml") => load_configuration(path),
        _ if name.starts_with("dialplan") && name.ends_with(".toml") => load_dialplan(path),
        _ if name.ends_with(".service") => check_unit(path).and_then(|()| verify_unit(path)),
        _ if name.ends_with(".sysusers") => check_users(path),
        _ if path.starts_with("etc/fail2ban/jail.d/") => check_jail(path),
        // A test of the peers does what stands there.
        "README.md" => Ok(()),
        // SIPp's scenarios: the bench runs them, and a test of the peers one.
        _ if name.ends_with(".xml") => Ok(()),
        _ => Err(format!("{path}: no test knows how to load this sample")),
    }
}

/// The configuration and the dialplan that it names, which must agree.
fn load_configuration(path: &str) -> Result<(), String> {
    let place = root().join(path);
    let config = config::parse(&place, &text(path)).map_err(|faults| faults.to_string())?;
    config::load_plan(&config).map(|_| ()).map_err(|fault| fault.to_string())
}

fn load_dialplan(path: &str) -> Result<(), String> {
    dialplan::parse(&[(path, &text(path))])
        .map(|_| ())
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// What systemd itself says of the unit, with a program that exists in place of ours.
fn verify_unit(path: &str) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("pbx-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let unit = folder.join("pbx.service");
    let text = text(path).replace("/usr/local/bin/pbx", "/bin/true");
    std::fs::write(&unit, text).map_err(|error| error.to_string())?;
    let said = std::process::Command::new("systemd-analyze").arg("verify").arg(&unit).output();
    let _ = std::fs::remove_dir_all(&folder);
    let said = said.map_err(|error| format!("systemd-analyze: {error}"))?;
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    // Complaints about other units of the machine are not ours.
    let ours: Vec<&str> = words.lines().filter(|line| line.contains("pbx.service")).collect();
    if said.status.success() && ours.is_empty() { Ok(()) } else { Err(format!("{path}: {words}")) }
}

/// A jail reads the file that gets the security events, and nothing else; by the stock filter. That
/// fail2ban itself understands the jail is tested with its own program, among the peers.
fn check_jail(path: &str) -> Result<(), String> {
    let text = text(path);
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    let sample = "etc/pbx.toml";
    let config = config::parse(&root().join(sample), &tests::tree::text(sample))
        .map_err(|faults| faults.to_string())?;
    let logs: Vec<String> = config
        .logs
        .files
        .iter()
        .filter(|file| file.levels.take(logging::Level::Security, 1, 0))
        .map(|file| file.path.display().to_string())
        .collect();
    if value("logpath").map(|path| vec![path]).as_ref() != Some(&logs) {
        return Err(format!("{path}: logpath is {:?}, events go to {logs:?}", value("logpath")));
    }
    if value("filter").as_deref() != Some("asterisk") {
        return Err(format!("{path}: the filter is not the stock one"));
    }
    Ok(())
}

/// The user that the unit names is made here.
fn check_users(path: &str) -> Result<(), String> {
    let makes = text(path).lines().any(|line| line.starts_with("u pbx "));
    if makes { Ok(()) } else { Err(format!("{path}: the user `pbx` is not made")) }
}

/// A systemd unit: sections of `Key=Value`, and our program started with options that it has.
fn check_unit(path: &str) -> Result<(), String> {
    let mut has_start = false;
    for (at, line) in text(path).lines().enumerate() {
        let place = format!("{path}:{}", at + 1);
        if line.is_empty() || line.starts_with(['#', '[']) {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| format!("{place}: no `=`"))?;
        if !key.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(format!("{place}: {key} is no key"));
        }
        if matches!(key, "ExecStart" | "ExecStartPre") {
            has_start = true;
            let words = value.split_whitespace();
            Options::try_parse_from(words).map_err(|error| format!("{place}: {error}"))?;
        }
    }
    if has_start { Ok(()) } else { Err(format!("{path}: nothing is started")) }
}
