//! Schedules, their durations, and rejected options.

use super::{DEFAULT_SECONDS_MAX, Options, Schedule, plan, said, steps_of};
use crate::load::tools::Tool;
use crate::peers::{ALL, Finder, FoundPeer};
use crate::report::data::Placement;
use crate::run::ExternalTarget;
use crate::scenarios;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

fn options() -> Options {
    let floor = vec!["floor".to_owned()];
    let subject = vec!["/nowhere/tidegate".to_owned()];
    Options::new(Finder { subject, floor, given: Default::default(), cache: None, python: None })
}

/// As if every peer there is were installed.
fn everything(options: Options) -> Schedule {
    let found: Vec<FoundPeer> = ALL.iter().map(|peer| FoundPeer::sample(peer)).collect();
    let scenarios = scenarios::ALL.iter().filter(|one| options.full || one.by_default);
    let cases = scenarios.flat_map(|scenario| scenario.cases);
    let steps = cases.flat_map(|case| steps_of(case, &options, &found)).collect();
    Schedule { options, found, missing: Vec::new(), steps, notes: Vec::new(), cores: None }
}

#[test]
fn the_default_run_with_every_peer_there_is_ends_within_five_minutes() {
    let mut schedule = everything(options());
    // The last cases are left out where there is no time for them.
    let last = schedule.steps.iter().position(|step| step.case.name.starts_with("ping"));
    schedule.steps.truncate(last.expect("pings are in the default run"));
    assert!(schedule.seconds() < DEFAULT_SECONDS_MAX, "{:?}", schedule.planned());
    assert!(schedule.steps.iter().any(|step| step.case.name == "gateway-close-20ms"));
}

#[test]
fn more_rounds_take_longer_and_full_runs_all() {
    let short = everything(options()).planned();
    assert!(everything(Options { rounds: 8, ..options() }).planned() > short);
    let full = everything(Options { full: true, ..options() });
    let cases: usize = scenarios::ALL.iter().map(|scenario| scenario.cases.len()).sum();
    let mut names: Vec<&str> = full.steps.iter().map(|step| step.case.name).collect();
    names.dedup();
    assert_eq!(names.len(), cases);
    assert!(full.planned() > short * 3);
}

#[test]
fn only_those_that_can_are_in_a_case() {
    let schedule = everything(Options { full: true, ..options() });
    let servers = |case: &str| -> Vec<&str> {
        let step = schedule.steps.iter().find(|step| step.case.name == case).unwrap();
        step.servers.iter().map(|&server| schedule.found[server].peer.name).collect()
    };
    assert_eq!(servers("files-small"), ["tidegate", "nginx", "h2o", "caddy"]);
    let secured = ["tidegate", "nginx", "haproxy", "h2o", "caddy"];
    assert_eq!(servers("tls-hello"), secured);
    assert_eq!(servers("tls-handshake-full"), secured);
    assert_eq!(servers("h2-hello-10"), secured);
    assert_eq!(servers("h2-proxied"), secured);
    assert_eq!(servers("reload"), ["tidegate", "nginx", "haproxy", "caddy"]);
    assert!(servers("hello").contains(&"mio") && !servers("gateway").contains(&"mio"));
}

