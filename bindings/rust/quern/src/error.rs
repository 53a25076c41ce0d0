//! What goes wrong, as values.
// SPDX-License-Identifier: Apache-2.0
use quern_sys as sys;
use std::ffi::CStr;
use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

/// `enum quern_status`, but for `QUERN_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    Miss,
    Pending,
    Invalid,
    Unsupported,
    NotFound,
    Compile,
    Driver,
    Sticky,
    Capturing,
    NoMemory,
    Io,
    Damaged,
    Forked,
    Partial,
    Internal,
    Fault,
    /// Of a newer library.
    Other(i32),
}

impl From<i32> for Status {
    fn from(status: i32) -> Self {
        match status {
            sys::QUERN_MISS => Self::Miss,
            sys::QUERN_PENDING => Self::Pending,
            sys::QUERN_INVALID => Self::Invalid,
            sys::QUERN_UNSUPPORTED => Self::Unsupported,
            sys::QUERN_NOT_FOUND => Self::NotFound,
            sys::QUERN_COMPILE => Self::Compile,
            sys::QUERN_DRIVER => Self::Driver,
            sys::QUERN_STICKY => Self::Sticky,
            sys::QUERN_CAPTURING => Self::Capturing,
            sys::QUERN_NO_MEMORY => Self::NoMemory,
            sys::QUERN_IO => Self::Io,
            sys::QUERN_DAMAGED => Self::Damaged,
            sys::QUERN_FORKED => Self::Forked,
            sys::QUERN_PARTIAL => Self::Partial,
            sys::QUERN_INTERNAL => Self::Internal,
            sys::QUERN_FAULT => Self::Fault,
            other => Self::Other(other),
        }
    }
}

/// The text names the argument, what was given, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: Status,
    /// The driver's, compiler's or system's own code, 0 if none.
    pub native: i64,
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.status, self.text)
    }
}

impl std::error::Error for Error {}

/// The result of a call of quern.h, which is given the `quern_error`.
pub(crate) fn checked(call: impl FnOnce(*mut sys::quern_error) -> i32) -> Result<()> {
    let mut error = Box::new(sys::quern_error::default());
    let status = call(&mut *error);
    if status == sys::QUERN_OK {
        return Ok(());
    }
    // SAFETY: the text is zeroed, and the library ends what it writes there with a NUL.
    let text = unsafe { CStr::from_ptr(error.text.as_ptr()) };
    Err(Error { status: status.into(), native: error.native, text: text.to_string_lossy().into_owned() })
}
