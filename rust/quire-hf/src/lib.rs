//! Hugging Face's tokenizers, chat templates and hub behind a C interface (include/quire_hf.h).
//!
//! Every entry point catches panics and returns an error instead. What cannot be caught is prevented by the limits of
//! `limits`. No thread is ever started here.

mod clock;
mod ffi;
mod generation_tags;
mod hub;
mod limits;
mod methods;
mod python;
mod template;
mod tojson;
mod tokenizer;
