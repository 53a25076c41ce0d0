// Examples and tests find libquern where they were linked with it.
// SPDX-License-Identifier: Apache-2.0
fn main() {
    if let Ok(folder) = std::env::var("DEP_QUERN_LIBDIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
