//! Starting other programs: no standard input, and an error that names the command line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A program by name or path, without standard input.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.stdin(Stdio::null());
    command
}

/// Sends a signal (`TERM`) to a process, or with a minus sign before its number to its group. By
/// the shell, since a bare system has no program `kill`.
pub(crate) fn signal(signal: &str, process: &str) -> Command {
    let mut command = program("sh");
    command.args(["-c", &format!("kill -s {signal} -- {process}")]);
    command
}

/// The cargo that runs us, in the workspace's folder.
pub(crate) fn cargo() -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command to its end, output passed through; a failure names the whole command line.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", line(command));
    }
    Ok(())
}

/// Runs a command to its end and returns what it wrote to standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", line(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command line as a person would type it, for messages.
pub(crate) fn line(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// The workspace's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's folder")
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// The first folder of PATH that has this program.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Whether this process may install packages, mount and pin.
pub(crate) fn is_root() -> bool {
    output(program("id").arg("-u")).is_ok_and(|text| text.trim() == "0")
}
