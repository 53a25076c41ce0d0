//! Contexts and how they are opened.
// SPDX-License-Identifier: Apache-2.0
use crate::held::{c_text, text, Record};
use crate::records::Event;
use crate::{error::checked, op::Expression, Error, Result, Status};
use quern_sys as sys;
use std::ffi::{CStr, CString, OsStr};
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

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
    pub(crate) options: sys::quern_context_options,
    texts: Vec<CString>, // of the options; what they point to stays where it is
    pub(crate) bundles: Vec<CString>,
    pub(crate) search_dirs: Vec<CString>,
    pub(crate) trusted_keys: Vec<CString>,
    callbacks: Callbacks,
    invalid: Option<Error>,
}

type Log = Box<dyn Fn(i32, &str) + Send + Sync>;
type Tell = Box<dyn Fn(&Event) + Send + Sync>;

/// What the library calls until the context is closed.
#[derive(Default)]
struct Callbacks {
    log: Option<Box<Log>>,
    event: Option<Box<Tell>>,
}

unsafe extern "C" fn log(user: *mut c_void, level: i32, line: *const c_char) {
    // SAFETY: `user` is a context's own callback, which lives until that is closed; the line ends with a NUL.
    ending(|| unsafe { (*user.cast::<Log>())(level, &text(line)) });
}

unsafe extern "C" fn tell(user: *mut c_void, event: *const sys::quern_event) {
    // SAFETY: as above; the event lives until this returns.
    ending(|| unsafe { (*user.cast::<Tell>())(&Event::read(&*event)) });
}

/// A panic would leave the library's locks held on its way through C.
fn ending(call: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        eprintln!("quern: a callback panicked");
        std::process::abort();
    }
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
    /// Told every line of the log that `log_level` lets through, by threads of the library's, too. One that panics ends
    /// the program.
    pub fn log(mut self, told: impl Fn(i32, &str) + Send + Sync + 'static) -> Self {
        self.callbacks.log = Some(Box::new(Box::new(told)));
        self
    }
    /// Told what happens, likewise.
    pub fn event(mut self, told: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.callbacks.event = Some(Box::new(Box::new(told)));
        self
    }

    pub fn open(self) -> Result<Context> {
        if let Some(error) = self.invalid {
            return Err(error);
        }
        let pointers = |texts: &[CString]| texts.iter().map(|one| one.as_ptr()).collect::<Vec<*const c_char>>();
        let (bundles, search_dirs) = (pointers(&self.bundles), pointers(&self.search_dirs));
        let trusted_keys = pointers(&self.trusted_keys);
        let mut options = self.options;
        options.bundles = bundles.as_ptr();
        options.bundle_count = bundles.len() as u64;
        options.search_dirs = search_dirs.as_ptr();
        options.search_dir_count = search_dirs.len() as u64;
        options.trusted_keys = trusted_keys.as_ptr();
        options.trusted_key_count = trusted_keys.len() as u64;
        if let Some(told) = &self.callbacks.log {
            options.log = Some(log);
            options.log_user = (&**told as *const Log) as *mut c_void;
        }
        if let Some(told) = &self.callbacks.event {
            options.event = Some(tell);
            options.event_user = (&**told as *const Tell) as *mut c_void;
        }
        let mut made = std::ptr::null_mut();
        // SAFETY: everything that the options point to lives until the call is over, the callbacks until the context is
        // closed.
        checked(|error| unsafe { sys::quern_context_create(&options, &mut made, error) })?;
        Ok(Context { made, _callbacks: self.callbacks })
    }

    /// An option's text; one that C cannot be given is told when the context is opened.
    pub(crate) fn text(&mut self, option: &'static str, value: &OsStr) -> Option<CString> {
        let made = value.to_str().map(|value| c_text(option, value)).unwrap_or_else(|| {
            let text = format!("{option}: {value:?} given; allowed is UTF-8");
            Err(Error { status: Status::Invalid, native: 0, text })
        });
        match made {
            Ok(made) => Some(made),
            Err(error) => {
                self.invalid = Some(error);
                None
            }
        }
    }
    pub(crate) fn keep(&mut self, text: Option<CString>) -> *const c_char {
        let start = text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        self.texts.extend(text);
        start
    }
}

/// One device, its kernels and its cache; closed when it is dropped.
pub struct Context {
    made: *mut sys::quern_context,
    _callbacks: Callbacks, // dropped behind the context itself
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
        Builder {
            options,
            texts: Vec::new(),
            bundles: Vec::new(),
            search_dirs: Vec::new(),
            trusted_keys: Vec::new(),
            callbacks: Callbacks::default(),
            invalid: None,
        }
    }
    pub fn open(device: Device) -> Result<Self> {
        Self::builder(device).open()
    }

    /// A formula that an op applies to each of its results, "silu(acc + col0) * row1": checked, and the same formula the
    /// same kernel.
    pub fn expression(&self, text: &str) -> Result<Expression<'_>> {
        let text = c_text("expression", text)?;
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
