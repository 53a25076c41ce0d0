//! Between Rust's values and the structs of quern.h that are no op's.
// SPDX-License-Identifier: Apache-2.0
use crate::{error::checked, Error, Result, Status};
use quern_sys as sys;
use std::any::Any;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

/// What a call tells, out of C's struct.
///
/// # Safety
/// `Raw` begins with a `u32`, its size.
pub(crate) unsafe trait Record {
    type Raw: Default;
    /// # Safety
    /// What the struct points to is there.
    unsafe fn read(from: &Self::Raw) -> Self;
}

pub(crate) unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: quern's strings end with a NUL.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

pub(crate) unsafe fn inline<const N: usize>(from: &[c_char; N]) -> String {
    // SAFETY: zeroed before, so that it ends with a NUL.
    unsafe { text(from.as_ptr()) }
}

/// None for what is asked for by key alone.
pub(crate) unsafe fn bytes(from: *const c_void, count: u64) -> Option<Vec<u8>> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the struct says how long it is.
    Some(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), count as usize) }.to_vec())
}

/// A text as C takes it.
pub(crate) fn c_text(argument: &str, value: &str) -> Result<CString> {
    CString::new(value).map_err(|wrong| {
        let text = format!("{argument}: a NUL given at byte {}; allowed is text without one", wrong.nul_position());
        Error { status: Status::Invalid, native: 0, text }
    })
}

/// What the structs of a call point to.
#[derive(Default)]
pub(crate) struct Held<'a> {
    texts: Vec<CString>,
    lists: Vec<Vec<*const c_char>>,
    structs: Vec<Box<dyn Any>>,
    progress: Option<Box<dyn Rethrow + 'a>>,
}

impl<'a> Held<'a> {
    pub(crate) fn text(&mut self, argument: &str, value: Option<&str>) -> Result<*const c_char> {
        let value = match value {
            Some(value) => value,
            None => return Ok(std::ptr::null()),
        };
        let made = c_text(argument, value)?;
        let start = made.as_ptr();
        self.texts.push(made); // what it points to stays where it is
        Ok(start)
    }
    pub(crate) fn texts(&mut self, argument: &str, values: &[&str]) -> Result<*const *const c_char> {
        let mut list = Vec::new();
        for (place, value) in values.iter().enumerate() {
            list.push(self.text(&format!("{argument}[{place}]"), Some(value))?);
        }
        let start = list.as_ptr();
        self.lists.push(list);
        Ok(start)
    }
    pub(crate) fn keep<T: 'static>(&mut self, value: T) -> *const T {
        let made = Box::new(value);
        let start: *const T = &*made;
        self.structs.push(made);
        start
    }
    pub(crate) fn progress<R: 'a>(&mut self, told: Told<'a, R>) -> *mut c_void {
        let mut made = Box::new(Progress { told, thrown: None });
        let user: *mut Progress<'a, R> = &mut *made;
        self.progress = Some(made);
        user.cast()
    }
    /// Goes on with the panic of a callback, which could not go through C.
    pub(crate) fn rethrow(&mut self) {
        if let Some(thrown) = self.progress.as_mut().and_then(|progress| progress.thrown()) {
            resume_unwind(thrown);
        }
    }
}

type Told<'a, R> = &'a mut dyn FnMut(u64, u64, &R) -> bool;

struct Progress<'a, R> {
    told: Told<'a, R>,
    thrown: Option<Box<dyn Any + Send>>,
}

trait Rethrow {
    fn thrown(&mut self) -> Option<Box<dyn Any + Send>>;
}

impl<R> Rethrow for Progress<'_, R> {
    fn thrown(&mut self) -> Option<Box<dyn Any + Send>> {
        self.thrown.take()
    }
}

/// What the library calls for each result. A panic cancels.
pub(crate) unsafe extern "C" fn tell<R: Record>(
    user: *mut c_void,
    done: u64,
    total: u64,
    result: *const R::Raw,
) -> i32 {
    // SAFETY: `user` is what `Held::progress` gave, which lives until the call is over; so does the result.
    let (progress, result) = unsafe { (&mut *user.cast::<Progress<'_, R>>(), R::read(&*result)) };
    if progress.thrown.is_some() {
        return 1;
    }
    match catch_unwind(AssertUnwindSafe(|| (progress.told)(done, total, &result))) {
        Ok(cancel) => i32::from(cancel),
        Err(thrown) => {
            progress.thrown = Some(thrown);
            1
        }
    }
}

/// Reads what a call that fills a struct has put there.
pub(crate) fn told<R: Record>(call: impl FnOnce(*mut R::Raw, *mut sys::quern_error) -> i32) -> Result<R> {
    let mut made = R::Raw::default();
    checked(|error| call(&mut made, error))?;
    // SAFETY: the call has filled it.
    Ok(unsafe { R::read(&made) })
}

/// Some of what was asked for: the error says why not all.
#[derive(Clone, Debug)]
pub struct Partial<T> {
    pub error: Error,
    pub results: Vec<T>,
}

impl<T> std::fmt::Display for Partial<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(out)
    }
}

impl<T: std::fmt::Debug> std::error::Error for Partial<T> {}

impl<T> From<Partial<T>> for Error {
    fn from(partial: Partial<T>) -> Self {
        partial.error
    }
}

impl<T> From<Error> for Partial<T> {
    fn from(error: Error) -> Self {
        Self { error, results: Vec::new() }
    }
}

/// A list, or what there is of it with the error.
pub type Listed<T> = std::result::Result<Vec<T>, Partial<T>>;

type Item<Raw> = unsafe extern "C" fn(*const sys::quern_list, u64, *mut Raw) -> i32;

/// Reads what a call that gives a list has put there.
pub(crate) fn listed<R: Record>(
    item: Item<R::Raw>,
    call: impl FnOnce(*mut *mut sys::quern_list, *mut sys::quern_error) -> i32,
) -> Listed<R> {
    struct List(*mut sys::quern_list);
    impl Drop for List {
        fn drop(&mut self) {
            // SAFETY: the library's own, or NULL, which it ignores.
            unsafe { sys::quern_list_free(self.0) }
        }
    }
    let mut list = List(std::ptr::null_mut());
    let outcome = checked(|error| call(&mut list.0, error));
    let mut results = Vec::new();
    if !list.0.is_null() {
        // SAFETY: a list that the library made, and places within it.
        for place in 0..unsafe { sys::quern_list_count(list.0) } {
            results.push(told(|made, _| unsafe { item(list.0, place, made) })?);
        }
    }
    match outcome {
        Ok(()) => Ok(results),
        Err(error) => Err(Partial { error, results }),
    }
}
