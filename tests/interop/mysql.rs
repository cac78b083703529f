//! MariaDB: what `store.mysql` of our Lua programs says to a real server.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use crate::tools::{command, has, run};
use scenarios::{Authority, Process, free_port, temporary_directory, tidegate_binary};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// A server with a directory of its own: `root` by its socket, `ann` with a password by TCP.
struct Server {
    process: Process,
    port: u16,
}

const USERS: &str = "
create database test;
create user ann@'%' identified by 'secret';
grant all on test.* to ann@'%';
grant reload, process, connection admin on *.* to ann@'%';
";

impl Server {
    fn install(directory: &Path) {
        let authority = Authority::new();
        let issued = authority.issue(&["db.test"]);
        fs::write(directory.join("ca.pem"), authority.pem()).expect("a writable directory");
        fs::write(directory.join("cert.pem"), issued.chain).expect("a writable directory");
        fs::write(directory.join("key.pem"), issued.key).expect("a writable directory");
        fs::write(directory.join("users.sql"), USERS).expect("a writable directory");
        let data = format!("--datadir={}", directory.join("data").display());
        let user = format!("--user={}", user());
        let arguments = ["--no-defaults", &data, &user, "--skip-test-db"];
        run("mariadb-install-db", directory, &arguments);
    }

    fn start(directory: &Path, port: u16) -> Server {
        let setting =
            |name: &str, file: &str| format!("--{name}={}", directory.join(file).display());
        let mut command = command("mariadbd", directory);
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-log-bin"]);
        command.arg(format!("--port={port}")).arg(format!("--user={}", user()));
        command.arg(setting("datadir", "data")).arg(setting("socket", "socket"));
        command.arg(setting("pid-file", "pid")).arg(setting("ssl-cert", "cert.pem"));
        command.arg(setting("ssl-key", "key.pem"));
        // Files of the database are small, so that starting takes a second.
        command.args(["--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M"]);
        command.arg("--max-allowed-packet=64M");
        if !directory.join("installed").exists() {
            command.arg(setting("init-file", "users.sql"));
            fs::write(directory.join("installed"), "").expect("a writable directory");
        }
        let process = Process::start(&mut command);
        let socket = directory.join("socket");
        scenarios::eventually("MariaDB responds", || UnixStream::connect(&socket).is_ok());
        Server { process, port }
    }

    fn kill(self, directory: &Path) {
        self.process.signal("KILL");
        self.process.wait();
        fs::remove_file(directory.join("socket")).expect("the socket of the server");
    }
}

/// The server does not run as root unless it is told to.
fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "root".to_owned())
}

/// Starts a program that is told the directory and the address of the server.
fn program(directory: &Path, server: &Server, text: &str) -> Process {
    let file = directory.join("program.lua");
    fs::write(&file, format!("{HEAD}{text}\nsilly.exit(0)")).expect("a writable directory");
    let mut command = Command::new(tidegate_binary());
    command.arg("run").arg(file).arg(format!("--mysql=127.0.0.1:{}", server.port));
    Process::start(command.arg(format!("--directory={}", directory.display())))
}

fn ends_well(process: Process) {
    let exit = process.wait();
    assert_eq!(exit.code, Some(0), "{exit:?}");
}

const HEAD: &str = r##"
local silly, task, time = require "silly", require "silly.task", require "silly.time"
local mysql, env = require "silly.store.mysql", require "silly.env"
local directory, addr = env.get("directory"), env.get("mysql")
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
  local options = { addr = addr, user = "ann", password = "secret", database = "test" }
  for name, value in pairs(more or {}) do options[name] = value end
  return mysql.open(options)
end
local function fails(result, err)
  check(result == nil and err.type == "ERR", "an error expected")
  return err
end
"##;

#[test]
fn queries_types_and_transactions() {
    if !has("mariadbd") {
        return;
    }
    let directory = temporary_directory();
    let directory = directory.path();
    Server::install(directory);
    let server = Server::start(directory, free_port());
    ends_well(program(directory, &server, TYPES));
    ends_well(program(directory, &server, STATEMENTS));
    ends_well(program(directory, &server, LOGINS));
    restarts(directory, server);
}

