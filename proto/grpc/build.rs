//! Generates the services and messages from `proto/`.

fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        // A derived Debug would print passwords: the library writes its own.
        .skip_debug(["berth.v1.Credential"])
        .compile_protos(&["proto/berth/v1/pull_secrets.proto"], &["proto"])
}
