//! `tidegate run`: one Lua program as a process, on one worker or several.
//!
//! Owns the workers, each with a VM of its own that runs the program, and the end of the process:
//! the first `silly.exit` of any VM, a signal, an error of its main coroutine, or a program that
//! cannot be loaded. Promises that what was written before the end is sent, for a bounded time, and
//! that the log is written. Each VM has its own globals; with several VMs `tide.worker` carries
//! values between them.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use http_server::AccessLog;
use message::LineFormat;
use mlua::{Function, Lua, Table};
use net::tls::CertificateKey;
use telemetry::log;
use telemetry::{LogWriter, Sink, Telemetry};

use crate::limits::LAST_BYTES_MS;
use lua_std::{GroupMember, VmContext, WorkerGroup, http, open_vm, program_admin};
use lua_vm::errors;
use lua_vm::{OnTaskEnd, TaskEnd, Vm, VmOptions};

pub mod arguments;

use arguments::Arguments;

const PROMPT: &str = include_str!("../../../lua/repl.lua");

/// Begins the main script after the debugger.
const DEBUGGED: &str = "local main, address, waits = ...
    local listener, why = require 'silly.debugger'.listen { addr = address, wait = waits }
    if not listener then error('the debugger cannot listen on ' .. address .. ': ' .. why, 0) end
    return main()";

/// A program to run.
#[derive(Debug)]
pub struct Program {
    /// `None` for a prompt alone.
    pub file: Option<PathBuf>,
    /// True if a prompt follows the main script.
    pub is_interactive: bool,
    /// The arguments after the program on the command line.
    pub arguments: Arguments,
    pub workers: usize,
    /// True if each worker is pinned to its own core.
    pub cpu_affinity: bool,
    /// The access log of its HTTP listeners.
    pub access_log: Option<PathBuf>,
    /// A file with the certificate for development and its key, which listeners with TLS present
    /// in place of their own.
    pub development: Option<PathBuf>,
    pub debug: Option<DebugAdapter>,
    /// The Unix socket of its admin API.
    pub admin: Option<PathBuf>,
}

/// Where the debugger of a program listens.
#[derive(Clone, Debug)]
pub struct DebugAdapter {
    pub address: String,
    /// True if the program begins once a client has set its breakpoints.
    pub waits: bool,
}

/// Why a program could not start; one sentence.
#[derive(Debug)]
pub enum StartError {
    /// The program or its options are wrong.
    Wrong(String),
    /// The system failed.
    Failed(String),
}

/// How one worker's VM ended.
enum ProgramEnd {
    Exit(i32),
    Refused(StartError),
}

/// Runs a program to its end; returns its exit code.
pub fn run(program: Program) -> Result<i32, StartError> {
    net::raise_descriptor_limit();
    let _pid_file = program.arguments.claim_pid_file().map_err(StartError::Failed)?;
    let writer = Arc::new(open_log(&program.arguments)?);
    let access = program.access_log.map(open_access_log).transpose()?.map(Arc::new);
    let development = program.development.as_deref().map(load_certificate).transpose()?;
    let text = program.file.as_deref().map(read).transpose()?.unwrap_or_default();
    let text: Arc<[u8]> = text.into();
    let file = program.file.unwrap_or_default();
    let group = Arc::new(WorkerGroup::new(program.workers.max(1)));
    let cores = if program.cpu_affinity { net::worker::allowed_cores() } else { Vec::new() };
    let (tell, told) = mpsc::channel();
    for index in 0..program.workers.max(1) {
        let core =
            program.arguments.core.or_else(|| cores.get(index % cores.len().max(1)).copied());
        let (group, log) = (group.clone(), Some(writer.clone()));
        let member = GroupMember { index, group, log, access: access.clone() };
        let context = VmContext {
            shared: Some(member.group.table()),
            shared_redis: None,
            member: Some(member),
            development: development.clone(),
        };
        let options = options(&program.arguments);
        let script = Script {
            text: text.clone(),
            file: file.clone(),
            is_interactive: program.is_interactive && index == 0,
            debug: program.debug.clone(),
            admin: program.admin.clone(),
            is_first: index == 0,
        };
        let tell = tell.clone();
        let name = format!("lua-{index}");
        net::worker::spawn(name.clone(), core, move || async move {
            let ended = run_worker(options, context, &name, &script).await;
            // Another worker may have ended the process.
            let _ = tell.send(ended);
        })
        .map_err(|error| StartError::Failed(format!("cannot start a worker: {error}")))?;
    }
    drop(tell);
    let ended = told.recv();
    writer.flush();
    access.inspect(|access| access.flush());
    match ended {
        Ok(ProgramEnd::Exit(code)) => Ok(code),
        Ok(ProgramEnd::Refused(refusal)) => Err(refusal),
        Err(_) => {
            Err(StartError::Failed("the worker of the program ended without a result".to_owned()))
        }
    }
}

