//! Tests of files, as `tidegate test` runs and reports them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::{TestCounts, TestRun, run};

/// Runs files in a directory of their own; the counts and what was reported.
fn tested(files: &[(&str, &str)], filter: Option<&str>, ms: u64) -> (TestCounts, String) {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let test_run = TestRun {
        paths: vec![directory.path().to_owned()],
        filter: filter.map(str::to_owned),
        timeout: Duration::from_millis(ms),
        list: false,
        lualib_path: None,
    };
    let mut reported = String::new();
    let counts = run(&test_run, &mut |text| reported.push_str(text)).unwrap();
    (counts, reported.replace(&format!("{}/", directory.path().display()), ""))
}

fn counts(passed: usize, failed: usize, skipped: usize) -> TestCounts {
    TestCounts { passed, failed, skipped }
}

/// The line that names a test, without the time.
fn line<'a>(report: &'a str, name: &str) -> &'a str {
    let line =
        report.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{report}"));
    line.split(" (").next().unwrap()
}

#[test]
fn each_test_has_a_vm_of_its_own_and_its_hooks() {
    let shop = r##"
        local test = require "tide.test"
        local other = require "helper"
        count = (count or 0) + 1
        local log = {}
        before_each(function() table.insert(log, "outer") end)
        describe("a group", function()
            before_each(function() table.insert(log, "inner") end)
            after_each(function() assert(#log == 3) end)
            it("has hooks", function()
                table.insert(log, "test")
                test.equal(table.concat(log, " "), "outer inner test")
                left = true
            end)
            it("sees nothing of the test before", function()
                table.insert(log, "test")
                test.equal(left, nil)
                test.equal(count, 1)
                test.equal(other.value, 7)
            end)
        end)
        function test_plain() assert(#log == 1) end
        it("is skipped", function() test.skip "no database" end)
    "##;
    let (all, report) =
        tested(&[("shop_test.lua", shop), ("helper.lua", "return { value = 7 }")], None, 10_000);
    assert_eq!(all, counts(3, 0, 1), "{report}");
    assert!(report.starts_with("shop_test.lua\n  ok   a group: has hooks ("), "{report}");
    assert_eq!(line(&report, "skip"), "  skip is skipped: no database");
    assert_eq!(line(&report, "plain"), "  ok   test_plain");
}

#[test]
fn a_network_in_memory_ends_with_its_test() {
    let text = r##"
        local test, tcp, errno = require "tide.test", require "silly.net.tcp", require "silly.errno"
        it("listens where nothing can", function()
            test.network()
            assert(tcp.listen("192.0.2.1:80", function(conn) conn:write "hello\n" end))
            test.equal(tcp.connect("192.0.2.1:80"):readline(), "hello\n")
        end)
        it("has the network of the machine", function()
            local listener, why = tcp.listen("192.0.2.1:80", print)
            test.equal(listener, nil)
            test.equal(why, errno.ADDRNOTAVAIL)
        end)
    "##;
    let (all, report) = tested(&[("network_test.lua", text)], None, 10_000);
    assert_eq!(all, counts(2, 0, 0), "{report}");
}

#[test]
fn failures_have_their_place_and_their_traceback() {
    let broken = r##"local test, task = require "tide.test", require "silly.task"
local function inner() test.equal({ 1, { a = "x" } }, { 1, { a = "y" } }, "the table") end
it("differs", function() inner() end)
it("raises", function() error("boom") end)
it("fails in a coroutine", function()
  task.fork(function() error("in a task") end)
  require "silly.time".sleep(1)
end)
it("fails in a hook", function() end)
after_each(function() if last then error("after") end end)
it("exits", function() require "silly".exit(3) end)
describe("hook", function()
  after_each(function() error("in after_each") end)
  it("is blamed", function() end)
end)
it("raises nothing", function() test.raises("boom", function() end) end)
it("a table", function() error { message = "of a table" } end)
"##;
    let (all, report) = tested(&[("broken_test.lua", broken)], None, 10_000);
    assert_eq!(all, counts(1, 7, 0), "{report}");
    for part in [
        "  FAIL differs (",
        "broken_test.lua:2: the table: got { 1, { a = \"x\" } }, expected { 1, { a = \"y\" } }\n",
        "         they differ at [2].a: \"x\", expected \"y\"\n         stack traceback:\n",
        "broken_test.lua:2: in upvalue 'inner'\n",
        "broken_test.lua:4: boom\n",
        "a coroutine failed: broken_test.lua:6: in a task\n",
        "the test called silly.exit(3)",
        "in after_each",
        "an error that matches \"boom\" was expected, and none was raised",
        "an error that is a table: of a table",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(!report.contains("test_runner.lua"), "{report}");
}

#[test]
fn a_test_that_does_not_end_is_ended() {
    let slow = r##"
        it("waits for ever", function()
            require "silly.task".wait()
        end)
        it("never waits", function() pcall(function() while true do end end) end)
        it("has its own time", function() require "silly.time".sleep(60000) end, { timeout = 20 })
    "##;
    let (all, report) = tested(&[("slow_test.lua", slow)], None, 100);
    assert_eq!(all, counts(0, 3, 0), "{report}");
    assert!(report.contains("no end after 100 ms; the test waits here\n"), "{report}");
    assert!(report.contains("slow_test.lua:3: in"), "{report}");
    assert!(report.contains("the turn has used up its instructions"), "{report}");
    assert!(report.contains("no end after 20 ms"), "{report}");
    assert!(!report.contains("test_runner.lua"), "{report}");
}

#[test]
fn files_are_found_filtered_and_checked() {
    let files = [
        ("a_test.lua", "it('one', function() end) it('two', function() end)"),
        ("deep/er/b_test.lua", "it('three', function() end)"),
        ("c_test.lua", "local x = = 1"),
        ("d_test.lua", "error('while it loads')"),
        ("no.lua", "error('not loaded')"),
        (".hidden/e_test.lua", "it('hidden', function() end)"),
    ];
    let (all, report) = tested(&files, None, 10_000);
    assert_eq!(all, counts(3, 2, 0), "{report}");
    assert!(report.contains("c_test.lua\n  FAIL the file cannot be loaded\n"), "{report}");
    assert!(report.contains("unexpected symbol") && report.contains("while it loads"), "{report}");
    let (all, report) = tested(&files[..2], Some("b_test.lua three"), 10_000);
    assert_eq!(all, counts(1, 0, 0), "{report}");
    let refused = |paths: &[&str], filter: Option<&str>| {
        let paths = paths.iter().map(PathBuf::from).collect();
        let filter = filter.map(str::to_owned);
        let timeout = Duration::from_secs(1);
        let test_run = TestRun { paths, filter, timeout, list: false, lualib_path: None };
        run(&test_run, &mut |_| {}).unwrap_err()
    };
    assert!(refused(&["/nowhere"], None).starts_with("cannot read /nowhere: "));
    let empty = TempDir::new().unwrap();
    let path = empty.path().to_str().unwrap();
    assert!(refused(&[path], None).contains("no file that ends in _test.lua"));
    fs::write(empty.path().join("f_test.lua"), "it('f', function() end)").unwrap();
    assert!(refused(&[path], Some("no such")).contains("no test has \"no such\""));
    fs::write(empty.path().join("f_test.lua"), "").unwrap();
    assert!(refused(&[path], None).contains("declare no tests"));
}
