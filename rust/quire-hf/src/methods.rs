//! Methods of Python's str, dict and list that templates call: those that minijinja-contrib lacks or does differently,
//! then its own.

use minijinja::value::{from_args, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// str.isspace's and str.strip's whitespace.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn strip<'a>(text: &'a str, args: &[Value], left: bool, right: bool) -> Result<&'a str, Error> {
    let (characters,): (Option<&str>,) = from_args(args)?;
    let drop = |c: char| characters.map_or_else(|| is_space(c), |set| set.contains(c));
    let text = if left { text.trim_start_matches(drop) } else { text };
    Ok(if right { text.trim_end_matches(drop) } else { text })
}

/// str.title: a letter after a non-letter becomes upper case, every other letter lower case.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_letter = false;
    for c in text.chars() {
        if after_letter {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        after_letter = c.is_alphabetic();
    }
    out
}

fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn splitlines(text: &str, keep_ends: bool) -> Vec<Value> {
    let mut lines = Vec::new();
    let (mut begin, mut chars) = (0, text.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        if !is_line_break(c) {
            continue;
        }
        let mut next = at + c.len_utf8();
        if c == '\r' && chars.next_if(|&(_, c)| c == '\n').is_some() {
            next += 1;
        }
        lines.push(Value::from(&text[begin..if keep_ends { next } else { at }]));
        begin = next;
    }
    if begin < text.len() {
        lines.push(Value::from(&text[begin..]));
    }
    lines
}

/// str.split without a separator.
fn split_whitespace(text: &str, max_splits: i64) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if max_splits >= 0 && parts.len() as i64 == max_splits {
            parts.push(Value::from(rest.trim_end_matches(is_space)));
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(Value::from(&rest[..end]));
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (positional, kwargs): (&[Value], minijinja::value::Kwargs) = from_args(args)?;
    let pick = |index: usize, name: &str| match positional.get(index) {
        Some(value) => Ok(Some(value.clone())),
        None => kwargs.get::<Option<Value>>(name),
    };
    let separator = pick(0, "sep")?.filter(|value| !value.is_none());
    let max_splits = pick(1, "maxsplit")?.map_or(Ok(-1), i64::try_from)?;
    kwargs.assert_all_used()?;
    let Some(separator) = separator else {
        if from_right && max_splits >= 0 {
            return Err(invalid("rsplit with a limit needs a separator"));
        }
        return Ok(Value::from(split_whitespace(text, max_splits)));
    };
    let separator = separator.as_str().filter(|text| !text.is_empty());
    let separator = separator.ok_or_else(|| invalid("split needs a separator that is a string and not empty"))?;
    let limit = usize::try_from(max_splits).map_or(usize::MAX, |most| most.saturating_add(1));
    Ok(Value::from(if from_right {
        let mut parts: Vec<Value> = text.rsplitn(limit, separator).map(Value::from).collect();
        parts.reverse();
        parts
    } else {
        text.splitn(limit, separator).map(Value::from).collect()
    }))
}

fn partition(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(invalid("partition needs a separator that is not empty"));
    }
    let found = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    Ok(Value::from(Tuple::from(match (found, from_right) {
        (Some((head, tail)), _) => [Value::from(head), Value::from(separator), Value::from(tail)],
        (None, false) => [Value::from(text), Value::from(""), Value::from("")],
        (None, true) => [Value::from(""), Value::from(""), Value::from(text)],
    })))
}

fn index(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (what,): (&str,) = from_args(args)?;
    let found = if from_right { text.rfind(what) } else { text.find(what) };
    let at = found.ok_or_else(|| invalid("substring not found"))?;
    Ok(Value::from(text[..at].chars().count()))
}

/// Columns to add on the left and right of a text of `length` characters.
fn padding(method: &str, length: usize, width: usize) -> (usize, usize) {
    let missing = width.saturating_sub(length);
    match method {
        "ljust" => (0, missing),
        "rjust" | "zfill" => (missing, 0),
        // CPython gives the odd column to the left only where the width is odd too.
        _ => {
            let left = missing / 2 + (missing & width & 1);
            (left, missing - left)
        }
    }
}

