//! Runs a Lua program on one worker, as `tidegate run` does, in a binary without the rest.
//!
//! ```text
//! cargo run --profile quick -p lua-host --example program -- ping.lua --port=6379
//! ```

use std::process::ExitCode;

use lua_host::program::arguments::Arguments;
use lua_host::program::{Program, run};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let file = words.next().map(Into::into);
    let words: Vec<String> = words.collect();
    let ended = Arguments::parse(&words).and_then(|arguments| {
        let program = Program {
            file,
            is_interactive: false,
            arguments,
            workers: 1,
            cpu_affinity: false,
            access_log: None,
            development: None,
            debug: None,
            admin: None,
        };
        run(program).map_err(|refusal| format!("{refusal:?}"))
    });
    match ended {
        Ok(code) => ExitCode::from(code as u8),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
