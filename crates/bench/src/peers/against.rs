//! Another Tidegate binary, given by the user, with the configuration of the program under test.

use super::{Peer, Program, Setup, Site, tidegate};
use crate::report::data::AGAINST;

pub(super) const PEER: Peer =
    Peer { name: AGAINST, program: Program::Given, start_seconds: 0.2, setup };

/// `None` for applications that the Python of the run serves: that would be the same program twice.
fn setup(site: &Site) -> Option<Setup> {
    tidegate::setup(site).filter(|setup| setup.program.is_none())
}

#[cfg(test)]
mod tests {
    use super::super::{App, Role, Site, tidegate};
    use super::setup;

    #[test]
    fn it_is_configured_as_the_program_under_test_or_not_at_all() {
        let of = |role| Site::new(role, ([127, 0, 0, 1], 80).into(), "/somewhere".into());
        let hello = of(Role::Hello);
        assert!(setup(&hello).is_some() && setup(&hello) == tidegate::setup(&hello));
        let wheel = of(Role::App(App::AsgiHello));
        assert!(tidegate::setup(&wheel).is_some() && setup(&wheel).is_none());
    }
}
