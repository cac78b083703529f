//! Compiles the one function of Silly's C API that Rust cannot define.

fn main() {
    println!("cargo:rerun-if-changed=src/c_api/log_fmt.c");
    cc::Build::new().file("src/c_api/log_fmt.c").compile("silly_log_fmt");
}
