//! Draining a program: it accepts nothing more and ends with its last connection.

use std::time::Duration;

use lua_vm::Vm;
use telemetry::event;
use telemetry::log::Level;

use crate::http;
use crate::limits::DRAIN_MS;

/// Closes the listeners, and ends the process once every connection is closed or the time is up.
/// Requests end first: their handlers may need the other connections.
pub(crate) fn drain(vm: &Vm) {
    let Some(served) = http::drain(vm) else {
        drain_streams(vm);
        return;
    };
    let weak = vm.weak();
    net::task::spawn_local(async move {
        net::timer::within(Duration::from_millis(DRAIN_MS), served).await;
        if let Some(vm) = weak.upgrade() {
            drain_streams(&vm);
        }
    });
}

fn drain_streams(vm: &Vm) {
    if vm.begin_drain() {
        vm.exit(0);
        return;
    }
    event!(Level::Info, "draining", connections = vm.connection_count());
    let weak = vm.weak();
    net::task::spawn_local(async move {
        net::timer::sleep(Duration::from_millis(DRAIN_MS)).await;
        if let Some(vm) = weak.upgrade() {
            vm.exit(0);
        }
    });
}
