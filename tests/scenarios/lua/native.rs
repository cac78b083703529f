//! Modules in C: the binary exports the Lua API, and they are found where the options say.

use std::io::Write;
use std::process::Command;

use scenarios::command_exists;

use super::Program;

/// Declares what it uses itself, so that no header is needed: a function, a userdata with methods
/// and upvalues as lpeg has them, a callback into Lua.
const MODULE: &str = r#"
#include <stddef.h>
typedef struct lua_State lua_State;
typedef int (*lua_CFunction)(lua_State *);
typedef struct { const char *name; lua_CFunction func; } luaL_Reg;
extern void luaL_checkversion_(lua_State *, double, size_t);
extern void lua_createtable(lua_State *, int, int);
extern void luaL_setfuncs(lua_State *, const luaL_Reg *, int);
extern int luaL_newmetatable(lua_State *, const char *);
extern void *luaL_checkudata(lua_State *, int, const char *);
extern void luaL_setmetatable(lua_State *, const char *);
extern void *lua_newuserdatauv(lua_State *, size_t, int);
extern void lua_pushvalue(lua_State *, int);
extern void lua_setfield(lua_State *, int, const char *);
extern int lua_setiuservalue(lua_State *, int, int);
extern int lua_getiuservalue(lua_State *, int, int);
extern const char *luaL_checklstring(lua_State *, int, size_t *);
extern const char *lua_pushlstring(lua_State *, const char *, size_t);
extern void lua_pushinteger(lua_State *, long long);
extern long long luaL_checkinteger(lua_State *, int);
extern void lua_callk(lua_State *, int, int, ptrdiff_t, void *);
extern void lua_settop(lua_State *, int);
extern int luaL_error(lua_State *, const char *, ...);

typedef struct { char set[256]; } pattern;

static int make(lua_State *L) {
  size_t length, at;
  const char *bytes = luaL_checklstring(L, 1, &length);
  pattern *p = lua_newuserdatauv(L, sizeof(pattern), 1);
  for (at = 0; at < 256; at++) p->set[at] = 0;
  for (at = 0; at < length; at++) p->set[(unsigned char)bytes[at]] = 1;
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, "pattern");
  return 1;
}

static int match(lua_State *L) {
  size_t length, at = 0;
  pattern *p = luaL_checkudata(L, 1, "pattern");
  const char *subject = luaL_checklstring(L, 2, &length);
  while (at < length && p->set[(unsigned char)subject[at]]) at++;
  if (at == 0) return luaL_error(L, "no match in '%s'", subject);
  lua_getiuservalue(L, 1, 1);
  lua_pushlstring(L, subject, at);
  lua_callk(L, 1, 1, 0, NULL);
  lua_pushinteger(L, (long long)at + 1);
  return 2;
}

static const luaL_Reg functions[] = {{"make", make}, {NULL, NULL}};
static const luaL_Reg methods[] = {{"match", match}, {NULL, NULL}};

int luaopen_small(lua_State *L) {
  luaL_checkversion_(L, 505, 136);
  luaL_newmetatable(L, "pattern");
  lua_createtable(L, 0, 1);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_settop(L, 0);
  lua_createtable(L, 0, 1);
  luaL_setfuncs(L, functions, 0);
  return 1;
}
"#;

/// Compiles a module into the directory `native` of a program.
fn build(program: &Program, name: &str, text: &str) {
    let directory = program.directory.path();
    std::fs::create_dir(directory.join("native")).expect("a directory");
    std::fs::write(directory.join(name).with_extension("c"), text).expect("a file");
    let (output, source) = (format!("native/{name}.so"), format!("{name}.c"));
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o", &output, &source])
        .current_dir(directory)
        .status();
    assert!(built.expect("cc starts").success());
}

#[test]
fn a_module_in_c_is_built_and_loaded() {
    if !command_exists("cc") {
        let _ = writeln!(std::io::stderr(), "skipped: cc is not installed");
        return;
    }
    let program = Program::new(
        r#"
        local small, silly = require "small", require "silly"
        local digits = small.make("0123456789", function(text) return tonumber(text) * 2 end)
        print(digits:match("21 rest"))
        print(pcall(digits.match, digits, "none"))
        print(select(2, pcall(digits.match, {}, "1")):match("pattern expected") ~= nil)
        silly.exit()
        "#,
    );
    build(&program, "small", MODULE);
    let directory = program.directory.path();
    let exit = program.run(&[], &["--lualib-cpath=./native/?.so"]);
    assert_eq!(exit.stdout, "42\t3\nfalse\tno match in 'none'\ntrue\n", "{exit:?}");
    // The older spelling, and the place that needs no option.
    let exit = program.run(&[], &["--lualib_cpath=./native/?.so"]);
    assert_eq!(exit.code, Some(0), "{exit:?}");
    std::fs::rename(directory.join("native"), directory.join("luaclib")).expect("a directory");
    assert_eq!(program.run(&[], &[]).code, Some(0));
}

/// Declares what `silly.h` does, and uses it as modules for Silly do: memory, macros of the log,
/// error texts as an upvalue, time and ids.
const SILLY_MODULE: &str = r#"
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef struct lua_State lua_State;
typedef int (*lua_CFunction)(lua_State *);
typedef struct { const char *name; lua_CFunction func; } luaL_Reg;
extern void lua_createtable(lua_State *, int, int);
extern void luaL_setfuncs(lua_State *, const luaL_Reg *, int);
extern const char *luaL_checklstring(lua_State *, int, size_t *);
extern const char *lua_pushlstring(lua_State *, const char *, size_t);
extern void lua_pushboolean(lua_State *, int);
extern long long luaL_checkinteger(lua_State *, int);
#define lua_upvalueindex(i) (-(2147483647 / 2 + 1000) - (i))

