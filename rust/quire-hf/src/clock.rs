//! strftime_now: local time in C's strftime notation, as Python's datetime.now().strftime gives it.

use std::ffi::CString;

use minijinja::{Error, ErrorKind};

const MAX_FORMAT: usize = 1024;
const MAX_RESULT: usize = 8192;

/// Replaces %f, which C's strftime does not know, by the microseconds.
fn with_microseconds(format: &str, microseconds: u32) -> String {
    let mut out = String::with_capacity(format.len());
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('%', Some('f')) => {
                out.push_str(&format!("{microseconds:06}"));
                chars.next();
            }
            ('%', Some(&next)) => {
                out.push('%');
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

/// The template function.
pub fn strftime_now(format: &str) -> Result<String, Error> {
    let refuse = |why: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {why}"));
    if format.is_empty() {
        return Ok(String::new());
    }
    if format.len() > MAX_FORMAT {
        return Err(refuse("the format is too long"));
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|_| refuse("the clock stands before 1970"))?;
    let format = with_microseconds(format, now.subsec_micros());
    let format = CString::new(format).map_err(|_| refuse("the format contains a null character"))?;
    let seconds = now.as_secs() as libc::time_t;
    let mut buffer = vec![0u8; MAX_RESULT];
    // SAFETY: localtime_r fills `parts`; strftime writes at most MAX_RESULT bytes, and the format is null-terminated.
    let written = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut parts).is_null() {
            return Err(refuse("the local time is not available"));
        }
        libc::strftime(buffer.as_mut_ptr().cast(), MAX_RESULT, format.as_ptr(), &parts)
    };
    buffer.truncate(written);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::with_microseconds;

    #[test]
    fn microseconds_are_filled_in_and_percent_signs_kept() {
        assert_eq!(with_microseconds("%H.%f %%f %", 42), "%H.000042 %%f %");
    }
}
