//! Files and directories, each test in its own directory.

use crate::testing::output;

/// Runs a program with its own directory, `dir`.
fn in_directory(program: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().display();
    output(&format!(
        "local silly, fs, dir = require 'silly', require 'tide.fs', '{dir}'\n\
         local task, errno = require 'silly.task', require 'silly.errno'\n\
         {program}\nsilly.exit()"
    ))
}

#[test]
fn whole_files() {
    let program = r#"
        local path = dir .. "/a"
        say(fs.read(path))
        say(fs.write(path, "one\0two"), fs.append(path, "!"))
        say(#fs.read(path), fs.read(path) == "one\0two!", fs.read(path, 3))
        say(fs.write(path, "x"), fs.read(path))
        say(fs.write(path, "atomic", { atomic = true }), fs.read(path), #fs.list(dir))
        say(fs.write(dir .. "/none/a", "x", { atomic = true }))
        say(fs.read(dir))
        say(fs.read("/dev/zero"))
        say(pcall(fs.write, path))
        say(pcall(fs.read, path, -1))
    "#;
    let output = in_directory(program);
    let expected = [
        "nil No such file or directory (2)",
        "true true",
        "8 true nil the file is larger than 3 bytes",
        "true x",
        "true atomic 1",
        "nil No such file or directory (2)",
        "nil Is a directory (21)",
        "nil not a regular file",
    ];
    assert_eq!(output[..8], expected);
    assert!(
        output[8].contains("bad argument #2 to 'write' (string expected, got nil)"),
        "{output:?}"
    );
    assert!(
        output[9].contains("bad argument #2 to 'read' (a number of bytes expected)"),
        "{output:?}"
    );
}

#[test]
fn directories() {
    let program = r#"
        say(fs.mkdir(dir .. "/x/y"))
        say(fs.mkdir(dir .. "/x/y", { parents = true }), fs.mkdir(dir .. "/x"))
        fs.write(dir .. "/x/b", "12345")
        local names = {}
        for _, entry in ipairs(fs.list(dir .. "/x")) do
            table.insert(names, entry.name .. ":" .. entry.type)
        end
        say(table.concat(names, " "))
        local found = fs.stat(dir .. "/x/b")
        say(found.type, found.size, found.mtime > 1e9)
        say(fs.rename(dir .. "/x/b", dir .. "/x/y/c"), fs.stat(dir .. "/x/b"))
        say(fs.remove(dir .. "/x"))
        say(fs.remove(dir .. "/x", { recursive = true }), fs.remove(dir .. "/x"))
        local temp = fs.temp{ dir = dir, prefix = "t-" }
        say(temp:sub(1, #dir + 3) == dir .. "/t-", fs.stat(temp).mode == 384)
        say(fs.stat(fs.temp{ dir = dir, directory = true }).type)
    "#;
    let expected = [
        "nil No such file or directory (2)",
        "true nil File exists (17)",
        "b:file y:directory",
        "file 5 true",
        "true nil No such file or directory (2)",
        "nil Directory not empty (39)",
        "true nil No such file or directory (2)",
        "true true",
        "directory",
    ];
    assert_eq!(in_directory(program), expected);
}

#[test]
fn open_files() {
    let program = r#"
        local path = dir .. "/a"
        do
            local file <close> = fs.open(path, "w")
            say(file:write("hello "), file:write("world"), file:sync())
        end
        local file = fs.open(path)
        say(file:read(5), file:read(100))
        say(file:read(1))
        file:close()
        say(file:read(1))
        say(pcall(fs.open, path, "rw"))
    "#;
    let output = in_directory(program);
    let expected = [
        "true true true",
        "hello  world",
        "nil End of file (10004)",
        "nil Bad file descriptor (9)",
    ];
    assert_eq!(output[..4], expected);
    assert!(output[4].contains("\"r\", \"w\" or \"a\" expected"), "{output:?}");
}

#[test]
fn watches_report_events_of_directories_and_files() {
    let program = r#"
        local watch = fs.watch(dir)
        local one = fs.watch(dir .. "/b")
        say(watch:read(1))
        fs.write(dir .. "/a", "x")
        local kinds = {}
        repeat
            local event = watch:read(60000)
            if event then kinds[event.kind] = event.name end
        until not event or event.kind == "written"
        say(kinds.create, kinds.written)
        fs.write(dir .. "/b", "x", { atomic = true })
        local event = one:read(60000)
        say(event.kind, event.name)
        fs.remove(dir .. "/a")
        repeat
            event = watch:read(60000)
        until not event or event.kind == "remove" and event.name == "a"
        say(event.name)
        task.fork(function() say(pcall(watch.read, watch)) end)
        say(watch:read(20))
        task.fork(function() watch:close() end)
        say(watch:read())
        say(watch:read())
        say(fs.watch(dir .. "/none/a"))
    "#;
    let output = in_directory(program);
    assert_eq!(output[..4], ["nil Connection timed out (110)", "a a", "create b", "a"]);
    assert!(output[4].contains("another task reads from this watch"), "{output:?}");
    let expected = [
        "nil Connection timed out (110)",
        "nil Socket is closed (10003)",
        "nil Socket is closed (10003)",
        "nil No such file or directory (2)",
    ];
    assert_eq!(output[5..], expected);
}
