//! A kernel of the caller's own: specialised, cached and compiled by quern, launched with raw arguments.
// SPDX-License-Identifier: Apache-2.0
use crate::held::{told, Held};
use crate::records::KernelInfo;
use crate::{error::checked, Bf16, Context, Result, F16};
use quern_sys as sys;
use std::ffi::c_void;

/// `quern_kernel_desc`. All of it is part of the kernel's key.
#[derive(Clone, Copy, Default)]
pub struct KernelDesc<'a> {
    /// `QUERN_CALL_CACHED_ONLY`, `QUERN_CALL_BACKGROUND`.
    pub flags: u32,
    pub entry: &'a str,
    /// The name that the compiler's log knows it by, and the text.
    pub source: (&'a str, &'a str),
    /// What the source may include, names and texts; nothing else can be.
    pub headers: &'a [(&'a str, &'a str)],
    /// Become `#define NAME VALUE`.
    pub constants: &'a [(&'a str, &'a str)],
    pub options: &'a [&'a str],
    /// None: the context's device. Another is compiled and stored, not loaded.
    pub target: Option<&'a str>,
    pub max_shared_bytes: u32,
}

/// How a kernel is launched. Extents of zero are one.
#[derive(Clone, Copy)]
pub struct Launch {
    /// `QUERN_CALL_PROGRAMMATIC`.
    pub flags: u32,
    pub stream: *mut c_void,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared_bytes: u32,
}

impl Default for Launch {
    fn default() -> Self {
        let (stream, none) = (std::ptr::null_mut(), [0; 3]);
        Self { flags: 0, stream, grid: none, block: none, cluster: none, shared_bytes: 0 }
    }
}

/// What can be the value of a kernel's parameter.
///
/// # Safety
/// The value's bytes are what the parameter takes.
pub unsafe trait Argument {}
macro_rules! argument {
    ($($kind:ty)*) => {$(
        // SAFETY: numbers and wrappers of numbers.
        unsafe impl Argument for $kind {}
    )*};
}
argument! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 bool Bf16 F16 }
// SAFETY: an address.
unsafe impl<T> Argument for *const T {}
// SAFETY: an address.
unsafe impl<T> Argument for *mut T {}

/// A kernel that is ready to launch.
#[derive(Clone, Copy)]
pub struct Kernel<'a> {
    made: *mut sys::quern_kernel,
    context: &'a Context,
}

impl Context {
    /// Readies a kernel; None for a target that is not the device's, for which it is compiled and stored.
    pub fn kernel(&self, desc: &KernelDesc<'_>) -> Result<Option<Kernel<'_>>> {
        let mut held = Held::default();
        let source = |held: &mut Held<'_>, (name, text): (&str, &str)| -> Result<sys::quern_source> {
            let mut made = sys::quern_source::default();
            made.name = held.text("source", Some(name))?;
            made.text = held.text(name, Some(text))?;
            Ok(made)
        };
        let (mut headers, mut constants) = (Vec::new(), Vec::new());
        for header in desc.headers {
            headers.push(source(&mut held, *header)?);
        }
        for (name, value) in desc.constants {
            let mut made = sys::quern_constant::default();
            made.name = held.text("constants", Some(name))?;
            made.value = held.text(name, Some(value))?;
            constants.push(made);
        }
        let text = source(&mut held, desc.source)?;
        let mut given = sys::quern_kernel_desc::default();
        given.flags = desc.flags;
        given.entry = held.text("entry", Some(desc.entry))?;
        given.source = &text;
        given.headers = headers.as_ptr();
        given.header_count = headers.len() as u64;
        given.constants = constants.as_ptr();
        given.constant_count = constants.len() as u64;
        given.options = held.texts("options", desc.options)?;
        given.option_count = desc.options.len() as u64;
        given.target = held.text("target", desc.target)?;
        given.max_shared_bytes = desc.max_shared_bytes;
        let mut made = std::ptr::null_mut();
        // SAFETY: the context is open; everything that the desc points to lives until the call is over.
        checked(|error| unsafe { sys::quern_kernel_prepare(self.raw(), &given, &mut made, error) })?;
        Ok(if made.is_null() { None } else { Some(Kernel { made, context: self }) })
    }
}

impl Kernel<'_> {
    /// What the compiler made of it.
    pub fn info(&self) -> Result<KernelInfo> {
        // SAFETY: the kernel lives as long as its context.
        told(|made, error| unsafe { sys::quern_kernel_get_info(self.made, made, error) })
    }
    /// Launches it; on a GPU it returns once that is done. `arguments` are the values of its parameters.
    ///
    /// # Safety
    /// They are as many, and of the types, that the kernel takes; what they point to lives as long as the launch runs.
    pub unsafe fn launch(&self, how: &Launch, arguments: &[&dyn Argument]) -> Result<()> {
        let values: Vec<*mut c_void> =
            arguments.iter().map(|value| (*value as *const dyn Argument).cast::<c_void>() as *mut c_void).collect();
        let mut launch = sys::quern_launch::default();
        launch.flags = how.flags;
        launch.stream = how.stream;
        [launch.grid_x, launch.grid_y, launch.grid_z] = how.grid;
        [launch.block_x, launch.block_y, launch.block_z] = how.block;
        [launch.cluster_x, launch.cluster_y, launch.cluster_z] = how.cluster;
        launch.shared_bytes = how.shared_bytes;
        launch.args = values.as_ptr() as *mut _;
        launch.arg_count = values.len() as u64;
        // SAFETY: the caller's promise.
        checked(|error| unsafe { sys::quern_kernel_launch(self.context.raw(), self.made, &launch, error) })
    }
}
