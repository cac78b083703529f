//! Another Tidegate, given by the user, with the configuration of the program under test. If it is
//! the `tidegate` of a Python environment, the wheel of that environment serves applications.

use super::{Peer, Program, tidegate};
use crate::report::data::AGAINST;

pub(super) const PEER: Peer =
    Peer { name: AGAINST, program: Program::Given, start_seconds: 0.2, setup: tidegate::setup };
