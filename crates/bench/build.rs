//! Compiles the C shim between Berkeley DB and Rust if the feature `bdb` is enabled.

fn main() {
    println!("cargo::rerun-if-changed=src/engine/bdb.c");
    #[cfg(feature = "bdb")]
    {
        cc::Build::new().file("src/engine/bdb.c").warnings_into_errors(true).compile("bench_bdb");
        println!("cargo::rustc-link-lib=db-5.3");
    }
}
