//! PostgreSQL: what `store.postgres` of our Lua programs says to a real server.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use crate::tools::{command, has, skip};
use scenarios::{Authority, Process, free_port, temporary_directory, tidegate_binary};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server with a directory of its own: `postgres` by its socket, others with a password by TCP.
struct Server {
    process: Process,
    port: u16,
}

const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
max_connections = 20
fsync = off
ssl = on
ssl_cert_file = 'cert.pem'
ssl_key_file = 'key.pem'
";

/// The users that may connect, and how each proves the password.
const ACCESS: &str = "
local all all trust
hostssl all all 127.0.0.1/32 scram-sha-256
host all old 127.0.0.1/32 md5
host all plain 127.0.0.1/32 password
host all all 127.0.0.1/32 scram-sha-256
";

const USERS: &[&str] = &[
    "create user ann password 'pencil'",
    "create user plain password 'pencil'",
    "set password_encryption = 'md5'; create user old password 'pencil'",
    "create database test owner ann",
];

impl Server {
    /// Makes the files of a server. It does not run as root: then they belong to its own user.
    fn install(directory: &Path) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("our directory");
        let data = directory.join("data");
        fs::create_dir(&data).expect("a writable directory");
        own(&data);
        let binary = binary("initdb").expect("it was found before");
        let options = "--username=postgres --auth=trust --no-sync --encoding=UTF8 --locale=C";
        as_user(directory, &format!("{} -D {} {options}", binary.display(), data.display()));
        let authority = Authority::new();
        let issued = authority.issue(&["db.test"]);
        fs::write(directory.join("ca.pem"), authority.pem()).expect("a writable directory");
        let settings = format!("{SETTINGS}unix_socket_directories = '{}'\n", data.display());
        for (name, text) in [
            ("postgresql.conf", settings.as_str()),
            ("pg_hba.conf", ACCESS),
            ("cert.pem", &issued.chain),
            ("key.pem", &issued.key),
        ] {
            let path = data.join(name);
            fs::write(&path, text).expect("a writable directory");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our file");
            own(&path);
        }
    }

    fn start(directory: &Path, port: u16) -> Server {
        let data = directory.join("data");
        let binary = binary("postgres").expect("it was found before");
        let text = format!("exec {} -D {} -p {port}", binary.display(), data.display());
        let process = Process::start(&mut user_command(directory, &text));
        let socket = data.join(format!(".s.PGSQL.{port}"));
        scenarios::eventually("PostgreSQL responds", || {
            UnixStream::connect(&socket).is_ok()
                && psql(directory, port, "postgres", "select 1").is_some()
        });
        Server { process, port }
    }

    fn kill(self, directory: &Path) {
        self.process.signal("QUIT");
        self.process.wait();
        // What an immediate shutdown leaves.
        let _ = fs::remove_file(directory.join("data/postmaster.pid"));
    }
}

/// A program of the server, which Debian has in no directory of PATH.
fn binary(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions
        .map(|version| version.path().join("bin").join(name))
        .filter(|it| it.exists())
        .collect();
    found.sort();
    found.pop()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// The user that PostgreSQL's package makes.
fn postgres_user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.starts_with("postgres:"))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn own(path: &Path) {
    if let Some((user, group)) = postgres_user().filter(|_| is_root()) {
        chown(path, Some(user), Some(group)).expect("root may do this");
    }
}

/// A command of the shell, as a user that may run the server.
fn user_command(directory: &Path, text: &str) -> Command {
    let mut shell;
    match postgres_user().filter(|_| is_root()) {
        Some((user, group)) => {
            shell = command("setpriv", directory);
            shell.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
            shell.args(["--clear-groups", "sh", "-c", text]);
        }
        None => {
            shell = command("sh", directory);
            shell.args(["-c", text]);
        }
    }
    shell
}

