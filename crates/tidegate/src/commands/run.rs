//! `tidegate run`: run a Lua program, or a Python application.

mod access_format;
mod application;
mod configuration;
mod environment;
mod lifecycle;
mod listener_options;
mod lua_reload;
mod python;
mod target;
mod tls_options;
mod values;
mod variables;

use std::path::{Path, PathBuf};

use lua_host::program::arguments::Arguments;
use lua_host::program::{self, DebugAdapter, Program, StartError};
use settings::Address;

use self::target::Target;
use crate::failure::Failure;
use crate::host::Host;
use crate::serving::ServingOptions;

pub(crate) use variables::complete;

const EXAMPLES: &str = "\
A Lua program: our options stand before it. What stands after it is the program's: --key=value is
what env.get(\"key\") returns there, and Silly's own options are understood in both of their
spellings (--lualib-path, --lualib-cpath, --log-level, --log-path, --pid-file, --worker-affinity).
SIGTERM takes no new connections and ends with the last one, SIGINT ends at once, SIGUSR1 opens the
log file again. The program's silly.exit(code) is the exit code.

A Python application: MODULE is imported and APP is found in it, ASGI or WSGI. It needs the
tidegate of `pip install tidegate`. Options may stand on either side, with the names of uvicorn,
gunicorn and granian where those agree; times without a unit are seconds. SIGHUP replaces the
workers without losing a request, SIGTERM finishes requests in flight, SIGTTIN and SIGTTOU start
and end a worker.

Examples:
  tidegate run echo.lua
  tidegate run -i
  tidegate run --workers auto ping.lua --port=6379
  tidegate run --dev-tls shop.lua
  tidegate run --reload shop.lua
  tidegate run --debug-adapter 127.0.0.1:4711 --debug-wait shop.lua
  tidegate run app:app
  tidegate run shop.web:create --factory --workers 4 --bind :8000
  tidegate run app:app --bind :443 --ssl-certfile site.pem --ssl-keyfile site.key
  tidegate run shop.wsgi:application --static /static=./static --access-log -";

/// True for the name of a Lua program.
pub(crate) fn is_lua(word: &str) -> bool {
    Target::parse(word) == Ok(Target::Lua)
}

/// True for an option of ours that has a meaning for Lua programs, and that they do not have too.
pub(crate) fn is_option_of_lua(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    [
        "--workers",
        "--cpu-affinity",
        "--access-log",
        "--log-format",
        "--dev-tls",
        "--debug-adapter",
        "--debug-wait",
        "--reload",
    ]
    .contains(&name)
}

/// Run a Lua program, or a Python application
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    application: application::ApplicationOptions,

    #[command(flatten)]
    listeners: listener_options::ListenerOptions,

    #[command(flatten)]
    tls: tls_options::TlsOptions,

    #[command(flatten)]
    lifecycle: lifecycle::LifecycleOptions,

    #[command(flatten)]
    serving: ServingOptions,

    /// Log requests to this file, - is standard output; of a Lua program, those of its HTTP
    /// listeners
    #[arg(long, value_name = "FILE", alias = "access-logfile")]
    access_log: Option<PathBuf>,

    /// The access log format of a Python application: json, combined, atoms of gunicorn or granian
    /// such as %(h)s, or text with variables such as {client_ip} [default: json]
    #[arg(
        long,
        value_name = "FORMAT",
        aliases = ["access-logformat", "access-log-fmt"],
        value_parser = access_format::parse
    )]
    access_log_format: Option<String>,

    /// The address of the admin API and of /metrics of a Python application; unix:/PATH for that of
    /// a Lua program, which has profiles for `tidegate ctl profile`
    #[arg(long, value_name = "ADDRESS", value_parser = super::address)]
    admin: Option<Address>,

    /// Send metrics of a Python application's requests to this StatsD server, with the names that
    /// gunicorn gives them: HOST:PORT over UDP, or unix:///PATH
    #[arg(long, value_name = "HOST", value_parser = values::statsd_host)]
    statsd_host: Option<Address>,

    /// What the names of these metrics begin with
    #[arg(long, value_name = "PREFIX")]
    statsd_prefix: Option<String>,

    /// Tags of these metrics, separated by commas, as in DogStatsD
    #[arg(long, value_name = "TAGS")]
    dogstatsd_tags: Option<String>,

    /// Print the settings of the workers of a Python application, and exit
    #[arg(long)]
    print_config: bool,

    /// Check the options, and that a Python application can be imported, and exit
    #[arg(long)]
    check_config: bool,

    /// Debug a Lua program: listen on this address, on loopback or unix:/PATH, for a client of the
    /// Debug Adapter Protocol such as VS Code
    #[arg(long, value_name = "ADDRESS")]
    debug_adapter: Option<String>,

    /// Begin the program once a debugger has set its breakpoints
    #[arg(long, requires = "debug_adapter")]
    debug_wait: bool,

    /// Read Lua from standard input and run it, after the program if there is one
    #[arg(short, long)]
    interactive: bool,

    /// PROGRAM.lua or MODULE:APP
    #[arg(
        value_name = "PROGRAM",
        required = false,
        required_unless_present = "interactive",
        default_value_if("interactive", clap::builder::ArgPredicate::IsPresent, "")
    )]
    program: String,

    /// Arguments of a Lua program
    #[arg(
        value_name = "--key=value",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        num_args = 0..
    )]
    arguments: Vec<String>,
}

