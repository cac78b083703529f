//! `--reload` of a Lua program: it begins again when one of its files changes.
//!
//! The process replaces itself by the same command, so a program begins as it always does: with its
//! standard streams and its process id, without any state. Its listeners are closed for that
//! moment, and its connections are lost. A file that does not compile changes nothing.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, Sender};

use server::{DevReload, DevWatch};

use crate::failure::Failure;

/// Watches the files of the program from now on, on a thread of its own.
pub(super) fn begin_again_on_change(rules: DevReload) -> Result<(), Failure> {
    let (begun, is_begun) = mpsc::channel();
    let watch = move || net::worker::block_on_local(watch(rules, begun));
    let thread = std::thread::Builder::new().name("lua-reload".to_owned()).spawn(watch);
    thread
        .map_err(|error| Failure::Failed(format!("--reload: no thread can be started: {error}")))?;
    // What the program reads from now on is compared with later changes.
    let _ = is_begun.recv();
    Ok(())
}

async fn watch(rules: DevReload, begun: Sender<()>) {
    let mut watch = DevWatch::new(rules);
    // The command waits for it.
    let _ = begun.send(());
    loop {
        let path = watch.changed().await;
        if let Some(why) = syntax_error(&path) {
            eprintln!("note: the program continues as it was: {why}");
            continue;
        }
        eprintln!("note: {} has changed, the program begins again", path.display());
        let mut words = std::env::args_os();
        let Some(command) = words.next() else { return };
        let error = Command::new(command).args(words).exec();
        eprintln!("note: the program continues as it was: it cannot be started: {error}");
    }
}

/// Why a Lua file cannot be loaded; a file that is gone, or no Lua file, is not an error.
fn syntax_error(path: &Path) -> Option<String> {
    let is_lua = path.extension().is_some_and(|extension| extension == "lua");
    let text = std::fs::read(path).ok().filter(|_| is_lua)?;
    lua_host::program::syntax_error(&text, path)
}
