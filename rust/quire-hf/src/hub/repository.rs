//! A repository at one revision: what the hub (or, without it, the cache) has of it, and its files in the cache.
//!
//! The cache's layout is huggingface_hub's (https://huggingface.co/docs/huggingface_hub/guides/manage-cache):
//! refs/REVISION holds a commit, snapshots/COMMIT/FILE is a link into blobs, whose names are the hub's digests.

use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde_json::Value;
use ureq::http::Response;
use ureq::Body;

use super::client::{header_text, with_retries, Client, Request};
use super::digest::Digest;
use super::failure::Trouble;
use super::lock::acquire;
use super::names::{check_file, check_repository, check_revision, escape, is_blob_name, is_commit};
use super::settings::Settings;
use super::transfer::{Progress, Transfer};
use crate::ffi::Failure;

/// Largest listing: a repository of 100,000 files has about 20 MB.
const MAX_LISTING: u64 = 64 << 20;
const MAX_FILES: usize = 200_000;
const MAX_FOLDER_DEPTH: usize = 16;

pub struct Repository {
    id: String,
    revision: String,
    settings: Settings,
    repo: Repo,
    layout: CacheRepo,
    client: Option<Client>,
    commit: String,
    files: Vec<RemoteFile>,
    /// Why the cache was taken without asking the hub; empty where the hub was asked.
    note: String,
}

/// A file as the hub lists it.
pub struct RemoteFile {
    pub name: String,
    pub size: Option<u64>,
    digest: Option<Digest>,
}

/// What a file's content is called, and what it must come to.
struct Content {
    blob: String,
    size: Option<u64>,
    digest: Option<Digest>,
}

impl Repository {
    pub fn open(id: &str, revision: &str, settings: Settings) -> Result<Self, Trouble> {
        check_repository(id).map_err(Trouble::invalid)?;
        let revision = if revision.is_empty() { "main" } else { revision };
        check_revision(revision).map_err(Trouble::invalid)?;
        let repo = Repo::with_revision(id.to_string(), RepoType::Model, revision.to_string());
        let layout = Cache::new(settings.cache.clone()).repo(repo.clone());
        let mut repository = Repository {
            id: id.to_string(),
            revision: revision.to_string(),
            settings,
            repo,
            layout,
            client: None,
            commit: String::new(),
            files: Vec::new(),
            note: String::new(),
        };
        match repository.settings.offline {
            true => repository.look_into_cache("HF_HUB_OFFLINE is set"),
            false => repository.ask_hub(),
        }?;
        Ok(repository)
    }

    pub fn commit(&self) -> &str {
        &self.commit
    }
    pub fn files(&self) -> &[RemoteFile] {
        &self.files
    }
    pub fn note(&self) -> &str {
        &self.note
    }
    /// Whether the hub must not be asked.
    pub fn is_offline(&self) -> bool {
        self.settings.offline
    }

    /// The snapshot's folder.
    pub fn folder(&self) -> PathBuf {
        self.layout.pointer_path(&self.commit)
    }

    fn ask_hub(&mut self) -> Result<(), Trouble> {
        let token = self.settings.token.clone();
        self.client = Some(Client::new(&self.settings.endpoint, token).map_err(Trouble::invalid)?);
        let mut listing = self.fetch_listing();
        if matches!(listing, Err(Trouble::Passing(_))) {
            listing = with_retries(&mut || Ok(()), |_| (false, self.fetch_listing()));
        }
        let listing = match listing {
            Err(Trouble::Unreached(why) | Trouble::Passing(why)) if self.look_into_cache(&why).is_ok() => {
                self.client = None;
                return Ok(());
            }
            other => other?,
        };
        self.read_listing(&listing)
    }

