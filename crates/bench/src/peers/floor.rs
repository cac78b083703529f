//! The floor: the bare epoll loops of [`crate::floor`]. They have no configuration.

use super::{App, Peer, Program, Role, Setup, Site};
use crate::floor::Floor;

pub(super) const PEER: Peer =
    Peer { name: "floor", program: Program::Floor, start_seconds: 0.1, setup };

fn setup(site: &Site) -> Option<Setup> {
    if site.workers > 1 {
        return None;
    }
    let floor = match &site.role {
        Role::Hello
        | Role::LuaHello
        | Role::Routes { .. }
        | Role::App(App::AsgiHello | App::WsgiHello | App::Page) => Floor::Hello,
        Role::Gateway { backend, keep } => Floor::Proxy { upstream: *backend, keep: *keep },
        Role::Guarded { backend, .. } | Role::Filtered { backend, .. } => {
            Floor::Proxy { upstream: *backend, keep: true }
        }
        Role::Ping => Floor::Ping,
        Role::GrpcGateway { .. }
        | Role::Json { .. }
        | Role::Files { .. }
        | Role::Cached { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppCached { .. }
        | Role::AppLoop { .. } => return None,
    };
    let arguments = floor.arguments(site.address);
    Some(Setup { arguments, ..Setup::default() })
}
