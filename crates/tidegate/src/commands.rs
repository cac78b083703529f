//! The command line: one file for each command, and the top-level help.

#[cfg(feature = "bench")]
mod bench;
mod check;
mod completions;
mod ctl;
mod demo;
mod explain;
mod files;
mod import;
mod new;
mod other_servers;
mod proxy;
mod run;
mod schema;
mod test;
mod up;
mod version;

use std::ffi::OsString;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use settings::Address;

use crate::failure::Failure;
use crate::host::Host;

/// The configuration file of commands that are given none.
const DEFAULT_FILE: &str = "tidegate.yaml";

/// One server from socket to application: reverse proxy, cache, file server, Lua and Python
/// runtime.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    propagate_version = false,
    after_help = "New here? `tidegate demo` needs no configuration and shows what to try.\n\
                  Errors go to standard error. Exit codes: 0 done, 1 failed while running, \
                  2 wrong usage or configuration."
)]
pub(crate) struct Tidegate {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Demo),
    Up(up::Up),
    Check(check::Check),
    Explain(explain::Explain),
    Schema(schema::SchemaOf),
    Proxy(proxy::Proxy),
    Files(files::Files),
    Run(Box<run::Run>),
    Test(test::Test),
    #[cfg(feature = "bench")]
    Bench(Box<bench::Bench>),
    Ctl(ctl::Ctl),
    Import(import::Import),
    New(new::New),
    Version(version::Version),
    Completions(completions::Completions),
}

impl Tidegate {
    /// Parses a command line, which starts with the program's name.
    pub(crate) fn read(
        typed: &[OsString],
        configured: Option<&(String, Vec<String>)>,
    ) -> Result<Self, clap::Error> {
        let command = typed.get(1).and_then(|word| word.to_str());
        let parse = |words: &[OsString]| {
            Tidegate::parse_words(words).map_err(|refused| other_servers::advise(refused, command))
        };
        let read = parse(typed)?;
        match &read.command {
            Command::Run(run) if run.is_python() => {}
            _ => return Ok(read),
        }
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables = std::env::vars_os().filter_map(text).collect();
        let completed = run::complete(typed, configured, &variables)?;
        for ignored in &completed.ignored {
            eprintln!("note: {ignored}");
        }
        parse(&completed.words)
    }

    fn parse_words(typed: &[OsString]) -> Result<Self, clap::Error> {
        if let Some(separated) = separate(typed) {
            return Tidegate::try_parse_from(separated);
        }
        let read = Tidegate::try_parse_from(typed)?;
        let Command::Run(run) = &read.command else { return Ok(read) };
        let [first, ..] = run.misplaced() else { return Ok(read) };
        // Before the application clap parses `-w4`, and names the intended option.
        let (before, after) = typed.split_at(typed.len() - run.misplaced().len());
        let moved = [&before[..2], after, &before[2..]].concat();
        let again = Tidegate::try_parse_from(moved)?;
        if matches!(&again.command, Command::Run(other) if other.serves_like(run)) {
            return Ok(again);
        }
        let why = format!("\"{first}\" is unexpected: there is one application\n");
        Err(Tidegate::command().error(ErrorKind::UnknownArgument, why))
    }
}

/// The words with `--` behind a Lua program, if there is one: what follows is the program's, also
/// where an option of ours has the same name.
fn separate(typed: &[OsString]) -> Option<Vec<OsString>> {
    if typed.get(1)? != "run" {
        return None;
    }
    let is_program = |at: &usize| {
        let Some(word) = typed[*at].to_str().filter(|word| run::is_lua(word)) else { return false };
        // It may as well be the value of an option before it.
        let read = Tidegate::try_parse_from(&typed[..=*at]);
        matches!(read.map(|read| read.command), Ok(Command::Run(run)) if run.is_program(word))
    };
    let at = (2..typed.len()).take_while(|at| typed[*at] != "--").find(is_program)?;
    let (before, after) = typed.split_at(at + 1);
    for word in after.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--") {
        if run::is_option_of_lua(word) {
            eprintln!(
                "note: {word} stands behind the program, which gets it; ours stand before it"
            );
        }
    }
    let separator = OsString::from("--");
    let after = after.strip_prefix(std::slice::from_ref(&separator)).unwrap_or(after);
    Some([before, &[separator], after].concat())
}

impl Command {
    pub(crate) fn run(self, host: &Host) -> Result<(), Failure> {
        match self {
            Command::Demo(command) => command.run(host),
            Command::Up(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Proxy(command) => command.run(),
            Command::Files(command) => command.run(),
            Command::Run(command) => command.run(host),
            Command::Test(command) => command.run(),
            #[cfg(feature = "bench")]
            Command::Bench(command) => command.run(host),
            Command::Ctl(command) => command.run(),
            Command::Import(command) => command.run(),
            Command::New(command) => command.run(),
            Command::Version(command) => command.run(),
            Command::Completions(command) => command.run(),
        }
    }
}

/// Loads a configuration without serving it.
pub(crate) fn load(source: &dyn config::Source) -> Result<Arc<config::ServerPlan>, Failure> {
    match config::load(source, &config::process_environment, &config::Kinds::all()) {
        Ok(loaded) => Ok(loaded.plan),
        Err(report) => Err(Failure::Errors(report.render())),
    }
}

/// Parses an address of the command line; the error is a complete sentence.
fn address(typed: &str) -> Result<Address, String> {
    typed.parse().map_err(|why| format!("\"{typed}\" {why}"))
}

/// Escapes a text for a configuration, where `${` begins an environment variable.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// The errors of a configuration that we wrote ourselves: none.
#[cfg(test)]
pub(crate) fn errors(text: &str) -> String {
    match load(&config::TextSource::new("ours", text)) {
        Ok(_) => String::new(),
        Err(failure) => format!("{failure:?}\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Tidegate;

    #[test]
    fn the_command_line_is_consistent() {
        Tidegate::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_has_its_help() {
        for command in Tidegate::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
