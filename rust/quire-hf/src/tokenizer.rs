//! A tokenizer.json as an opaque handle.
//!
//! Marks: text in which special tokens must stay ordinary text (a user's message inside a rendered chat) is marked
//! before it is mixed with text in which they are parsed. A mark replaces one character of each special token's text by a
//! character of the range `first_mark..first_mark + mark_count`, which occurs nowhere else in the text; so the token is
//! not found, and the character is put back before the pre-tokenizer and the model see it.

use std::collections::BTreeSet;
use std::ffi::c_int;

use aho_corasick::AhoCorasick;
use tokenizers::tokenizer::{Model, OffsetType, PreTokenizer};

use crate::ffi::{guard, guard_or, slice, text, Bytes, Failure, Ids};
use crate::limits::{check_json_depth, check_size, MAX_IDS, MAX_TEXT, MAX_TOKENIZER_JSON};

/// quire_hf_tokenizer.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Finds the text of special tokens; None when there are none.
    special_text: Option<AhoCorasick>,
    /// For each pattern of `special_text`: the byte offset of the character to mark, and its index in `marked`.
    mark_of_pattern: Vec<(usize, usize)>,
    /// The characters that marks stand for.
    marked: Vec<char>,
    special_ids: BTreeSet<u32>,
    vocab_size: u32,
}

/// The character of `token` to mark: one that is marked already if it has one, else its first one that JSON does not
/// escape and templates do not trim.
fn character_to_mark(token: &str, marked: &mut Vec<char>) -> Option<(usize, usize)> {
    let known = |c: char, marked: &[char]| marked.iter().position(|&m| m == c);
    if let Some(found) = token.char_indices().find_map(|(at, c)| Some((at, known(c, marked)?))) {
        return Some(found);
    }
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '\\';
    let (at, c) = token.char_indices().find(|&(_, c)| plain(c))?;
    marked.push(c);
    Some((at, marked.len() - 1))
}

impl Tokenizer {
    fn from_json(json: &str) -> Result<Self, Failure> {
        check_size("tokenizer.json", json.len(), MAX_TOKENIZER_JSON)?;
        check_json_depth(json, 100)?;
        tokenizers::utils::parallelism::set_parallelism(false);
        let mut inner: tokenizers::Tokenizer =
            json.parse().map_err(|error| Failure::Invalid(format!("tokenizer.json: {error}")))?;
        // As transformers does: a request's text is neither cut nor padded because the file was saved with such settings.
        inner.with_truncation(None).map_err(|error| Failure::Invalid(error.to_string()))?;
        inner.with_padding(None);

        let added = inner.get_added_tokens_decoder();
        let mut special: Vec<(u32, String)> =
            added.iter().filter(|(_, token)| token.special).map(|(id, token)| (*id, token.content.clone())).collect();
        special.sort();
        let (mut patterns, mut mark_of_pattern, mut marked) = (Vec::new(), Vec::new(), Vec::new());
        for (_, content) in &special {
            if let Some(mark) = character_to_mark(content, &mut marked) {
                patterns.push(content.as_str());
                mark_of_pattern.push(mark);
            }
        }
        let special_text = match patterns.is_empty() {
            true => None,
            false => Some(AhoCorasick::new(&patterns).map_err(|error| Failure::Invalid(error.to_string()))?),
        };
        let highest = inner.get_vocab(true).values().max().copied();
        Ok(Tokenizer {
            special_text,
            mark_of_pattern,
            marked,
            special_ids: special.iter().map(|(id, _)| *id).collect(),
            vocab_size: highest.map_or(0, |id| id + 1),
            inner,
        })
    }

    fn mark(&self, text: &str, first_mark: u32) -> Result<String, Failure> {
        let Some(finder) = &self.special_text else { return Ok(text.to_string()) };
        let positions: std::collections::BTreeMap<usize, usize> = finder
            .find_overlapping_iter(text)
            .map(|found| {
                let (offset, index) = self.mark_of_pattern[found.pattern().as_usize()];
                (found.start() + offset, index)
            })
            .collect();
        let mut out = String::with_capacity(text.len() + 4 * positions.len());
        let mut done = 0;
        for (at, index) in positions {
            let mark = char::from_u32(first_mark + index as u32)
                .ok_or_else(|| Failure::Invalid("marks lie outside Unicode".to_string()))?;
            out.push_str(&text[done..at]);
            out.push(mark);
            done = at + self.marked[index].len_utf8();
        }
        out.push_str(&text[done..]);
        Ok(out)
    }

    fn restore(&self, c: char, first_mark: u32) -> char {
        let index = (c as u32).wrapping_sub(first_mark) as usize;
        self.marked.get(index).copied().unwrap_or(c)
    }