    fn fetch_listing(&self) -> Result<Value, Trouble> {
        // With the files' sizes and digests, where the server knows of that.
        let url = format!("{}/api/{}?blobs=true", self.settings.endpoint, self.repo.api_url());
        let mut response = self.client()?.send(&Request { url: &url, metadata: false, from: 0 })?;
        if response.status().as_u16() != 200 {
            return Err(self.refusal(&response, None));
        }
        let body = response.body_mut().with_config().limit(MAX_LISTING).read_to_vec();
        let body = body.map_err(|error| {
            Trouble::Passing(format!("{} breaks off its listing of {}: {error}", self.settings.endpoint, self.id))
        })?;
        serde_json::from_slice(&body).map_err(|_| self.no_hub())
    }

    fn no_hub(&self) -> Trouble {
        Trouble::invalid(format!("{} does not answer as a hub does: check HF_ENDPOINT", self.settings.endpoint))
    }

    fn read_listing(&mut self, listing: &Value) -> Result<(), Trouble> {
        let commit = listing["sha"].as_str().filter(|text| is_commit(text));
        let (Some(commit), Some(siblings)) = (commit, listing["siblings"].as_array()) else {
            return Err(self.no_hub());
        };
        if siblings.len() > MAX_FILES {
            return Err(Trouble::invalid(format!(
                "{} has {} files, the limit is {MAX_FILES}",
                self.id,
                siblings.len()
            )));
        }
        // So that no sum of some of them overflows anywhere.
        let total =
            siblings.iter().try_fold(0u64, |sum, sibling| sum.checked_add(sibling["size"].as_u64().unwrap_or(0)));
        if total.map_or(true, |total| total > i64::MAX as u64) {
            return Err(self.no_hub());
        }
        self.commit = commit.to_string();
        self.files.clear();
        for sibling in siblings {
            let Some(name) = sibling["rfilename"].as_str() else { return Err(self.no_hub()) };
            check_file(name).map_err(|message| Trouble::invalid(format!("{}: {message}", self.id)))?;
            let size = sibling["size"].as_u64();
            let large = sibling["lfs"]["sha256"].as_str().filter(|text| is_digest(text, 64));
            let small = sibling["blobId"].as_str().filter(|text| is_digest(text, 40));
            let digest = match (large, small, size) {
                (Some(text), _, _) => Some(Digest::Sha256(text.to_string())),
                // The blob of a large file is a pointer to it.
                (None, Some(text), Some(_)) if sibling["lfs"].is_null() => Some(Digest::GitBlob(text.to_string())),
                _ => None,
            };
            self.files.push(RemoteFile { name: name.to_string(), size, digest });
        }
        Ok(())
    }

    /// Takes what an earlier download left; `why` is the reason not to ask the hub.
    fn look_into_cache(&mut self, why: &str) -> Result<(), Trouble> {
        let reference = self.reference();
        let commit = match std::fs::read_to_string(&reference) {
            Ok(text) => text.trim().to_string(),
            Err(_) => self.revision.clone(),
        };
        let folder = self.layout.pointer_path(&commit);
        if !is_commit(&commit) || !folder.is_dir() {
            let cache = self.settings.cache.display();
            return Err(Trouble::not_found(format!(
                "{why}, and the cache {cache} has no revision '{}' of {}: fetch it once with 'quire pull {}' where the hub \
                 can be reached",
                self.revision, self.id, self.id
            )));
        }
        self.commit = commit;
        self.files.clear();
        list_folder(&folder, "", MAX_FOLDER_DEPTH, &mut self.files);
        self.files.sort_by(|a, b| a.name.cmp(&b.name));
        self.note = why.to_string();
        Ok(())
    }

    fn reference(&self) -> PathBuf {
        self.settings.cache.join(self.repo.folder_name()).join("refs").join(&self.revision)
    }

    fn client(&self) -> Result<&Client, Trouble> {
        self.client.as_ref().ok_or_else(|| Trouble::not_found(format!("{}, and the cache lacks a file", self.note)))
    }

