//! The functions of Silly's C API that modules in C use: memory, the log, time, ids, error texts.
//!
//! Their names and types are those of Silly's `silly.h`; the binary exports them, as it does the C
//! API of Lua. The functions of Silly's engine (sockets, timers, messages between its threads) do
//! not exist. Promises that a line of the log stays one line, that one without its end is not lost,
//! and that memory may be freed on another thread, and by `free`.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use mlua::ffi;
use telemetry::event;
use telemetry::log::{self, Level};

use crate::errno;
use crate::limits::C_LOG_BYTES;
use crate::stack::{self, LuaState};
use crate::timers;

// SAFETY: the declaration is that of the function in `c_api/log_fmt.c`.
unsafe extern "C" {
    fn silly_log_fmt(format: *const c_char, ...);
}

/// Has the linker take the function, which only modules call.
#[used]
static LOG_FMT: unsafe extern "C" fn(*const c_char, ...) = silly_log_fmt;

// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_malloc(size: usize) -> *mut c_void {
    // SAFETY: takes any size.
    unsafe { libc::malloc(size) }
}

// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
unsafe extern "C" fn silly_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the module passes a block of these functions, or null.
    unsafe { libc::realloc(block, size) }
}

// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
unsafe extern "C" fn silly_free(block: *mut c_void) {
    // SAFETY: as above.
    unsafe { libc::free(block) }
}

/// A line of the log that is not complete.
struct PendingLine {
    level: Level,
    text: Vec<u8>,
}

thread_local! {
    static LINE: RefCell<PendingLine> =
        const { RefCell::new(PendingLine { level: Level::Info, text: Vec::new() }) };
}

impl PendingLine {
    /// Adds text; each line feed ends a line. What a line has no room for is left out.
    fn add(&mut self, text: &[u8]) {
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let (piece, is_end) = match piece.strip_suffix(b"\n") {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            let room = C_LOG_BYTES.saturating_sub(self.text.len());
            self.text.extend_from_slice(&piece[..piece.len().min(room)]);
            if is_end {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&self.text).replace(char::is_control, " ");
        self.text.clear();
        event!(self.level, &text);
    }
}

/// Silly's numbers of levels; larger is more severe.
const LEVELS: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

fn level(number: c_int) -> Level {
    let known = usize::try_from(number).ok().and_then(|at| LEVELS.get(at));
    known.copied().unwrap_or(Level::Info)
}

// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_log_set_level(number: c_int) {
    log::set_level(level(number));
}

// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_log_get_level() -> c_int {
    LEVELS.iter().position(|level| log::enabled(*level)).unwrap_or(0) as c_int
}

/// Begins a line.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_log_head(number: c_int) {
    LINE.with_borrow_mut(|line| {
        line.finish();
        line.level = level(number);
    });
}

/// Continues a line, which ends with a line feed.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
unsafe extern "C" fn silly_log_append(text: *const c_char, size: usize) {
    if text.is_null() {
        return;
    }
    // SAFETY: the module passes so many bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast(), size) };
    LINE.with_borrow_mut(|line| line.add(text));
}

/// Ends a line with what `silly_log_fmt` has formatted: the macros of `silly.h` call nothing after
/// it.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
unsafe extern "C" fn tidegate_log_formatted(text: *const c_char, size: usize) {
    // SAFETY: called by `silly_log_fmt` with so many bytes of its own.
    unsafe { silly_log_append(text, size) };
    LINE.with_borrow_mut(PendingLine::finish);
}

/// Milliseconds since 1970.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Milliseconds of the monotonic clock.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_monotonic() -> u64 {
    timers::now_ms()
}

/// A number that is unique in the process, until 2^32 were given.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_genid() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
extern "C" fn silly_cpu_count() -> c_int {
    std::thread::available_parallelism().map_or(1, |count| count.get() as c_int)
}

/// The registry key of the table of error texts is the address of this static.
static ERRORS: u8 = 0;

/// Pushes the table of error texts, in which `silly_push_error` stores those it has made.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn silly_error_table(state: LuaState) {
    // SAFETY: called from a function of C with free slots; nothing here has to be dropped.
    unsafe {
        let key = (&raw const ERRORS).cast::<c_void>();
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key) != ffi::LUA_TTABLE {
            ffi::lua_settop(state, -2);
            ffi::lua_createtable(state, 0, 8);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key);
        }
    }
}

/// Pushes the text of an error number, nil for 0; `table` is the index of the table of error texts.
// SAFETY: no other symbol of the program has this name of Silly's C API.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn silly_push_error(state: LuaState, table: c_int, number: c_int) {
    // SAFETY: called from a function of C with free slots; nothing here has to be dropped when a
    // push raises.
    unsafe {
        if number == 0 {
            return ffi::lua_pushnil(state);
        }
        let has_table = ffi::lua_type(state, table) == ffi::LUA_TTABLE;
        if has_table {
            if ffi::lua_rawgeti(state, table, number.into()) == ffi::LUA_TSTRING {
                return;
            }
            ffi::lua_settop(state, -2);
        }
        let mut room = [0; 128];
        let length = error_text(number, &mut room);
        stack::push(state, &room[..length]);
        if has_table {
            // The index is that of an upvalue or an argument, which the push has not moved.
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawseti(state, table, number.into());
        }
    }
}

/// Writes the text of an error number; returns its length.
fn error_text(number: c_int, room: &mut [u8]) -> usize {
    const OWN: [&str; 6] =
        [errno::RESOLVE, errno::NOSOCKET, errno::CLOSING, errno::CLOSED, errno::EOF, errno::TLS];
    let suffix = format!("({number})");
    let own = OWN.iter().find(|text| text.ends_with(&suffix));
    let text = own.map_or_else(|| errno::of_number(number), |text| (*text).to_owned());
    let all = room.len();
    let mut rest = room;
    // A text that is too long is cut.
    let _ = rest.write_all(text.as_bytes());
    all - rest.len()
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, error_text, level};
    use telemetry::log::Level;

    #[test]
    fn error_texts_are_those_of_errno() {
        let mut room = [0; 128];
        let mut text = |number| {
            let length = error_text(number, &mut room);
            String::from_utf8_lossy(&room[..length]).into_owned()
        };
        assert_eq!(text(10004), crate::errno::EOF);
        assert_eq!(text(libc::ECONNREFUSED), crate::errno::of_number(libc::ECONNREFUSED));
        let mut small = [0; 4];
        assert_eq!(error_text(10004, &mut small), 4);
    }

    #[test]
    fn levels_have_the_numbers_of_silly() {
        assert_eq!(LEVELS.map(|one| one.slug()), ["debug", "info", "warn", "error"]);
        assert_eq!((level(3), level(-1), level(9)), (Level::Error, Level::Info, Level::Info));
    }
}
