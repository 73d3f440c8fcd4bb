//! `kubectl berth`, also callable as `kubectl kruise`.

use std::process::ExitCode;

use berth_cli::command;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            anstream::eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(command::execute()).into()
}
