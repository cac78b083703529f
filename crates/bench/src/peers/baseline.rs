//! The program under test without what a scenario adds: the reference for that scenario.

use super::{CacheRequest, DOCUMENT_PATH, Peer, Program, Role, Setup, Site, tidegate};

/// Routes of the baseline, where the other has thousands.
const ROUTES: usize = 5;

pub(super) const PEER: Peer =
    Peer { name: "baseline", program: Program::Subject, start_seconds: 0.2, setup };

fn setup(site: &Site) -> Option<Setup> {
    let role = match &site.role {
        Role::Guarded { backend, .. } | Role::Filtered { backend, .. } => {
            Role::Gateway { backend: *backend, keep: true }
        }
        Role::Routes { .. } => Role::Routes { count: ROUTES },
        Role::LuaHello => Role::Hello,
        Role::AppCached { backend, root } => {
            Role::Cached { backend: *backend, root: root.clone(), asked: CacheRequest::Small }
        }
        Role::Cached { root, asked: CacheRequest::Plain | CacheRequest::Small, .. } => {
            Role::Canned { file: root.join(DOCUMENT_PATH.trim_start_matches('/')) }
        }
        Role::Hello
        | Role::Gateway { .. }
        | Role::GrpcGateway { .. }
        | Role::Ping
        | Role::Json { .. }
        | Role::Files { .. }
        | Role::Cached { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppLoop { .. } => {
            return None;
        }
    };
    tidegate::setup(&Site { role, ..site.clone() })
}
