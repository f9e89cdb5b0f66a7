//! Why the hub did not give something.

use crate::ffi::Failure;

pub enum Trouble {
    /// No connection came about: without a network, none will.
    Unreached(String),
    /// No answer, a broken connection or a fault of the server's: another try may succeed.
    Passing(String),
    /// As it stands, it will not succeed; the sentence says why.
    Lasting(Failure),
}

impl Trouble {
    pub fn invalid(message: impl Into<String>) -> Self {
        Trouble::Lasting(Failure::Invalid(message.into()))
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Trouble::Lasting(Failure::NotFound(message.into()))
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unreached(message) | Trouble::Passing(message) => Failure::Unavailable(message),
            Trouble::Lasting(failure) => failure,
        }
    }
}
