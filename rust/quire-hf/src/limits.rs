//! Limits that are checked before the work begins, because what they guard against (exhausted memory, an overflown
//! stack) cannot be caught afterwards.

/// Largest tokenizer.json: Gemma's, with its 260,000 tokens, has 33 MB.
pub const MAX_TOKENIZER_JSON: usize = 256 << 20;
/// Largest text for one encode call.
pub const MAX_TEXT: usize = 32 << 20;
/// Most ids in one decode call.
pub const MAX_IDS: usize = 16 << 20;
/// Largest chat template: the longest published ones have about 30 kB.
pub const MAX_TEMPLATE: usize = 1 << 20;
/// Largest JSON context of a render.
pub const MAX_CONTEXT: usize = 32 << 20;
/// Deepest nesting of a render's context.
pub const MAX_CONTEXT_DEPTH: usize = 100;
/// Largest rendered prompt.
pub const MAX_OUTPUT: usize = 64 << 20;
/// Deepest nesting of macros, includes and loops while rendering.
pub const MAX_RENDER_DEPTH: usize = 200;
/// Deepest value that is printed or turned into JSON.
pub const MAX_VALUE_DEPTH: usize = 128;

/// Instructions (and 64-byte pieces of new data) that a render may spend: a base, and four for each byte of its context.
pub fn render_fuel(context_bytes: usize) -> u64 {
    1_000_000 + 4 * context_bytes as u64
}

/// Stack for a render. A template can nest values one level deeper for every few units of fuel, and freeing such a value
/// recurses through all levels, so the stack grows with the fuel; only pages that are touched cost memory.
pub fn render_stack(fuel: u64) -> usize {
    (32 << 20) + 64 * fuel as usize
}

/// Refuses JSON text nested deeper than `limit`; the text need not be valid otherwise.
pub fn check_json_depth(text: &str, limit: usize) -> Result<(), String> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return Err(format!("JSON is nested deeper than {limit} levels"));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Refuses `size` above `limit`, naming what it is the size of.
pub fn check_size(what: &str, size: usize, limit: usize) -> Result<(), String> {
    if size > limit {
        return Err(format!("{what} has {size} bytes, the limit is {limit}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_json_depth;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        assert!(check_json_depth(r#"[["[[[[", "\"[[["]]"#, 2).is_ok());
        assert!(check_json_depth("[[[]]]", 2).is_err());
        assert!(check_json_depth("[[]], [[]], [[]]", 2).is_ok());
    }
}