#[test]
fn another_tidegate_is_in_a_run_for_which_it_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("tidegate");
    let says = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho {text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    says("tidegate", "tidegate 1.2");
    let with = |path: &Path, scenario: &str| {
        let mut options = options();
        options.finder.given = [("against".to_owned(), path.to_owned())].into();
        options.finder.subject = vec![program.display().to_string()];
        options.finder.python = Some(directory.path().join("run-python"));
        options.peers = Some(["tidegate", "against"].map(str::to_owned).into());
        options.scenarios = vec![scenario.to_owned()];
        plan(options)
    };
    let schedule = with(&program, "hello").unwrap();
    let found: Vec<_> = schedule.found.iter().map(|it| (it.peer.name, &it.version[..])).collect();
    assert_eq!(found, [("tidegate", "tidegate 1.2"), ("against", "tidegate 1.2")]);
    assert_eq!(schedule.steps[0].servers, [0, 1]);
    // Without it there is nothing to compare with.
    let missing = with(Path::new("/nowhere/tidegate"), "hello").unwrap_err().0;
    assert!(missing.starts_with("--against: cannot be run: /nowhere/tidegate"), "{missing}");
    // Applications need an environment with a wheel.
    let why = "--against: for Python applications, give the `tidegate` of an environment";
    let binary = with(&program, "asgi-hello").unwrap_err().0;
    assert!(binary.starts_with(why), "{binary}");
    says("run-python", "tidegate 1.2, uvloop 1, CPython 3");
    says("python", "tidegate 1.1, uvloop 1, CPython 3");
    let mut names = Vec::new();
    for scenario in ["asgi-hello", "wsgi-hello", "asgi-up"] {
        let schedule = with(&program, scenario).unwrap();
        let servers = &schedule.steps[0].servers;
        names.push(servers.iter().map(|&at| schedule.found[at].peer.name).collect::<Vec<_>>());
    }
    assert_eq!(names, vec![vec!["tidegate", "against"]; 3]);
    says("python", "MISSING tidegate");
    let missing = with(&program, "asgi-hello").unwrap_err().0;
    assert!(missing.starts_with("--against: no tidegate in "), "{missing}");
    let unknown = plan(Options { peers: Some(vec!["against".to_owned()]), ..options() });
    assert!(unknown.unwrap_err().0.starts_with("no peer \"against\""));
}

#[test]
fn what_cannot_be_run_is_refused_with_a_sentence() {
    let refused = |change: fn(&mut Options)| {
        let mut options = options();
        change(&mut options);
        plan(options).unwrap_err().0
    };
    let said = refused(|options| options.scenarios = vec!["helo".to_owned()]);
    assert!(said.starts_with("no scenario \"helo\": there are hello, gateway"), "{said}");
    let said = refused(|options| options.peers = Some(vec!["apache".to_owned()]));
    assert!(said.starts_with("no peer \"apache\": there are tidegate, floor"), "{said}");
    let said = refused(|options| options.peers = Some(vec!["mio".to_owned()]));
    assert_eq!(said, "nothing to run: mio: not built: name it to have it built");
    let said = refused(|options| {
        (options.placements, options.workers) = (vec![Placement::Pinned], vec![10_000])
    });
    assert!(said.contains("10000 workers"), "{said}");
    let said = refused(|options| {
        (options.tool, options.scenarios) = (Some(Tool::Wrk), vec!["json".to_owned()]);
    });
    assert_eq!(said, "wrk makes no load for a case without requests");
    let said = refused(|options| {
        (options.tool, options.scenarios) = (Some(Tool::Wrk), vec!["ping".to_owned()]);
    });
    assert_eq!(said, "wrk does not speak RESP");
    let said = refused(|options| {
        (options.tool, options.scenarios) = (Some(Tool::H2load), vec!["hello".to_owned()]);
    });
    assert_eq!(said, "h2load is only used for HTTP/2");
    let said = refused(|options| {
        (options.tool, options.scenarios) = (Some(Tool::Openssl), vec!["tls-hello".to_owned()]);
    });
    assert_eq!(said, "openssl only makes handshakes of TLS");
    let said = refused(|options| {
        (options.tool, options.scenarios) = (Some(Tool::Openssl), vec!["tls-handshake".to_owned()]);
    });
    assert_eq!(said, "openssl makes one connection at a time: --connections 1");
    let said = refused(|options| options.rounds = 0);
    assert!(said.contains("at least one round"), "{said}");
    let said = refused(|options| {
        options.external_target =
            Some(ExternalTarget { url: "http://192.0.2.1/".to_owned(), is_own: false });
    });
    assert!(said.contains("--i-own-this-target"), "{said}");
}

#[test]
fn a_time_is_written_as_people_write_it() {
    assert_eq!(said(Duration::from_millis(1)), "1 s");
    assert_eq!(said(Duration::from_secs(200)), "3 min 20 s");
    assert_eq!(said(Duration::from_secs(2 * 3600 + 61)), "2 h 1 min");
}