    /// The path of a file that the listing has, downloaded first where it is not in the cache.
    pub fn fetch(&self, name: &str, progress: &mut Progress) -> Result<PathBuf, Trouble> {
        let Some(file) = self.files.iter().find(|file| file.name == name) else {
            return Err(Trouble::not_found(format!("{} has no file '{}'", self.id, name.escape_debug())));
        };
        let pointer = self.folder().join(name);
        if is_whole(&pointer, file.size) {
            progress(std::fs::metadata(&pointer).map_or(0, |data| data.len()))?;
            return Ok(pointer);
        }
        let content = self.content_of(file, progress)?;
        let blob = self.layout.blob_path(&content.blob);
        let locks = self.settings.cache.join(".locks").join(self.repo.folder_name());
        let _lock = acquire(&locks.join(format!("{}.lock", content.blob)), &mut || progress(0))?;
        if !is_whole(&blob, content.size) {
            self.download(file, &content, &blob, progress)?;
        }
        link(&blob, &pointer)?;
        Ok(pointer)
    }

    /// From the listing, or, where that has no digests, from the headers that the hub gives with the file.
    fn content_of(&self, file: &RemoteFile, progress: &mut Progress) -> Result<Content, Trouble> {
        if let Some(digest) = &file.digest {
            return Ok(Content { blob: digest.text().to_string(), size: file.size, digest: Some(digest.clone()) });
        }
        let url = self.address(&file.name);
        let client = self.client()?;
        let response = with_retries(&mut || progress(0), |_| {
            (false, client.send(&Request { url: &url, metadata: true, from: 0 }))
        })?;
        if response.status().is_client_error() {
            return Err(self.refusal(&response, Some(&file.name)));
        }
        let headers = response.headers();
        let redirected = response.status().is_redirection();
        let tag = header_text(headers, "x-linked-etag").or_else(|| header_text(headers, "etag")).unwrap_or_default();
        let tag = tag.trim_start_matches("W/").trim_matches('"');
        if !is_blob_name(tag) {
            return Err(Trouble::invalid(format!(
                "{} gives no usable ETag for {} of {}: check HF_ENDPOINT",
                self.settings.endpoint, file.name, self.id
            )));
        }
        let length = header_text(headers, "x-linked-size")
            .or_else(|| header_text(headers, "content-length").filter(|_| !redirected))
            .and_then(|text| text.parse().ok());
        let digest = is_digest(tag, 64).then(|| Digest::Sha256(tag.to_string()));
        Ok(Content { blob: tag.to_string(), size: length.or(file.size), digest })
    }

