//! Profiles of Lua programs, read by `go tool pprof`.

use std::process::Command;

use scenarios::{Process, tidegate_binary};
use tempfile::TempDir;

use crate::tools::{GO_FLAGS, command, has, run, skip};

/// Writes a profile of each kind: `hot` uses CPU time, `grow` allocates.
const PROGRAM: &str = r#"
local task, time, profiler = require "silly.task", require "silly.time", require "silly.profiler"
local function hot()
  local sum = 0
  for n = 1, 20000 do sum = sum + n % 7 end
  return sum
end
local function grow()
  local kept = {}
  for n = 1, 16 do kept[n] = ("x"):rep(64 * 1024) .. n end
  return kept
end
task.fork(function()
  while true do
    hot()
    grow()
    time.sleep(0)
  end
end)
--- With enough samples, however busy the machine is.
local function record(kind, name)
  repeat
    local profile = assert(profiler[kind](50, kind == "cpu" and 1000 or nil))
    assert(profiler.write(profile, name))
  until profile:samples() > 2 and profile:folded():find(kind == "cpu" and "hot" or "grow")
end
record("cpu", "cpu.pb.gz")
record("allocations", "allocations.pb.gz")
require "silly".exit()
"#;

#[test]
fn go_reads_the_profiles() {
    if !has("go") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    std::fs::write(directory.path().join("program.lua"), PROGRAM).expect("a file");
    let mut program = Command::new(tidegate_binary());
    let exit = Process::run(program.args(["run", "program.lua"]).current_dir(directory.path()));
    assert_eq!(exit.code, Some(0), "{exit:?}");
    // Go compiles it when it is first used, which takes longer than a command may.
    let pprof = directory.path().join("pprof").display().to_string();
    let mut build = command("go", directory.path());
    build.arg("build").args(GO_FLAGS).args(["-o", &pprof, "cmd/pprof"]);
    if !build.status().is_ok_and(|end| end.success()) {
        return skip("this go cannot build its pprof");
    }
    let raw = |file: &str| run(&pprof, directory.path(), &["-raw", file]).stdout;
    let cpu = raw("cpu.pb.gz");
    // Periods, sample types, samples, then functions with their files and lines.
    assert!(cpu.contains("PeriodType: cpu nanoseconds\nPeriod: 1000000\n"), "{cpu}");
    assert!(cpu.contains("samples/count cpu/nanoseconds"), "{cpu}");
    let mut hot = cpu.lines().filter(|line| line.contains(" hot "));
    assert!(hot.any(|line| line.contains("program.lua:")), "{cpu}");
    let allocations = raw("allocations.pb.gz");
    assert!(allocations.contains("PeriodType: alloc_space bytes"), "{allocations}");
    assert!(allocations.contains(" grow "), "{allocations}");
    let top = run(&pprof, directory.path(), &["-top", "-sample_index=cpu", "cpu.pb.gz"]).stdout;
    let hot = top.lines().find(|line| line.split_whitespace().last() == Some("hot"));
    // Its own time comes first.
    let flat = hot.and_then(|line| line.split_whitespace().next()).unwrap_or_default();
    assert!(flat.ends_with('s') && flat != "0s", "{top}");
}