    /// `first_mark` 0: the text has no marks.
    fn encode(&self, text: &str, add_special_tokens: bool, first_mark: u32) -> Result<Vec<u32>, Failure> {
        check_size("the text", text.len(), MAX_TEXT)?;
        let encoding = match first_mark {
            0 => self.inner.encode_fast(text, add_special_tokens),
            _ => self.encode_marked(text, add_special_tokens, first_mark),
        };
        match encoding {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(Failure::Invalid(format!("the text cannot be tokenized: {error}"))),
        }
    }

    /// The steps of tokenizers' encode_fast, with the marked characters put back between its first and its second step.
    fn encode_marked(
        &self,
        text: &str,
        add_special_tokens: bool,
        first_mark: u32,
    ) -> tokenizers::Result<tokenizers::Encoding> {
        let added_vocabulary = self.inner.get_added_vocabulary();
        let mut pieces = added_vocabulary.extract_and_normalize(self.inner.get_normalizer(), text);
        pieces.normalize(|piece| {
            piece.map(|c| self.restore(c, first_mark));
            Ok(())
        })?;
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        self.inner.get_model().tokenize_in_pretokenized(&mut pieces, None)?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
        self.inner.post_process(encoding, None, add_special_tokens)
    }

    fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, Failure> {
        if ids.len() > MAX_IDS {
            return Err(Failure::Invalid(format!("{} ids to decode, the limit is {MAX_IDS}", ids.len())));
        }
        if let Some(id) = ids.iter().find(|&&id| id >= self.vocab_size) {
            return Err(Failure::Invalid(format!(
                "token id {id} is outside the vocabulary of {} tokens",
                self.vocab_size
            )));
        }
        self.inner
            .decode(ids, skip_special_tokens)
            .map_err(|error| Failure::Invalid(format!("the ids cannot be decoded: {error}")))
    }
}

/// # Safety
/// As the header says; so for all functions below.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_new(
    json: *const u8,
    size: usize,
    out: *mut *mut Tokenizer,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || {
        let tokenizer = Tokenizer::from_json(text("tokenizer.json", json, size)?)?;
        Ok(Box::into_raw(Box::new(tokenizer)))
    })
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        guard_or((), || drop(Box::from_raw(tokenizer)));
    }
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_encode(
    tokenizer: *const Tokenizer,
    data: *const u8,
    size: usize,
    add_special_tokens: bool,
    first_mark: u32,
    out: *mut Ids,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || {
        let ids = (*tokenizer).encode(text("the text", data, size)?, add_special_tokens, first_mark)?;
        Ok(Ids::from(ids))
    })
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_mark_count(tokenizer: *const Tokenizer) -> u32 {
    (*tokenizer).marked.len() as u32
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_mark(
    tokenizer: *const Tokenizer,
    data: *const u8,
    size: usize,
    first_mark: u32,
    out: *mut Bytes,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || Ok(Bytes::from((*tokenizer).mark(text("the text", data, size)?, first_mark)?)))
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_unmark(
    tokenizer: *const Tokenizer,
    data: *const u8,
    size: usize,
    first_mark: u32,
    out: *mut Bytes,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || {
        let restored: String =
            text("the text", data, size)?.chars().map(|c| (*tokenizer).restore(c, first_mark)).collect();
        Ok(Bytes::from(restored))
    })
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    size: usize,
    skip_special_tokens: bool,
    out: *mut Bytes,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || Ok(Bytes::from((*tokenizer).decode(slice(ids, size), skip_special_tokens)?)))
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_id_to_token(tokenizer: *const Tokenizer, id: u32, out: *mut Bytes) -> bool {
    let token = guard_or(None, || {
        let added = (*tokenizer).inner.get_added_vocabulary().get_added_tokens_decoder();
        added.get(&id).map(|token| token.content.clone()).or_else(|| (*tokenizer).inner.get_model().id_to_token(id))
    });
    let found = token.is_some();
    if let Some(token) = token {
        out.write(Bytes::from(token));
    }
    found
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_token_to_id(
    tokenizer: *const Tokenizer,
    data: *const u8,
    size: usize,
    out: *mut u32,
) -> bool {
    let id = guard_or(None, || {
        let token = std::str::from_utf8(slice(data, size)).ok()?;
        (*tokenizer).inner.token_to_id(token)
    });
    if let Some(id) = id {
        out.write(id);
    }
    id.is_some()
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_is_special(tokenizer: *const Tokenizer, id: u32) -> bool {
    (*tokenizer).special_ids.contains(&id)
}

/// # Safety
/// See `quire_hf_tokenizer_new`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_tokenizer_vocab_size(tokenizer: *const Tokenizer) -> u32 {
    (*tokenizer).vocab_size
}