    fn download(
        &self,
        file: &RemoteFile,
        content: &Content,
        blob: &Path,
        progress: &mut Progress,
    ) -> Result<(), Trouble> {
        if let Some(folder) = blob.parent() {
            std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, error))?;
        }
        let partial = blob.with_file_name(format!("{}.incomplete", content.blob));
        let transfer = Transfer {
            client: self.client()?,
            url: &self.address(&file.name),
            name: &file.name,
            size: content.size,
            digest: content.digest.as_ref(),
            refusal: &|response| self.refusal(response, Some(&file.name)),
        };
        transfer.run(&partial, progress)?;
        std::fs::rename(&partial, blob).map_err(|error| cannot_write(blob, error))
    }

    fn address(&self, name: &str) -> String {
        format!("{}/{}/resolve/{}/{}", self.settings.endpoint, self.repo.url(), self.commit, escape(name))
    }

    /// Makes the commit the one that the cache gives for the revision, for the time without a hub. To be called when all
    /// that is wanted of it is there.
    pub fn settle(&self) -> Result<(), Trouble> {
        let reference = self.reference();
        let current = std::fs::read_to_string(&reference).unwrap_or_default();
        if self.client.is_none() || self.revision == self.commit || current == self.commit {
            return Ok(());
        }
        self.layout.create_ref(&self.commit).map_err(|error| cannot_write(&reference, error))
    }

    /// What an answer other than a file or a listing means. huggingface_hub reads the same headers.
    fn refusal(&self, response: &Response<Body>, file: Option<&str>) -> Trouble {
        let code = header_text(response.headers(), "x-error-code").unwrap_or_default();
        let said =
            header_text(response.headers(), "x-error-message").map(|text| format!(" ({text})")).unwrap_or_default();
        let (id, endpoint, revision) = (&self.id, &self.settings.endpoint, &self.revision);
        let has_token = self.client.as_ref().is_some_and(Client::has_token);
        let what = file.map_or(id.clone(), |name| format!("{name} of {id}"));
        match (code, response.status().as_u16()) {
            ("GatedRepo", _) if has_token => Trouble::invalid(format!(
                "{id} is gated, and the token's owner has no access: ask for it at {endpoint}/{id}{said}"
            )),
            ("GatedRepo", _) => Trouble::invalid(format!(
                "{id} is gated: ask for access at {endpoint}/{id}, then give a token of yours with --hf-token or HF_TOKEN"
            )),
            ("RevisionNotFound", _) => Trouble::not_found(format!("{id} has no revision '{revision}' at {endpoint}")),
            ("EntryNotFound", _) => Trouble::not_found(format!("{endpoint} has no file {what}")),
            ("DisabledRepo", _) => Trouble::invalid(format!("{endpoint} has disabled {id}{said}")),
            (_, 401) if has_token && code != "RepoNotFound" => Trouble::invalid(format!(
                "{endpoint} does not accept the token for {what}: check --hf-token, HF_TOKEN or the saved token{said}"
            )),
            (_, 401 | 404) if !has_token => Trouble::not_found(format!(
                "there is no {what} at {endpoint}, or it is private: check the name, or give a token with --hf-token or \
                 HF_TOKEN"
            )),
            (_, 401 | 404) => Trouble::not_found(format!(
                "there is no {what} at {endpoint}, or the token's owner may not see it"
            )),
            (_, 403) => Trouble::invalid(format!(
                "{endpoint} denies access to {what}: {}{said}",
                if has_token { "the token does not allow it" } else { "give a token with --hf-token or HF_TOKEN" }
            )),
            (_, status) => Trouble::invalid(format!("{endpoint} answers {status} for {what}{said}")),
        }
    }
}

fn is_digest(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether there is a file, of that size where it is known.
fn is_whole(path: &Path, size: Option<u64>) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && size.map_or(true, |size| size == data.len()))
}

fn list_folder(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<RemoteFile>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Through links, as all files of a snapshot are.
        let Ok(data) = std::fs::metadata(entry.path()) else { continue };
        let name = format!("{prefix}{name}");
        if data.is_dir() && depth > 0 {
            list_folder(&entry.path(), &format!("{name}/"), depth - 1, files);
        } else if data.is_file() && files.len() < MAX_FILES {
            files.push(RemoteFile { name, size: Some(data.len()), digest: None });
        }
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> Trouble {
    Trouble::Lasting(Failure::Invalid(format!("{} cannot be written: {error}", path.display())))
}

/// Makes `pointer` a relative link to `blob`, in one step; on a disk without links the blob itself goes there.
fn link(blob: &Path, pointer: &Path) -> Result<(), Trouble> {
    let failed = |error| cannot_write(pointer, error);
    let folder = pointer.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Both lie in the repository's folder, which is three above a blob's name and further above a pointer's.
    let root = blob.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    let ups = folder.strip_prefix(root).map_or(0, |below| below.components().count());
    let mut target: PathBuf = std::iter::repeat("..").take(ups).collect();
    target.push(blob.strip_prefix(root).unwrap_or(blob));
    let fresh = pointer.with_file_name(format!(
        ".{}.{}",
        pointer.file_name().map_or_else(Default::default, |name| name.to_string_lossy()),
        std::process::id()
    ));
    let _ = std::fs::remove_file(&fresh);
    match std::os::unix::fs::symlink(&target, &fresh) {
        Ok(()) => std::fs::rename(&fresh, pointer).map_err(failed),
        Err(_) => std::fs::rename(blob, pointer).map_err(failed),
    }
}