fn as_user(directory: &Path, text: &str) {
    let output = user_command(directory, text).output().expect("the command starts");
    assert!(output.status.success(), "{text}: {output:?}");
}

/// What `psql` prints; `None` if it fails.
fn psql(directory: &Path, port: u16, database: &str, sql: &str) -> Option<String> {
    let socket = directory.join("data");
    let mut psql = command("psql", directory);
    psql.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database]);
    psql.arg("-h").arg(&socket).arg("-p").arg(port.to_string()).arg("-c").arg(sql);
    let output = psql.output().expect("psql starts");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Starts a program that is told the directory and the address of the server.
fn program(directory: &Path, server: &Server, text: &str) -> Process {
    let file = directory.join("program.lua");
    fs::write(&file, format!("{HEAD}{text}\nsilly.exit(0)")).expect("a writable directory");
    let mut command = Command::new(tidegate_binary());
    command.arg("run").arg(file).arg(format!("--pgport={}", server.port));
    Process::start(command.arg(format!("--directory={}", directory.display())))
}

fn ends_well(process: Process) {
    let exit = process.wait();
    assert_eq!(exit.code, Some(0), "{exit:?}");
}

const HEAD: &str = r##"
local silly, task, time = require "silly", require "silly.task", require "silly.time"
local postgres, env = require "silly.store.postgres", require "silly.env"
local directory, port = env.get("directory"), env.get("pgport")
local addr = "127.0.0.1:" .. port
local function check(ok, err)
  if not ok then
    io.stderr:write(debug.traceback(type(err) == "table" and err.message or tostring(err)), "\n")
    os.exit(1)
  end
  return ok
end
local function same(got, expected)
  check(got == expected, ("got %s, expected %s"):format(got, expected))
end
local function open(more)
  local options = { addr = addr, user = "ann", password = "pencil", database = "test" }
  for name, value in pairs(more or {}) do options[name] = value end
  return postgres.open(options)
end
local function fails(result, err)
  check(result == nil and err.type == "ERR", "an error expected")
  return err
end
local function exists(name)
  local file <close> = io.open(directory .. "/" .. name)
  return file ~= nil
end
"##;

#[test]
fn queries_types_and_transactions() {
    if !has("psql") {
        return;
    }
    if binary("initdb").is_none() || (is_root() && postgres_user().is_none()) {
        skip("PostgreSQL's server is not installed");
        return;
    }
    let directory = temporary_directory();
    let directory = directory.path();
    Server::install(directory);
    let server = Server::start(directory, free_port());
    for sql in USERS {
        psql(directory, server.port, "postgres", sql).expect("a user");
    }
    ends_well(program(directory, &server, TYPES));
    ends_well(program(directory, &server, STATEMENTS));
    ends_well(program(directory, &server, CONNECTIONS));
    ends_well(program(directory, &server, LOGINS));
    restarts(directory, server);
}

const TYPES: &str = r##"
local db = open()
same(check(db:ping()).type, "OK")
check(db:query [[create table all_types (id serial primary key, s smallint, i int, b bigint,
  f real, d double precision, n numeric(20, 5), t boolean, c char(3), v varchar(20), tx text,
  by bytea, da date, ti time, ts timestamp, tz timestamptz, iv interval, u uuid, ip inet, j json,
  jb jsonb, ai int[], at text[], ab bytea[], ad double precision[], nothing int)]])
local bytes = "a\0b\xff"
local places = {}
for at = 1, 25 do places[at] = "$" .. at end
local ok = check(db:query("insert into all_types (s, i, b, f, d, n, t, c, v, tx, by, da, ti, ts,"
  .. " tz, iv, u, ip, j, jb, ai, at, ab, ad, nothing) values (" .. table.concat(places, ",") .. ")",
  -32768, -2147483648, math.mininteger, 0.5, 1e300, "-123456789012345.12345", true, "abc", "häß",
  "it's", bytes, "2024-02-29", "01:02:03.000004", "2024-02-29 23:59:58.5",
  "2024-02-29 23:59:58+00", "1 day 02:00:00", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
  "10.0.0.1/8", { a = { 1, 2 } }, '{"b": null}',
  { 1, nil, 3, n = 3 }, { 'q"\\', "", "NULL", "a,b" }, { bytes, "" }, { 1.5, 1 / 0 }, nil))
