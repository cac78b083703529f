//! Runs Lua programs in tests.
//!
//! A program reports results with `say(...)` and ends with `silly.exit(code)`. Promises an end
//! within a minute, which a busy machine needs for the largest; an error of the main coroutine ends
//! it with 99.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::Variadic;

use crate::context::{VmContext, open_vm};
use crate::group::{GroupMember, WorkerGroup};
use lua_vm::TaskEnd;
use lua_vm::{Vm, VmOptions};

/// How far a clock that jumps looks for the next timer.
const JUMP_MS: u64 = 3_600_000;

/// Runs a program; returns its exit code and the words of `say`.
pub(crate) fn run(program: &str) -> (i32, Vec<String>) {
    let program = program.to_owned();
    // As in a worker, the loop of the VM is one task of several.
    net::worker::block_on_local(async {
        net::task::spawn_local(async move { run_here(&program).await }).await.unwrap()
    })
}

/// As [`run`], on the loop of the caller.
pub(crate) async fn run_here(program: &str) -> (i32, Vec<String>) {
    run_in(open_vm(VmOptions::default(), VmContext::default()).unwrap(), program, false).await
}

/// The words of a program whose turns have a budget of instructions, as in a server.
pub(crate) fn output_within(instructions: u64, program: &str) -> Vec<String> {
    net::worker::block_on_local(async {
        let vm = open_vm(VmOptions::default(), VmContext::default()).unwrap();
        lua_vm::guard::arm(&vm, "test", instructions, usize::MAX).unwrap();
        let (code, output) = run_in(vm, program, false).await;
        assert_eq!(code, 0, "{output:?}");
        output
    })
}

/// Runs an example of the documentation: it ends with its main coroutine, and no coroutine may
/// fail.
pub(crate) fn run_example(program: &str) -> (i32, Vec<String>) {
    net::worker::block_on_local(async {
        let group = Arc::new(WorkerGroup::new(1));
        let member = GroupMember { index: 0, group, log: None, access: None };
        let context = VmContext { member: Some(member), ..Default::default() };
        let vm = open_vm(VmOptions::default(), context).unwrap();
        crate::open_mailbox(&vm);
        let (code, mut output) = run_in(vm.clone(), program, true).await;
        if vm.failures() > 0 {
            output.push(format!("{} coroutines failed", vm.failures()));
            return (99, output);
        }
        (code, output)
    })
}

async fn run_in(vm: Rc<Vm>, program: &str, ends_with_main: bool) -> (i32, Vec<String>) {
    let output = Rc::new(RefCell::new(Vec::new()));
    let log = output.clone();
    let say = vm.lua().create_function(move |lua, words: Variadic<mlua::Value>| {
        let tostring: mlua::Function = lua.globals().get("tostring")?;
        let words: mlua::Result<Vec<String>> =
            words.into_iter().map(|word| tostring.call::<String>(word)).collect();
        log.borrow_mut().push(words?.join(" "));
        Ok(())
    });
    vm.lua().globals().set("say", say.unwrap()).unwrap();
    // `cancel(thread)`: as if its client had disconnected.
    let cancel = vm.lua().create_function(|lua, thread: mlua::Thread| {
        Vm::of(lua)?.cancel_thread(&thread);
        Ok(())
    });
    vm.lua().globals().set("cancel", cancel.unwrap()).unwrap();
    let main = vm.lua().load(program).set_name("=program").into_function().unwrap();
    let (weak, log) = (vm.weak(), output.clone());
    let ended = move |_: &mlua::Lua, end: TaskEnd| {
        if let TaskEnd::Failed(error) = end {
            log.borrow_mut().push(error.message);
            weak.upgrade().unwrap().exit(99);
        } else if ends_with_main {
            weak.upgrade().unwrap().exit(0);
        }
    };
    vm.turn(|turn| turn.start(&main, (), Some(Box::new(ended)))).unwrap().unwrap();
    let code = net::timer::within(Duration::from_secs(60), lua_vm::drive(vm.clone())).await;
    let output = output.take();
    let Some(code) = code else { panic!("the program did not end; it said {output:?}") };
    (code, output)
}

/// The words of a program that exits with 0.
pub(crate) fn output(program: &str) -> Vec<String> {
    let (code, output) = run(program);
    assert_eq!(code, 0, "{output:?}");
    output
}

/// As [`output`], but the clock of the program jumps from timer to timer: the next one fires when
/// its sockets bring nothing more, however slow the machine is. Not for programs that wait for
/// threads, or for protocols in Rust.
pub(crate) fn timed_output(program: &str) -> Vec<String> {
    let (code, output) = net::worker::block_on_local(async {
        let vm = open_vm(VmOptions::default(), VmContext::default()).unwrap();
        vm.stop_clock(None);
        let jump = async {
            loop {
                vm.advance(JUMP_MS).await;
            }
        };
        tokio::select! {
            ended = run_in(vm.clone(), program, false) => ended,
            never = jump => never,
        }
    });
    assert_eq!(code, 0, "{output:?}");
    output
}
