//! A call of the plugin as its environment has it.

use std::net::IpAddr;

use crate::{
    failure::{Failure, INTERNAL, INVALID_ENVIRONMENT},
    lease::{LONGEST_INTERFACE, Owner},
    range::parse_cidr,
    record::Pod,
};

/// The command of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Give an attachment its addresses.
    Add,
    /// Release them.
    Del,
    /// Check that it still has them.
    Check,
    /// Release the addresses of all attachments that are not in a list.
    Gc,
    /// Check that an ADD could work.
    Status,
    /// List the supported versions of CNI.
    Version,
}

/// A call, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The command.
    pub command: Command,
    /// The attachment; empty for calls without one.
    pub owner: Owner,
    /// The path of its network namespace; may be empty.
    pub netns: String,
    /// The runtime says that the call is for the plugin's own namespace.
    pub netns_override: bool,
    /// `CNI_ARGS`.
    pub arguments: Arguments,
}

/// The content of `CNI_ARGS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The requested address.
    pub address: Option<IpAddr>,
    /// The pod.
    pub pod: Option<Pod>,
}

/// Reads a call out of the environment, `get` being one variable of it.
///
/// # Errors
/// A variable is missing or wrong.
pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Call, Failure> {
    let get = |name: &str| get(name).unwrap_or_default();
    let named = get("CNI_COMMAND");
    let command = match named.as_str() {
        "ADD" => Command::Add,
        "DEL" => Command::Del,
        "CHECK" => Command::Check,
        "GC" => Command::Gc,
        "STATUS" => Command::Status,
        "VERSION" => Command::Version,
        "" => return Err(missing(&["CNI_COMMAND"])),
        _ => {
            return Err(Failure::new(
                INVALID_ENVIRONMENT,
                format!("unknown CNI_COMMAND: {named}"),
            ));
        }
    };
    let attachment = matches!(command, Command::Add | Command::Del | Command::Check);
    let required = [
        ("CNI_CONTAINERID", attachment),
        (
            "CNI_NETNS",
            matches!(command, Command::Add | Command::Check),
        ),
        ("CNI_IFNAME", attachment),
        ("CNI_PATH", command != Command::Version),
    ];
    let (container, interface) = (get("CNI_CONTAINERID"), get("CNI_IFNAME"));
    if attachment {
        check_container(&container)?;
        check_interface(&interface)?;
    }
    let absent: Vec<_> = required
        .iter()
        .filter(|(name, needed)| *needed && get(name).is_empty())
        .collect();
    if !absent.is_empty() {
        return Err(missing(
            &absent.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ));
    }
    let netns_override = get("CNI_NETNS_OVERRIDE");
    Ok(Call {
        command,
        owner: Owner::new(&container, &interface),
        netns: get("CNI_NETNS"),
        netns_override: netns_override == "1" || netns_override.eq_ignore_ascii_case("true"),
        arguments: if attachment {
            arguments(&get("CNI_ARGS"))?
        } else {
            Arguments::default()
        },
    })
}

fn missing(names: &[&str]) -> Failure {
    Failure::new(
        INVALID_ENVIRONMENT,
        format!("required env variables [{}] missing", names.join(",")),
    )
}

/// Whether CNI allows `name` for containers and networks.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn check_container(id: &str) -> Result<(), Failure> {
    if id.is_empty() || is_name(id) {
        return Ok(());
    }
    Err(
        Failure::new(INVALID_ENVIRONMENT, "invalid characters in containerID")
            .with(format!("CNI_CONTAINERID is {id:?}")),
    )
}

fn check_interface(name: &str) -> Result<(), Failure> {
    let wrong = if name.len() > LONGEST_INTERFACE {
        "interface name is too long"
    } else if matches!(name, "." | "..") {
        "interface name is . or .."
    } else if name.contains(|c: char| matches!(c, '/' | ':') || c.is_whitespace()) {
        "interface name contains / or : or whitespace characters"
    } else {
        return Ok(());
    };
    Err(Failure::new(INVALID_ENVIRONMENT, wrong).with(format!("CNI_IFNAME is {name:?}")))
}

/// Reads `NAME=VALUE;NAME=VALUE`. The names that Kubernetes' runtimes send about the pod are known;
/// any other name needs `IgnoreUnknown=1`.
fn arguments(text: &str) -> Result<Arguments, Failure> {
    let mut found = Arguments::default();
    let (mut namespace, mut name) = (None, None);
    let mut unknown = Vec::new();
    let mut ignore_unknown = false;
    for pair in text.split(';').filter(|_| !text.is_empty()) {
        let Some((key, value)) = pair
            .split_once('=')
            .filter(|(_, value)| !value.contains('='))
        else {
            return Err(Failure::new(
                INTERNAL,
                format!("ARGS: invalid pair {pair:?}"),
            ));
        };
        let bad = |why: String| {
            Failure::new(
                INTERNAL,
                format!("ARGS: error parsing value of pair {pair:?}: {why}"),
            )
        };
        match key {
            "IP" if value.is_empty() => {}
            "IP" => match parse_cidr(value) {
                Some((address, _)) => found.address = Some(address),
                None => return Err(bad(format!("invalid IP address {value}"))),
            },
            "IgnoreUnknown" => match value.to_ascii_lowercase().as_str() {
                "1" | "true" => ignore_unknown = true,
                "0" | "false" => ignore_unknown = false,
                other => {
                    return Err(bad(format!(
                        "boolean unmarshal error: invalid input {other}"
                    )));
                }
            },
            "K8S_POD_NAMESPACE" => namespace = Some(value),
            "K8S_POD_NAME" => name = Some(value),
            "K8S_POD_UID" | "K8S_POD_INFRA_CONTAINER_ID" => {}
            _ => unknown.push(pair),
        }
    }
    if !unknown.is_empty() && !ignore_unknown {
        return Err(Failure::new(
            INTERNAL,
            format!("ARGS: unknown args {unknown:?}"),
        ));
    }
    if let (Some(namespace), Some(name)) = (namespace, name) {
        found.pod = Pod::parse(&format!("{namespace}/{name}"));
    }
    Ok(found)
}
