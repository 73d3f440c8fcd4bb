//! The ordinals that no pod of a StatefulSet has.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Reads an entry of `reserveOrdinals`: the first ordinal and the last.
///
/// # Errors
/// What is wrong with it, and the remedy.
pub fn reserved(entry: &IntOrString) -> Result<(i32, i32), &'static str> {
    const REMEDY: &str =
        "is no ordinal: use a number from 0 to 2147483647, or a range such as \"2-5\"";
    let ordinal = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<i32>().map_err(|_| REMEDY),
        false => Err(REMEDY),
    };
    let (first, last) = match entry {
        IntOrString::Int(one) if *one >= 0 => (*one, *one),
        IntOrString::Int(_) => return Err(REMEDY),
        IntOrString::String(text) => match text.split_once('-') {
            Some((first, last)) => (ordinal(first)?, ordinal(last)?),
            None => (ordinal(text)?, ordinal(text)?),
        },
    };
    if first <= last {
        Ok((first, last))
    } else {
        Err("ends before it begins: write the lower ordinal first")
    }
}

#[cfg(test)]
mod tests;
