//! Chat templates: minijinja set up as transformers sets up Jinja2 (apply_chat_template).

use std::ffi::c_int;
use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::clock::strftime_now;
use crate::ffi::{guard, guard_or, text, Bytes, Failure};
use crate::generation_tags::replace_generation_tags;
use crate::limits::{
    check_json_depth, check_size, render_fuel, render_stack, MAX_CONTEXT, MAX_CONTEXT_DEPTH, MAX_OUTPUT,
    MAX_RENDER_DEPTH, MAX_TEMPLATE,
};
use crate::methods::unknown_method;
use crate::python::to_str;
use crate::tojson::tojson;

const NAME: &str = "chat_template";
/// Begins the detail of an error made by raise_exception, so that it is known again after it went through the engine.
const RAISED: &str = "\u{1}raise_exception:";

/// quire_hf_template.
pub struct Template {
    environment: Environment<'static>,
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{}", to_str(message)?)))
}

/// Jinja2's `sequence` test: what has a length and can be indexed.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

fn join_filter(
    value: &Value,
    separator: Option<&Value>,
    attribute: Option<&Value>,
    kwargs: minijinja::value::Kwargs,
) -> Result<String, Error> {
    let separator = match separator {
        Some(separator) => to_str(separator)?,
        None => kwargs.get::<Option<Value>>("d")?.map_or(Ok(String::new()), |value| to_str(&value))?,
    };
    let attribute = match attribute {
        Some(attribute) => Some(attribute.clone()),
        None => kwargs.get::<Option<Value>>("attribute")?,
    };
    kwargs.assert_all_used()?;
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        let item = attribute.as_ref().map_or(Ok(item.clone()), |key| item.get_item(key))?;
        out.push_str(&to_str(&item)?);
        if out.len() > MAX_OUTPUT {
            return Err(Error::new(ErrorKind::InvalidOperation, "the joined text is too long"));
        }
    }
    Ok(out)
}

fn trim_filter(value: &Value, characters: Option<&str>) -> Result<String, Error> {
    let text = to_str(value)?;
    Ok(match characters {
        Some(set) => text.trim_matches(|c| set.contains(c)).to_string(),
        None => text.trim().to_string(),
    })
}

fn word_count(text: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_recursion_limit(MAX_RENDER_DEPTH);
    environment.set_unknown_method_callback(unknown_method);
    environment.set_formatter(|out, _, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&to_str(value)?).map_err(Error::from),
    });
    environment.add_function("raise_exception", |args: Rest<Value>| match args.first() {
        Some(message) => raise_exception(message),
        None => raise_exception(&Value::from("")),
    });
    environment.add_function("strftime_now", |format: &str| strftime_now(format));
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |value: &Value| to_str(value));
    environment.add_filter("join", join_filter);
    environment.add_filter("trim", trim_filter);
    environment.add_filter("wordcount", word_count);
    environment.add_test("sequence", |value: &Value| is_sequence(value));
    environment.remove_global("debug");
    Ok(environment)
}

/// The engine's message with the line it is about, on one line.
fn describe(error: &Error) -> String {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    let mut message = match error.line() {
        Some(line) => format!("{detail} (line {line})"),
        None => detail,
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}

/// What raise_exception was given, if the error or one of its causes comes from it.
fn raised_message(error: &Error) -> Option<String> {
    let mut current: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = current {
        let detail = cause.downcast_ref::<Error>().and_then(Error::detail);
        if let Some(message) = detail.and_then(|detail| detail.strip_prefix(RAISED)) {
            return Some(message.to_string());
        }
        current = cause.source();
    }
    None
}

fn failure(error: Error) -> Failure {
    match raised_message(&error) {
        Some(message) => Failure::Raised(message),
        None => Failure::Invalid(describe(&error)),
    }
}

/// Text up to MAX_OUTPUT bytes.
struct LimitedText(Vec<u8>);

impl Write for LimitedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!("the rendered prompt exceeds {MAX_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Template {
    fn compile(source: &str) -> Result<Self, Failure> {
        check_size("the chat template", source.len(), MAX_TEMPLATE)?;
        let mut environment = environment().map_err(failure)?;
        let source = replace_generation_tags(source);
        // The parser's own depth limit allows more stack than a small thread has.
        stacker::grow(render_stack(0), || environment.add_template_owned(NAME, source)).map_err(failure)?;
        Ok(Template { environment })
    }

    fn render(&self, context: &str) -> Result<String, Failure> {
        check_size("the chat request", context.len(), MAX_CONTEXT)?;
        check_json_depth(context, MAX_CONTEXT_DEPTH)?;
        let fuel = render_fuel(context.len());
        stacker::grow(render_stack(fuel), || {
            let context: serde_json::Value = serde_json::from_str(context)
                .map_err(|error| Failure::Invalid(format!("the template's context: {error}")))?;
            let mut environment = self.environment.clone();
            environment.set_fuel(Some(fuel));
            let template = environment.get_template(NAME).map_err(failure)?;
            let mut out = LimitedText(Vec::new());
            template.render_captured_to(Value::from(Serde(context)), &mut out).map_err(failure)?;
            String::from_utf8(out.0).map_err(|error| Failure::Invalid(error.to_string()))
        })
    }
}

/// # Safety
/// As the header says; so for all functions below.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_template_new(
    source: *const u8,
    size: usize,
    out: *mut *mut Template,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || {
        let template = Template::compile(text("the chat template", source, size)?)?;
        Ok(Box::into_raw(Box::new(template)))
    })
}

/// # Safety
/// See `quire_hf_template_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_template_free(template: *mut Template) {
    if !template.is_null() {
        guard_or((), || drop(Box::from_raw(template)));
    }
}

/// # Safety
/// See `quire_hf_template_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_template_render(
    template: *const Template,
    context: *const u8,
    size: usize,
    out: *mut Bytes,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || Ok(Bytes::from((*template).render(text("the chat request", context, size)?)?)))
}
