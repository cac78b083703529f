//! `tidegate run`: run a Lua program, or a Python application.

mod target;

use std::path::PathBuf;

use lua::program::arguments::Arguments;
use lua::program::{self, Program, Refusal};

use self::target::Target;
use crate::failure::Failure;
use crate::host::Host;
use crate::serving::ServingOptions;

const EXAMPLES: &str = "\
Our options stand before the program. What stands after it is the program's: --key=value is what
env.get(\"key\") returns there, and Silly's own options are understood in both of their spellings
(--lualib-path, --lualib-cpath, --log-level, --log-path, --pid-file, --worker-affinity).
SIGTERM takes no new connections and ends with the last one, SIGINT ends at once, SIGUSR1 opens the
log file again. The program's silly.exit(code) is the exit code.

Examples:
  tidegate run echo.lua
  tidegate run --workers auto ping.lua --port=6379
  tidegate run game.lua --lualib-path='./lib/?.lua' --log-path=game.log";

/// Run a Lua program
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    serving: ServingOptions,

    /// Log the requests of the program's HTTP listeners to this file
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// The program
    #[arg(value_name = "PROGRAM.lua")]
    program: PathBuf,

    /// What the program is told
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
        let shown = self.program.display().to_string();
        match Target::parse(&shown).map_err(Failure::Wrong)? {
            Target::Lua => self.run_lua(),
            Target::Python { .. } if host.python.is_none() => Err(Failure::Wrong(format!(
                "this tidegate has no Python inside, so it cannot run {shown}; `pip install \
                 tidegate` (CPython 3.11 to 3.14) gives the same command with Python"
            ))),
            Target::Python { .. } => Err(Failure::Wrong("Python applications come later".into())),
        }
    }

    fn run_lua(self) -> Result<(), Failure> {
        let mut arguments = Arguments::parse(&self.arguments).map_err(Failure::Wrong)?;
        // The word that stands nearer to the program wins.
        arguments.log_level = arguments.log_level.or(self.serving.log_level());
        self.serving.apply_format();
        let program = Program {
            file: self.program,
            arguments,
            // One VM unless asked for more: then globals mean what they say.
            workers: self.serving.workers_or(1),
            cpu_affinity: self.serving.cpu_affinity(),
            access_log: self.access_log,
        };
        match program::run(program) {
            Ok(0) => Ok(()),
            Ok(code) => Err(Failure::Exit(code)),
            Err(Refusal::Wrong(why)) => Err(Failure::Wrong(why)),
            Err(Refusal::Failed(why)) => Err(Failure::Failed(why)),
        }
    }
}
