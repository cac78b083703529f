//! Options of `tidegate run MODULE:APP` from the environment: variables of gunicorn and uvicorn.
//!
//! The command line wins over `GUNICORN_CMD_ARGS`, which wins over a gunicorn.conf.py, which wins
//! over `UVICORN_*`: the order of those servers. An option that changes nothing here is reported
//! and ignored; one whose effect would be missing is an error.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, Error};

use crate::commands::{Tidegate, other_servers};

/// Options for gunicorn, as on a command line.
const GUNICORN: &str = "GUNICORN_CMD_ARGS";
/// Before the name of an option of uvicorn.
const UVICORN: &str = "UVICORN_";

/// An application for a command line that has only options.
const PLACEHOLDER: &str = "app:app";

/// Options that name the address together: one of them replaces those of other sources.
const ADDRESS: [&str; 5] = ["bind", "host", "port", "uds", "fd"];

/// What the name of an option begins with that has no effect without another one, the identifier of
/// that, and a word for it.
const NEEDED: [(&str, &str, &str); 2] = [
    ("reload-", "reload", "--reload"),
    ("limit-max-requests-jitter", "max_requests", "--max-requests=0"),
];

/// A command line, and what was ignored for it.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) words: Vec<OsString>,
    pub(crate) ignored: Vec<String>,
}

/// Adds the options of the environment to a command line that is known to be right.
pub(crate) fn complete(
    typed: &[OsString],
    configured: Option<&(String, Vec<String>)>,
    variables: &BTreeMap<String, String>,
) -> Result<Completed, Error> {
    let mut completed = Completed { words: typed.to_vec(), ignored: Vec::new() };
    let root = {
        let mut root = Tidegate::command();
        root.build();
        root
    };
    let run = root.find_subcommand("run").cloned().unwrap_or_default();
    if let Some(line) = variables.get(GUNICORN).filter(|line| !line.trim().is_empty()) {
        let words = shlex::split(line)
            .ok_or_else(|| wrong(ErrorKind::ValueValidation, GUNICORN, "its quote does not end"))?;
        completed.add(&run, GUNICORN, words)?;
    }
    if let Some((file, words)) = configured {
        completed.add(&run, file, words.clone())?;
    }
    for (name, value) in variables.range(UVICORN.to_owned()..) {
        let Some(option) = name.strip_prefix(UVICORN) else { break };
        let option = option.to_ascii_lowercase().replace('_', "-");
        if value.is_empty() || option == "app" {
            continue;
        }
        let known = run.get_arguments().find(|argument| is_named(argument, &option));
        let mut words = match known {
            Some(argument) => option_words(&run, argument, (name, &option), value)?,
            // Values that uvicorn rejects are not for this program.
            None if other_servers::run_option(&format!("--{option}")).is_none() => continue,
            None => vec![format!("--{option}"), value.clone()],
        };
        if let Some((_, id, word)) = NEEDED.iter().find(|(begin, ..)| option.starts_with(begin)) {
            // The variable of the other option, if there is one, stands before.
            if !is_given(&matches(&completed.words)?, id) {
                let needed = id.replace('_', "-");
                completed.ignored.push(format!("{name} changes nothing without --{needed}"));
                continue;
            }
            words.push((*word).to_owned());
        }
        completed.add(&run, name, words)?;
    }
    Ok(completed)
}

impl Completed {
    /// Adds the words of one source, without those for which the command line has its own.
    fn add(&mut self, run: &Command, origin: &str, words: Vec<String>) -> Result<(), Error> {
        let given = self.parse(origin, words)?;
        let own = matches(&self.words)?;
        let has_address = ADDRESS.iter().any(|id| is_given(&own, id));
        let mut added = Vec::new();
        for argument in run.get_arguments() {
            let id = argument.get_id().as_str();
            let taken = is_given(&own, id) || (has_address && ADDRESS.contains(&id));
            let Some(long) = argument.get_long() else { continue };
            if taken || !is_given(&given, id) {
                continue;
            }
            let values: Vec<_> = given.get_raw(id).into_iter().flatten().collect();
            if argument.get_action().takes_values() && !values.is_empty() {
                added.extend(values.into_iter().map(|value| {
                    let mut word = OsString::from(format!("--{long}="));
                    word.push(value);
                    word
                }));
            } else {
                added.push(format!("--{long}").into());
            }
        }
        // After `tidegate run`.
        self.words.splice(2..2, added);
        Ok(())
    }

