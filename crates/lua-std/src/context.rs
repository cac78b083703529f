//! The data that the modules of a VM share with other VMs.

use std::rc::Rc;
use std::sync::Arc;

use lua_vm::{Vm, VmOptions};
use mlua::Result;
use net::tls::CertificateKey;
use redis::RedisPlan;

use crate::MODULES;
use crate::group::GroupMember;
use crate::shared_table::SharedTable;

/// What the modules of a VM share with other VMs.
#[derive(Clone, Default)]
pub struct VmContext {
    /// The table behind `tide.shared`; a VM without one has its own.
    pub shared: Option<Arc<SharedTable>>,
    /// The Redis that has the entries of `tide.shared` instead.
    pub shared_redis: Option<Arc<RedisPlan>>,
    /// The VM's membership in the group of a program; `None` in a server.
    pub member: Option<GroupMember>,
    /// The certificate that listeners with TLS present in place of their own, of `run --dev-tls`.
    pub development: Option<CertificateKey>,
}

/// Makes a VM with the standard library.
pub fn open_vm(mut options: VmOptions, context: VmContext) -> Result<Rc<Vm>> {
    if let Some(member) = context.member.clone() {
        options.bind =
            Some(Arc::new(move |bind, options| member.group.socket(member.index, bind, options)));
    }
    let vm = Vm::new(options, MODULES)?;
    vm.lua().set_app_data(context);
    Ok(vm)
}

impl VmContext {
    /// The context of a VM; empty if it was made without one.
    pub(crate) fn of(vm: &Vm) -> VmContext {
        vm.lua().app_data_ref::<VmContext>().map(|context| context.clone()).unwrap_or_default()
    }
}
