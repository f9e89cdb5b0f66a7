//! The C functions of a Repository.

use std::ffi::{c_int, c_void};

use serde_json::json;

use super::failure::Trouble;
use super::repository::Repository;
use super::settings::Settings;
use crate::ffi::{guard, guard_or, text, Bytes, Failure};

/// quire_hf_text.
#[repr(C)]
pub struct Text {
    data: *const u8,
    size: usize,
}

/// quire_hf_hub_options.
#[repr(C)]
pub struct HubOptions {
    repository: Text,
    revision: Text,
    cache: Text,
    token: Text,
}

impl Text {
    /// # Safety
    /// As `ffi::slice`.
    unsafe fn read(&self, what: &str) -> Result<&str, Failure> {
        text(what, self.data, self.size)
    }
}

/// # Safety
/// As the header says; so for all functions below.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_repository_open(
    options: *const HubOptions,
    out: *mut *mut Repository,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || {
        let options = &*options;
        let variable = |name: &str| std::env::var(name).ok();
        let settings = Settings::new(options.cache.read("the cache")?, options.token.read("the token")?, variable)?;
        let (id, revision) = (options.repository.read("the repository")?, options.revision.read("the revision")?);
        Ok(Box::into_raw(Box::new(Repository::open(id, revision, settings)?)))
    })
}

/// # Safety
/// See `quire_hf_repository_open`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_repository_free(repository: *mut Repository) {
    if !repository.is_null() {
        guard_or((), || drop(Box::from_raw(repository)));
    }
}

/// # Safety
/// See `quire_hf_repository_open`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_repository_describe(
    repository: *const Repository,
    out: *mut Bytes,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || {
        let repository = &*repository;
        let files: Vec<_> =
            repository.files().iter().map(|file| json!({"name": file.name, "size": file.size})).collect();
        let folder = repository.folder();
        let folder = folder.to_str().ok_or_else(|| Failure::Invalid("the cache's path is not UTF-8".to_string()))?;
        let description = json!({"commit": repository.commit(), "folder": folder, "note": repository.note(),
                   "offline": repository.is_offline(), "files": files});
        Ok(Bytes::from(description.to_string()))
    })
}

/// # Safety
/// See `quire_hf_repository_open`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_repository_fetch(
    repository: *const Repository,
    name: *const u8,
    size: usize,
    progress: Option<extern "C" fn(*mut c_void, u64) -> bool>,
    context: *mut c_void,
    out: *mut Bytes,
    error: *mut Bytes,
) -> c_int {
    guard(out, error, || {
        let mut report = |bytes| match progress {
            Some(progress) if !progress(context, bytes) => {
                Err(Trouble::Lasting(Failure::Cancelled("the download was stopped; what has come is kept".to_string())))
            }
            _ => Ok(()),
        };
        let path = (*repository).fetch(text("the file's name", name, size)?, &mut report)?;
        let path = path.to_str().ok_or_else(|| Failure::Invalid("the cache's path is not UTF-8".to_string()))?;
        Ok(Bytes::from(path.to_string()))
    })
}

/// # Safety
/// See `quire_hf_repository_open`.
#[no_mangle]
pub unsafe extern "C" fn quire_hf_repository_settle(repository: *const Repository, error: *mut Bytes) -> c_int {
    guard(&mut (), error, || Ok((*repository).settle()?))
}
