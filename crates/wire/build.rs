//! Generates the codecs of requests and responses from `schema/`.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=schema");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let schema = codegen::parse_folder(Path::new("schema")).unwrap_or_else(|e| panic!("{e}"));
    let write = |name: &str, text: String| {
        std::fs::write(Path::new(&out).join(name), text).expect("OUT_DIR can be written");
    };
    write("messages.rs", codegen::generate_messages(&schema));
    write("message_list.rs", codegen::generate_message_list(&schema));
    write("requests.rs", codegen::generate_requests(&schema));
    write("api_list.rs", codegen::generate_api_list(&schema));
    write("api_keys.rs", codegen::generate_api_keys(&schema));
}
