//! `tidegate test FILES`: run the tests of Lua programs.

use std::path::PathBuf;
use std::time::Instant;

use lua_host::test_run::{self, TestRun};
use settings::Duration;
use telemetry::log::Level;

use crate::failure::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
A test is a function that is given to it(NAME, FUNCTION), or a global function whose name begins
with test. Each test runs in a VM of its own. describe groups tests; before_each and after_each are
called around each test. The module tide.test has checks and a clock that stands still until the
test moves it.

Exit codes: 0 no test failed, 1 a test failed, 2 there is no such file or test.

Examples:
  tidegate test
  tidegate test tests/shop_test.lua --filter coupon";

/// Run the tests of Lua programs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Test {
    /// Files, or directories with files whose names end in _test.lua
    #[arg(default_value = ".")]
    files: Vec<PathBuf>,

    /// Only tests with this text in the name of the file and the test
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Longest duration of a test that has none of its own
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    timeout: Duration,

    /// List the tests
    #[arg(long)]
    list: bool,

    /// Searched for Lua modules first, such as ./src/?.lua
    #[arg(long, value_name = "PATH")]
    lualib_path: Option<String>,

    /// The lowest level of logged events
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = level)]
    log_level: Level,
}

fn level(typed: &str) -> Result<Level, String> {
    Level::parse(typed)
        .ok_or_else(|| format!("there is no log level {typed:?}: debug, info, warn or error"))
}

impl Test {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let begun = Instant::now();
        let _log = test_run::open_log(self.log_level).map_err(Failure::Failed)?;
        let test_run = TestRun {
            paths: self.files,
            filter: self.filter,
            timeout: self.timeout.get(),
            list: self.list,
            lualib_path: self.lualib_path,
        };
        let mut printed = Ok(());
        let mut report = |text: &str| {
            if printed.is_ok() {
                printed = print(text);
            }
        };
        let counts = test_run::run(&test_run, &mut report).map_err(Failure::Wrong)?;
        printed?;
        if !self.list {
            let skipped = match counts.skipped {
                0 => String::new(),
                count => format!(", {count} skipped"),
            };
            let (passed, failed) = (counts.passed, counts.failed);
            let seconds = begun.elapsed().as_secs_f64();
            print(&format!("\n{passed} passed, {failed} failed{skipped} in {seconds:.1} s\n"))?;
        }
        if counts.failed > 0 { Err(Failure::Exit(1)) } else { Ok(()) }
    }
}
