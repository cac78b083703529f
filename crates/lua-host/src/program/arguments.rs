//! The arguments after the program: Silly's options in both spellings, and settings.
//!
//! Promises that every `--key=value` is in `env`, known or not, that the whole text after the first
//! `=` is the value, and that an unsupported option is rejected by name.

use std::path::PathBuf;

use net::PidFile;
use telemetry::log::Level;

/// The supported options, and all settings.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    pub environment: Vec<(String, String)>,
    pub lualib_path: Option<String>,
    pub lualib_cpath: Option<String>,
    pub log_level: Option<Level>,
    pub log_path: Option<PathBuf>,
    pub pid_file: Option<PathBuf>,
    /// The core of the first worker.
    pub core: Option<usize>,
}

/// Long names of one option, its short name if it has one, and how it is set.
struct KnownOption {
    long: &'static [&'static str],
    short: Option<char>,
    set: fn(&mut Arguments, &str) -> Result<(), String>,
}

const KNOWN: &[KnownOption] = &[
    KnownOption { long: &["lualib-path", "lualib_path"], short: Some('L'), set: lualib_path },
    KnownOption { long: &["lualib-cpath", "lualib_cpath"], short: Some('C'), set: lualib_cpath },
    KnownOption { long: &["log-level", "loglevel"], short: Some('l'), set: log_level },
    KnownOption { long: &["log-path", "logpath"], short: Some('p'), set: log_path },
    KnownOption { long: &["pid-file", "pidfile"], short: Some('f'), set: pid_file },
    KnownOption {
        long: &["worker-affinity", "worker_cpu_affinity"],
        short: Some('W'),
        set: affinity,
    },
    // Silly has three threads; these options pin two that do not exist here.
    KnownOption {
        long: &["socket-affinity", "socket_cpu_affinity"],
        short: Some('S'),
        set: nothing,
    },
    KnownOption { long: &["timer-affinity", "timer_cpu_affinity"], short: Some('T'), set: nothing },
];

fn lualib_path(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.lualib_path = Some(value.to_owned());
    Ok(())
}

fn lualib_cpath(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.lualib_cpath = Some(value.to_owned());
    Ok(())
}

fn log_level(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    let level = Level::parse(value)
        .ok_or_else(|| format!("there is no log level {value:?}: debug, info, warn or error"))?;
    arguments.log_level = Some(level);
    Ok(())
}

fn log_path(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.log_path = Some(value.into());
    Ok(())
}

fn pid_file(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.pid_file = Some(value.into());
    Ok(())
}

fn affinity(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    let core: i64 = value.parse().map_err(|_| format!("{value:?} is not the number of a core"))?;
    arguments.core = usize::try_from(core).ok();
    Ok(())
}

fn nothing(_: &mut Arguments, _: &str) -> Result<(), String> {
    Ok(())
}

impl Arguments {
    /// Parses the arguments; the error is a sentence.
    pub fn parse(words: &[String]) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(setting) = word.strip_prefix("--") {
                let (key, value) = match setting.split_once('=') {
                    Some((key, value)) => (key, value.to_owned()),
                    None => (setting, value_after(setting, &mut words)),
                };
                arguments.long(key, value)?;
            } else if let Some(option) = word.strip_prefix('-') {
                arguments.short(option, &mut words)?;
            }
            // A bare word is ignored, as in Silly.
        }
        Ok(arguments)
    }

    fn long(&mut self, key: &str, value: String) -> Result<(), String> {
        if matches!(key, "daemon") {
            return Err(DAEMON.to_owned());
        }
        if let Some(known) = KNOWN.iter().find(|known| known.long.contains(&key)) {
            (known.set)(self, &value)?;
        }
        self.environment.push((key.to_owned(), value));
        Ok(())
    }

    fn short<'a>(
        &mut self,
        option: &str,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let Some(letter) = option.chars().next() else { return Ok(()) };
        if letter == 'd' {
            return Err(DAEMON.to_owned());
        }
        let Some(known) = KNOWN.iter().find(|known| known.short == Some(letter)) else {
            return Err(format!("there is no option -{letter}"));
        };
        let value = match option[letter.len_utf8()..].trim_start_matches('=') {
            "" => words.next().cloned().ok_or_else(|| format!("-{letter} needs a value"))?,
            value => value.to_owned(),
        };
        self.long(known.long[0], value)
    }

    /// Writes the process id into the file, which stays locked while it is open.
    pub(crate) fn claim_pid_file(&self) -> Result<Option<PidFile>, String> {
        let Some(path) = &self.pid_file else { return Ok(None) };
        let failed = |why| format!("cannot use the pid file {}: {why}", path.display());
        PidFile::claim(path).map(Some).map_err(failed)
    }
}

const DAEMON: &str = "a daemon is made by a service manager: systemd, or `setsid tidegate run …`";

/// The word after a known option is its value unless it is an option itself.
fn value_after<'a>(key: &str, words: &mut (impl Iterator<Item = &'a String> + Clone)) -> String {
    let known = KNOWN.iter().any(|known| known.long.contains(&key));
    let next = words.clone().next().filter(|next| known && !next.starts_with('-'));
    if let Some(value) = next {
        words.next();
        return value.clone();
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use telemetry::log::Level;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn both_spellings_and_settings() {
        let new = parse("--lualib-path=./x/?.lua -C ./y/?.so --log-level warn --a=1 --b=x=y");
        let new = new.unwrap();
        assert_eq!(new.lualib_path.as_deref(), Some("./x/?.lua"));
        assert_eq!(new.lualib_cpath.as_deref(), Some("./y/?.so"));
        assert_eq!(new.log_level, Some(Level::Warn));
        let has =
            |key: &str, value: &str| new.environment.contains(&(key.to_owned(), value.to_owned()));
        assert!(has("a", "1") && has("b", "x=y") && has("lualib-path", "./x/?.lua"));
        let old = parse("--lualib_path=z --loglevel=debug -W3 --worker_cpu_affinity=-1").unwrap();
        assert_eq!(old.lualib_path.as_deref(), Some("z"));
        assert_eq!((old.log_level, old.core), (Some(Level::Debug), None));
    }

    #[test]
    fn unsupported_options_are_rejected() {
        assert!(parse("--daemon").unwrap_err().contains("service manager"));
        assert!(parse("-x").unwrap_err().contains("-x"));
        assert!(parse("--log-level=loud").unwrap_err().contains("loud"));
    }
}
