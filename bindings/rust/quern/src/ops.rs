//! The ops, each a builder of its arguments, which are the fields of `quern_OP_args` in quern.h.
//! Made of quern.h, where they are documented, by ./dev generate.
// SPDX-License-Identifier: Apache-2.0
use crate::op::{Expression, Kept, Op, Tensor, TensorMut};
use quern_sys as sys;
use std::marker::PhantomData;

/// `quern_epilogue`.
#[must_use]
pub struct Epilogue<'a> {
    args: sys::quern_epilogue,
    kept: Kept,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Epilogue<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), kept: Kept::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    pub fn activation(mut self, value: i32) -> Self {
        self.args.activation = value;
        self
    }
    pub fn bias(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias = value.raw();
        self
    }
    pub fn c(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.c = value.raw();
        self
    }
    pub fn expression(mut self, value: Expression<'a>) -> Self {
        self.args.expression = value.raw();
        self
    }
    pub fn operands(mut self, value: &[&'a Tensor<'_>]) -> Self {
        self.args.operand_count = value.len() as u32;
        self.args.operands = self.kept.tensors(value.iter().map(|one| one.raw()));
        self
    }
    pub fn scalars(mut self, value: &[f32]) -> Self {
        self.args.scalar_count = value.len() as u32;
        self.args.scalars = self.kept.floats(value);
        self
    }
    pub fn out_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out_scale = value.raw();
        self
    }
    fn raw(&self) -> *const sys::quern_epilogue {
        &self.args
    }
}

/// `quern_rope_options`.
#[must_use]
pub struct RopeOptions<'a> {
    args: sys::quern_rope_options,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> RopeOptions<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    pub fn scaling(mut self, value: i32) -> Self {
        self.args.scaling = value;
        self
    }
    pub fn rotary_dim(mut self, value: i32) -> Self {
        self.args.rotary_dim = value;
        self
    }
    pub fn theta(mut self, value: f64) -> Self {
        self.args.theta = value;
        self
    }
    pub fn factor(mut self, value: f64) -> Self {
        self.args.factor = value;
        self
    }
    pub fn attention_factor(mut self, value: f64) -> Self {
        self.args.attention_factor = value;
        self
    }
    pub fn low_freq_factor(mut self, value: f64) -> Self {
        self.args.low_freq_factor = value;
        self
    }
    pub fn high_freq_factor(mut self, value: f64) -> Self {
        self.args.high_freq_factor = value;
        self
    }
    pub fn beta_fast(mut self, value: f64) -> Self {
        self.args.beta_fast = value;
        self
    }
    pub fn beta_slow(mut self, value: f64) -> Self {
        self.args.beta_slow = value;
        self
    }
    pub fn original_positions(mut self, value: i32) -> Self {
        self.args.original_positions = value;
        self
    }
    pub fn table(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.table = value.raw();
        self
    }
    fn raw(&self) -> *const sys::quern_rope_options {
        &self.args
    }
}

