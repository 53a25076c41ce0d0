//! quern from Rust: GPU kernels specialised, compiled, cached and launched at run time.
//!
//! A [`Context`] is one device, its kernels and its cache; an op is a builder of its arguments ([`ops`]), run on it.
//! What calls that are no ops' tell and are given is in [`records`].
//! What goes wrong is an [`Error`] that names the argument, what was given and what is allowed. Everything is quern.h's,
//! whose C form is the crate quern-sys.
// SPDX-License-Identifier: Apache-2.0
#![deny(unsafe_op_in_unsafe_fn)]

mod administration;
mod context;
mod error;
mod held;
mod kernel;
mod op;
pub mod ops;
pub mod records;
mod tensor;

pub use administration::{make_keys, public_key, sign_bundle};
pub use context::{version, Builder, Context, Device, Miss};
pub use error::{Error, Result, Status};
pub use held::{Listed, Partial};
pub use kernel::{Argument, Kernel, KernelDesc, Launch};
pub use op::{Expression, Op, Workspace};
pub use quern_sys as sys;
pub use tensor::{Bf16, Element, Tensor, TensorMut, E4m3, E5m2, F16};