fn open_log(arguments: &Arguments) -> Result<LogWriter, StartError> {
    if let Some(level) = arguments.log_level {
        log::set_level(level);
    }
    let sink = arguments.log_path.clone().map_or(Sink::Stderr, Sink::File);
    let writer = LogWriter::start("events", sink, &Telemetry::default())
        .map_err(|error| StartError::Failed(format!("the log cannot be written: {error}")))?;
    log::install(Some(writer.ring()));
    Ok(writer)
}

fn open_access_log(path: PathBuf) -> Result<LogWriter, StartError> {
    LogWriter::start("access", Sink::File(path), &Telemetry::default())
        .map_err(|error| StartError::Failed(format!("the access log cannot be written: {error}")))
}

fn read(file: &Path) -> Result<Vec<u8>, StartError> {
    std::fs::read(file).map_err(|error| {
        StartError::Wrong(format!("cannot read the program {}: {error}", file.display()))
    })
}

fn load_certificate(file: &Path) -> Result<CertificateKey, StartError> {
    let failed = |why: String| StartError::Failed(format!("{}: {why}", file.display()));
    let pem = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    CertificateKey::load(&pem, &pem, None, net::clock::wall_secs())
        .map_err(|why| failed(why.to_string()))
}

fn options(arguments: &Arguments) -> VmOptions {
    VmOptions {
        arguments: arguments.environment.clone(),
        path: arguments.lualib_path.clone(),
        cpath: arguments.lualib_cpath.clone(),
        bind: None,
    }
}

/// One worker: its VM, from the program's first line to the last byte.
async fn run_worker(
    options: VmOptions,
    context: VmContext,
    name: &str,
    script: &Script,
) -> ProgramEnd {
    let access = context.member.as_ref().and_then(|member| member.access.clone());
    let failed = |error: mlua::Error| StartError::Failed(errors::text(&error));
    let vm = match open_vm(options, context) {
        Ok(vm) => vm,
        Err(error) => return ProgramEnd::Refused(failed(error)),
    };
    vm.watch(name);
    if let Some(path) = &script.admin {
        program_admin::record_profiles(&vm);
        // Before listeners are observed: its requests are not those of the program.
        if script.is_first
            && let Err(why) = program_admin::listen(&vm, path)
        {
            return ProgramEnd::Refused(StartError::Failed(why));
        }
    }
    if let Some(access) = access {
        let log = AccessLog::new(access.ring(), LineFormat::Json, 1.0, []);
        let access = Some(Rc::new(log));
        http::observe(&vm, http::ListenerMetrics { access, ..Default::default() });
    }
    let main = match load(vm.lua(), &script.text, &script.file) {
        Ok(main) => main,
        Err(error) => return ProgramEnd::Refused(StartError::Wrong(errors::text(&error))),
    };
    if let Err(error) = lua_std::watch_signals(&vm) {
        return ProgramEnd::Refused(StartError::Failed(format!(
            "cannot watch for signals: {error}"
        )));
    }
    lua_std::open_mailbox(&vm);
    if let Err(error) = replace_stdin(&vm) {
        return ProgramEnd::Refused(failed(error));
    }
    let failure = Rc::new(OnceCell::new());
    let ended = if script.is_interactive { prompt() } else { end_with_main(&vm, failure.clone()) };
    let begun = match &script.debug {
        None => vm.turn(|turn| turn.start(&main, (), Some(ended))),
        Some(debug) => match vm.lua().load(DEBUGGED).set_name("=tidegate/debug").into_function() {
            Ok(debugged) => {
                let arguments = (main, debug.address.as_str(), debug.waits);
                vm.turn(|turn| turn.start(&debugged, arguments, Some(ended)))
            }
            Err(error) => Some(Err(error)),
        },
    };
    if let Some(Err(error)) = begun {
        return ProgramEnd::Refused(failed(error));
    }
    let code = lua_vm::drive(vm.clone()).await;
    net::timer::within(Duration::from_millis(LAST_BYTES_MS), vm.send_last_bytes()).await;
    if let Some(text) = failure.get() {
        return ProgramEnd::Refused(StartError::Failed(text.clone()));
    }
    // As in Silly, a warning makes the exit code 1.
    ProgramEnd::Exit(if code == 0 && vm.was_warned() { 1 } else { code })
}