/// `quern_attention`.
#[must_use]
pub struct Attention<'a> {
    args: sys::quern_attention_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Attention<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.q = value.raw();
        self
    }
    pub fn k(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.k = value.raw();
        self
    }
    pub fn v(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.v = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn lse(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.lse = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn cu_q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cu_q = value.raw();
        self
    }
    pub fn page_table(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_table = value.raw();
        self
    }
    pub fn page_indptr(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indptr = value.raw();
        self
    }
    pub fn page_indices(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indices = value.raw();
        self
    }
    pub fn cu_kv(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cu_kv = value.raw();
        self
    }
    pub fn alibi_slopes(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.alibi_slopes = value.raw();
        self
    }
    pub fn sinks(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.sinks = value.raw();
        self
    }
    pub fn max_q_len(mut self, value: i32) -> Self {
        self.args.max_q_len = value;
        self
    }
    pub fn max_kv_len(mut self, value: i32) -> Self {
        self.args.max_kv_len = value;
        self
    }
    pub fn window_left(mut self, value: i32) -> Self {
        self.args.window_left = value;
        self
    }
    pub fn window_right(mut self, value: i32) -> Self {
        self.args.window_right = value;
        self
    }
    pub fn scale(mut self, value: f32) -> Self {
        self.args.scale = value;
        self
    }
    pub fn logit_cap(mut self, value: f32) -> Self {
        self.args.logit_cap = value;
        self
    }
    pub fn q_scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.q_scale = value.raw();
        self
    }
    pub fn k_scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.k_scale = value.raw();
        self
    }
    pub fn v_scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.v_scale = value.raw();
        self
    }
    pub fn mask(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.mask = value.raw();
        self
    }
    pub fn mask_indptr(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.mask_indptr = value.raw();
        self
    }
    pub fn mask_keys(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.mask_keys = value.raw();
        self
    }
    pub fn q_type(mut self, value: i32) -> Self {
        self.args.q_type = value;
        self
    }
    pub fn kv_type(mut self, value: i32) -> Self {
        self.args.kv_type = value;
        self
    }
    pub fn out_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out_scale = value.raw();
        self
    }
    pub fn out_type(mut self, value: i32) -> Self {
        self.args.out_type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Attention<'_> {
    type Args = sys::quern_attention_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_attention;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_attention_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_attention_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_merge_state`.
#[must_use]
pub struct MergeState<'a> {
    args: sys::quern_merge_state_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> MergeState<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn out_a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.out_a = value.raw();
        self
    }
    pub fn lse_a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lse_a = value.raw();
        self
    }
    pub fn out_b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.out_b = value.raw();
        self
    }
    pub fn lse_b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lse_b = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn lse(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.lse = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for MergeState<'_> {
    type Args = sys::quern_merge_state_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_merge_state;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_merge_state_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_merge_state_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_fp8_gemm`.
#[must_use]
pub struct Fp8Gemm<'a> {
    args: sys::quern_fp8_gemm_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Fp8Gemm<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.a = value.raw();
        self
    }
    pub fn b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.b = value.raw();
        self
    }
    pub fn scale_a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale_a = value.raw();
        self
    }
    pub fn scale_b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale_b = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn epilogue(mut self, value: &'a Epilogue<'_>) -> Self {
        self.args.epilogue = value.raw();
        self
    }
    pub fn a_type(mut self, value: i32) -> Self {
        self.args.a_type = value;
        self
    }
    pub fn b_type(mut self, value: i32) -> Self {
        self.args.b_type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Fp8Gemm<'_> {
    type Args = sys::quern_fp8_gemm_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_fp8_gemm;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_fp8_gemm_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_fp8_gemm_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_grouped_fp8_gemm`.
#[must_use]
pub struct GroupedFp8Gemm<'a> {
    args: sys::quern_grouped_fp8_gemm_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> GroupedFp8Gemm<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.a = value.raw();
        self
    }
    pub fn b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.b = value.raw();
        self
    }
    pub fn scale_a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale_a = value.raw();
        self
    }
    pub fn scale_b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale_b = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn offsets(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.offsets = value.raw();
        self
    }
    pub fn counts(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.counts = value.raw();
        self
    }
    pub fn indices(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.indices = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn epilogue(mut self, value: &'a Epilogue<'_>) -> Self {
        self.args.epilogue = value.raw();
        self
    }
    pub fn a_type(mut self, value: i32) -> Self {
        self.args.a_type = value;
        self
    }
    pub fn b_type(mut self, value: i32) -> Self {
        self.args.b_type = value;
        self
    }
    pub fn expected_rows(mut self, value: i32) -> Self {
        self.args.expected_rows = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for GroupedFp8Gemm<'_> {
    type Args = sys::quern_grouped_fp8_gemm_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_grouped_fp8_gemm;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_grouped_fp8_gemm_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_grouped_fp8_gemm_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_gemm`.
#[must_use]
pub struct Gemm<'a> {
    args: sys::quern_gemm_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Gemm<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.a = value.raw();
        self
    }
    pub fn b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.b = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn epilogue(mut self, value: &'a Epilogue<'_>) -> Self {
        self.args.epilogue = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Gemm<'_> {
    type Args = sys::quern_gemm_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_gemm;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_gemm_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_gemm_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_quantize`.
#[must_use]
pub struct Quantize<'a> {
    args: sys::quern_quantize_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Quantize<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.scale = value.raw();
        self
    }
    pub fn residual(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.residual = value.raw();
        self
    }
    pub fn residual_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.residual_out = value.raw();
        self
    }
    pub fn weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weight = value.raw();
        self
    }
    pub fn bias(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias = value.raw();
        self
    }
    pub fn dense(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.dense = value.raw();
        self
    }
    pub fn front(mut self, value: i32) -> Self {
        self.args.front = value;
        self
    }
    pub fn scale_kind(mut self, value: i32) -> Self {
        self.args.scale_kind = value;
        self
    }
    pub fn r#type(mut self, value: i32) -> Self {
        self.args.r#type = value;
        self
    }
    pub fn eps(mut self, value: f32) -> Self {
        self.args.eps = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Quantize<'_> {
    type Args = sys::quern_quantize_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_quantize;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_quantize_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_quantize_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_dequantize`.
#[must_use]
pub struct Dequantize<'a> {
    args: sys::quern_dequantize_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Dequantize<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn scale_kind(mut self, value: i32) -> Self {
        self.args.scale_kind = value;
        self
    }
    pub fn r#type(mut self, value: i32) -> Self {
        self.args.r#type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Dequantize<'_> {
    type Args = sys::quern_dequantize_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_dequantize;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_dequantize_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_dequantize_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_moe_route`.
#[must_use]
pub struct MoeRoute<'a> {
    args: sys::quern_moe_route_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> MoeRoute<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn logits(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.logits = value.raw();
        self
    }
    pub fn bias(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias = value.raw();
        self
    }
    pub fn weights(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.weights = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn offsets(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.offsets = value.raw();
        self
    }
    pub fn indices(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.indices = value.raw();
        self
    }
    pub fn positions(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.positions = value.raw();
        self
    }
    pub fn counts(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.counts = value.raw();
        self
    }
    pub fn top_k(mut self, value: i32) -> Self {
        self.args.top_k = value;
        self
    }
    pub fn groups(mut self, value: i32) -> Self {
        self.args.groups = value;
        self
    }
    pub fn top_groups(mut self, value: i32) -> Self {
        self.args.top_groups = value;
        self
    }
    pub fn first_expert(mut self, value: i32) -> Self {
        self.args.first_expert = value;
        self
    }
    pub fn local_experts(mut self, value: i32) -> Self {
        self.args.local_experts = value;
        self
    }
    pub fn scale(mut self, value: f32) -> Self {
        self.args.scale = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for MoeRoute<'_> {
    type Args = sys::quern_moe_route_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_moe_route;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_moe_route_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_moe_route_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_moe_combine`.
#[must_use]
pub struct MoeCombine<'a> {
    args: sys::quern_moe_combine_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> MoeCombine<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn positions(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.positions = value.raw();
        self
    }
    pub fn weights(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weights = value.raw();
        self
    }
    pub fn add(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.add = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for MoeCombine<'_> {
    type Args = sys::quern_moe_combine_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_moe_combine;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_moe_combine_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_moe_combine_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_merge_states`.
#[must_use]
pub struct MergeStates<'a> {
    args: sys::quern_merge_states_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> MergeStates<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn parts(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.parts = value.raw();
        self
    }
    pub fn part_lses(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.part_lses = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn lse(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.lse = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for MergeStates<'_> {
    type Args = sys::quern_merge_states_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_merge_states;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_merge_states_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_merge_states_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_rope`.
#[must_use]
pub struct Rope<'a> {
    args: sys::quern_rope_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Rope<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn q(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.q = value.raw();
        self
    }
    pub fn k(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k = value.raw();
        self
    }
    pub fn q_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.q_out = value.raw();
        self
    }
    pub fn k_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k_out = value.raw();
        self
    }
    pub fn positions(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.positions = value.raw();
        self
    }
    pub fn rope(mut self, value: &'a RopeOptions<'_>) -> Self {
        self.args.rope = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Rope<'_> {
    type Args = sys::quern_rope_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_rope;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_rope_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_rope_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_kv_append`.
#[must_use]
pub struct KvAppend<'a> {
    args: sys::quern_kv_append_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> KvAppend<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn k(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.k = value.raw();
        self
    }
    pub fn v(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.v = value.raw();
        self
    }
    pub fn k_cache(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k_cache = value.raw();
        self
    }
    pub fn v_cache(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.v_cache = value.raw();
        self
    }
    pub fn k_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k_scale = value.raw();
        self
    }
    pub fn v_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.v_scale = value.raw();
        self
    }
    pub fn slots(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.slots = value.raw();
        self
    }
    pub fn page_table(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_table = value.raw();
        self
    }
    pub fn page_indptr(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indptr = value.raw();
        self
    }
    pub fn page_indices(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indices = value.raw();
        self
    }
    pub fn cu_q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cu_q = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn positions(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.positions = value.raw();
        self
    }
    pub fn q(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.q = value.raw();
        self
    }
    pub fn q_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.q_out = value.raw();
        self
    }
    pub fn q_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.q_scale = value.raw();
        self
    }
    pub fn q_weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.q_weight = value.raw();
        self
    }
    pub fn k_weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.k_weight = value.raw();
        self
    }
    pub fn rope(mut self, value: &'a RopeOptions<'_>) -> Self {
        self.args.rope = value.raw();
        self
    }
    pub fn eps(mut self, value: f32) -> Self {
        self.args.eps = value;
        self
    }
    pub fn q_type(mut self, value: i32) -> Self {
        self.args.q_type = value;
        self
    }
    pub fn kv_type(mut self, value: i32) -> Self {
        self.args.kv_type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for KvAppend<'_> {
    type Args = sys::quern_kv_append_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_kv_append;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_kv_append_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_kv_append_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_kv_copy_pages`.
#[must_use]
pub struct KvCopyPages<'a> {
    args: sys::quern_kv_copy_pages_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> KvCopyPages<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn k(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k = value.raw();
        self
    }
    pub fn v(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.v = value.raw();
        self
    }
    pub fn k_to(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k_to = value.raw();
        self
    }
    pub fn v_to(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.v_to = value.raw();
        self
    }
    pub fn k_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k_scale = value.raw();
        self
    }
    pub fn v_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.v_scale = value.raw();
        self
    }
    pub fn k_scale_to(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k_scale_to = value.raw();
        self
    }
    pub fn v_scale_to(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.v_scale_to = value.raw();
        self
    }
    pub fn sources(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.sources = value.raw();
        self
    }
    pub fn destinations(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.destinations = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for KvCopyPages<'_> {
    type Args = sys::quern_kv_copy_pages_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_kv_copy_pages;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_kv_copy_pages_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_kv_copy_pages_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_mla_decode`.
#[must_use]
pub struct MlaDecode<'a> {
    args: sys::quern_mla_decode_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> MlaDecode<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.q = value.raw();
        self
    }
    pub fn q_rope(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.q_rope = value.raw();
        self
    }
    pub fn cache(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cache = value.raw();
        self
    }
    pub fn cache_rope(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cache_rope = value.raw();
        self
    }
    pub fn cache_scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cache_scale = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn lse(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.lse = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn cu_q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cu_q = value.raw();
        self
    }
    pub fn page_table(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_table = value.raw();
        self
    }
    pub fn page_indptr(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indptr = value.raw();
        self
    }
    pub fn page_indices(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indices = value.raw();
        self
    }
    pub fn indices(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.indices = value.raw();
        self
    }
    pub fn sinks(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.sinks = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn max_q_len(mut self, value: i32) -> Self {
        self.args.max_q_len = value;
        self
    }
    pub fn max_kv_len(mut self, value: i32) -> Self {
        self.args.max_kv_len = value;
        self
    }
    pub fn window_left(mut self, value: i32) -> Self {
        self.args.window_left = value;
        self
    }
    pub fn window_right(mut self, value: i32) -> Self {
        self.args.window_right = value;
        self
    }
    pub fn cache_type(mut self, value: i32) -> Self {
        self.args.cache_type = value;
        self
    }
    pub fn scale(mut self, value: f32) -> Self {
        self.args.scale = value;
        self
    }
    pub fn logit_cap(mut self, value: f32) -> Self {
        self.args.logit_cap = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for MlaDecode<'_> {
    type Args = sys::quern_mla_decode_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_mla_decode;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_mla_decode_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_mla_decode_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_rmsnorm`.
#[must_use]
pub struct Rmsnorm<'a> {
    args: sys::quern_rmsnorm_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Rmsnorm<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn residual(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.residual = value.raw();
        self
    }
    pub fn weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weight = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn residual_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.residual_out = value.raw();
        self
    }
    pub fn eps(mut self, value: f32) -> Self {
        self.args.eps = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Rmsnorm<'_> {
    type Args = sys::quern_rmsnorm_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_rmsnorm;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_rmsnorm_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_rmsnorm_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_sample`.
#[must_use]
pub struct Sample<'a> {
    args: sys::quern_sample_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Sample<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn logits(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.logits = value.raw();
        self
    }
    pub fn rows(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.rows = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn logprobs(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.logprobs = value.raw();
        self
    }
    pub fn top_ids(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.top_ids = value.raw();
        self
    }
    pub fn top_logprobs(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.top_logprobs = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn seeds(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.seeds = value.raw();
        self
    }
    pub fn offsets(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.offsets = value.raw();
        self
    }
    pub fn temperatures(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.temperatures = value.raw();
        self
    }
    pub fn top_ks(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.top_ks = value.raw();
        self
    }
    pub fn top_ps(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.top_ps = value.raw();
        self
    }
    pub fn min_ps(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.min_ps = value.raw();
        self
    }
    pub fn typical_ps(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.typical_ps = value.raw();
        self
    }
    pub fn n_sigmas(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.n_sigmas = value.raw();
        self
    }
    pub fn xtc_probabilities(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.xtc_probabilities = value.raw();
        self
    }
    pub fn xtc_thresholds(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.xtc_thresholds = value.raw();
        self
    }
    pub fn dynamic_ranges(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.dynamic_ranges = value.raw();
        self
    }
    pub fn dynamic_exponents(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.dynamic_exponents = value.raw();
        self
    }
    pub fn repetitions(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.repetitions = value.raw();
        self
    }
    pub fn presences(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.presences = value.raw();
        self
    }
    pub fn frequencies(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.frequencies = value.raw();
        self
    }
    pub fn prompt_mask(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.prompt_mask = value.raw();
        self
    }
    pub fn prompt_tokens(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.prompt_tokens = value.raw();
        self
    }
    pub fn prompt_lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.prompt_lengths = value.raw();
        self
    }
    pub fn output_counts(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.output_counts = value.raw();
        self
    }
    pub fn output_tokens(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.output_tokens = value.raw();
        self
    }
    pub fn output_lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.output_lengths = value.raw();
        self
    }
    pub fn bias_offsets(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias_offsets = value.raw();
        self
    }
    pub fn bias_ids(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias_ids = value.raw();
        self
    }
    pub fn bias_values(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias_values = value.raw();
        self
    }
    pub fn allowed(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.allowed = value.raw();
        self
    }
    pub fn banned(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.banned = value.raw();
        self
    }
    pub fn seed(mut self, value: u64) -> Self {
        self.args.seed = value;
        self
    }
    pub fn offset(mut self, value: u64) -> Self {
        self.args.offset = value;
        self
    }
    pub fn temperature(mut self, value: f32) -> Self {
        self.args.temperature = value;
        self
    }
    pub fn top_k(mut self, value: i32) -> Self {
        self.args.top_k = value;
        self
    }
    pub fn top_p(mut self, value: f32) -> Self {
        self.args.top_p = value;
        self
    }
    pub fn min_p(mut self, value: f32) -> Self {
        self.args.min_p = value;
        self
    }
    pub fn typical_p(mut self, value: f32) -> Self {
        self.args.typical_p = value;
        self
    }
    pub fn n_sigma(mut self, value: f32) -> Self {
        self.args.n_sigma = value;
        self
    }
    pub fn xtc_probability(mut self, value: f32) -> Self {
        self.args.xtc_probability = value;
        self
    }
    pub fn xtc_threshold(mut self, value: f32) -> Self {
        self.args.xtc_threshold = value;
        self
    }
    pub fn dynamic_range(mut self, value: f32) -> Self {
        self.args.dynamic_range = value;
        self
    }
    pub fn dynamic_exponent(mut self, value: f32) -> Self {
        self.args.dynamic_exponent = value;
        self
    }
    pub fn repetition(mut self, value: f32) -> Self {
        self.args.repetition = value;
        self
    }
    pub fn presence(mut self, value: f32) -> Self {
        self.args.presence = value;
        self
    }
    pub fn frequency(mut self, value: f32) -> Self {
        self.args.frequency = value;
        self
    }
    pub fn max_bias(mut self, value: i32) -> Self {
        self.args.max_bias = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Sample<'_> {
    type Args = sys::quern_sample_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_sample;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_sample_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_sample_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_gather`.
#[must_use]
pub struct Gather<'a> {
    args: sys::quern_gather_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Gather<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn table(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.table = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn first(mut self, value: i64) -> Self {
        self.args.first = value;
        self
    }
    pub fn padding(mut self, value: i64) -> Self {
        self.args.padding = value;
        self
    }
    pub fn scale(mut self, value: f32) -> Self {
        self.args.scale = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Gather<'_> {
    type Args = sys::quern_gather_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_gather;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_gather_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_gather_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_mla_append`.
#[must_use]
pub struct MlaAppend<'a> {
    args: sys::quern_mla_append_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> MlaAppend<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn kv(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.kv = value.raw();
        self
    }
    pub fn k_rope(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.k_rope = value.raw();
        self
    }
    pub fn weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weight = value.raw();
        self
    }
    pub fn cache(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.cache = value.raw();
        self
    }
    pub fn cache_rope(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.cache_rope = value.raw();
        self
    }
    pub fn cache_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.cache_scale = value.raw();
        self
    }
    pub fn slots(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.slots = value.raw();
        self
    }
    pub fn page_table(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_table = value.raw();
        self
    }
    pub fn page_indptr(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indptr = value.raw();
        self
    }
    pub fn page_indices(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indices = value.raw();
        self
    }
    pub fn cu_q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cu_q = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn positions(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.positions = value.raw();
        self
    }
    pub fn q_rope(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.q_rope = value.raw();
        self
    }
    pub fn q_rope_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.q_rope_out = value.raw();
        self
    }
    pub fn kv_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.kv_out = value.raw();
        self
    }
    pub fn k_rope_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.k_rope_out = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn rope(mut self, value: &'a RopeOptions<'_>) -> Self {
        self.args.rope = value.raw();
        self
    }
    pub fn eps(mut self, value: f32) -> Self {
        self.args.eps = value;
        self
    }
    pub fn d_rope(mut self, value: i32) -> Self {
        self.args.d_rope = value;
        self
    }
    pub fn cache_type(mut self, value: i32) -> Self {
        self.args.cache_type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for MlaAppend<'_> {
    type Args = sys::quern_mla_append_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_mla_append;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_mla_append_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_mla_append_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_index_scores`.
#[must_use]
pub struct IndexScores<'a> {
    args: sys::quern_index_scores_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> IndexScores<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.q = value.raw();
        self
    }
    pub fn q_scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.q_scale = value.raw();
        self
    }
    pub fn weights(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weights = value.raw();
        self
    }
    pub fn k(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.k = value.raw();
        self
    }
    pub fn k_scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.k_scale = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn cu_q(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cu_q = value.raw();
        self
    }
    pub fn page_table(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_table = value.raw();
        self
    }
    pub fn page_indptr(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indptr = value.raw();
        self
    }
    pub fn page_indices(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.page_indices = value.raw();
        self
    }
    pub fn cu_kv(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.cu_kv = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn max_q_len(mut self, value: i32) -> Self {
        self.args.max_q_len = value;
        self
    }
    pub fn q_type(mut self, value: i32) -> Self {
        self.args.q_type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for IndexScores<'_> {
    type Args = sys::quern_index_scores_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_index_scores;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_index_scores_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_index_scores_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_softmax`.
#[must_use]
pub struct Softmax<'a> {
    args: sys::quern_softmax_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Softmax<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn logits(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.logits = value.raw();
        self
    }
    pub fn temperatures(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.temperatures = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn temperature(mut self, value: f32) -> Self {
        self.args.temperature = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Softmax<'_> {
    type Args = sys::quern_softmax_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_softmax;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_softmax_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_softmax_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_argmax`.
#[must_use]
pub struct Argmax<'a> {
    args: sys::quern_argmax_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Argmax<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn logits(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.logits = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn values(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.values = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Argmax<'_> {
    type Args = sys::quern_argmax_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_argmax;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_argmax_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_argmax_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_top_k`.
#[must_use]
pub struct TopK<'a> {
    args: sys::quern_top_k_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> TopK<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn values(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.values = value.raw();
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for TopK<'_> {
    type Args = sys::quern_top_k_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_top_k;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_top_k_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_top_k_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_renormalise`.
#[must_use]
pub struct Renormalise<'a> {
    args: sys::quern_renormalise_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Renormalise<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn probs(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.probs = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn top_ks(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.top_ks = value.raw();
        self
    }
    pub fn top_ps(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.top_ps = value.raw();
        self
    }
    pub fn min_ps(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.min_ps = value.raw();
        self
    }
    pub fn top_k(mut self, value: i32) -> Self {
        self.args.top_k = value;
        self
    }
    pub fn top_p(mut self, value: f32) -> Self {
        self.args.top_p = value;
        self
    }
    pub fn min_p(mut self, value: f32) -> Self {
        self.args.min_p = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Renormalise<'_> {
    type Args = sys::quern_renormalise_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_renormalise;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_renormalise_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_renormalise_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_verify_draft`.
#[must_use]
pub struct VerifyDraft<'a> {
    args: sys::quern_verify_draft_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> VerifyDraft<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn target(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.target = value.raw();
        self
    }
    pub fn draft(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.draft = value.raw();
        self
    }
    pub fn draft_ids(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.draft_ids = value.raw();
        self
    }
    pub fn parents(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.parents = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn accepted(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.accepted = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn path(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.path = value.raw();
        self
    }
    pub fn status(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.status = value.raw();
        self
    }
    pub fn seeds(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.seeds = value.raw();
        self
    }
    pub fn offsets(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.offsets = value.raw();
        self
    }
    pub fn temperatures(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.temperatures = value.raw();
        self
    }
    pub fn top_ks(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.top_ks = value.raw();
        self
    }
    pub fn top_ps(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.top_ps = value.raw();
        self
    }
    pub fn min_ps(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.min_ps = value.raw();
        self
    }
    pub fn seed(mut self, value: u64) -> Self {
        self.args.seed = value;
        self
    }
    pub fn offset(mut self, value: u64) -> Self {
        self.args.offset = value;
        self
    }
    pub fn temperature(mut self, value: f32) -> Self {
        self.args.temperature = value;
        self
    }
    pub fn top_k(mut self, value: i32) -> Self {
        self.args.top_k = value;
        self
    }
    pub fn top_p(mut self, value: f32) -> Self {
        self.args.top_p = value;
        self
    }
    pub fn min_p(mut self, value: f32) -> Self {
        self.args.min_p = value;
        self
    }
    pub fn logprobs(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.logprobs = value.raw();
        self
    }
    pub fn repetitions(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.repetitions = value.raw();
        self
    }
    pub fn presences(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.presences = value.raw();
        self
    }
    pub fn frequencies(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.frequencies = value.raw();
        self
    }
    pub fn prompt_mask(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.prompt_mask = value.raw();
        self
    }
    pub fn prompt_tokens(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.prompt_tokens = value.raw();
        self
    }
    pub fn prompt_lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.prompt_lengths = value.raw();
        self
    }
    pub fn output_counts(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.output_counts = value.raw();
        self
    }
    pub fn output_tokens(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.output_tokens = value.raw();
        self
    }
    pub fn output_lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.output_lengths = value.raw();
        self
    }
    pub fn bias_offsets(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias_offsets = value.raw();
        self
    }
    pub fn bias_ids(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias_ids = value.raw();
        self
    }
    pub fn bias_values(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias_values = value.raw();
        self
    }
    pub fn allowed(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.allowed = value.raw();
        self
    }
    pub fn banned(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.banned = value.raw();
        self
    }
    pub fn repetition(mut self, value: f32) -> Self {
        self.args.repetition = value;
        self
    }
    pub fn presence(mut self, value: f32) -> Self {
        self.args.presence = value;
        self
    }
    pub fn frequency(mut self, value: f32) -> Self {
        self.args.frequency = value;
        self
    }
    pub fn max_bias(mut self, value: i32) -> Self {
        self.args.max_bias = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for VerifyDraft<'_> {
    type Args = sys::quern_verify_draft_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_verify_draft;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_verify_draft_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_verify_draft_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_pointwise`.
#[must_use]
pub struct Pointwise<'a> {
    args: sys::quern_pointwise_args,
    kept: Kept,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Pointwise<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), kept: Kept::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn operands(mut self, value: &[&'a Tensor<'_>]) -> Self {
        self.args.operand_count = value.len() as u32;
        self.args.operands = self.kept.tensors(value.iter().map(|one| one.raw()));
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn out1(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out1 = value.raw();
        self
    }
    pub fn out2(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out2 = value.raw();
        self
    }
    pub fn out3(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out3 = value.raw();
        self
    }
    pub fn expression(mut self, value: Expression<'a>) -> Self {
        self.args.expression = value.raw();
        self
    }
    pub fn expression1(mut self, value: Expression<'a>) -> Self {
        self.args.expression1 = value.raw();
        self
    }
    pub fn expression2(mut self, value: Expression<'a>) -> Self {
        self.args.expression2 = value.raw();
        self
    }
    pub fn expression3(mut self, value: Expression<'a>) -> Self {
        self.args.expression3 = value.raw();
        self
    }
    pub fn scalars(mut self, value: &[f32]) -> Self {
        self.args.scalar_count = value.len() as u32;
        self.args.scalars = self.kept.floats(value);
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Pointwise<'_> {
    type Args = sys::quern_pointwise_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_pointwise;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_pointwise_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_pointwise_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_copy`.
#[must_use]
pub struct Copy<'a> {
    args: sys::quern_copy_args,
    kept: Kept,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Copy<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), kept: Kept::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn inputs(mut self, value: &[&'a Tensor<'_>]) -> Self {
        self.args.input_count = value.len() as u32;
        self.args.inputs = self.kept.tensors(value.iter().map(|one| one.raw()));
        self
    }
    pub fn outputs(mut self, value: &'a mut [TensorMut<'_>]) -> Self {
        self.args.output_count = value.len() as u32;
        self.args.outputs = self.kept.tensors(value.iter_mut().map(|one| one.raw()));
        self
    }
    pub fn fill(mut self, value: f64) -> Self {
        self.args.fill = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Copy<'_> {
    type Args = sys::quern_copy_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_copy;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_copy_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_copy_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_norm`.
#[must_use]
pub struct Norm<'a> {
    args: sys::quern_norm_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Norm<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn residual(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.residual = value.raw();
        self
    }
    pub fn weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weight = value.raw();
        self
    }
    pub fn bias(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias = value.raw();
        self
    }
    pub fn scale(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale = value.raw();
        self
    }
    pub fn shift(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.shift = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn residual_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.residual_out = value.raw();
        self
    }
    pub fn out_scale(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out_scale = value.raw();
        self
    }
    pub fn dense(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.dense = value.raw();
        self
    }
    pub fn kind(mut self, value: i32) -> Self {
        self.args.kind = value;
        self
    }
    pub fn groups(mut self, value: i32) -> Self {
        self.args.groups = value;
        self
    }
    pub fn scale_kind(mut self, value: i32) -> Self {
        self.args.scale_kind = value;
        self
    }
    pub fn r#type(mut self, value: i32) -> Self {
        self.args.r#type = value;
        self
    }
    pub fn eps(mut self, value: f32) -> Self {
        self.args.eps = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Norm<'_> {
    type Args = sys::quern_norm_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_norm;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_norm_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_norm_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_norm_backward`.
#[must_use]
pub struct NormBackward<'a> {
    args: sys::quern_norm_backward_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> NormBackward<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn dout(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.dout = value.raw();
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weight = value.raw();
        self
    }
    pub fn add(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.add = value.raw();
        self
    }
    pub fn dx(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.dx = value.raw();
        self
    }
    pub fn dweight(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.dweight = value.raw();
        self
    }
    pub fn dbias(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.dbias = value.raw();
        self
    }
    pub fn kind(mut self, value: i32) -> Self {
        self.args.kind = value;
        self
    }
    pub fn eps(mut self, value: f32) -> Self {
        self.args.eps = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for NormBackward<'_> {
    type Args = sys::quern_norm_backward_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_norm_backward;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_norm_backward_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_norm_backward_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_reduce`.
#[must_use]
pub struct Reduce<'a> {
    args: sys::quern_reduce_args,
    kept: Kept,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Reduce<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), kept: Kept::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn y(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.y = value.raw();
        self
    }
    pub fn before(mut self, value: Expression<'a>) -> Self {
        self.args.before = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn out1(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out1 = value.raw();
        self
    }
    pub fn out2(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out2 = value.raw();
        self
    }
    pub fn out3(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out3 = value.raw();
        self
    }
    pub fn after(mut self, value: Expression<'a>) -> Self {
        self.args.after = value.raw();
        self
    }
    pub fn after1(mut self, value: Expression<'a>) -> Self {
        self.args.after1 = value.raw();
        self
    }
    pub fn after2(mut self, value: Expression<'a>) -> Self {
        self.args.after2 = value.raw();
        self
    }
    pub fn after3(mut self, value: Expression<'a>) -> Self {
        self.args.after3 = value.raw();
        self
    }
    pub fn scalars(mut self, value: &[f32]) -> Self {
        self.args.scalar_count = value.len() as u32;
        self.args.scalars = self.kept.floats(value);
        self
    }
    pub fn axes(mut self, value: u32) -> Self {
        self.args.axes = value;
        self
    }
    pub fn reduction(mut self, value: i32) -> Self {
        self.args.reduction = value;
        self
    }
    pub fn reduction1(mut self, value: i32) -> Self {
        self.args.reduction1 = value;
        self
    }
    pub fn reduction2(mut self, value: i32) -> Self {
        self.args.reduction2 = value;
        self
    }
    pub fn reduction3(mut self, value: i32) -> Self {
        self.args.reduction3 = value;
        self
    }
    pub fn r#type(mut self, value: i32) -> Self {
        self.args.r#type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Reduce<'_> {
    type Args = sys::quern_reduce_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_reduce;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_reduce_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_reduce_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_scatter`.
#[must_use]
pub struct Scatter<'a> {
    args: sys::quern_scatter_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Scatter<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn first(mut self, value: i64) -> Self {
        self.args.first = value;
        self
    }
    pub fn padding(mut self, value: i64) -> Self {
        self.args.padding = value;
        self
    }
    pub fn scale(mut self, value: f32) -> Self {
        self.args.scale = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Scatter<'_> {
    type Args = sys::quern_scatter_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_scatter;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_scatter_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_scatter_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_histogram`.
#[must_use]
pub struct Histogram<'a> {
    args: sys::quern_histogram_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Histogram<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn counts(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.counts = value.raw();
        self
    }
    pub fn first(mut self, value: i64) -> Self {
        self.args.first = value;
        self
    }
    pub fn low(mut self, value: f32) -> Self {
        self.args.low = value;
        self
    }
    pub fn high(mut self, value: f32) -> Self {
        self.args.high = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Histogram<'_> {
    type Args = sys::quern_histogram_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_histogram;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_histogram_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_histogram_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_sort`.
#[must_use]
pub struct Sort<'a> {
    args: sys::quern_sort_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Sort<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn keys(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.keys = value.raw();
        self
    }
    pub fn values(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.values = value.raw();
        self
    }
    pub fn offsets(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.offsets = value.raw();
        self
    }
    pub fn keys_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.keys_out = value.raw();
        self
    }
    pub fn values_out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.values_out = value.raw();
        self
    }
    pub fn max_segment(mut self, value: i64) -> Self {
        self.args.max_segment = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Sort<'_> {
    type Args = sys::quern_sort_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_sort;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_sort_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_sort_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_conv1d`.
#[must_use]
pub struct Conv1d<'a> {
    args: sys::quern_conv1d_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Conv1d<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weight = value.raw();
        self
    }
    pub fn bias(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias = value.raw();
        self
    }
    pub fn offsets(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.offsets = value.raw();
        self
    }
    pub fn state(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.state = value.raw();
        self
    }
    pub fn state_ids(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.state_ids = value.raw();
        self
    }
    pub fn has_state(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.has_state = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn stride(mut self, value: i32) -> Self {
        self.args.stride = value;
        self
    }
    pub fn dilation(mut self, value: i32) -> Self {
        self.args.dilation = value;
        self
    }
    pub fn groups(mut self, value: i32) -> Self {
        self.args.groups = value;
        self
    }
    pub fn pad_begin(mut self, value: i32) -> Self {
        self.args.pad_begin = value;
        self
    }
    pub fn pad_end(mut self, value: i32) -> Self {
        self.args.pad_end = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Conv1d<'_> {
    type Args = sys::quern_conv1d_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_conv1d;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_conv1d_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_conv1d_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_nms`.
#[must_use]
pub struct Nms<'a> {
    args: sys::quern_nms_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Nms<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn boxes(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.boxes = value.raw();
        self
    }
    pub fn scores(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scores = value.raw();
        self
    }
    pub fn classes(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.classes = value.raw();
        self
    }
    pub fn lengths(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.lengths = value.raw();
        self
    }
    pub fn ids(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.ids = value.raw();
        self
    }
    pub fn counts(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.counts = value.raw();
        self
    }
    pub fn iou_threshold(mut self, value: f32) -> Self {
        self.args.iou_threshold = value;
        self
    }
    pub fn score_threshold(mut self, value: f32) -> Self {
        self.args.score_threshold = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Nms<'_> {
    type Args = sys::quern_nms_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_nms;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_nms_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_nms_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_conv2d`.
#[must_use]
pub struct Conv2d<'a> {
    args: sys::quern_conv2d_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Conv2d<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn weight(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.weight = value.raw();
        self
    }
    pub fn bias(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.bias = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn stride_h(mut self, value: i32) -> Self {
        self.args.stride_h = value;
        self
    }
    pub fn stride_w(mut self, value: i32) -> Self {
        self.args.stride_w = value;
        self
    }
    pub fn dilation_h(mut self, value: i32) -> Self {
        self.args.dilation_h = value;
        self
    }
    pub fn dilation_w(mut self, value: i32) -> Self {
        self.args.dilation_w = value;
        self
    }
    pub fn groups(mut self, value: i32) -> Self {
        self.args.groups = value;
        self
    }
    pub fn pad_top(mut self, value: i32) -> Self {
        self.args.pad_top = value;
        self
    }
    pub fn pad_bottom(mut self, value: i32) -> Self {
        self.args.pad_bottom = value;
        self
    }
    pub fn pad_left(mut self, value: i32) -> Self {
        self.args.pad_left = value;
        self
    }
    pub fn pad_right(mut self, value: i32) -> Self {
        self.args.pad_right = value;
        self
    }
    pub fn activation(mut self, value: i32) -> Self {
        self.args.activation = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Conv2d<'_> {
    type Args = sys::quern_conv2d_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_conv2d;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_conv2d_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_conv2d_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_quantized_gemm`.
#[must_use]
pub struct QuantizedGemm<'a> {
    args: sys::quern_quantized_gemm_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> QuantizedGemm<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.a = value.raw();
        self
    }
    pub fn b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.b = value.raw();
        self
    }
    pub fn scale_a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale_a = value.raw();
        self
    }
    pub fn scale_b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.scale_b = value.raw();
        self
    }
    pub fn zero_b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.zero_b = value.raw();
        self
    }
    pub fn tensor_scale_a(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.tensor_scale_a = value.raw();
        self
    }
    pub fn tensor_scale_b(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.tensor_scale_b = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn epilogue(mut self, value: &'a Epilogue<'_>) -> Self {
        self.args.epilogue = value.raw();
        self
    }
    pub fn a_format(mut self, value: i32) -> Self {
        self.args.a_format = value;
        self
    }
    pub fn b_format(mut self, value: i32) -> Self {
        self.args.b_format = value;
        self
    }
    pub fn scale_a_type(mut self, value: i32) -> Self {
        self.args.scale_a_type = value;
        self
    }
    pub fn scale_b_type(mut self, value: i32) -> Self {
        self.args.scale_b_type = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for QuantizedGemm<'_> {
    type Args = sys::quern_quantized_gemm_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_quantized_gemm;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_quantized_gemm_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_quantized_gemm_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}

/// `quern_fft`.
#[must_use]
pub struct Fft<'a> {
    args: sys::quern_fft_args,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Fft<'a> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { args: Default::default(), borrowed: PhantomData }
    }
    pub fn flags(mut self, value: u32) -> Self {
        self.args.flags = value;
        self
    }
    /// # Safety
    /// What it points to is as quern.h says, until the call is over.
    pub unsafe fn stream(mut self, value: *mut std::ffi::c_void) -> Self {
        self.args.stream = value;
        self
    }
    pub fn alignment(mut self, value: i32) -> Self {
        self.args.alignment = value;
        self
    }
    pub fn max_sms(mut self, value: i32) -> Self {
        self.args.max_sms = value;
        self
    }
    pub fn x(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.x = value.raw();
        self
    }
    pub fn window(mut self, value: &'a Tensor<'_>) -> Self {
        self.args.window = value.raw();
        self
    }
    pub fn out(mut self, value: &'a mut TensorMut<'_>) -> Self {
        self.args.out = value.raw();
        self
    }
    pub fn n(mut self, value: i32) -> Self {
        self.args.n = value;
        self
    }
    pub fn kind(mut self, value: i32) -> Self {
        self.args.kind = value;
        self
    }
    pub fn result(mut self, value: i32) -> Self {
        self.args.result = value;
        self
    }
    pub fn scaling(mut self, value: i32) -> Self {
        self.args.scaling = value;
        self
    }
    pub fn hop(mut self, value: i32) -> Self {
        self.args.hop = value;
        self
    }
    pub fn pad_begin(mut self, value: i32) -> Self {
        self.args.pad_begin = value;
        self
    }
    pub fn pad_end(mut self, value: i32) -> Self {
        self.args.pad_end = value;
        self
    }
    pub fn padding(mut self, value: i32) -> Self {
        self.args.padding = value;
        self
    }
}

// SAFETY: these are the op's own functions, and every field was set through a setter.
unsafe impl Op for Fft<'_> {
    type Args = sys::quern_fft_args;
    const RUN: crate::op::Run<Self::Args> = sys::quern_fft;
    const PREPARE: crate::op::Run<Self::Args> = sys::quern_fft_prepare;
    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_fft_workspace;
    fn args(&self) -> Self::Args {
        self.args
    }
    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {
        args.workspace = memory;
        args.workspace_size = bytes;
    }
}
