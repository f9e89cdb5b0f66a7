//! Values as Python prints them: templates are written for Jinja2, whose `{{ true }}` is `True`.

use std::fmt::Write;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::limits::MAX_VALUE_DEPTH;

/// Python's repr of a float: the shortest digits that read back the same, with an exponent below 1e-4 and from 1e16 on.
pub fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_string();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{number}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// A number, bool or None as Python's str; None for other values.
fn scalar_str(value: &Value) -> Option<String> {
    match value.kind() {
        ValueKind::Undefined => Some(String::new()),
        ValueKind::None => Some("None".to_string()),
        ValueKind::Bool => Some(if value.is_true() { "True" } else { "False" }.to_string()),
        ValueKind::Number if value.is_integer() => Some(value.to_string()),
        ValueKind::Number => Some(f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float_repr)),
        _ => None,
    }
}

fn string_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            _ if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out.push(quote);
}

fn write_sequence(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    let tuple = value.downcast_object_ref::<Tuple>().is_some();
    out.push(if tuple { '(' } else { '[' });
    let mut count = 0;
    for item in value.try_iter()? {
        if count > 0 {
            out.push_str(", ");
        }
        write_repr(&item, out, depth + 1)?;
        count += 1;
    }
    if tuple && count == 1 {
        out.push(',');
    }
    out.push(if tuple { ')' } else { ']' });
    Ok(())
}

fn write_mapping(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    out.push('{');
    for (index, key) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(&key, out, depth + 1)?;
        out.push_str(": ");
        write_repr(&value.get_item(&key)?, out, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

fn write_repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    if depth > MAX_VALUE_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "the value is nested too deeply to be printed"));
    }
    if let Some(text) = scalar_str(value) {
        out.push_str(if value.is_undefined() { "Undefined" } else { &text });
        return Ok(());
    }
    match (value.as_str(), value.kind()) {
        (Some(text), _) => string_repr(text, out),
        (_, ValueKind::Seq | ValueKind::Iterable) => write_sequence(value, out, depth)?,
        (_, ValueKind::Map) => write_mapping(value, out, depth)?,
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

/// Python's str of a value.
pub fn to_str(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_string());
    }
    if let Some(text) = scalar_str(value) {
        return Ok(text);
    }
    let mut out = String::new();
    write_repr(value, &mut out, 0)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::float_repr;

    #[test]
    fn floats_are_pythons() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in cases {
            assert_eq!(float_repr(number), text);
        }
    }
}