    /// Parses the words of one source; options that change nothing are removed and reported.
    fn parse(&mut self, origin: &str, mut words: Vec<String>) -> Result<ArgMatches, Error> {
        loop {
            let line = ["tidegate", "run"].into_iter().chain(words.iter().map(String::as_str));
            let line: Vec<OsString> = line.chain([PLACEHOLDER]).map(OsString::from).collect();
            let refused = match matches(&line) {
                Ok(given) => {
                    let program = given.get_one::<String>("program");
                    return match program.filter(|program| *program != PLACEHOLDER) {
                        Some(word) => Err(wrong(
                            ErrorKind::UnknownArgument,
                            origin,
                            &format!("\"{word}\" is not an option"),
                        )),
                        None => Ok(given),
                    };
                }
                Err(refused) => refused,
            };
            let place = unknown(&refused, &words);
            let advised = other_servers::advise(refused, Some("run"));
            let said = advised.to_string();
            let said = said.strip_prefix("error: ").unwrap_or(&said);
            let said = said.split("\n\n").next().unwrap_or(said).trim();
            match place.filter(|_| said.contains(": leave it out")) {
                Some(at) => {
                    self.ignored.push(format!("{origin} has {said}"));
                    words.remove(at);
                    // A word that is not an option was its value.
                    if words.get(at).is_some_and(|next| !next.starts_with('-')) {
                        words.remove(at);
                    }
                }
                None => return Err(wrong(advised.kind(), origin, said)),
            }
        }
    }
}

