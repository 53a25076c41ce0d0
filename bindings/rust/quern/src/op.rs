//! Running ops.
// SPDX-License-Identifier: Apache-2.0
pub(crate) use crate::tensor::{Tensor, TensorMut};
use crate::{error::checked, Context, Result};
use quern_sys as sys;
use std::ffi::c_void;

/// A formula of [`Context::expression`].
#[derive(Clone, Copy)]
pub struct Expression<'a> {
    pub(crate) made: *const sys::quern_expression,
    pub(crate) borrowed: std::marker::PhantomData<&'a Context>,
}

impl Expression<'_> {
    pub(crate) fn raw(self) -> *const sys::quern_expression {
        self.made
    }
}

/// The lists that a builder's struct points to.
#[derive(Default)]
pub(crate) struct Kept {
    tensors: Vec<Vec<*const sys::DLTensor>>,
    floats: Vec<Vec<f32>>,
}

impl Kept {
    pub(crate) fn tensors(&mut self, list: impl Iterator<Item = *const sys::DLTensor>) -> *const *const sys::DLTensor {
        self.tensors.push(list.collect());
        self.tensors.last().map_or(std::ptr::null(), |list| list.as_ptr())
    }
    pub(crate) fn floats(&mut self, list: &[f32]) -> *const f32 {
        self.floats.push(list.to_vec());
        self.floats.last().map_or(std::ptr::null(), |list| list.as_ptr())
    }
}

pub type Run<Args> = unsafe extern "C" fn(*mut sys::quern_context, *const Args, *mut sys::quern_error) -> i32;
pub type WorkspaceSize<Args> =
    unsafe extern "C" fn(*mut sys::quern_context, *const Args, *mut u64, *mut sys::quern_error) -> i32;

/// An op with its arguments.
///
/// # Safety
/// `args` are what these functions take, and what they point to outlives the value.
pub unsafe trait Op {
    type Args;
    const RUN: Run<Self::Args>;
    const PREPARE: Run<Self::Args>;
    const WORKSPACE: WorkspaceSize<Self::Args>;
    fn args(&self) -> Self::Args;
    fn place(args: &mut Self::Args, memory: *mut c_void, bytes: u64);

    /// Launches it; on a GPU it returns once it is launched. `workspace` is used by one call at a time.
    fn run(&self, context: &Context, workspace: &mut Workspace) -> Result<()> {
        let bytes = self.workspace(context)?;
        let mut args = self.args();
        let memory = workspace.reserve(bytes);
        Self::place(&mut args, memory, if memory.is_null() { 0 } else { bytes });
        // SAFETY: the context is open, the arguments are the op's own, the workspace is as large as it asked for.
        checked(|error| unsafe { Self::RUN(context.raw(), &args, error) })
    }
    /// Readies every kernel that calls with the same dtypes, head counts and flags and no larger maxima can reach.
    fn prepare(&self, context: &Context) -> Result<()> {
        let args = self.args();
        // SAFETY: as above; nothing is launched.
        checked(|error| unsafe { Self::PREPARE(context.raw(), &args, error) })
    }
    /// The bytes of workspace that it needs.
    fn workspace(&self, context: &Context) -> Result<u64> {
        let args = self.args();
        let mut bytes = 0;
        // SAFETY: as above.
        checked(|error| unsafe { Self::WORKSPACE(context.raw(), &args, &mut bytes, error) })?;
        Ok(bytes)
    }
}

/// Memory that ops work in, grown as they ask on the host; on a GPU it is the caller's.
pub struct Workspace {
    lines: Vec<Line>,
    device: Option<(*mut c_void, u64)>,
}

#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Line([u8; 256]);

impl Workspace {
    /// Of the CPU, for `host`.
    #[must_use]
    pub fn host() -> Self {
        Self { lines: Vec::new(), device: None }
    }
    /// A GPU's. Ops that ask for more are refused.
    ///
    /// # Safety
    /// The memory is the device's, 256-byte aligned, zeroed once, and no other launch's for as long as one of these runs.
    #[must_use]
    pub unsafe fn device(memory: *mut c_void, bytes: u64) -> Self {
        Self { lines: Vec::new(), device: Some((memory, bytes)) }
    }

    fn reserve(&mut self, bytes: u64) -> *mut c_void {
        if let Some((memory, there)) = self.device {
            // Too little is told by the library: as none.
            return if there >= bytes { memory } else { std::ptr::null_mut() };
        }
        let lines = ((bytes + 255) / 256) as usize;
        if self.lines.len() < lines {
            self.lines = vec![Line([0; 256]); lines];
        }
        if bytes == 0 {
            std::ptr::null_mut()
        } else {
            self.lines.as_mut_ptr().cast()
        }
    }
}