impl Run {
    pub(crate) fn run(self, host: &Host) -> Result<(), Failure> {
        if self.interactive && self.program.is_empty() {
            return self.run_lua();
        }
        match Target::parse(&self.program).map_err(Failure::Wrong)? {
            Target::Lua => self.run_lua(),
            Target::Python if self.interactive => {
                Err(Failure::Wrong("--interactive is for Lua programs".to_owned()))
            }
            Target::Python if self.debug_adapter.is_some() => {
                Err(Failure::Wrong("--debug-adapter is for Lua programs".to_owned()))
            }
            Target::Python => self.run_python(host),
        }
    }

    pub(crate) fn is_program(&self, word: &str) -> bool {
        self.program == word
    }

    pub(crate) fn is_python(&self) -> bool {
        Target::parse(&self.program) == Ok(Target::Python)
    }

    /// True if both are for the same application, and every option of this one is known.
    pub(crate) fn serves_like(&self, other: &Run) -> bool {
        self.program == other.program && self.arguments.is_empty()
    }

    /// Returns the words after a Python application that are not our options. A Lua program would
    /// get them as arguments.
    pub(crate) fn misplaced(&self) -> &[String] {
        if self.is_python() { &self.arguments } else { &[] }
    }

    fn run_lua(self) -> Result<(), Failure> {
        if let Some(option) = self.only_python() {
            return Err(Failure::Wrong(format!(
                "{} is a Lua program, and {option} is for Python applications; what the program \
                 itself is told stands after it",
                self.program
            )));
        }
        let mut arguments = Arguments::parse(&self.arguments).map_err(Failure::Wrong)?;
        // The option that is closer to the program applies.
        arguments.log_level = arguments.log_level.or(self.serving.log_level());
        self.serving.apply_format();
        let debug =
            self.debug_adapter.map(|address| DebugAdapter { address, waits: self.debug_wait });
        let workers = self.serving.workers_or(1);
        if debug.is_some() && workers > 1 {
            return Err(Failure::Wrong(
                "--debug-adapter is for a program with one worker: leave out --workers".to_owned(),
            ));
        }
        let admin = match self.admin {
            None => None,
            Some(Address::Unix(path)) => Some(path),
            Some(Address::Tcp { .. }) => {
                let why = "--admin of a Lua program is a Unix socket: --admin unix:/PATH";
                return Err(Failure::Wrong(why.to_owned()));
            }
        };
        let directory = Path::new(&self.program).parent().unwrap_or(Path::new(""));
        let directory = if directory == Path::new("") { Path::new(".") } else { directory };
        if let Some(rules) = self.lifecycle.dev_reload(directory, "*.lua")? {
            lua_reload::begin_again_on_change(rules)?;
        }
        let program = Program {
            file: (!self.program.is_empty()).then(|| self.program.into()),
            is_interactive: self.interactive,
            arguments,
            // One VM by default, so that all code of the program shares its globals.
            workers,
            cpu_affinity: self.serving.cpu_affinity(),
            access_log: self.access_log,
            development: self.tls.development()?,
            debug,
            admin,
        };
        match program::run(program) {
            Ok(0) => Ok(()),
            Ok(code) => Err(Failure::Exit(code)),
            Err(StartError::Wrong(why)) => Err(Failure::Wrong(why)),
            Err(StartError::Failed(why)) => Err(Failure::Failed(why)),
        }
    }

    /// Returns the options given that only Python applications have.
    fn only_python(&self) -> Option<&'static str> {
        if self.application != application::ApplicationOptions::default() {
            return Some("what was said about the application");
        }
        if self.listeners != listener_options::ListenerOptions::default() {
            return Some("what was said about its clients");
        }
        if self.tls.has_files() {
            return Some("an option of https");
        }
        if !self.lifecycle.has_only_reload() {
            return Some("what was said about its worker processes");
        }
        if self.access_log_format.is_some() {
            return Some("--access-log-format");
        }
        if self.statsd_host.is_some() {
            return Some("--statsd-host");
        }
        if self.print_config {
            return Some("--print-config");
        }
        self.check_config.then_some("--check-config")
    }
}