/// The main script of a worker.
struct Script {
    text: Arc<[u8]>,
    file: PathBuf,
    /// True if a prompt follows it.
    is_interactive: bool,
    debug: Option<DebugAdapter>,
    /// The socket of the admin API.
    admin: Option<PathBuf>,
    /// True in the worker that serves the admin API.
    is_first: bool,
}

/// Begins the prompt of `run -i` after the main script; the program ends with it.
fn prompt() -> OnTaskEnd {
    Box::new(|lua: &Lua, end: TaskEnd| {
        if let TaskEnd::Failed(error) = end {
            eprintln!("error: {}\n{}", error.message, error.traceback);
        }
        let prompt = || -> mlua::Result<()> {
            let require: Function = lua.globals().get("require")?;
            let stdin: Table = require.call("silly.internal.stdin")?;
            let chunk = lua.load(PROMPT).set_name("=tidegate/repl.lua").eval::<Function>()?;
            let ended: OnTaskEnd = Box::new(|lua, _| {
                if let Ok(vm) = Vm::of(lua) {
                    vm.exit(0);
                }
            });
            Vm::of(lua)?.fork(&chunk, (stdin, env!("CARGO_PKG_VERSION")), Some(ended))
        };
        if let Err(error) = prompt() {
            errors::log(&error);
        }
    })
}

/// Ends the program if its main coroutine fails: what it would have set up is missing.
fn end_with_main(vm: &Rc<Vm>, failure: Rc<OnceCell<String>>) -> OnTaskEnd {
    let vm = vm.weak();
    Box::new(move |_: &Lua, end: TaskEnd| {
        if let (TaskEnd::Failed(error), Some(vm)) = (end, vm.upgrade()) {
            // The main coroutine ends once.
            let _ = failure.set(format!("{}\n{}", error.message, error.traceback));
            vm.exit(1);
        }
    })
}

/// Replaces `io.stdin`, whose reads would stop all coroutines, when a program first uses it.
fn replace_stdin(vm: &Rc<Vm>) -> mlua::Result<()> {
    const TEXT: &str = "io.stdin = nil
        setmetatable(io, { __index = function(io, name)
            if name ~= 'stdin' then return nil end
            io.stdin = require 'silly.internal.stdin'
            return io.stdin
        end })";
    vm.lua().load(TEXT).set_name("=tidegate/stdin").exec()
}

/// Why the text of a file cannot be loaded; `None` if it can.
pub fn syntax_error(text: &[u8], file: &Path) -> Option<String> {
    load(&Lua::new(), text, file).err().map(|error| errors::text(&error))
}

/// The program as a function; a first line that begins with `#` is a shebang line.
fn load(lua: &Lua, text: &[u8], file: &Path) -> mlua::Result<Function> {
    let hash = text.first() == Some(&b'#');
    let line_end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let text = if hash { &text[line_end..] } else { text };
    lua.load(text).set_name(format!("@{}", file.display())).into_function()
}
