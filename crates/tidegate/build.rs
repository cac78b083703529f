//! Exports the Lua API from the binary, so that Lua modules in C find it.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic");
    println!("cargo:rerun-if-changed=build.rs");
}
