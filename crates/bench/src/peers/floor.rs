//! The floor: the bare epoll loops of [`crate::floor`]. They have no configuration.

use super::{App, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer =
    Peer { name: "floor", program: Program::Floor, start_seconds: 0.1, setup };

fn setup(site: &Site) -> Option<Setup> {
    if site.workers > 1 {
        return None;
    }
    let address = site.address.to_string();
    match &site.role {
        Role::Hello
        | Role::LuaHello
        | Role::Routes { .. }
        | Role::App(App::AsgiHello | App::WsgiHello | App::Page) => {
            Some(Setup::new(&["hello", &address]))
        }
        Role::Gateway { backend, keep } => {
            let keep = if *keep { "keep" } else { "close" };
            Some(Setup::new(&["proxy", &address, &backend.to_string(), keep]))
        }
        Role::Guarded { backend } => {
            Some(Setup::new(&["proxy", &address, &backend.to_string(), "keep"]))
        }
        Role::Ping => Some(Setup::new(&["ping", &address])),
        Role::Json { .. }
        | Role::Files { .. }
        | Role::Cached { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppCached { .. }
        | Role::AppLoop { .. } => None,
    }
}
