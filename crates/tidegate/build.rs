//! Exports the C API of Lua and that of Silly from the binary, so that Lua modules in C find it.
//!
//! Exports nothing else: the linker keeps what is exported, also where nothing uses it.

fn main() {
    for names in ["lua_*", "luaL_*", "luaopen_*", "silly_*"] {
        println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol={names}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
