//! Feature gates from the command line.

use berth_workload::cloneset::Gates;

/// Reads `Name=true,Other=false`.
///
/// # Errors
/// The sentence names the gate that is not known, or the value that is neither true nor false.
pub(crate) fn parse(text: &str) -> Result<Gates, String> {
    let mut gates = Gates::default();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, value) =
            entry.split_once('=').ok_or_else(|| format!("feature gate {entry:?}: write {entry}=true"))?;
        let on: bool =
            value.parse().map_err(|_| format!("feature gate {name}: {value:?} is neither true nor false"))?;
        match name {
            "CloneSetShortHash" => gates.short_hash = on,
            _ => return Err(format!("feature gate {name:?} is not known; known is CloneSetShortHash")),
        }
    }
    Ok(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_and_mistakes_named() {
        assert!(parse("CloneSetShortHash=true").unwrap().short_hash);
        assert_eq!(parse(" ").unwrap(), Gates::default());
        for (text, says) in
            [("CloneSetShortHash", "=true"), ("CloneSetShortHash=1", "neither"), ("Other=true", "not known")]
        {
            assert!(parse(text).unwrap_err().contains(says), "{text}");
        }
    }
}
