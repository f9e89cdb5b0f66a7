//! `{% generation %} ... {% endgeneration %}`: transformers' marks for training. They print nothing of their own, but they
//! are blocks: they obey whitespace control and open a scope. `{% with %}` is the same thing in plain Jinja.

/// The end of the string literal that begins at `at` (a quote), one past its closing quote.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() && bytes[i] != bytes[at] {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(bytes.len())
}

/// The position of `close` at or after `from`, string literals skipped; the text's end if there is none.
fn find_close(bytes: &[u8], from: usize, close: &[u8]) -> usize {
    let mut i = from;
    while i < bytes.len() {
        match bytes[i] {
            b'"' | b'\'' => i = end_of_string(bytes, i),
            _ if bytes[i..].starts_with(close) => return i,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    (from..bytes.len()).find(|&i| bytes[i..].starts_with(what)).unwrap_or(bytes.len())
}

/// The word of a tag that has only this word, whitespace control aside.
fn only_word(tag: &str) -> &str {
    tag.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim()
}

/// Where a raw block that begins before `from` ends: one past its endraw tag.
fn end_of_raw(source: &str, from: usize) -> usize {
    let mut at = from;
    while at < source.len() {
        let open = find(source.as_bytes(), at, b"{%");
        let close = find(source.as_bytes(), open, b"%}");
        if open + 2 <= close && close < source.len() && only_word(&source[open + 2..close]) == "endraw" {
            return close + 2;
        }
        at = open + 2;
    }
    source.len()
}

/// `source` with generation tags replaced by with tags of the same whitespace control.
pub fn replace_generation_tags(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let (mut done, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"{#" => at = (find(bytes, at + 2, b"#}") + 2).min(bytes.len()),
            b"{{" => at = (find_close(bytes, at + 2, b"}}") + 2).min(bytes.len()),
            b"{%" => {
                let close = find_close(bytes, at + 2, b"%}");
                let tag = &source[at + 2..close];
                let replacement = match only_word(tag) {
                    "generation" => Some(("generation", "with")),
                    "endgeneration" => Some(("endgeneration", "endwith")),
                    _ => None,
                };
                if let Some((from, to)) = replacement {
                    out.push_str(&source[done..at + 2]);
                    out.push_str(&tag.replacen(from, to, 1));
                    done = close;
                }
                at = (close + 2).min(bytes.len());
                if only_word(tag) == "raw" {
                    at = end_of_raw(source, at);
                }
            }
            _ => at += 1,
        }
    }
    out.push_str(&source[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::replace_generation_tags;

    #[test]
    fn only_tags_are_replaced() {
        let source = "{%- generation -%}a{% endgeneration +%}{# {% generation %} #}{{ '{% generation %}' }}\
                      {% raw %}{% generation %}{% endraw %}{% set generation = 1 %}";
        let expected = "{%- with -%}a{% endwith +%}{# {% generation %} #}{{ '{% generation %}' }}\
                        {% raw %}{% generation %}{% endraw %}{% set generation = 1 %}";
        assert_eq!(replace_generation_tags(source), expected);
    }

    #[test]
    fn unfinished_tags_are_left_to_the_parser() {
        for source in ["{%", "{% generation", "{{ 'a", "{# x", "{% raw %}{%", "{%%}", "é{%ü", "{% 'a\\"] {
            assert_eq!(replace_generation_tags(source), source);
        }
    }
}
