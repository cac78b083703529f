//! Role `frames`: a gateway sends exchanges over a Unix socket that the process inherits.

use std::rc::Rc;
use std::sync::Arc;

use exchange::handover::Desk;

use super::{Announced, Process};
use crate::spec::WorkerSpec;

/// Serves until the process is to leave and its exchanges have ended.
pub(super) async fn serve(
    _spec: &WorkerSpec,
    _process: &Rc<Process>,
    _desk: Arc<Desk>,
    _announced: Announced,
) -> Result<(), String> {
    Err("this build has no frames".to_owned())
}
