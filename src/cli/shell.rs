//! Commands for shells and supervisors: completions, manual pages, health checks.
//!
//! Invariant: completions and manual pages are made of the definition that parses and helps, so that they cannot differ from it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::builder::Resettable;
use clap::{Command, CommandFactory as _};
use serde_json::json;

use super::args::{Cli, CompletionsArgs, Format, HealthArgs, ManArgs, VersionArgs};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::plain;
use crate::core::ProtocolRange;

/// The name that the program is installed under.
const NAME: &str = "headcount";

/// Prints the completions of a shell.
pub(super) fn completions(args: &CompletionsArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    // Written to memory first: the generator panics if its writer fails, as one does whose reader is gone.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut visible(), NAME, &mut text);
    out.write_all(&text)?;
    out.flush()?;
    Ok(Exit::DONE)
}

/// Returns the program's definition without its hidden commands, which the generator would offer to everybody.
fn visible() -> Command {
    let whole = Cli::command();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new(NAME).args(whole.get_arguments().cloned()).subcommands(commands)
}

/// Writes a manual page for the program and for each command.
pub(super) fn man(args: &ManArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let folder = &args.directory;
    let failed = |error| {
        Failure::failed(format!("cannot write manual pages to {}: {error}", plain(&folder.to_string_lossy())))
            .hint("name a directory that you may write to")
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    write_pages(&program, folder).map_err(failed)?;
    writeln!(out, "manual pages are in {}: try `man -l {}`", folder.display(), folder.join("headcount.1").display())?;
    Ok(Exit::DONE)
}

/// Writes the pages of a command and of those below it. The usage is that of its help; each paragraph after its help, such as
/// `Exit codes: …`, becomes a section.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder)?;
    }
    let usage = command.clone().render_usage().to_string();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let whole = command.clone().override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let page = clap_mangen::Man::new(whole.after_help(Resettable::Reset));
    let mut file = fs::File::create(folder.join(page.get_filename()))?;
    page.render(&mut file)?;
    for paragraph in after.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let (title, text) = paragraph.split_once(": ").unwrap_or(("Notes", paragraph));
        let title = match title {
            "Exit codes" => "EXIT STATUS".to_owned(),
            "Example" => "EXAMPLES".to_owned(),
            title => title.to_uppercase(),
        };
        let lines: Vec<_> = text.lines().map(|line| line.trim().replace('\\', "\\e").replace('-', "\\-")).collect();
        writeln!(file, ".SH \"{title}\"\n{}", lines.join("\n.br\n"))?;
    }
    Ok(())
}

/// Prints the version, as the flag `--version` does, or with the versions of the protocol as JSON.
pub(super) fn version(args: &VersionArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let (version, protocol) = (env!("CARGO_PKG_VERSION"), ProtocolRange::OURS);
    match args.format {
        Format::Table => writeln!(out, "{NAME} {version}")?,
        Format::Json => {
            let protocol = json!({ "min": protocol.min, "max": protocol.max });
            json_line(out, &json!({ "version": version, "protocol": protocol }))?;
        }
    }
    Ok(Exit::DONE)
}

/// Asks an agent for its health, and fails unless it is well.
pub(super) fn health(args: &HealthArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.target.agent)?.with_timeout(args.timeout);
    let health = if args.ready { client.readiness()? } else { client.health()? };
    let reason = plain(&health.reason);
    match args.target.format {
        Format::Json => json_line(out, &json!({ "ok": health.is_ok, "reason": health.reason }))?,
        Format::Table if health.is_ok => writeln!(out, "{reason}")?,
        Format::Table => {}
    }
    if health.is_ok {
        return Ok(Exit::DONE);
    }
    let what = if args.ready { "not ready" } else { "not healthy" };
    let failure = Failure::failed(format!("the agent at {} is {what}: {reason}", plain(client.address())));
    Err(failure.hint("`headcount doctor` looks for the cause"))
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn completions_know_every_command_that_is_not_hidden() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let mut out = Vec::new();
            completions(&CompletionsArgs { shell }, &mut out).expect("written");
            let text = String::from_utf8(out).expect("text");
            for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(text.contains(command.get_name()), "{} in {shell}", command.get_name());
            }
            assert!(!text.contains("lead-exec"), "hidden commands are not offered in {shell}");
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = folder.path().join("new").join("man1");
        man(&ManArgs { directory: directory.clone() }, &mut Vec::new()).expect("written");
        for page in ["headcount.1", "headcount-agent.1", "headcount-voters-add.1", "headcount-doctor.1"] {
            let text = fs::read_to_string(directory.join(page)).expect(page);
            assert!(text.contains(".TH headcount") && text.len() > 200, "{page}: {text}");
        }
        let lead = fs::read_to_string(directory.join("headcount-lead.1")).expect("a page");
        assert!(lead.contains(".SH SYNOPSIS\n\\fBheadcount lead\\fR [OPTIONS] \\-\\- <COMMAND>"), "{lead}");
        assert!(
            lead.contains(".SH \"EXIT STATUS\"\nthe command's own")
                && lead.contains(".SH \"EXAMPLES\"\nheadcount lead")
        );
        let pages = fs::read_dir(&directory).expect("pages").map(|page| page.expect("a page").file_name());
        assert!(
            pages.into_iter().all(|page| !page.to_string_lossy().contains("lead-exec")),
            "hidden commands have none"
        );
    }
}
