//! `tidegate test`: the tests of Lua files, each in a VM of its own.
//!
//! Promises that no test sees what another one has left in the VM; that a test ends within its
//! time-out, even one that waits for ever or never waits; and that a coroutine's uncaught error
//! fails the test that began it. The files run with all rights of the user.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lua_std::{GroupMember, VmContext, WorkerGroup, open_vm};
use lua_vm::vm_message::Message;
use lua_vm::{TaskEnd, TaskError, Vm, VmOptions, errors, guard};
use mlua::{Function, Lua, Table};
use telemetry::log::{self, Level};
use telemetry::{LogWriter, Sink, Telemetry};

use crate::limits::{
    TEST_DIRECTORY_DEPTH, TEST_FILES, TEST_INSTRUCTIONS_PER_MS, TEST_MEMORY_BYTES, TESTS_PER_FILE,
};

const RUNNER: &str = include_str!("../../../lua/test_runner.lua");

/// What to test.
#[derive(Debug)]
pub struct TestRun {
    /// Files, and directories in which files end in `_test.lua`.
    pub paths: Vec<PathBuf>,
    /// Only tests whose name, with its file, contains this text.
    pub filter: Option<String>,
    /// Of each test, unless it has its own.
    pub timeout: Duration,
    /// True if the tests are only listed.
    pub list: bool,
    /// Searched for modules before all else.
    pub lualib_path: Option<String>,
}

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// How a test ended.
enum TestResult {
    Passed,
    Skipped(String),
    Failed(String),
}

/// A file, and its names for people and for Lua.
struct TestFile {
    shown: String,
    text: Vec<u8>,
    directory: String,
}

/// Opens the log of the tests, on standard error, until the writer is dropped.
pub fn open_log(level: Level) -> Result<LogWriter, String> {
    log::set_level(level);
    let writer = LogWriter::start("events", Sink::Stderr, &Telemetry::default())
        .map_err(|error| format!("the log cannot be written: {error}"))?;
    log::install(Some(writer.ring()));
    Ok(writer)
}

/// Runs the tests and reports each; the error is a sentence about the arguments.
pub fn run(run: &TestRun, report: &mut dyn FnMut(&str)) -> Result<TestCounts, String> {
    let mut counts = TestCounts::default();
    let mut matched = false;
    for path in find(&run.paths)? {
        let file = read(&path)?;
        let listed = match in_vm(run, &file, run.timeout, "list", None) {
            Ok(values) => listed(values),
            Err(why) => Err(why),
        };
        let tests = match listed {
            Ok(tests) => tests,
            Err(why) => {
                matched = true;
                counts.failed += 1;
                report(&format!(
                    "{}\n  FAIL the file cannot be loaded\n{}",
                    file.shown,
                    inset(&why)
                ));
                continue;
            }
        };
        let wanted = |name: &str| match &run.filter {
            Some(filter) => format!("{} {name}", file.shown).contains(filter.as_str()),
            None => true,
        };
        let mut is_headed = false;
        for (index, (name, timeout)) in tests.iter().enumerate().filter(|(_, test)| wanted(&test.0))
        {
            if !std::mem::replace(&mut is_headed, true) {
                report(&format!("{}\n", file.shown));
            }
            matched = true;
            if run.list {
                report(&format!("  {name}\n"));
                continue;
            }
            let begun = Instant::now();
            let result = one(run, &file, index + 1, timeout.unwrap_or(run.timeout));
            let took = begun.elapsed().as_millis();
            report(&line(name, took, result, &mut counts));
        }
    }
    if !matched {
        return Err(match &run.filter {
            Some(filter) => format!("no test has \"{filter}\" in its name"),
            None => {
                "the files declare no tests: it(NAME, FUNCTION), or functions whose names begin \
                     with test"
                    .to_owned()
            }
        });
    }
    Ok(counts)
}

/// The report of a test, with its line's end.
fn line(name: &str, took_ms: u128, result: TestResult, counts: &mut TestCounts) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match result {
        TestResult::Passed => {
            counts.passed += 1;
            writeln!(text, "  ok   {name} ({took_ms} ms)")
        }
        TestResult::Skipped(why) => {
            counts.skipped += 1;
            let colon = if why.is_empty() { "" } else { ": " };
            writeln!(text, "  skip {name}{colon}{why}")
        }
        TestResult::Failed(why) => {
            counts.failed += 1;
            write!(text, "  FAIL {name} ({took_ms} ms)\n{}", inset(&why))
        }
    };
    text
}

fn inset(text: &str) -> String {
    text.lines().map(|line| format!("         {line}\n")).collect()
}