enum silly_log_level { SILLY_LOG_DEBUG, SILLY_LOG_INFO, SILLY_LOG_WARN, SILLY_LOG_ERROR };
extern void *silly_malloc(size_t);
extern void *silly_realloc(void *, size_t);
extern void silly_free(void *);
extern enum silly_log_level silly_log_get_level(void);
extern void silly_log_set_level(enum silly_log_level);
extern void silly_log_head(enum silly_log_level);
extern void silly_log_fmt(const char *, ...);
extern void silly_log_append(const char *, size_t);
extern uint64_t silly_now(void);
extern uint64_t silly_monotonic(void);
extern uint32_t silly_genid(void);
extern int silly_cpu_count(void);
extern void silly_error_table(lua_State *);
extern void silly_push_error(lua_State *, int, int);
#define silly_log_(level, ...) \
  do { \
    if (level < silly_log_get_level()) break; \
    silly_log_head(level); \
    silly_log_fmt(__VA_ARGS__); \
  } while (0)

static int twice(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  char *copy = silly_malloc(length + 1);
  memcpy(copy, text, length);
  copy = silly_realloc(copy, 2 * length + 1);
  memcpy(copy + length, text, length);
  lua_pushlstring(L, copy, 2 * length);
  silly_free(copy);
  return 1;
}

static int logged(lua_State *L) {
  silly_log_(SILLY_LOG_DEBUG, "[small] not shown %d\n", 1);
  silly_log_(SILLY_LOG_WARN, "[small] %s has %d of %.1f\n", "shelf", 7, 9.5);
  silly_log_(SILLY_LOG_ERROR, "[small] without its end");
  silly_log_head(SILLY_LOG_INFO);
  silly_log_append("[small] in ", 11);
  silly_log_append("pieces\n", 7);
  silly_log_set_level(SILLY_LOG_DEBUG);
  silly_log_(SILLY_LOG_DEBUG, "[small] shown %d\n", 2);
  return 0;
}

static int error(lua_State *L) {
  silly_push_error(L, lua_upvalueindex(1), (int)luaL_checkinteger(L, 1));
  return 1;
}

static int numbers(lua_State *L) {
  uint32_t first = silly_genid();
  uint64_t before = silly_monotonic();
  lua_pushboolean(L, silly_genid() != first && silly_monotonic() >= before
      && silly_now() > 1700000000000ull && silly_cpu_count() > 0);
  return 1;
}

static const luaL_Reg functions[] = {
  {"twice", twice}, {"logged", logged}, {"error", error}, {"numbers", numbers}, {NULL, NULL},
};

int luaopen_shelf(lua_State *L) {
  lua_createtable(L, 0, 4);
  silly_error_table(L);
  luaL_setfuncs(L, functions, 1);
  return 1;
}
"#;

#[test]
fn a_module_for_silly_uses_its_c_api() {
    if !command_exists("cc") {
        let _ = writeln!(std::io::stderr(), "skipped: cc is not installed");
        return;
    }
    let program = Program::new(
        r#"
        local shelf, errno, silly = require "shelf", require "silly.errno", require "silly"
        print(shelf.twice("ab"), shelf.numbers())
        print(shelf.error(0), shelf.error(10004) == errno.EOF)
        print(shelf.error(111) == errno.CONNREFUSED)
        -- The second time the text is that of the table.
        print(shelf.error(111))
        shelf.logged()
        silly.exit()
        "#,
    );
    build(&program, "shelf", SILLY_MODULE);
    let exit = program.run(&[], &["--lualib-cpath=./native/?.so"]);
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let expected = "abab\ttrue\nnil\ttrue\ntrue\nConnection refused (111)\n";
    assert_eq!(exit.stdout, expected, "{exit:?}");
    let lines: Vec<&str> =
        exit.stderr.lines().filter_map(|line| Some(&line[line.find("[small]")?..])).collect();
    let expected = ["shelf has 7 of 9.5", "without its end", "in pieces", "shown 2"];
    assert_eq!(lines, expected.map(|text| format!("[small] {text}")), "{exit:?}");
    let warned = exit.stderr.lines().find(|line| line.contains("shelf has"));
    assert!(warned.is_some_and(|line| line.to_lowercase().contains("warn")), "{exit:?}");
}

#[test]
fn modules_in_lua_are_found_in_lualib_and_where_the_option_says() {
    let program = Program::new("print((require 'a'), (require 'b.c')) require 'silly'.exit()");
    let directory = program.directory.path();
    std::fs::create_dir_all(directory.join("lualib/b")).expect("a directory");
    std::fs::create_dir(directory.join("mine")).expect("a directory");
    std::fs::write(directory.join("lualib/b/c.lua"), "return 'from lualib'").expect("a file");
    std::fs::write(directory.join("mine/a.lua"), "return 'from the option'").expect("a file");
    let exit = program.run(&[], &["-L", "./mine/?.lua"]);
    assert_eq!(exit.stdout, "from the option\tfrom lualib\n", "{exit:?}");
}