const TYPES: &str = r##"
local db = open { charset = "utf8mb4" }
same(check(db:ping()).type, "OK")
check(db:query [[create table all_types (id int primary key auto_increment,
  t tinyint, tu tinyint unsigned, s smallint, m mediumint, mu mediumint unsigned, i int,
  iu int unsigned, b bigint, bu bigint unsigned, f float, d double, dec1 decimal(20, 5), y year,
  da date, ti time, ti6 time(6), dt datetime, dt6 datetime(6), ts timestamp(3) null, c char(3),
  v varchar(20), tx text, bl blob, bi bit(10), js json, en enum('x', 'y'), nothing int)]])
local bytes = "a\0b\xff"
local ok = check(db:query("insert into all_types values (null" .. (", ?"):rep(27) .. ")",
  -128, 255, -32768, -8388608, 16777215, -2147483648, 4294967295,
  math.mininteger, "18446744073709551615", 0.5, 1e300, "-123456789012345.12345", 2024, "2024-02-29",
  "-838:59:59", "01:02:03.000004", "2024-02-29 23:59:58", "2024-02-29 23:59:58.123456",
  "2024-02-29 23:59:58.500", "abc", "häß", "text", bytes, 513, '{"a": 1}', "y", nil))
same(ok.affected_rows, 1)
same(ok.last_insert_id, 1)
local row = check(db:query "select * from all_types")[1]
local expected = { t = -128, tu = 255, s = -32768, m = -8388608, mu = 16777215, i = -2147483648,
  iu = 4294967295, b = math.mininteger, bu = "18446744073709551615", f = 0.5, d = 1e300,
  dec1 = "-123456789012345.12345", y = 2024, da = "2024-02-29", ti = "-838:59:59",
  ti6 = "01:02:03.000004", dt = "2024-02-29 23:59:58", dt6 = "2024-02-29 23:59:58.123456",
  ts = "2024-02-29 23:59:58.500000", c = "abc", v = "häß", tx = "text", bl = bytes,
  bi = "\2\1", js = '{"a": 1}', en = "y", id = 1 }
for name, value in pairs(expected) do
  check(row[name] == value, ("%s: got %s, expected %s"):format(name, row[name], value))
