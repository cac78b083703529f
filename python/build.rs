//! Refuses to build for a Python that has no GIL, of which the crate `python` would know nothing.

use pyo3_build_config::BuildFlag;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if pyo3_build_config::get().build_flags().0.contains(&BuildFlag::Py_GIL_DISABLED) {
        println!(
            "cargo::error=free-threaded builds of CPython (such as python3.13t) are not supported \
             yet; build with one that has the GIL: maturin build --interpreter python3.13"
        );
    }
}
