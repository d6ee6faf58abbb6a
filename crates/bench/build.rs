//! Compiles the few lines of C between Berkeley DB and Rust, when the feature `bdb` wants them.

fn main() {
    println!("cargo::rerun-if-changed=src/engine/bdb.c");
    #[cfg(feature = "bdb")]
    {
        cc::Build::new().file("src/engine/bdb.c").warnings_into_errors(true).compile("bench_bdb");
        println!("cargo::rustc-link-lib=db-5.3");
    }
}