same(ok.type, "OK") same(ok.command, "INSERT") same(ok.affected_rows, 1)
check(db:query "set time zone 'UTC'")
local row = check(db:query "select * from all_types")[1]
local expected = { id = 1, s = -32768, i = -2147483648, b = math.mininteger, f = 0.5, d = 1e300,
  n = "-123456789012345.12345", t = true, c = "abc", v = "häß", tx = "it's", by = bytes,
  da = "2024-02-29", ti = "01:02:03.000004", ts = "2024-02-29 23:59:58.5",
  tz = "2024-02-29 23:59:58+00", iv = "1 day 02:00:00", ip = "10.0.0.1/8",
  u = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", j = '{"a":[1,2]}', jb = '{"b": null}' }
for name, value in pairs(expected) do
  check(row[name] == value, ("%s: got %s, expected %s"):format(name, row[name], value))
end
same(row.ai.n, 3) same(row.ai[1], 1) same(row.ai[2], nil) same(row.ai[3], 3)
same(table.concat(row.at, "|"), 'q"\\||NULL|a,b')
same(row.ab[1], bytes) same(row.ab[2], "") same(row.ad[2], 1 / 0)
for name in pairs(row) do check(expected[name] ~= nil or row[name].n, name) end
local sql = "select array[[1, 2], [3, 4]] as m, '{}'::int[] as e, 'nan'::float8 as n, $1::text as t"
row = check(db:query(sql, "\u{1F600}"))[1]
same(row.m[2][1], 3) same(row.e.n, 0) check(row.n ~= row.n) same(row.t, "\u{1F600}")
row = check(db:query("insert into all_types (i) values ($1), ($2) returning id, i", 1.0, 7))
same(#row, 2) same(row[2].i, 7)
same(#check(db:query "select 1 from all_types where id = 77"), 0)
-- Long values in both directions, and many rows.
local long = ("0123456789abcdef"):rep(1 << 20) .. "end"
same(check(db:query("select $1::text as big", long))[1].big, long)
local rows = check(db:query "select n from generate_series(1, 20000) as n")
same(#rows, 20000) same(rows[20000].n, 20000)
db:close()
"##;

const STATEMENTS: &str = r##"
local db = open { max_open_conns = 2 }
local err = fails(db:query "select nonsense")
same(err.sqlstate, "42703") same(err.severity, "ERROR") same(err.position, "8")
check(err.message:find "nonsense")
check(not pcall(db.query, db, "select $1::int"))
check(not pcall(db.query, db, "select $1::int", print))
same(fails(db:query("select $1::int", "x")).sqlstate, "22P02")
-- No value changes a statement, and one text is one statement.
local hostile = "'; drop table accounts; --"
same(check(db:query("select $1::text as t", hostile))[1].t, hostile)
same(fails(db:query "select 1; select 2").sqlstate, "42601")
check(db:query "create table accounts (id int primary key, balance int)")
same(check(db:query "insert into accounts values (1, 100), (2, 0)").affected_rows, 2)
local function balance(on, id)
  return check((on or db):query("select balance from accounts where id = $1", id))[1].balance
end
do
  local tx <close> = check(db:begin())
  check(tx:query("update accounts set balance = balance - $1 where id = $2", 10, 1))
  same(balance(tx, 1), 90) same(balance(nil, 1), 100)
  check(tx:ping())
  check(tx:commit())
  same(fails(tx:commit()).message, "not in transaction")
end
same(balance(nil, 1), 90)
do
  local tx <close> = check(db:begin())
  check(tx:query "update accounts set balance = 0 where id = 1")
end
same(balance(nil, 1), 90)
local tx = check(db:begin())
check(tx:query "update accounts set balance = 0 where id = 1")
check(tx:rollback())
tx:close()
fails(tx:query "select 1")
same(balance(nil, 1), 90)
-- A failed statement fails the transaction; what the server rolls back is not a commit.
tx = check(db:begin())
err = fails(tx:query "insert into accounts values (1, 1)")
same(err.sqlstate, "23505") same(err.constraint, "accounts_pkey")
check(err.detail:find "already exists")
same(fails(tx:query "select 1").sqlstate, "25P02")
check(fails(tx:commit()).message:find "was rolled back")
tx:close()
same(db:stat().opened, 2)
-- The columns of a prepared statement change.
local single = open { max_open_conns = 1 }
check(single:query "create table wide (a int)")
check(single:query "insert into wide values (1)")
same(check(single:query "select * from wide")[1].a, 1)
check(single:query "alter table wide add b int default 2")
same(check(single:query "select * from wide")[1].b, 2)
check(single:query "deallocate all")
same(check(single:query "select * from wide")[1].b, 2)
same(fails(single:query "copy wide to stdout").message, "postgres: copy is not supported")
same(check(single:query "select * from wide")[1].b, 2)
-- More coroutines than connections, and more statements than are kept prepared.
local group, wrong = require "silly.sync.waitgroup".new(), 0
for at = 1, 600 do
  group:fork(function()
    local rows = db:query("select " .. at .. " as a, $1::int as b", at)
    if not rows or rows[1].a ~= at or rows[1].b ~= at then wrong = wrong + 1 end
  end)
end
group:wait()
same(wrong, 0) same(db:stat().opened, 2)
tx = check(db:begin())
local kept = check(tx:query "select count(*) as n from pg_prepared_statements")[1].n
check(kept <= 257, "statements are released: " .. kept)
tx:close()
"##;

const CONNECTIONS: &str = r##"
local db = open()
-- A statement that takes too long ends its connection, and is cancelled on the server.
-- Long enough to be executed when it is cancelled: a cancel that comes earlier has no effect.
local impatient = open { timeout = 1000, application_name = "impatient" }
local late
-- On a busy machine a connection may not be made in this time either.
repeat late = fails(impatient:query "select pg_sleep(100)")
until late.message == "postgres: no response in time" and late.lost
same(impatient:stat().open, 0)
local running = "select 1 from pg_stat_activity where application_name = $1"
repeat time.sleep(1) until #check(db:query(running, "impatient")) == 0
-- A connection that the server has ended is replaced.
local single = open { max_open_conns = 1 }
local function pid() return check(single:query "select pg_backend_pid() as id")[1].id end
local id = pid()
same(pid(), id)
local owner = open { addr = "unix:" .. directory .. "/data/.s.PGSQL." .. port, user = "postgres" }
check(check(owner:query("select pg_terminate_backend($1) as t", id))[1].t)
local alive = "select 1 from pg_stat_activity where pid = $1"
repeat time.sleep(1) until #check(db:query(alive, id)) == 0
local row, err = single:query "select 4 as d"
if not row then
  check(err.lost, err.message)
  row = check(single:query "select 4 as d")
end
same(row[1].d, 4)
check(pid() ~= id)
-- A statement that the server cancels leaves its connection of use.
local co_err
task.fork(function() co_err = fails(single:query "select pg_sleep(100)") end)
-- It is active while it is prepared, too: what is cancelled then is executed nevertheless.
local blocked = "select pid from pg_stat_activity where wait_event = 'PgSleep'"
  .. " and query = 'select pg_sleep(100)'"
local found
repeat
  time.sleep(1)
  found = check(owner:query(blocked))[1]
until found
check(owner:query("select pg_cancel_backend($1)", found.pid))
while not co_err do time.sleep(1) end
same(co_err.sqlstate, "57014")
same(pid(), found.pid)
-- Notifications.
local news <close> = check(db:listen("news", 'a "quoted" name'))
check(db:query("select pg_notify('news', $1)", "hello"))
local got = check(news:read(60000))
same(got.channel, "news") same(got.payload, "hello") check(got.pid > 0)
check(db:query [[notify "a ""quoted"" name"]])
same(check(news:read(60000)).channel, 'a "quoted" name')
check(news:unlisten "news")
check(news:listen "more")
check(db:query "notify news")
check(db:query "notify more, 'x'")
same(check(news:read(60000)).payload, "x")
same(select(2, news:read(1)), require "silly.errno".TIMEDOUT)
check(check(owner:query("select pg_terminate_backend(pid) as t from pg_stat_activity"
  .. " where query like 'LISTEN%'"))[1].t)
local none, why = news:read(60000)
same(none, nil) check(why:find "terminating connection", why)
"##;

const LOGINS: &str = r##"
local file <close> = io.open(directory .. "/ca.pem")
local ca = file:read "a"
local denied = fails(open { password = "wrong" }:ping())
same(denied.sqlstate, "28P01")
check(not denied.message:find "wrong")
same(fails(open { database = "missing" }:ping()).sqlstate, "3D000")
same(fails(open { user = "missing" }:ping()).sqlstate, "28P01")
check(open { user = "old" }:ping())
same(fails(open { user = "old", password = "wrong" }:ping()).sqlstate, "28P01")
check(fails(open { user = "plain" }:ping()).message:find "in the clear, which needs tls")
check(open { user = "plain", tls = { insecure = true } }:ping())
local function encrypted(options)
  local sql = "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()"
  local rows, err = open(options):query(sql)
  return rows and rows[1].ssl, err
end
same(encrypted(), false)
same(check(encrypted { tls = { ca = ca, hostname = "db.test" } }), true)
same(check(encrypted { tls = { insecure = true } }), true)
local _, err = encrypted { tls = { ca = ca } }
check(err.message:find('TLS failed: .*not valid for name "127.0.0.1"'), err.message)
_, err = encrypted { tls = true }
check(err.message:find "UnknownIssuer", err.message)
-- A statement is cancelled under TLS too.
local secure = { ca = ca, hostname = "db.test" }
local late = open { timeout = 1000, application_name = "late", tls = secure }
repeat until fails(late:query "select pg_sleep(100)").message == "postgres: no response in time"
local db = open()
local running = "select 1 from pg_stat_activity where application_name = 'late'"
repeat time.sleep(1) until #check(db:query(running)) == 0
"##;

/// A server that ends within a transaction, and comes back.
fn restarts(directory: &Path, server: Server) {
    let text = r##"
local db = open { timeout = 120000 }
local tx = check(db:begin())
check(tx:query "update accounts set balance = 1 where id = 1")
io.open(directory .. "/begun", "w"):close()
while not exists "killed" do time.sleep(5) end
local err = fails(tx:query "select 1")
check(err.lost, err.message)
fails(tx:commit())
tx:close()
same(db:stat().open, 0)
check(fails(db:ping()).message:find("connect to .* failed"))
io.open(directory .. "/noticed", "w"):close()
while not exists "restarted" do time.sleep(5) end
same(check(db:query "select balance from accounts where id = 1")[1].balance, 90)
"##;
    let process = program(directory, &server, text);
    let file = |name: &str| directory.join(name);
    scenarios::eventually("a transaction", || file("begun").exists());
    let port = server.port;
    server.kill(directory);
    fs::write(file("killed"), "").expect("a writable directory");
    scenarios::eventually("the program notices", || file("noticed").exists());
    let _server = Server::start(directory, port);
    fs::write(file("restarted"), "").expect("a writable directory");
    ends_well(process);
}