fn justify(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<char>) = from_args(args)?;
    let width = width.max(0) as usize;
    state.consume_fuel(width as u64 / 16)?;
    let (left, right) = padding(method, text.chars().count(), width);
    let fill = if method == "zfill" { '0' } else { fill.unwrap_or(' ') };
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) if method == "zfill" => (&text[..1], digits),
        _ => ("", text),
    };
    let pad = |count: usize| fill.to_string().repeat(count);
    Ok(Value::from(format!("{sign}{}{digits}{}", pad(left), pad(right))))
}

fn swap_case(c: char) -> String {
    if c.is_uppercase() {
        c.to_lowercase().collect()
    } else {
        c.to_uppercase().collect()
    }
}

fn string_method(state: &State, text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let one = |f: fn(&str, &str) -> String| from_args::<(&str,)>(args).map(|(other,)| Value::from(f(text, other)));
    let none = |f: fn(&str) -> String| from_args::<()>(args).map(|()| Value::from(f(text)));
    Some(match method {
        "strip" => strip(text, args, true, true).map(Value::from),
        "lstrip" => strip(text, args, true, false).map(Value::from),
        "rstrip" => strip(text, args, false, true).map(Value::from),
        "title" => none(title),
        "swapcase" => none(|text| text.chars().map(swap_case).collect()),
        "casefold" => none(|text| text.to_lowercase().replace('ß', "ss")),
        "removeprefix" => one(|text, other| text.strip_prefix(other).unwrap_or(text).to_string()),
        "removesuffix" => one(|text, other| text.strip_suffix(other).unwrap_or(text).to_string()),
        "split" => split(text, args, false),
        "rsplit" => split(text, args, true),
        "splitlines" => from_args::<(Option<bool>,)>(args)
            .map(|(keep_ends,)| Value::from(splitlines(text, keep_ends.unwrap_or(false)))),
        "partition" => partition(text, args, false),
        "rpartition" => partition(text, args, true),
        "index" => index(text, args, false),
        "rindex" => index(text, args, true),
        "ljust" | "rjust" | "center" | "zfill" => justify(state, text, method, args),
        "isdecimal" => Ok(Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()))),
        "join" => from_args::<(&Value,)>(args).and_then(|(items,)| join(state, items, text)),
        _ => return None,
    })
}

/// str.join: all items must be strings.
fn join(state: &State, items: &Value, separator: &str) -> Result<Value, Error> {
    let mut out = String::new();
    for (index, item) in items.try_iter()?.enumerate() {
        if index > 0 {
            state.consume_fuel(1 + separator.len() as u64 / 64)?;
            out.push_str(separator);
        }
        let text = item
            .as_str()
            .ok_or_else(|| invalid(format!("sequence item {index}: expected str instance, {} found", item.kind())))?;
        state.consume_fuel(text.len() as u64 / 64)?;
        out.push_str(text);
    }
    Ok(Value::from(out))
}

fn list_index(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let (what,): (&Value,) = from_args(args)?;
    let found = value.try_iter()?.position(|item| item == *what);
    found.map(Value::from).ok_or_else(|| invalid("the value is not in the list"))
}

/// Called for every method that the value itself does not have.
pub fn unknown_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        if let Some(result) = string_method(state, text, method, args) {
            return result;
        }
    }
    match (value.kind(), method) {
        (ValueKind::Seq, "index") => list_index(value, args),
        (ValueKind::Map, "copy") | (ValueKind::Seq, "copy") => Ok(value.clone()),
        (ValueKind::Seq, "append" | "extend" | "insert" | "pop" | "remove" | "clear" | "sort" | "reverse")
        | (ValueKind::Map, "update" | "pop" | "popitem" | "clear" | "setdefault") => {
            Err(invalid(format!("{method} would change a value; templates may not, as in transformers' sandbox")))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}
