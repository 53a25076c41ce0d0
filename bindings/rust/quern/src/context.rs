//! Contexts and how they are opened.
// SPDX-License-Identifier: Apache-2.0
use crate::{error::checked, op::Expression, Error, Result, Status};
use quern_sys as sys;
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::path::Path;

/// Which device a context is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// For warming and looking after caches.
    None,
    /// Kernels run on the CPU: for tests and development.
    Host,
    Cuda(i32),
    Rocm(i32),
}

/// What a call does whose kernel is neither loaded nor cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    Compile,
    CachedOnly,
    Background,
}

/// How a context is opened: the fields of `quern_context_options`, each with its default.
#[must_use]
pub struct Builder {
    options: sys::quern_context_options,
    target: Option<CString>,
    cache_path: Option<CString>,
    bundles: Vec<CString>,
    search_dirs: Vec<CString>,
    invalid: Option<&'static str>,
}

impl Builder {
    /// `QUERN_CONTEXT_...` bits, or-ed to those that are set.
    pub fn flags(mut self, flags: u32) -> Self {
        self.options.flags |= flags;
        self
    }
    pub fn miss(mut self, miss: Miss) -> Self {
        self.options.miss_policy = match miss {
            Miss::Compile => sys::QUERN_MISS_COMPILE,
            Miss::CachedOnly => sys::QUERN_MISS_CACHED_ONLY,
            Miss::Background => sys::QUERN_MISS_BACKGROUND,
        };
        self
    }
    /// What to compile for, "sm_90a".
    pub fn target(mut self, target: &str) -> Self {
        self.target = self.text("target", target);
        self
    }
    /// The cache's folder.
    pub fn cache_path(mut self, folder: impl AsRef<Path>) -> Self {
        self.cache_path = self.path("cache_path", folder.as_ref());
        self
    }
    /// A file made by `quern export`, searched below the cache in the order of these calls.
    pub fn bundle(mut self, file: impl AsRef<Path>) -> Self {
        let file = self.path("bundle", file.as_ref());
        self.bundles.extend(file);
        self
    }
    /// An absolute folder looked into first for NVRTC, hipRTC and drivers.
    pub fn search_dir(mut self, folder: impl AsRef<Path>) -> Self {
        let folder = self.path("search_dir", folder.as_ref());
        self.search_dirs.extend(folder);
        self
    }
    /// Bytes that the cache may have.
    pub fn cache_limit(mut self, bytes: u64) -> Self {
        self.options.cache_limit = bytes;
        self
    }

    pub fn open(self) -> Result<Context> {
        if let Some(option) = self.invalid {
            let text = format!("{option}: a string with a NUL or that is no UTF-8 was given");
            return Err(Error { status: Status::Invalid, native: 0, text });
        }
        let pointers = |texts: &[CString]| texts.iter().map(|one| one.as_ptr()).collect::<Vec<*const c_char>>();
        let (bundles, search_dirs) = (pointers(&self.bundles), pointers(&self.search_dirs));
        let mut options = self.options;
        options.target = self.target.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        options.cache_path = self.cache_path.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        options.bundles = bundles.as_ptr();
        options.bundle_count = bundles.len() as u64;
        options.search_dirs = search_dirs.as_ptr();
        options.search_dir_count = search_dirs.len() as u64;
        let mut made = std::ptr::null_mut();
        // SAFETY: everything that the options point to lives until the call is over.
        checked(|error| unsafe { sys::quern_context_create(&options, &mut made, error) })?;
        Ok(Context { made })
    }

    fn text(&mut self, option: &'static str, value: &str) -> Option<CString> {
        let made = CString::new(value).ok();
        if made.is_none() {
            self.invalid = Some(option);
        }
        made
    }
    fn path(&mut self, option: &'static str, value: &Path) -> Option<CString> {
        let text = value.to_str();
        if text.is_none() {
            self.invalid = Some(option);
        }
        text.and_then(|text| self.text(option, text))
    }
}

/// One device, its kernels and its cache; closed when it is dropped.
pub struct Context {
    made: *mut sys::quern_context,
}

// SAFETY: quern.h says that a context is safe to use from several threads at once.
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Context {
    pub fn builder(device: Device) -> Builder {
        let mut options = sys::quern_context_options::default();
        (options.device_type, options.device_id) = match device {
            Device::None => (0, 0),
            Device::Host => (sys::kDLCPU, 0),
            Device::Cuda(ordinal) => (sys::kDLCUDA, ordinal),
            Device::Rocm(ordinal) => (sys::kDLROCM, ordinal),
        };
        Builder { options, target: None, cache_path: None, bundles: Vec::new(), search_dirs: Vec::new(), invalid: None }
    }
    pub fn open(device: Device) -> Result<Self> {
        Self::builder(device).open()
    }

    pub fn device(&self) -> Result<sys::quern_device_info> {
        let mut info = sys::quern_device_info::default();
        // SAFETY: the context is open.
        checked(|error| unsafe { sys::quern_device(self.made, &mut info, error) })?;
        Ok(info)
    }
    pub fn stats(&self) -> Result<sys::quern_stats> {
        let mut stats = sys::quern_stats::default();
        // SAFETY: the context is open.
        checked(|error| unsafe { sys::quern_get_stats(self.made, &mut stats, error) })?;
        Ok(stats)
    }

    /// A formula that an op applies to each of its results, "silu(acc + col0) * row1": checked, and the same formula the
    /// same kernel.
    pub fn expression(&self, text: &str) -> Result<Expression<'_>> {
        let invalid = |_| Error { status: Status::Invalid, native: 0, text: "expression: a NUL was given".into() };
        let text = CString::new(text).map_err(invalid)?;
        let mut made = std::ptr::null();
        // SAFETY: the context is open, and the text is ended by a NUL.
        checked(|error| unsafe { sys::quern_expression_create(self.made, text.as_ptr(), &mut made, error) })?;
        Ok(Expression { made, borrowed: std::marker::PhantomData })
    }

    /// For calls of quern-sys.
    #[must_use]
    pub fn raw(&self) -> *mut sys::quern_context {
        self.made
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: calls borrow the context, so that none is in flight.
        unsafe { sys::quern_context_destroy(self.made) }
    }
}

/// The library's version, "0.1.0".
#[must_use]
pub fn version() -> &'static str {
    // SAFETY: a string that lives as long as the library, which is never unloaded.
    unsafe { CStr::from_ptr(sys::quern_version()) }.to_str().unwrap_or("unknown")
}
