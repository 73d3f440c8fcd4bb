//! `host-local`: called by a container runtime through CNI's environment, or by an operator with a
//! command.

use std::{
    env,
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use cni_hostlocal::{
    admin,
    call::{self, Call, Command},
    commands,
    config::{Config, VERSIONS},
    failure::{Failure, INVALID_ENVIRONMENT, IO_FAILURE},
    result,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let variable = |name: &str| env::var(name).ok();
    if !arguments.is_empty() || variable("CNI_COMMAND").is_none_or(|command| command.is_empty()) {
        return admin::run(
            &arguments,
            &mut io::stdout().lock(),
            &mut io::stderr().lock(),
        );
    }
    let [.., mut version] = VERSIONS;
    let answer = call::read(variable).and_then(|call| answer(&call, &mut version));
    let (text, code) = match answer {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(failure) => (result::failed(version, &failure), ExitCode::FAILURE),
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Answers a call. `version` becomes that of the configuration, as soon as that is read.
fn answer(call: &Call, version: &mut &'static str) -> Result<String, Failure> {
    let mut json = Vec::with_capacity(2048);
    let read = io::stdin().lock().read_to_end(&mut json);
    if call.command == Command::Version {
        return Ok(result::versions(&commands::requested_version(&json)));
    }
    read.map_err(|error| Failure::new(IO_FAILURE, format!("error reading from stdin: {error}")))?;
    let config = Config::read(&json)?;
    *version = config.version;
    match call.command {
        Command::Add => commands::add(call, &config),
        Command::Del => commands::del(call, &config).map(|()| String::new()),
        Command::Check => commands::check(call, &config).map(|()| String::new()),
        Command::Gc => commands::gc(&config).map(|()| String::new()),
        Command::Status => commands::status(call, &config).map(|()| String::new()),
        Command::Version => Err(Failure::new(INVALID_ENVIRONMENT, "VERSION was answered")),
    }
}