/// The files that the arguments name, sorted within each directory.
fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        let kind = fs::metadata(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        if kind.is_dir() {
            search(path, 0, &mut files)?;
            if files.len() == before {
                return Err(format!("{} has no file that ends in _test.lua", path.display()));
            }
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn search(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("cannot read {}: {error}", directory.display());
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        entries.push(entry.map_err(failed)?);
    }
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // A link may lead to a directory above it.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !name.starts_with('.') && depth < TEST_DIRECTORY_DEPTH {
            search(&path, depth + 1, files)?;
        } else if !kind.is_dir() && name.ends_with("_test.lua") {
            if files.len() == TEST_FILES {
                return Err(format!("there are more than {TEST_FILES} files with tests"));
            }
            files.push(path.strip_prefix(".").map_or(path.clone(), Path::to_owned));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<TestFile, String> {
    let shown = path.display().to_string();
    let text = fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.display().to_string(),
        _ => ".".to_owned(),
    };
    Ok(TestFile { shown, text, directory })
}

/// Names and time-outs of the tests that a file declares.
fn listed(values: Vec<Message>) -> Result<Vec<(String, Option<Duration>)>, String> {
    let list = values.into_iter().next().map(items).unwrap_or_default();
    if list.len() > TESTS_PER_FILE {
        return Err(format!("the file declares more than {TESTS_PER_FILE} tests"));
    }
    let test = |entry: Message| {
        let mut parts = items(entry).into_iter();
        let name = parts.next().as_ref().map(text).unwrap_or_default();
        let timeout = match parts.next() {
            Some(Message::Integer(ms)) => u64::try_from(ms).ok().filter(|ms| *ms > 0),
            _ => None,
        };
        (name, timeout.map(Duration::from_millis))
    };
    Ok(list.into_iter().map(test).collect())
}

/// The values of a list, in order.
fn items(message: Message) -> Vec<Message> {
    let Message::Table(mut pairs) = message else { return Vec::new() };
    pairs.sort_by_key(|(key, _)| match key {
        Message::Integer(at) => *at,
        _ => i64::MAX,
    });
    pairs.into_iter().map(|(_, value)| value).collect()
}

fn text(message: &Message) -> String {
    match message {
        Message::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

fn one(run: &TestRun, file: &TestFile, number: usize, timeout: Duration) -> TestResult {
    let values = match in_vm(run, file, timeout, "run", Some(number)) {
        Ok(values) => values,
        Err(why) => return TestResult::Failed(why),
    };
    let word = |at: usize| values.get(at).map(text).unwrap_or_default();
    match word(0).as_str() {
        "passed" => TestResult::Passed,
        "skipped" => TestResult::Skipped(word(1)),
        _ => TestResult::Failed(word(1)),
    }
}

/// The functions of the runner in a new VM.
struct RunnerFunctions {
    call: Function,
    place: Function,
}

/// What a function of the runner returns, or why the test has failed.
type CallResult = Result<Vec<Message>, String>;

/// Calls a function of the runner in a VM of its own.
fn in_vm(
    run: &TestRun,
    file: &TestFile,
    timeout: Duration,
    name: &str,
    number: Option<usize>,
) -> CallResult {
    let plain = |error: mlua::Error| errors::text(&error);
    net::worker::block_on_local(async {
        let vm = new_vm(run, file, timeout).map_err(plain)?;
        let functions = load(&vm, file, name).map_err(plain)?;
        let ended: Rc<RefCell<Option<CallResult>>> = Rc::default();
        let outcome = ended.clone();
        let observe = move |lua: &Lua, end: TaskEnd| {
            *outcome.borrow_mut() = Some(match end {
                TaskEnd::Returned(values) => Message::copy_lenient(&values).map_err(plain),
                TaskEnd::Failed(error) => Err(described(&error)),
            });
            if let Ok(vm) = Vm::of(lua) {
                vm.exit(0);
            }
        };
        let started = vm.turn(|turn| turn.start(&functions.call, number, Some(Box::new(observe))));
        started.transpose().map_err(plain)?;
        let code = net::timer::within(timeout, lua_vm::drive(vm.clone())).await;
        let values = ended.borrow_mut().take();
        let values = match (values, code) {
            (Some(values), _) => values?,
            (None, Some(code)) => return Err(format!("the test called silly.exit({code})")),
            (None, None) => return Err(timed_out(&vm, &functions.place, timeout)),
        };
        match vm.first_failure().filter(|_| number.is_some()) {
            Some(error) => Err(format!("a coroutine failed: {}", described(error))),
            None => Ok(values),
        }
    })
}

/// An error with the part of its traceback that is not the runner's.
fn described(error: &TaskError) -> String {
    let lines = error.traceback.lines().take_while(|line| !line.contains("tidegate/test_runner"));
    let own: Vec<&str> = lines.collect();
    format!("{}\n{}", error.message, own.join("\n"))
}

fn timed_out(vm: &Rc<Vm>, place: &Function, timeout: Duration) -> String {
    let place = vm.turn(|_| place.call::<String>(()));
    let place = place.transpose().ok().flatten().unwrap_or_default();
    format!("no end after {} ms; the test waits here\n{place}", timeout.as_millis())
}

fn new_vm(run: &TestRun, file: &TestFile, timeout: Duration) -> mlua::Result<Rc<Vm>> {
    let own = format!("{}/?.lua", file.directory);
    let path = run.lualib_path.as_ref().map_or(own.clone(), |given| format!("{given};{own}"));
    let options = VmOptions { path: Some(path), ..VmOptions::default() };
    let group = Arc::new(WorkerGroup::new(1));
    let member = GroupMember { index: 0, group: group.clone(), log: None, access: None };
    let context =
        VmContext { shared: Some(group.table()), member: Some(member), ..Default::default() };
    let vm = open_vm(options, context)?;
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let budget = ms.saturating_mul(TEST_INSTRUCTIONS_PER_MS);
    guard::arm(&vm, &file.shown, budget, TEST_MEMORY_BYTES)?;
    lua_std::open_mailbox(&vm);
    Ok(vm)
}

fn load(vm: &Rc<Vm>, file: &TestFile, name: &str) -> mlua::Result<RunnerFunctions> {
    let lua = vm.lua();
    let chunk = lua.load(&file.text[..]).set_name(format!("@{}", file.shown)).into_function()?;
    let runner: Function = lua.load(RUNNER).set_name("=tidegate/test_runner.lua").eval()?;
    let functions: Table = runner.call(chunk)?;
    Ok(RunnerFunctions { call: functions.get(name)?, place: functions.get("where")? })
}

#[cfg(test)]
mod tests;
