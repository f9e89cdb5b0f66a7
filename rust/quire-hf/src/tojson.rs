//! The tojson filter as transformers defines it: json.dumps(value, ensure_ascii, indent, separators, sort_keys), with
//! ensure_ascii false unless asked for, and without Jinja's HTML escapes.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::limits::MAX_VALUE_DEPTH;
use crate::python::float_repr;

struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// An argument by position or by name; None is the same as absent.
fn argument(positional: Option<Value>, kwargs: &Kwargs, name: &str) -> Result<Option<Value>, Error> {
    let value = match positional {
        Some(value) => Some(value),
        None => kwargs.get::<Option<Value>>(name)?,
    };
    Ok(value.filter(|value| !value.is_none() && !value.is_undefined()))
}

impl Style {
    fn new(positional: [Option<Value>; 3], kwargs: &Kwargs) -> Result<Self, Error> {
        let [ensure_ascii, indent, separators] = positional;
        let ensure_ascii = argument(ensure_ascii, kwargs, "ensure_ascii")?.is_some_and(|value| value.is_true());
        let indent = match argument(indent, kwargs, "indent")? {
            None => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_string(),
                None => " ".repeat(i64::try_from(value)?.clamp(0, 64) as usize),
            }),
        };
        let separators = argument(separators, kwargs, "separators")?;
        let sort_keys = argument(None, kwargs, "sort_keys")?.is_some_and(|value| value.is_true());
        kwargs.assert_all_used()?;
        let (item_separator, key_separator) = match separators {
            None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
            Some(pair) => {
                let texts: Vec<String> =
                    pair.try_iter()?.filter_map(|part| part.as_str().map(str::to_string)).collect();
                let [item, key]: [String; 2] =
                    texts.try_into().map_err(|_| invalid("tojson: separators must be a pair of strings"))?;
                (item, key)
            }
        };
        Ok(Style { ensure_ascii, indent, item_separator, key_separator, sort_keys })
    }

    fn newline(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                _ if (c as u32) < 0x20 || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                _ => out.push(c),
            }
        }
        out.push('"');
    }

    /// What json.dumps makes of a dictionary's key.
    fn key(&self, key: &Value) -> Result<String, Error> {
        Ok(match key.kind() {
            ValueKind::String => key.as_str().unwrap_or_default().to_string(),
            ValueKind::Bool | ValueKind::None | ValueKind::Number => {
                let mut out = String::new();
                self.write(key, &mut out, 0)?;
                out
            }
            kind => return Err(invalid(format!("tojson: keys must be strings or numbers, not {kind}"))),
        })
    }

    fn sequence(&self, value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
        out.push('[');
        let mut empty = true;
        for item in value.try_iter()? {
            if !empty {
                out.push_str(&self.item_separator);
            }
            empty = false;
            self.newline(depth + 1, out);
            self.write(&item, out, depth + 1)?;
        }
        if !empty {
            self.newline(depth, out);
        }
        out.push(']');
        Ok(())
    }

    fn mapping(&self, value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
        let mut items = Vec::new();
        for key in value.try_iter()? {
            items.push((self.key(&key)?, value.get_item(&key)?));
        }
        if self.sort_keys {
            items.sort_by(|a, b| a.0.cmp(&b.0));
        }
        out.push('{');
        for (index, (key, item)) in items.iter().enumerate() {
            if index > 0 {
                out.push_str(&self.item_separator);
            }
            self.newline(depth + 1, out);
            self.string(key, out);
            out.push_str(&self.key_separator);
            self.write(item, out, depth + 1)?;
        }
        if !items.is_empty() {
            self.newline(depth, out);
        }
        out.push('}');
        Ok(())
    }

    fn write(&self, value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
        if depth > MAX_VALUE_DEPTH {
            return Err(invalid("tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
            ValueKind::Number => out.push_str(match f64::try_from(value.clone())? {
                number if number.is_nan() => "NaN",
                number if number == f64::INFINITY => "Infinity",
                number if number == f64::NEG_INFINITY => "-Infinity",
                number => return Ok(out.push_str(&float_repr(number))),
            }),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, out, depth)?,
            ValueKind::Map => self.mapping(value, out, depth)?,
            kind => return Err(invalid(format!("tojson: a value of type {kind} is not JSON serializable"))),
        }
        Ok(())
    }
}

/// The filter, its arguments in the order of transformers' function.
pub fn tojson(
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    separators: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let style = Style::new([ensure_ascii, indent, separators], &kwargs)?;
    let mut out = String::new();
    style.write(value, &mut out, 0)?;
    Ok(out)
}
