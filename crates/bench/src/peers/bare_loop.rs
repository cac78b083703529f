//! A FastAPI application without a server: called in a loop, it shows its own cost.

use super::{Peer, Program, python};
use crate::report::data::BARE_LOOP;

pub(super) const PEER: Peer = Peer {
    name: BARE_LOOP,
    program: Program::Python { module: None, needs: &["fastapi", "uvloop"] },
    start_seconds: 1.0,
    setup: |site| {
        let page = "https://asgi.readthedocs.io/en/latest/specs/www.html";
        python::bare_loop(&site.role).map(|setup| setup.note("the scope", page))
    },
};
