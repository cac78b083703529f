//! The admin socket of a program, `tidegate run --admin`: profiles for `tidegate ctl profile`.
//!
//! The first VM serves it, and all VMs of the program record at the same time. Promises that only
//! processes of this user can connect.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use lua_vm::profile::ProfileKind;
use lua_vm::{Vm, async_function, errors, script};
use mlua::{Error, Function, IntoLuaMulti, Lua, MultiValue, Result, Value};
use tokio::sync::mpsc;

use crate::context::VmContext;
use crate::limits::PROFILE_SAMPLES_PER_SECOND;
use crate::profiler::{self, ProfileError, ProfileFormat};

/// Has this VM record profiles that the first VM of its program requests.
pub fn record_profiles(vm: &Rc<Vm>) {
    let Some(member) = VmContext::of(vm).member else { return };
    let (requests, mut received) = mpsc::unbounded_channel();
    member.group.add_recorder(requests);
    let vm = vm.weak();
    net::task::spawn_local(async move {
        while let Some((kind, span, done)) = received.recv().await {
            profiler::record(vm.upgrade(), kind, span, done);
        }
    });
}

/// Listens on a Unix socket; the error is a sentence.
pub fn listen(vm: &Rc<Vm>, path: &Path) -> std::result::Result<(), String> {
    let address = format!("unix:{}", path.display());
    let listened = open(vm.lua()).and_then(|listen| {
        let listened = vm.turn(|_| listen.call::<(Value, Option<String>)>(address.as_str()));
        listened.unwrap_or_else(|| Err(Error::runtime("the program has ended")))
    });
    let failed = |why: String| format!("the admin API cannot listen on {address}: {why}");
    match listened {
        Ok((_, None)) => {}
        Ok((_, Some(why))) => return Err(failed(why)),
        Err(error) => return Err(failed(errors::text(&error))),
    }
    let restricted = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
    restricted.map_err(|error| failed(error.to_string()))
}

fn open(lua: &Lua) -> Result<Function> {
    let raw = lua.create_table()?;
    let profile = |lua: &Lua, (kind, seconds, format): (String, u64, String)| {
        let kind = match kind.as_str() {
            "allocations" => ProfileKind::Allocations,
            _ => ProfileKind::Cpu { per_second: PROFILE_SAMPLES_PER_SECOND },
        };
        let format = ProfileFormat::ALL.into_iter().find(|known| known.slug() == format);
        let format = format.unwrap_or(ProfileFormat::Pprof);
        let member = VmContext::of(&*Vm::of(lua)?).member;
        let span = Duration::from_secs(seconds);
        let answers = member.map(|member| member.group.profile(kind, span)).unwrap_or_default();
        Ok(async move { Ok(RecordedProfile(profiler::add_up(answers, format).await)) })
    };
    raw.set("profile", async_function::create(lua, profile)?)?;
    let text = include_str!("../../../lua/program_admin.lua");
    script::open(lua, "program_admin", text, raw)?.get("listen")
}

/// Becomes the bytes; or nil, the status of a response and a sentence.
struct RecordedProfile(std::result::Result<Bytes, ProfileError>);

impl IntoLuaMulti for RecordedProfile {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let (status, why) = match self.0 {
            Ok(profile) => return lua.create_string(&profile)?.into_lua_multi(lua),
            Err(ProfileError::Busy(why)) => (409, why),
            Err(ProfileError::Failed(why)) => (500, why),
            Err(ProfileError::NoProgram) => (404, "the program has ended".to_owned()),
        };
        (Value::Nil, status, why).into_lua_multi(lua)
    }
}
