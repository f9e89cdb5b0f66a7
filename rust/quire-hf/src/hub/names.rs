//! What a user or a server may call a repository, a revision, a file: all of it ends up in addresses and paths.

const MAX_NAME: usize = 1024;

fn is_plain(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".."
}

/// ORG/NAME, or NAME alone, in the hub's characters.
pub fn check_repository(id: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = |part: &str| is_plain(part) && part.len() <= 96 && part.chars().all(allowed) && !part.contains("--");
    match id.split('/').count() <= 2 && id.split('/').all(good) {
        true => Ok(()),
        false => Err(format!("'{id}' is no repository of a hub: ORG/NAME, of letters, digits, '-', '_' and '.'")),
    }
}

/// A branch, tag or commit, of which the cache makes a file's name.
pub fn check_revision(revision: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_graphic() && !"~^:?*[\\#%".contains(c);
    let good = revision.len() <= MAX_NAME && revision.chars().all(allowed) && revision.split('/').all(is_plain);
    match good {
        true => Ok(()),
        false => Err(format!("'{}' is no name of a revision", revision.escape_debug())),
    }
}

/// A file as the hub lists it: it must stay within the snapshot's folder.
pub fn check_file(name: &str) -> Result<(), String> {
    let good = name.len() <= MAX_NAME && !name.contains(['\\', '\0']) && !name.chars().any(char::is_control);
    match good && name.split('/').all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "the hub lists a file '{}', which would lie outside the folder of the download: nothing is taken from there",
            name.escape_debug()
        )),
    }
}

/// A commit's hash, which names a folder.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What may name a file among the cache's blobs.
pub fn is_blob_name(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// `name` as the path of an address.
pub fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{check_file, check_repository, check_revision, escape};

    #[test]
    fn files_stay_in_their_folder() {
        for name in ["a", "a/b.json", "..a", "a..b", "\u{e9}.json"] {
            assert!(check_file(name).is_ok(), "{name}");
        }
        for name in ["", "/a", "../a", "a/../b", "a/..", "a//b", "./a", "a\\b", "a\0b", "a\nb", "C:\\a"] {
            assert!(check_file(name).is_err(), "{name}");
        }
    }

    #[test]
    fn repositories_and_revisions_have_the_characters_of_theirs() {
        for id in ["gpt2", "org/name", "Org-1/na_me.v2"] {
            assert!(check_repository(id).is_ok(), "{id}");
        }
        for id in ["", "/", "a/", "a/b/c", "a/..", "a b/c", "a/b?x", "a--b/c"] {
            assert!(check_repository(id).is_err(), "{id}");
        }
        for revision in ["main", "refs/pr/1", "v1.0"] {
            assert!(check_revision(revision).is_ok(), "{revision}");
        }
        for revision in ["", "../x", "/main", "a b", "a%2f", "a?b"] {
            assert!(check_revision(revision).is_err(), "{revision}");
        }
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escape("a b/\u{e9}#.json"), "a%20b/%C3%A9%23.json");
    }
}
