//! huggingface_hub's lock of a blob: one program at a time writes it.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use super::failure::Trouble;

/// Held while the file is open; the system lets it go when a program dies.
pub struct Lock {
    _file: File,
}

/// Waits for the lock; `waiting` is called ten times a second meanwhile and may end it.
pub fn acquire(path: &Path, waiting: &mut dyn FnMut() -> Result<(), Trouble>) -> Result<Lock, Trouble> {
    let failed = |error: std::io::Error| Trouble::invalid(format!("{} cannot be locked: {error}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    // SAFETY: the descriptor is open.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EWOULDBLOCK) => {
                waiting()?;
                std::thread::sleep(Duration::from_millis(100));
            }
            Some(libc::EINTR) => waiting()?,
            // A filesystem without locks: a rename still makes each blob appear whole.
            Some(libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP) => break,
            _ => return Err(failed(error)),
        }
    }
    Ok(Lock { _file: file })
}
