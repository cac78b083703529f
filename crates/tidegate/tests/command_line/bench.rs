//! `tidegate bench`: a small run, what it writes, and what `compare` says about it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Ended, TIMEOUT, run, run_in, tidegate};

/// As short as it can be with enough rounds to compare, also while other tests use the processors.
/// A debug binary gives no figures: that it measures is what is tested.
const RUN: [&str; 16] = [
    "bench",
    "hello",
    "--placement",
    "unpinned",
    "--peers",
    "nginx",
    "--seconds",
    "0.1",
    "--rounds",
    "4",
    "--connections",
    "4",
    "--slack",
    "60",
    "--out",
    "first",
];

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The run with every figure of our rounds times `factor`, in another file.
fn changed(directory: &Path, data: &Value, name: &str, factor: f64) -> PathBuf {
    let mut data = data.clone();
    for record in data["records"].as_array_mut().unwrap() {
        if record["server"] != "tidegate" {
            continue;
        }
        for (at, round) in record["rounds"].as_array_mut().unwrap().iter_mut().enumerate() {
            // Rounds of their own, so that what is compared does not hang on this machine.
            let figure = (10.0 + at as f64 / 100.0) * factor;
            round["cpu_us_per_request"] = figure.into();
            round["disturbed"] = serde_json::Value::Null;
        }
    }
    let path = directory.join(name);
    std::fs::write(&path, data.to_string()).unwrap();
    path
}

fn compare(before: &Path, after: &Path, more: &[&str]) -> Ended {
    let files = [before.to_str().unwrap(), after.to_str().unwrap()];
    run(&[&["bench", "compare"], &files[..], more].concat())
}

#[test]
fn a_run_writes_its_figures_and_two_are_compared() {
    let directory = TempDir::new().unwrap();
    let ended = run_in(directory.path(), &RUN);
    let printed = ended.printed();
    assert!(printed.contains("µs CPU") && printed.contains("first/report.html"), "{printed}");

    let page = std::fs::read_to_string(directory.path().join("first/report.html")).unwrap();
    assert!(page.contains("<section id=\"hello\">") && page.ends_with("</html>\n"));
    let data = read(&directory.path().join("first/data.json"));
    assert_eq!((&data["version"], &data["complete"]), (&1.into(), &true.into()));
    for server in ["tidegate", "floor"] {
        let records = data["records"].as_array().unwrap();
        let record = records.iter().find(|record| record["server"] == server).unwrap();
        assert_eq!(record["errors"], 0, "{record}");
        assert!(record["cpu_us_per_request"].as_f64().unwrap() > 0.1, "{record}");
        assert_eq!(record["rounds"].as_array().unwrap().len(), 4, "{record}");
    }

    let file = |name: &str, factor: f64| changed(directory.path(), &data, name, factor);
    let (before, dearer) = (file("before.json", 1.0), file("dearer.json", 1.10));
    let printed = compare(&before, &before, &[]).printed();
    assert!(printed.contains("The change is not real"), "{printed}");
    let ended = compare(&before, &dearer, &[]);
    assert!(ended.stdout.contains("BEYOND THE BOUND"), "{}", ended.stdout);
    assert_eq!(ended.failed(1), "error: tidegate became worse, beyond the bound\n");
    let printed = compare(&before, &dearer, &["--bound", "20%"]).printed();
    assert!(printed.contains("The change is real: 1 of 1 became dearer, 0 beyond"), "{printed}");
    assert!(compare(&dearer, &before, &["--bound", "0"]).printed().contains("became cheaper"));

    // Nothing is concluded from few rounds, nor from disturbed ones.
    for change in ["few", "disturbed"] {
        let mut doubtful = read(&dearer);
        for record in doubtful["records"].as_array_mut().unwrap() {
            assert!(record.as_object().unwrap().contains_key("no_verdict"), "{record}");
            let rounds = record["rounds"].as_array_mut().unwrap();
            match change {
                "few" => rounds.truncate(3),
                _ => rounds[0]["disturbed"] = "steal of 4 %".into(),
            }
        }
        std::fs::write(&dearer, doubtful.to_string()).unwrap();
        let printed = compare(&before, &dearer, &[]).printed();
        assert!(printed.contains("no verdict") && !printed.contains("BEYOND"), "{printed}");
        let report = ["bench", "report", "dearer.json", "--out", change];
        let printed = run_in(directory.path(), &report).printed();
        let page =
            std::fs::read_to_string(directory.path().join(change).join("report.html")).unwrap();
        assert!(page.contains("No verdict from"), "{printed}");
    }
}

#[test]
fn a_page_is_made_of_a_run_and_keeps_what_people_wrote() {
    let directory = TempDir::new().unwrap();
    let mut words = RUN.to_vec();
    words.extend(["--page", "page.md"]);
    run_in(directory.path(), &words).printed();
    let path = directory.path().join("page.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mark = "Nothing has been written about this run yet.";
    std::fs::write(&path, page.replace(mark, "Because.")).unwrap();
    let again = ["bench", "report", "first/data.json", "--out", "again", "--page", "page.md"];
    run_in(directory.path(), &again).printed();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page.replace(mark, "Because."));
    assert!(directory.path().join("again/report.html").exists());
}

/// Processes that run in a directory below this one.
fn running_below(directory: &Path) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let below = |id: &u32| {
        let at = std::fs::read_link(format!("/proc/{id}/cwd")).unwrap_or_default();
        at.starts_with(directory) && at != directory
    };
    ids.filter(below).collect()
}

#[test]
fn ctrl_c_writes_what_there_is_and_leaves_no_process() {
    let directory = TempDir::new().unwrap();
    let words = ["bench", "hello", "--peers", "nginx", "--seconds", "2", "--rounds", "50"];
    let mut child = tidegate(directory.path(), &words)
        .args(["--connections", "4", "--out", "out"])
        .env("TMPDIR", directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while running_below(directory.path()).is_empty() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "no servers");
        std::thread::yield_now();
    }
    let interrupted = Instant::now();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    // A run of its length would have taken minutes.
    assert!(interrupted.elapsed() < TIMEOUT, "{:?}", interrupted.elapsed());
    assert!(running_below(directory.path()).is_empty());
    assert_eq!(read(&directory.path().join("out/data.json"))["complete"], false);
    let page = std::fs::read_to_string(directory.path().join("out/report.html")).unwrap();
    assert!(page.contains("The run was stopped early"));
    let left = std::fs::read_dir(directory.path()).unwrap().flatten();
    assert_eq!(left.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["out"]);
}

#[test]
fn configurations_are_shown_with_the_pages_that_advise_them() {
    let printed = run(&["bench", "--print-config", "nginx"]).printed();
    assert!(printed.contains("keepalive") && printed.contains("https://nginx.org/"), "{printed}");
}

#[test]
fn what_cannot_be_measured_is_one_sentence() {
    let why = run(&["bench", "hallo"]).failed(2);
    assert!(why.contains("hello"), "{why}");
    let why = run(&["bench", "--target", "http://192.0.2.1/"]).failed(2);
    assert!(why.contains("--i-own-this-target"), "{why}");
    let why = run(&["bench", "compare", "/nowhere/a.json", "/nowhere/b.json"]).failed(2);
    assert!(why.starts_with("error: /nowhere/a.json: "), "{why}");
    let why = run(&["bench", "hello", "--tool", "redis-benchmark"]).failed(2);
    assert!(why.contains("does not speak HTTP"), "{why}");
    assert!(run(&["bench", "--rounds", "0"]).failed(2).contains("at least one round"));
}
