//! Models and adapters from a hub into Hugging Face's cache, the same folders that Python's huggingface_hub fills.
//!
//! The crate hf-hub gives the names, addresses and the cache's layout. Its transfer is not used: its request for a file's
//! metadata takes the token to whatever host the hub redirects to, a server that ignores ranges makes it append a second
//! beginning, and it verifies neither sizes nor digests.

mod c_api;
mod client;
mod digest;
mod failure;
mod lock;
mod names;
mod repository;
mod roots;
mod settings;
mod transfer;
