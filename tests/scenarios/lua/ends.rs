//! How a program ends: its own code, errors, signals, errors that do not end it.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use std::io::Read;

use super::{ECHO, Program, ask, connect};

#[test]
fn the_programs_code_is_the_exit_code() {
    assert_eq!(Program::new("require 'silly'.exit(7)").run(&[], &[]).code, Some(7));
    let settings = "local env = require 'silly.env'
        print(env.get('a'), env.get('b'), env.get('log-level'))
        require 'silly'.exit()";
    let exit = Program::new(settings).run(&[], &["--a=1", "--b=x=y", "--log-level=warn"]);
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "1\tx=y\twarn\n"));
}

#[test]
fn errors_are_one_sentence_and_exit_code_2() {
    let broken = Program::new("local x = = 1").run(&[], &[]);
    assert_eq!(broken.code, Some(2));
    assert!(broken.stderr.contains("program.lua:1:"), "{broken:?}");
    let program = Program::new("");
    for arguments in [["--daemon"], ["-x"], ["--log-level=loud"]] {
        let exit = program.run(&[], &arguments);
        assert_eq!(exit.code, Some(2), "{exit:?}");
        assert!(exit.stderr.starts_with("error: "), "{exit:?}");
    }
    std::fs::remove_file(program.directory.path().join("program.lua")).expect("a file");
    assert_eq!(program.run(&[], &[]).code, Some(2));
}

#[test]
fn an_error_of_a_coroutine_is_logged_and_the_program_continues() {
    let text = format!(
        "{ECHO}
        require 'silly.task'.fork(function() error('in a task') end)"
    );
    let (process, address) = Program::new(&text).serve(&[]);
    let line = process.wait_for_line(|line| line.contains("in a task").then(|| line.to_owned()));
    assert!(line.expect("a line").contains("traceback"));
    assert_eq!(ask(&mut connect(address), "alive\n"), "alive\n");
}

#[test]
fn an_error_of_the_main_script_ends_the_program_with_its_traceback() {
    for waits in ["", "require 'silly.time'.sleep(1)"] {
        let text = format!("local function inner()\n{waits} error('in main') end\ninner()");
        let exit = Program::new(&text).run(&[], &[]);
        assert_eq!(exit.code, Some(1), "{exit:?}");
        let (_, printed) = exit.stderr.split_once("error: ").expect("the error is printed");
        assert!(printed.contains("program.lua:2: in main\nstack traceback:\n"), "{exit:?}");
        assert!(printed.contains("program.lua:3: in main chunk"), "{exit:?}");
    }
    // What it has written before is sent; one worker's error ends all.
    let text = format!("{ECHO}\nrequire 'silly.time'.sleep(1)\nerror {{ 'a table' }}");
    let exit = Program::new(&text).run(&["--workers", "2"], &[]);
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert!(exit.stderr.contains("\nerror: table: 0x"), "{exit:?}");
}

#[test]
fn an_error_in_a_finalizer_makes_a_good_end_a_bad_one() {
    let text = "setmetatable({}, { __gc = function() error('in gc') end })
        collectgarbage() require 'silly'.exit(0)";
    let exit = Program::new(text).run(&[], &[]);
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert!(exit.stderr.contains("in gc"), "{exit:?}");
}

#[test]
fn sigterm_ends_with_the_last_connection() {
    let (process, address) = Program::new(ECHO).serve(&[]);
    let mut client = connect(address);
    assert_eq!(ask(&mut client, "one\n"), "one\n");
    process.signal("TERM");
    process.wait_for_line(|line| line.contains("draining").then_some(()));
    assert!(std::net::TcpStream::connect(address).is_err(), "it listens no more");
    assert_eq!(ask(&mut client, "two\n"), "two\n");
    drop(client);
    assert_eq!(process.wait().code, Some(0));
}

#[test]
fn sigint_ends_at_once_and_a_handler_takes_its_place() {
    let (process, address) = Program::new(ECHO).serve(&[]);
    let _open = connect(address);
    process.signal("INT");
    assert_eq!(process.wait().code, Some(0));
    let text = format!(
        "{ECHO} require 'silly.signal'('SIGINT', function(name)
        require 'silly'.exit(name == 'SIGINT' and 9 or 1) end)"
    );
    let (process, _) = Program::new(&text).serve(&[]);
    process.signal("INT");
    assert_eq!(process.wait().code, Some(9));
}

#[test]
fn what_was_written_before_the_end_arrives() {
    let text = "local tcp, silly = require 'silly.net.tcp', require 'silly'
        local logger = require 'silly.logger'
        local listener = tcp.listen('127.0.0.1:0', function(conn)
            conn:write(('x'):rep(8000000)) conn:write('last\\n') silly.exit(3)
        end)
        logger.info('listening ' .. listener.addr)";
    let (process, address) = Program::new(text).serve(&[]);
    let mut client = connect(address);
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("the program closes");
    assert_eq!((all.len(), all.ends_with(b"last\n")), (8_000_005, true));
    assert_eq!(process.wait().code, Some(3));
}
