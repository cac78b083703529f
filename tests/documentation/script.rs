//! The steps of a page as one shell script, in a network namespace of its own.

use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use scenarios::{Process, tidegate_binary};

use crate::page::{self, Mode, Step};
use crate::parts;

/// What the steps of a script use. Standard output is the report of a failure.
const PRELUDE: &str = r#"
set -u
ip link set lo up
# What a page writes into /etc and /run stays in the test.
cp -a /etc "$TOOLS" 2> /dev/null
mount --bind "$TOOLS/etc" /etc && mount -t tmpfs tmpfs /run || exit
servers=0
trap 'stop; exit $code' EXIT
code=1
fail() { echo "$here: $1"; shift; [ $# = 0 ] || printf '%s\n' "$@"; exit 1; }
# A server runs in the background until it is stopped; the next step waits until it accepts, and
# until each application has a process: a request waits 10 s for one, which can be too short here.
serve() {
  local log=.logs/$((servers += 1)) app file=${1##* }
  bash -c "exec $1" > "$log" 2>&1 < /dev/null &
  await "$!" "$log" 'listening name=|listens on|start here'
  [[ "$1" == "tidegate up"* ]] || return 0
  [ -f "$file" ] || file=tidegate.yaml
  for app in $(sed -n '/^apps:/,/^[^ ]/s/^  \([a-z]*\):.*/\1/p' "$file" 2> /dev/null); do
    await "$!" "$log" "a worker process is ready app=$app "
  done
}
# Waits until the log of a process has a line like the pattern.
await() {
  for _ in $(seq 1200); do
    if grep -qE "$3" "$2"; then return; fi
    kill -0 "$1" 2> /dev/null || fail "a server ended" "$(cat "$2")"
    sleep 0.05
  done
  fail "a server's log has no line with $3" "$(cat "$2")"
}
stop() {
  local pids=$(jobs -p)
  [ -z "$pids" ] || kill -9 $pids
  wait 2> /dev/null
}
# The server of an example, in place of that of the example before.
example=
example() {
  [ -z "$example" ] || { kill -9 "$example" && wait "$example"; } 2> /dev/null
  serve "tidegate up $1"
  example=$!
}
run() {
  local printed
  printed=$(eval "$1" 2>&1) || fail "$1: exit code $?" "$printed"
}
# The second argument is a pattern. Lines of a response's head end with a carriage return.
compare() {
  local printed
  printed=$(eval "$1" 2>&1)
  [ $? -le 2 ] || fail "$1 failed" "$printed"
  printed=${printed//$'\r'/}
  [[ "$printed" == $2 ]] || fail "$1 prints something else" "expected:" "$2" "printed:" "$printed"
}
# Wrong usage ends with 2, at once. What an earlier command had no time for may be missing.
usage() {
  local printed code=0
  printed=$(eval "timeout 3 $1" 2>&1) || code=$?
  [[ "$printed" != *"No such file"* && "$printed" != *"in common"* ]] || return 0
  [ $code != 2 ] && [ $code != 127 ] || fail "$1 is wrong usage" "$printed"
}
check() {
  local printed
  printed=$(tidegate check "$1" 2>&1) || fail "$1 does not pass check" "$printed" "$(cat "$1")"
}
"#;

/// Runs a page; panics with the step that failed.
pub(crate) fn run(path: &str) {
    run_with(path, &tidegate_binary());
}

/// [`run`] with a binary.
pub(crate) fn run_with(path: &str, binary: &Path) {
    if !has_namespaces() {
        eprintln!("documentation: skipped {path}: this machine grants no network namespace");
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    // The programs of the page, and what the test itself writes, are out of the reader's sight.
    let tools = tempfile::tempdir().expect("a temporary directory");
    symlink(binary, tools.path().join("tidegate")).expect("a link to the binary");
    std::fs::create_dir(tools.path().join("logs")).expect("a directory for logs");
    symlink(tools.path().join("logs"), directory.path().join(".logs")).expect("a link");
    // As in a terminal, where curl reports no progress while it prints a response.
    std::fs::write(tools.path().join(".curlrc"), "no-progress-meter\n").expect("settings of curl");
    let script = tools.path().join("script");
    std::fs::write(&script, script_of(path, &page::read(path))).expect("a script");
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount-proc", "--net", "--pid", "--fork"]);
    command.args(["--kill-child", "bash"]).arg(&script).current_dir(directory.path());
    let programs = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{programs}:/usr/sbin:/sbin", tools.path().display()))
        .env("HOME", directory.path())
        .env("XDG_STATE_HOME", directory.path().join(".local/state"))
        .env("XDG_RUNTIME_DIR", tools.path().join("logs"))
        .env("TMPDIR", tools.path())
        .env("TOOLS", tools.path())
        .env("CURL_HOME", tools.path())
        .env("REPOSITORY", crate::workspace())
        .env_remove("TIDEGATE_ADMIN")
        .env_remove("TIDEGATE_TOKEN");
    let ended = Process::start(&mut command).wait_within(std::time::Duration::from_secs(170));
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
}

fn has_namespaces() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--pid", "--fork", "ip", "link", "set", "lo", "up"]);
    command.output().is_ok_and(|output| output.status.success())
}

fn script_of(path: &str, steps: &[Step]) -> String {
    let mut script = PRELUDE.to_owned();
    // Configurations stand before the programs they name.
    for step in steps {
        if let Step::Block { language, file: Some(name), text, .. } = step
            && language != "yaml"
        {
            script.push_str(&write_file(name, text));
        }
    }
    for step in steps {
        match step {
            Step::Stop => script.push_str("stop\n"),
            Step::Run { line, text } => {
                let _ = write!(script, "here={path}:{line}\n{}", commands(text, "run"));
            }
            Step::Block { mode: Mode::Skipped, .. } => {}
            Step::Block { line, language, file, mode, text } => {
                let _ = writeln!(script, "here={path}:{line}");
                script.push_str(&block(language, file.as_deref(), mode, text));
            }
        }
    }
    script + "code=0\n"
}

fn block(language: &str, file: Option<&str>, mode: &Mode, text: &str) -> String {
    match (language, file) {
        ("sh", _) if *mode == Mode::Usage => commands(text, "usage"),
        ("sh", _) if *mode == Mode::Alternatives => {
            commands(text, "run").replace("\nserve", "\nstop\nserve") + "stop\n"
        }
        ("sh", _) => commands(text, "run"),
        ("console", _) => session(text, mode),
        ("yaml", _) if *mode == Mode::Example => {
            let name = file.unwrap_or("tidegate.yaml");
            write_file(name, &parts::example(text)) + &format!("example {name}\n")
        }
        ("yaml", None) if parts::is_whole(text) => write_file("part.yaml", text) + CHECK_PART,
        ("yaml", None) => write_file("part.yaml", &parts::placed(text)) + CHECK_PART,
        ("yaml", Some(name)) if parts::is_whole(text) => {
            write_file(name, text) + &format!("check {name}\n")
        }
        ("yaml", Some(name)) => write_file(name, text),
        _ => String::new(),
    }
}

const CHECK_PART: &str = "check part.yaml\nrm part.yaml\n";

fn write_file(name: &str, text: &str) -> String {
    format!("mkdir -p \"$(dirname {name})\"\ncat > {name} << 'END OF FILE'\n{text}END OF FILE\n")
}

/// The commands of a block, each run by a function of the prelude; servers in the background.
fn commands(text: &str, function: &str) -> String {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(without_comment).filter(|line| !line.is_empty());
    let call = |line: &str| match line.trim_end_matches('&').trim_end() {
        server if function == "run" && is_server(server) => format!("serve {}\n", quoted(server)),
        command if command.starts_with("cd ") || command.contains("export ") => {
            format!("{command}\n")
        }
        _ if function == "usage" && !line.starts_with("tidegate ") => String::new(),
        command => format!("{function} {}\n", quoted(command)),
    };
    lines.map(call).collect()
}

/// `# …` after two spaces, or a line of its own, is for the reader.
fn without_comment(line: &str) -> &str {
    let code = line.split("  #").next().unwrap_or_default();
    if code.starts_with('#') { "" } else { code.trim() }
}

fn is_server(command: &str) -> bool {
    let words: Vec<_> = command.split_whitespace().collect();
    let serves = ["up", "proxy", "files", "run", "demo"];
    matches!(words[..], ["tidegate", verb, ..] if serves.contains(&verb))
        && !words.contains(&"--print-config")
}

/// A session of a terminal: commands after `$`, and what each prints.
fn session(text: &str, mode: &Mode) -> String {
    let mut script = String::new();
    let joined = text.replace("\\\n", " ");
    for part in format!("\n{joined}").split("\n$ ").skip(1) {
        let (command, printed) = part.split_once('\n').unwrap_or((part, ""));
        let fails = printed.starts_with("error:");
        if (is_server(command) && !fails) || *mode == Mode::AnyOutput {
            script.push_str(&commands(command, "run"));
        } else {
            let expected = quoted(&pattern(printed.trim_end()));
            script.push_str(&format!("compare {} {expected}\n", quoted(command)));
        }
    }
    script
}

/// A pattern of the shell: `…` stands for anything, all else for itself.
fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if matches!(letter, '\\' | '*' | '?' | '[' | ']' | '(') {
            pattern.push('\\');
        }
        pattern.push(if letter == '…' { '*' } else { letter });
    }
    pattern
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn expected_output_is_a_pattern_with_one_wildcard() {
    let script = session("$ a 'b' \\\n-c\n[1] (x) …\n$ d\n", &Mode::Checked);
    assert_eq!(
        script,
        r"compare 'a '\''b'\''  -c' '\[1\] \(x) *'".to_owned() + "\ncompare 'd' ''\n"
    );
}
