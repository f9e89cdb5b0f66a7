//! One file from an address into a path: resumed where an earlier run stopped, held against its size and digest.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use ureq::http::Response;
use ureq::Body;

use super::client::{header_text, with_retries, Client, Request};
use super::digest::{Digest, Running};
use super::failure::Trouble;
use crate::ffi::Failure;

const PIECE: usize = 256 << 10;

/// What is transferred, and what is known of it.
pub struct Transfer<'a> {
    pub client: &'a Client,
    pub url: &'a str,
    /// In messages.
    pub name: &'a str,
    pub size: Option<u64>,
    pub digest: Option<&'a Digest>,
    /// Turns an answer that is not the file into a sentence.
    pub refusal: &'a dyn Fn(&Response<Body>) -> Trouble,
}

/// Told how many bytes are there; an Err ends the transfer, whose partial file stays.
pub type Progress<'a> = dyn FnMut(u64) -> Result<(), Trouble> + 'a;

/// The partial file, its length, and the digest of its bytes.
struct Partial<'a> {
    path: &'a Path,
    file: File,
    length: u64,
    running: Option<Running>,
}

impl Transfer<'_> {
    /// Completes the file at `path`. What comes is written at once, so that any end of the program leaves what the next
    /// run goes on from.
    pub fn run(&self, path: &Path, progress: &mut Progress) -> Result<(), Trouble> {
        let mut partial = self.open(path, progress)?;
        self.check_space(&partial)?;
        let mut damaged = false;
        loop {
            self.fill(&mut partial, progress)?;
            let expected = self.digest.map(Digest::text);
            let actual = partial.running.take().map(Running::finish);
            if expected.map(str::to_string) == actual {
                return partial.file.sync_all().map_err(|error| self.write_trouble(path, error));
            }
            // A partial file of another time may have spoilt it: once more from the beginning.
            self.restart(&mut partial)?;
            if damaged {
                return Err(Trouble::invalid(format!(
                    "{} does not have the content that the hub lists: its digest is {} in place of {}",
                    self.name,
                    actual.unwrap_or_default(),
                    expected.unwrap_or_default()
                )));
            }
            damaged = true;
        }
    }

    fn open<'p>(&self, path: &'p Path, progress: &mut Progress) -> Result<Partial<'p>, Trouble> {
        let failed = |error| self.write_trouble(path, error);
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(failed)?;
        let mut partial = Partial { path, file, length: 0, running: self.new_running() };
        let mut piece = vec![0; PIECE];
        loop {
            let count = partial.file.read(&mut piece).map_err(failed)?;
            if count == 0 {
                break;
            }
            self.note(&mut partial, &piece[..count]);
            progress(partial.length)?;
        }
        if self.size.is_some_and(|size| partial.length > size) {
            self.restart(&mut partial)?;
        }
        Ok(partial)
    }

    fn new_running(&self) -> Option<Running> {
        self.digest.map(|digest| Running::new(digest, self.size.unwrap_or(0)))
    }

    fn note(&self, partial: &mut Partial, bytes: &[u8]) {
        partial.length += bytes.len() as u64;
        if let Some(running) = &mut partial.running {
            running.update(bytes);
        }
    }

    fn restart(&self, partial: &mut Partial) -> Result<(), Trouble> {
        let emptied = partial.file.set_len(0).and_then(|()| partial.file.seek(SeekFrom::Start(0)));
        emptied.map_err(|error| self.write_trouble(partial.path, error))?;
        partial.length = 0;
        partial.running = self.new_running();
        Ok(())
    }

    /// Asks until the file has all its bytes.
    fn fill(&self, partial: &mut Partial, progress: &mut Progress) -> Result<(), Trouble> {
        let there = std::cell::Cell::new(partial.length);
        with_retries(&mut || progress(there.get()), |report| {
            let before = partial.length;
            let result = match self.size {
                Some(size) if size == partial.length => Ok(()),
                _ => self.ask(partial, &there, report),
            };
            there.set(partial.length);
            (partial.length > before, result)
        })
    }

    /// One request, for what is missing.
    fn ask(
        &self,
        partial: &mut Partial,
        there: &std::cell::Cell<u64>,
        report: &mut dyn FnMut() -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let request = Request { url: self.url, metadata: false, from: partial.length };
        let response = self.client.send(&request)?;
        let total = match response.status().as_u16() {
            // A server may answer with all there is; it then begins anew.
            200 => {
                if partial.length > 0 {
                    self.restart(partial)?;
                }
                header_text(response.headers(), "content-length").and_then(|text| text.parse().ok())
            }
            206 => match range_of(&response) {
                Some((begin, total)) if begin == partial.length => total,
                _ => {
                    self.restart(partial)?;
                    return Err(Trouble::Passing(format!("the server sends another part of {} than asked", self.name)));
                }
            },
            416 if partial.length > 0 => {
                self.restart(partial)?;
                return Err(Trouble::Passing(format!("the server has no more of {}", self.name)));
            }
            _ => return Err((self.refusal)(&response)),
        };
        if let (Some(listed), Some(sent)) = (self.size, total) {
            if listed != sent {
                return Err(Trouble::invalid(format!(
                    "{} should have {listed} bytes, but the server has one of {sent}: it is not taken",
                    self.name
                )));
            }
        }
        self.receive(partial, response, self.size.or(total), there, report)
    }

    fn receive(
        &self,
        partial: &mut Partial,
        response: Response<Body>,
        size: Option<u64>,
        there: &std::cell::Cell<u64>,
        report: &mut dyn FnMut() -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut piece = vec![0; PIECE];
        loop {
            let count = body.read(&mut piece).map_err(|error| self.broken(partial.length, size, &error.to_string()))?;
            if count == 0 {
                break;
            }
            if size.is_some_and(|size| partial.length + count as u64 > size) {
                self.restart(partial)?;
                return Err(Trouble::invalid(format!("the server sends more of {} than it said", self.name)));
            }
            partial.file.write_all(&piece[..count]).map_err(|error| self.write_trouble(partial.path, error))?;
            self.note(partial, &piece[..count]);
            there.set(partial.length);
            report()?;
        }
        match size {
            Some(size) if partial.length < size => Err(self.broken(partial.length, Some(size), "it ends too early")),
            _ => Ok(()),
        }
    }

    fn broken(&self, length: u64, size: Option<u64>, why: &str) -> Trouble {
        let size = size.map_or("?".to_string(), |size| size.to_string());
        Trouble::Passing(format!("the transfer of {} stopped at byte {length} of {size}: {why}", self.name))
    }

    fn check_space(&self, partial: &Partial) -> Result<(), Trouble> {
        let (Some(size), Some(folder)) = (self.size, partial.path.parent()) else { return Ok(()) };
        let (missing, free) = (size.saturating_sub(partial.length), free_bytes(folder));
        match free {
            Some(free) if free < missing => Err(Trouble::invalid(format!(
                "{} needs {missing} bytes more, but the disk of {} has {free} left: free some, or give another folder \
                 with --download-dir or HF_HOME",
                self.name,
                folder.display()
            ))),
            _ => Ok(()),
        }
    }

    fn write_trouble(&self, path: &Path, error: std::io::Error) -> Trouble {
        let advice = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "; what has come is kept: free some space and start again",
            _ => "",
        };
        Trouble::Lasting(Failure::Invalid(format!(
            "{} cannot be written for {}: {error}{advice}",
            path.display(),
            self.name
        )))
    }
}

/// The first byte and the file's size, of "bytes 5-9/10".
fn range_of(response: &Response<Body>) -> Option<(u64, Option<u64>)> {
    let (range, total) = header_text(response.headers(), "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

/// What the disk of `folder` has free for a user.
fn free_bytes(folder: &Path) -> Option<u64> {
    let path = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: statvfs fills `stats` when it returns 0, and the path is null-terminated.
    let stats = unsafe {
        let mut stats: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(path.as_ptr(), &mut stats) != 0 {
            return None;
        }
        stats
    };
    (stats.f_bavail as u64).checked_mul(stats.f_frsize as u64)
}
