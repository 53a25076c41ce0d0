// Where libquern is: the folder in QUERN_LIB_DIR, which programs then also find it in when they run; else where the
// linker looks by itself. Nothing is downloaded, and no CUDA is asked for.
// SPDX-License-Identifier: Apache-2.0
fn main() {
    println!("cargo:rerun-if-env-changed=QUERN_LIB_DIR");
    println!("cargo:rustc-link-lib=dylib=quern");
    if let Ok(folder) = std::env::var("QUERN_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:libdir={folder}"); // DEP_QUERN_LIBDIR for who depends on this crate
    }
}