end
for name in pairs(row) do check(expected[name] ~= nil, name) end
row = check(db:query("select ? as yes, ? as no, ? as f, ? as n", true, false, 1.5, nil))[1]
same(row.yes, 1) same(row.no, 0) same(row.f, 1.5) same(row.n, nil)
same(#check(db:query "select 1 from all_types where id = 7"), 0)
-- Packets of more than 16 MiB in both directions, and many rows.
local long = ("0123456789abcdef"):rep(1 << 20) .. "end"
same(check(db:query("select ? as big", long))[1].big, long)
check(db:query "create table many (n int)")
check(db:query "insert into many select seq from seq_1_to_20000")
local rows = check(db:query "select n from many order by n")
same(#rows, 20000) same(rows[20000].n, 20000)
db:close()
"##;

const STATEMENTS: &str = r##"
local db = open { max_open_conns = 2 }
local err = fails(db:query "select nonsense")
same(err.errno, 1054) same(err.sqlstate, "42S22")
check(err.message:find("nonsense"))
check(not pcall(db.query, db, "select ?"))
check(not pcall(db.query, db, "select ?", {}))
check(db:query "create table accounts (id int primary key, balance int)")
check(db:query "insert into accounts values (1, 100), (2, 0)")
local function balance(on, id)
  return check((on or db):query("select balance from accounts where id = ?", id))[1].balance
end
do
  local tx <close> = check(db:begin())
  check(tx:query("update accounts set balance = balance - ? where id = ?", 10, 1))
  same(balance(tx, 1), 90) same(balance(nil, 1), 100)
  same(check(tx:ping()).type, "OK")
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
same(db:stat().opened, 2)
-- A transaction that a text has opened is not the next statement's, whose writes would be lost.
for _, text in ipairs{ "start transaction", "begin", "set autocommit = 0" } do
  local one <close> = open { max_open_conns = 1 }
  check(one:query(text))
  check(one:query "update accounts set balance = balance - 1 where id = 1")
end
same(balance(nil, 1), 87)
check(db:query "update accounts set balance = 90 where id = 1")
-- A duplicate key ends neither the connection nor the transaction.
tx = check(db:begin())
same(fails(tx:query "insert into accounts values (1, 1)").errno, 1062)
check(tx:query "insert into accounts values (3, 1)")
check(tx:commit())
tx:close()
-- More coroutines than connections, and more statements than are kept prepared.
local group, wrong = require "silly.sync.waitgroup".new(), 0
for at = 1, 600 do
  group:fork(function()
    local rows = db:query("select " .. at .. " as a, ? as b", at)
    if not rows or rows[1].a ~= at or rows[1].b ~= at then wrong = wrong + 1 end
  end)
end
group:wait()
same(wrong, 0)
same(db:stat().opened, 2)
-- Statements are released; the server does not respond to that.
local count = "show global status like 'Prepared_stmt_count'"
repeat until tonumber(check(db:query(count))[1].Value) <= 512
-- A procedure has several results.
check(db:query "create procedure two() begin select 1 as a; select 2 as b; end")
local first, none, more = db:query "call two()"
same(first[1].a, 1) same(none, nil) same(more[1][1].b, 2) same(more[2].type, "OK")
same(check(db:query "select 3 as c")[1].c, 3)
-- A statement that takes too long ends its connection only.
local impatient = open { timeout = 50 }
local late
-- On a busy machine a connection may not be made in this time either.
repeat late = fails(impatient:query "select sleep(100)")
until late.message == "mysql: no response in time" and late.lost
same(impatient:stat().open, 0)
-- A connection that the server has ended is replaced.
local single = open { max_open_conns = 1 }
local function connection() return check(single:query "select connection_id() as id")[1].id end
local id = connection()
same(connection(), id)
check(db:query("kill " .. id))
local connections = "select 1 from information_schema.processlist where id = ?"
repeat time.sleep(1) until #check(db:query(connections, id)) == 0
-- The end of the connection may be noticed by the statement that is sent on it.
same((single:query "select 4 as d" or check(single:query "select 4 as d"))[1].d, 4)
check(connection() ~= id)
same(single:stat().closed, 1)
"##;

const LOGINS: &str = r##"
local file <close> = io.open(directory .. "/ca.pem")
local ca = file:read "a"
local denied = fails(open { password = "wrong" }:ping())
same(denied.errno, 1045) same(denied.sqlstate, "28000")
check(not denied.message:find("wrong"))
same(fails(open { database = "missing" }:ping()).errno, 1044)
local function cipher(options)
  local rows, err = open(options):query "show status like 'Ssl_version'"
  return rows and rows[1].Value, err
end
same(cipher(), "")
check(check(cipher { tls = { ca = ca, hostname = "db.test" } }):find("TLSv1"))
check(check(cipher { tls = { insecure = true } }):find("TLSv1"))
local _, err = cipher { tls = { ca = ca } }
check(err.message:find('TLS failed: .*not valid for name "127.0.0.1"'), err.message)
_, err = cipher { tls = true }
check(err.message:find("UnknownIssuer"), err.message)
check(open { addr = "unix:" .. directory .. "/socket", user = "ann" }:ping())
"##;

/// A server that ends within a transaction, and comes back.
fn restarts(directory: &Path, server: Server) {
    let text = r##"
local function exists(name)
  local file <close> = io.open(directory .. "/" .. name)
  return file ~= nil
end
local db = open { timeout = 120000 }
local tx = check(db:begin())
check(tx:query "update accounts set balance = 1 where id = 1")
io.open(directory .. "/begun", "w"):close()
while not exists "killed" do time.sleep(5) end
local err = fails(tx:query "select 1")
check(err.message:find("^mysql: "), err.message)
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
