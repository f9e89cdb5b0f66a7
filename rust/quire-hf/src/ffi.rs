//! The border to C: raw pointers to slices and back, panics to errors.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

/// Results of the C functions; the header explains them.
pub const OK: c_int = 0;
pub const INVALID: c_int = 1;
pub const RAISED: c_int = 2;
pub const INTERNAL: c_int = 3;
pub const NOT_FOUND: c_int = 4;
pub const UNAVAILABLE: c_int = 5;
pub const CANCELLED: c_int = 6;

/// Why a call failed.
pub enum Failure {
    /// The caller's input is at fault.
    Invalid(String),
    /// A template called raise_exception with this message.
    Raised(String),
    /// The hub or its cache lacks what was asked for.
    NotFound(String),
    /// The hub was not reached.
    Unavailable(String),
    /// The caller ended it.
    Cancelled(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Invalid(message)
    }
}

/// Bytes owned by this library (quire_hf_bytes).
#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    size: usize,
}

/// Token ids owned by this library (quire_hf_ids).
#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        let (data, size) = leak(text.into_bytes());
        Bytes { data, size }
    }
}

impl From<Vec<u32>> for Ids {
    fn from(ids: Vec<u32>) -> Self {
        let (data, size) = leak(ids);
        Ids { data, size }
    }
}

fn leak<T>(items: Vec<T>) -> (*mut T, usize) {
    let size = items.len();
    (Box::into_raw(items.into_boxed_slice()) as *mut T, size)
}

/// # Safety
/// `data` and `size` are from `leak`, and not yet freed.
unsafe fn reclaim<T>(data: *mut T, size: usize) {
    if !data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)));
    }
}

/// # Safety
/// `data` points to `size` items that outlive the call, or `size` is 0.
pub unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 || data.is_null() {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// As `slice`, and refuses what is not UTF-8.
///
/// # Safety
/// As `slice`.
pub unsafe fn text<'a>(what: &str, data: *const u8, size: usize) -> Result<&'a str, Failure> {
    std::str::from_utf8(slice(data, size))
        .map_err(|error| Failure::Invalid(format!("{what} is not valid UTF-8 at byte {}", error.valid_up_to())))
}

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message =
        payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    message.unwrap_or("unknown panic").to_string()
}

/// Runs `call`, writes its value to `out` or its message to `error`, and returns the C result. Panics become INTERNAL.
///
/// # Safety
/// `out` and `error` are valid for writes.
pub unsafe fn guard<T>(out: *mut T, error: *mut Bytes, call: impl FnOnce() -> Result<T, Failure>) -> c_int {
    static QUIET: Once = Once::new();
    // A caught panic is an error value; the default hook would also print it.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let (code, message) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => {
            out.write(value);
            return OK;
        }
        Ok(Err(Failure::Invalid(message))) => (INVALID, message),
        Ok(Err(Failure::Raised(message))) => (RAISED, message),
        Ok(Err(Failure::NotFound(message))) => (NOT_FOUND, message),
        Ok(Err(Failure::Unavailable(message))) => (UNAVAILABLE, message),
        Ok(Err(Failure::Cancelled(message))) => (CANCELLED, message),
        Err(payload) => (INTERNAL, panic_message(payload)),
    };
    error.write(Bytes::from(message));
    code
}

/// Runs `call` and returns `fallback` if it panics.
pub fn guard_or<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(fallback)
}

/// # Safety
/// `bytes` was written by this library and not yet freed.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_bytes_free(bytes: Bytes) {
    reclaim(bytes.data, bytes.size);
}

/// # Safety
/// `ids` was written by this library and not yet freed.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_ids_free(ids: Ids) {
    reclaim(ids.data, ids.size);
}