fn matches(words: &[OsString]) -> Result<ArgMatches, Error> {
    let mut all = Tidegate::command().try_get_matches_from(words)?;
    Ok(all.remove_subcommand().map(|(_, run)| run).unwrap_or_default())
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the place of the option that was not known.
fn unknown(refused: &Error, words: &[String]) -> Option<usize> {
    let Some(ContextValue::String(option)) = refused.get(ContextKind::InvalidArg) else {
        return None;
    };
    words.iter().position(|word| word.split('=').next() == option.split('=').next())
}

/// True if the name of a variable is that of an option. uvicorn's variables of options that are
/// repeated are in the plural, such as `UVICORN_RELOAD_DIRS`.
fn is_named(argument: &Arg, name: &str) -> bool {
    let singular = name.strip_suffix('s').filter(|_| is_repeated(argument));
    let aliases = argument.get_all_aliases().unwrap_or_default();
    let mut longs = argument.get_long().into_iter().chain(aliases);
    longs.any(|long| long == name || singular == Some(long))
}

fn is_repeated(argument: &Arg) -> bool {
    matches!(argument.get_action(), clap::ArgAction::Append)
}

/// Returns the words for an option whose value is in a variable of uvicorn. A variable of an option
/// that is repeated has several values, with spaces between them.
fn option_words(
    run: &Command,
    argument: &Arg,
    (origin, option): (&str, &str),
    value: &str,
) -> Result<Vec<String>, Error> {
    let flag = flag(value);
    if !argument.get_action().takes_values() {
        let opposite = format!("no-{option}");
        return match flag {
            Some(true) => Ok(vec![format!("--{option}")]),
            Some(false) => Ok(match run.get_arguments().any(|other| is_named(other, &opposite)) {
                true => vec![format!("--{opposite}")],
                false => Vec::new(),
            }),
            None => Err(wrong(
                ErrorKind::ValueValidation,
                origin,
                &format!("\"{value}\" is neither true nor false"),
            )),
        };
    }
    // A flag of uvicorn's, which writes to standard output.
    let value = match (option, flag) {
        ("access-log", Some(true)) => "-",
        ("access-log", Some(false)) => return Ok(Vec::new()),
        _ => value,
    };
    let long = argument.get_long().unwrap_or(option);
    let values =
        if is_repeated(argument) { value.split_whitespace().collect() } else { vec![value] };
    Ok(values.into_iter().map(|value| format!("--{long}={value}")).collect())
}

/// Parses a value of a flag as uvicorn does.
fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Some(true),
        "0" | "false" | "f" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

fn wrong(kind: ErrorKind, origin: &str, why: &str) -> Error {
    Tidegate::command().error(kind, format!("in {origin}: {why}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str, variables: &[(&str, &str)]) -> Result<(String, Vec<String>), String> {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let completed =
            complete(&words, None, &variables.collect()).map_err(|refused| refused.to_string())?;
        let words: Vec<_> = completed.words.iter().map(|word| word.to_string_lossy()).collect();
        Ok((words.join(" "), completed.ignored))
    }

    #[test]
    fn options_of_the_environment_stand_before_those_of_the_command_line() {
        let words = |line: &str, variables: &[(&str, &str)]| completed(line, variables).unwrap().0;
        let line = "tidegate run app:app";
        assert_eq!(words(line, &[]), line);
        assert_eq!(words(line, &[("GUNICORN_CMD_ARGS", " "), ("UVICORN_PORT", "")]), line);
        assert_eq!(
            words(line, &[("GUNICORN_CMD_ARGS", "-w 3 --umask=027 -e 'A=b c' --reload")]),
            "tidegate run --env=A=b c --umask=027 --reload --workers=3 app:app"
        );
        assert_eq!(
            words(line, &[("UVICORN_WORKERS", "2"), ("UVICORN_FACTORY", "true"), ("PORT", "1")]),
            "tidegate run --workers=2 --factory app:app"
        );
        assert_eq!(
            words(line, &[("UVICORN_HEADER", "a:b c:d"), ("UVICORN_RELOAD", "0")]),
            "tidegate run --header=a:b --header=c:d app:app"
        );
        assert_eq!(
            words(line, &[("UVICORN_HEADERS", "a:b c:d"), ("UVICORN_PROXY_HEADERS", "false")]),
            "tidegate run --no-proxy-headers --header=a:b --header=c:d app:app"
        );
        assert_eq!(
            words(line, &[("UVICORN_RELOAD", "1"), ("UVICORN_RELOAD_DIRS", "a b")]),
            "tidegate run --reload-dir=a --reload-dir=b --reload app:app"
        );
        assert_eq!(
            words(
                "tidegate run app:app --max-requests 9",
                &[("UVICORN_LIMIT_MAX_REQUESTS_JITTER", "3")],
            ),
            "tidegate run --max-requests-jitter=3 app:app --max-requests 9"
        );
        for (value, expected) in [
            ("true", "tidegate run --access-log=- app:app"),
            ("0", line),
            ("a.log", "tidegate run --access-log=a.log app:app"),
        ] {
            assert_eq!(words(line, &[("UVICORN_ACCESS_LOG", value)]), expected);
        }
        // The nearer source wins, also where the words differ.
        let both = [("GUNICORN_CMD_ARGS", "-w 3 -b :1"), ("UVICORN_WORKERS", "2")];
        assert_eq!(words(line, &both), "tidegate run --bind=:1 --workers=3 app:app");
        assert_eq!(
            words("tidegate run --workers=4 app:app --port 9", &both),
            "tidegate run --workers=4 app:app --port 9"
        );
    }

    #[test]
    fn options_of_a_file_stand_between_those_of_the_variables() {
        let words = ["tidegate", "run", "app:app"].map(OsString::from);
        let file = ("shop.py".to_owned(), vec!["--threads=2".to_owned(), "-w3".to_owned()]);
        let variables = [("GUNICORN_CMD_ARGS", "-w 4"), ("UVICORN_FACTORY", "1")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let completed = complete(&words, Some(&file), &variables.into()).unwrap();
        let all = ["tidegate", "run", "--factory", "--threads=2", "--workers=4", "app:app"];
        assert_eq!(completed.words, all);
        let file = ("shop.py".to_owned(), vec!["--timeout=x".to_owned()]);
        let said = complete(&words, Some(&file), &BTreeMap::new()).unwrap_err().to_string();
        assert!(said.starts_with("error: in shop.py: invalid value 'x'"), "{said}");
    }

    #[test]
    fn what_changes_nothing_is_reported_and_what_is_missing_is_an_error() {
        let line = "tidegate run app:app";
        let arguments = "--worker-tmp-dir /dev/shm -w 2 --http2";
        let (words, ignored) = completed(line, &[("GUNICORN_CMD_ARGS", arguments)]).unwrap();
        assert_eq!(words, "tidegate run --workers=2 app:app");
        assert_eq!(ignored.len(), 2, "{ignored:?}");
        assert!(ignored[0].starts_with("GUNICORN_CMD_ARGS has --worker-tmp-dir: leave it out"));
        let (words, ignored) = completed(line, &[("UVICORN_HTTP", "h11")]).unwrap();
        assert_eq!(words, line);
        assert!(ignored[0].starts_with("UVICORN_HTTP has --http: leave it out"), "{ignored:?}");
        for (name, value, why) in [
            ("GUNICORN_CMD_ARGS", "-k tornado", "in GUNICORN_CMD_ARGS: invalid value 'tornado'"),
            ("GUNICORN_CMD_ARGS", "--wrokers 2", "unexpected argument '--wrokers'"),
            ("GUNICORN_CMD_ARGS", "other:app", "\"other:app\" is not an option"),
            ("GUNICORN_CMD_ARGS", "-e 'A=b", "its quote does not end"),
            ("UVICORN_WORKERS", "x", "in UVICORN_WORKERS: invalid value 'x'"),
            ("UVICORN_RELOAD", "maybe", "\"maybe\" is neither true nor false"),
            ("UVICORN_SSL_KEYFILE_PASSWORD", "x", "encrypted keys are not supported"),
        ] {
            let said = completed(line, &[(name, value)]).unwrap_err();
            assert!(said.starts_with("error: in ") && said.contains(why), "{name}={value}: {said}");
        }
        let (words, ignored) = completed(line, &[("UVICORN_RELOAD_DIRS", "a")]).unwrap();
        assert_eq!(words, line);
        assert_eq!(ignored, ["UVICORN_RELOAD_DIRS changes nothing without --reload"]);
        let (words, ignored) = completed(line, &[("UVICORN_NO_SUCH_THING", "1")]).unwrap();
        assert!(words == line && ignored.is_empty());
    }
}
