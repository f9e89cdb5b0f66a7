//! The digest that the hub names a file's content by.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

/// As text of hexadecimal digits.
#[derive(Clone, Debug, PartialEq)]
pub enum Digest {
    /// Of large files: that of the content.
    Sha256(String),
    /// Of small ones: git's hash, of the word blob, the size, and the content.
    GitBlob(String),
}

/// What has been read of a file so far.
pub struct Running {
    context: Context,
}

impl Running {
    pub fn new(digest: &Digest, size: u64) -> Self {
        let context = match digest {
            Digest::Sha256(_) => Context::new(&SHA256),
            Digest::GitBlob(_) => {
                let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
                context.update(format!("blob {size}\0").as_bytes());
                context
            }
        };
        Running { context }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    pub fn finish(self) -> String {
        self.context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Digest {
    pub fn text(&self) -> &str {
        match self {
            Digest::Sha256(text) | Digest::GitBlob(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, Running};

    #[test]
    fn digests_are_those_of_git_and_sha256sum() {
        let of = |digest: Digest| {
            let mut running = Running::new(&digest, 6);
            running.update(b"hel");
            running.update(b"lo\n");
            running.finish()
        };
        assert_eq!(of(Digest::GitBlob(String::new())), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(
            of(Digest::Sha256(String::new())),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
        );
    }
}
