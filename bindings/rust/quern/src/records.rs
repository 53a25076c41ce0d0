//! What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there.
//! Made of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0
// SAFETY, of every read: the caller's promise that what the struct points to is there.
use crate::held::{bytes, inline, text, Held, Record};
use crate::Builder;
use quern_sys as sys;
use std::ffi::OsStr;

/// `quern_device_info`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    pub device_type: i32,
    pub device_id: i32,
    pub warp_size: u32,
    pub sm_count: u32,
    pub shared_per_block: u32,
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    pub driver_version: u32,
    pub target: String,
    pub name: String,
}

// SAFETY: it begins with its size.
unsafe impl Record for DeviceInfo {
    type Raw = sys::quern_device_info;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            device_type: from.device_type,
            device_id: from.device_id,
            warp_size: from.warp_size,
            sm_count: from.sm_count,
            shared_per_block: from.shared_per_block,
            l2_bytes: from.l2_bytes,
            memory_bytes: from.memory_bytes,
            driver_version: from.driver_version,
            target: unsafe { inline(&from.target) },
            name: unsafe { inline(&from.name) },
        }
    }
}

/// `quern_stats`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    pub kernels_loaded: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub compiled: u64,
    pub compile_errors: u64,
    pub rejected: u64,
    pub stored: u64,
    pub store_errors: u64,
    pub flight_waits: u64,
    pub pending: u64,
    pub compile_ms: f64,
    pub load_ms: f64,
}

// SAFETY: it begins with its size.
unsafe impl Record for Stats {
    type Raw = sys::quern_stats;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            kernels_loaded: from.kernels_loaded,
            cache_hits: from.cache_hits,
            cache_misses: from.cache_misses,
            compiled: from.compiled,
            compile_errors: from.compile_errors,
            rejected: from.rejected,
            stored: from.stored,
            store_errors: from.store_errors,
            flight_waits: from.flight_waits,
            pending: from.pending,
            compile_ms: from.compile_ms,
            load_ms: from.load_ms,
        }
    }
}

/// `quern_event`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    pub kind: i32,
    pub op: String,
    pub target: String,
    pub key: String,
    pub text: String,
    pub milliseconds: f64,
    pub status: i32,
}

// SAFETY: it begins with its size.
unsafe impl Record for Event {
    type Raw = sys::quern_event;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            kind: from.kind,
            op: unsafe { text(from.op) },
            target: unsafe { text(from.target) },
            key: unsafe { text(from.key) },
            text: unsafe { text(from.text) },
            milliseconds: from.milliseconds,
            status: from.status,
        }
    }
}

/// `quern_fault`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fault {
    pub op: String,
    pub argument: String,
    pub text: String,
    pub call: u64,
    pub row: i64,
    pub column: i64,
    pub value: i64,
    pub least: i64,
    pub most: i64,
}

// SAFETY: it begins with its size.
unsafe impl Record for Fault {
    type Raw = sys::quern_fault;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            op: unsafe { text(from.op) },
            argument: unsafe { text(from.argument) },
            text: unsafe { text(from.text) },
            call: from.call,
            row: from.row,
            column: from.column,
            value: from.value,
            least: from.least,
            most: from.most,
        }
    }
}

/// `quern_warm_result`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WarmResult {
    pub outcome: i32,
    pub status: i32,
    pub line: u32,
    pub op: String,
    pub target: String,
    pub key: String,
    pub spec: String,
    pub text: String,
    pub milliseconds: f64,
}

// SAFETY: it begins with its size.
unsafe impl Record for WarmResult {
    type Raw = sys::quern_warm_result;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            outcome: from.outcome,
            status: from.status,
            line: from.line,
            op: unsafe { text(from.op) },
            target: unsafe { text(from.target) },
            key: unsafe { text(from.key) },
            spec: unsafe { text(from.spec) },
            text: unsafe { text(from.text) },
            milliseconds: from.milliseconds,
        }
    }
}

/// `quern_tune_result`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TuneResult {
    pub outcome: i32,
    pub status: i32,
    pub line: u32,
    pub op: String,
    pub product: String,
    pub choice: String,
    pub model_choice: String,
    pub text: String,
    pub rows: i64,
    pub microseconds: f64,
    pub model_microseconds: f64,
    pub candidates: u32,
}

// SAFETY: it begins with its size.
unsafe impl Record for TuneResult {
    type Raw = sys::quern_tune_result;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            outcome: from.outcome,
            status: from.status,
            line: from.line,
            op: unsafe { text(from.op) },
            product: unsafe { text(from.product) },
            choice: unsafe { text(from.choice) },
            model_choice: unsafe { text(from.model_choice) },
            text: unsafe { text(from.text) },
            rows: from.rows,
            microseconds: from.microseconds,
            model_microseconds: from.model_microseconds,
            candidates: from.candidates,
        }
    }
}

/// `quern_entry`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    pub layer: i32,
    pub key: String,
    pub op: String,
    pub target: String,
    pub entry_name: String,
    pub text: String,
    pub compiler: String,
    pub log: String,
    pub image: Option<Vec<u8>>,
    pub image_size: u64,
    pub created: i64,
    pub last_use: u64,
    pub compile_ms: f64,
    pub registers: i32,
    pub shared_bytes: i32,
    pub local_bytes: i32,
    pub kind: i32,
}

// SAFETY: it begins with its size.
unsafe impl Record for Entry {
    type Raw = sys::quern_entry;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            layer: from.layer,
            key: unsafe { text(from.key) },
            op: unsafe { text(from.op) },
            target: unsafe { text(from.target) },
            entry_name: unsafe { text(from.entry_name) },
            text: unsafe { text(from.text) },
            compiler: unsafe { text(from.compiler) },
            log: unsafe { text(from.log) },
            image: unsafe { bytes(from.image, from.image_size) },
            image_size: from.image_size,
            created: from.created,
            last_use: from.last_use,
            compile_ms: from.compile_ms,
            registers: from.registers,
            shared_bytes: from.shared_bytes,
            local_bytes: from.local_bytes,
            kind: from.kind,
        }
    }
}

/// `quern_finding`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    pub status: i32,
    pub what: String,
    pub text: String,
    pub hint: String,
}

// SAFETY: it begins with its size.
unsafe impl Record for Finding {
    type Raw = sys::quern_finding;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            status: from.status,
            what: unsafe { text(from.what) },
            text: unsafe { text(from.text) },
            hint: unsafe { text(from.hint) },
        }
    }
}

/// `quern_trim_result`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrimResult {
    pub removed: u64,
    pub kept: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

// SAFETY: it begins with its size.
unsafe impl Record for TrimResult {
    type Raw = sys::quern_trim_result;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            removed: from.removed,
            kept: from.kept,
            bytes_before: from.bytes_before,
            bytes_after: from.bytes_after,
        }
    }
}

/// `quern_cache_stats`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CacheStats {
    pub state: i32,
    pub entries: u64,
    pub image_bytes: u64,
    pub file_bytes: u64,
    pub limit: u64,
    pub bundles: u64,
    pub bundle_entries: u64,
    pub path: String,
    pub reason: String,
}

// SAFETY: it begins with its size.
unsafe impl Record for CacheStats {
    type Raw = sys::quern_cache_stats;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            state: from.state,
            entries: from.entries,
            image_bytes: from.image_bytes,
            file_bytes: from.file_bytes,
            limit: from.limit,
            bundles: from.bundles,
            bundle_entries: from.bundle_entries,
            path: unsafe { inline(&from.path) },
            reason: unsafe { inline(&from.reason) },
        }
    }
}

/// `quern_verify_result`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VerifyResult {
    pub outcome: i32,
    pub status: i32,
    pub trials: u32,
    pub op: String,
    pub target: String,
    pub key: String,
    pub spec: String,
    pub text: String,
    pub error: f64,
    pub truth_error: f64,
    pub milliseconds: f64,
}

// SAFETY: it begins with its size.
unsafe impl Record for VerifyResult {
    type Raw = sys::quern_verify_result;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            outcome: from.outcome,
            status: from.status,
            trials: from.trials,
            op: unsafe { text(from.op) },
            target: unsafe { text(from.target) },
            key: unsafe { text(from.key) },
            spec: unsafe { text(from.spec) },
            text: unsafe { text(from.text) },
            error: from.error,
            truth_error: from.truth_error,
            milliseconds: from.milliseconds,
        }
    }
}

/// `quern_kernel_info`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelInfo {
    pub registers: i32,
    pub shared_bytes: i32,
    pub local_bytes: i32,
    pub max_threads: i32,
    pub key: String,
}

// SAFETY: it begins with its size.
unsafe impl Record for KernelInfo {
    type Raw = sys::quern_kernel_info;
    unsafe fn read(from: &Self::Raw) -> Self {
        Self {
            registers: from.registers,
            shared_bytes: from.shared_bytes,
            local_bytes: from.local_bytes,
            max_threads: from.max_threads,
            key: unsafe { inline(&from.key) },
        }
    }
}

/// The fields of `quern_context_options`.
impl Builder {
    pub fn compile_threads(mut self, value: i32) -> Self {
        self.options.compile_threads = value;
        self
    }
    pub fn target(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("target", value.as_ref());
        self.options.target = self.keep(made);
        self
    }
    pub fn cache_path(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("cache_path", value.as_ref());
        self.options.cache_path = self.keep(made);
        self
    }
    /// One more of `bundles`.
    pub fn bundle(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("bundle", value.as_ref());
        self.bundles.extend(made);
        self
    }
    /// One more of `search_dirs`.
    pub fn search_dir(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("search_dir", value.as_ref());
        self.search_dirs.extend(made);
        self
    }
    pub fn helper_path(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("helper_path", value.as_ref());
        self.options.helper_path = self.keep(made);
        self
    }
    pub fn host_compiler(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("host_compiler", value.as_ref());
        self.options.host_compiler = self.keep(made);
        self
    }
    pub fn compiler_pin(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("compiler_pin", value.as_ref());
        self.options.compiler_pin = self.keep(made);
        self
    }
    pub fn cache_limit(mut self, value: u64) -> Self {
        self.options.cache_limit = value;
        self
    }
    pub fn compile_timeout_ms(mut self, value: u32) -> Self {
        self.options.compile_timeout_ms = value;
        self
    }
    pub fn flight_timeout_ms(mut self, value: u32) -> Self {
        self.options.flight_timeout_ms = value;
        self
    }
    pub fn host_seed(mut self, value: u64) -> Self {
        self.options.host_seed = value;
        self
    }
    pub fn host_threads(mut self, value: u32) -> Self {
        self.options.host_threads = value;
        self
    }
    pub fn log_level(mut self, value: i32) -> Self {
        self.options.log_level = value;
        self
    }
    /// One more of `trusted_keys`.
    pub fn trusted_key(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("trusted_key", value.as_ref());
        self.trusted_keys.extend(made);
        self
    }
    pub fn cache_key(mut self, value: impl AsRef<OsStr>) -> Self {
        let made = self.text("cache_key", value.as_ref());
        self.options.cache_key = self.keep(made);
        self
    }
    pub fn max_kernels(mut self, value: u64) -> Self {
        self.options.max_kernels = value;
        self
    }
}

/// `quern_model`.
#[derive(Clone, Copy, Default)]
pub struct Model {
    pub flags: u32,
    pub tensor_parallel: u32,
    pub hidden_size: u32,
    pub intermediate_size: u32,
    pub layers: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub v_head_dim: u32,
    pub vocab_size: u32,
    pub max_positions: u32,
    pub sliding_window: u32,
    pub experts: u32,
    pub experts_per_token: u32,
    pub expert_intermediate_size: u32,
    pub kv_lora_rank: u32,
    pub q_lora_rank: u32,
    pub rope_head_dim: u32,
    pub page_size: u32,
    pub logit_cap: f32,
    pub dtype: sys::DLDataType,
    pub kv_dtype: sys::DLDataType,
    pub shared_experts: u32,
    pub activation: i32,
    pub rotary_dim: u32,
    pub final_logit_cap: f32,
    pub index_heads: u32,
    pub index_head_dim: u32,
    pub index_top_k: u32,
}

impl Model {
    pub(crate) fn raw(&self, _held: &mut Held<'_>) -> crate::Result<sys::quern_model> {
        let mut made = sys::quern_model::default();
        made.flags = self.flags;
        made.tensor_parallel = self.tensor_parallel;
        made.hidden_size = self.hidden_size;
        made.intermediate_size = self.intermediate_size;
        made.layers = self.layers;
        made.heads = self.heads;
        made.kv_heads = self.kv_heads;
        made.head_dim = self.head_dim;
        made.v_head_dim = self.v_head_dim;
        made.vocab_size = self.vocab_size;
        made.max_positions = self.max_positions;
        made.sliding_window = self.sliding_window;
        made.experts = self.experts;
        made.experts_per_token = self.experts_per_token;
        made.expert_intermediate_size = self.expert_intermediate_size;
        made.kv_lora_rank = self.kv_lora_rank;
        made.q_lora_rank = self.q_lora_rank;
        made.rope_head_dim = self.rope_head_dim;
        made.page_size = self.page_size;
        made.logit_cap = self.logit_cap;
        made.dtype = self.dtype;
        made.kv_dtype = self.kv_dtype;
        made.shared_experts = self.shared_experts;
        made.activation = self.activation;
        made.rotary_dim = self.rotary_dim;
        made.final_logit_cap = self.final_logit_cap;
        made.index_heads = self.index_heads;
        made.index_head_dim = self.index_head_dim;
        made.index_top_k = self.index_top_k;
        Ok(made)
    }
}

/// `quern_warm_options`.
#[derive(Default)]
pub struct WarmOptions<'a> {
    pub flags: u32,
    pub targets: &'a [&'a str],
    pub manifest: Option<&'a str>,
    pub model: Option<&'a Model>,
    pub progress: Option<&'a mut dyn FnMut(u64, u64, &WarmResult) -> bool>,
}

impl<'a> WarmOptions<'a> {
    pub(crate) fn raw(self, held: &mut Held<'a>) -> crate::Result<sys::quern_warm_options> {
        let mut made = sys::quern_warm_options::default();
        made.flags = self.flags;
        made.targets = held.texts("targets", self.targets)?;
        made.target_count = self.targets.len() as u64;
        made.manifest = held.text("manifest", self.manifest)?;
        made.manifest_length = self.manifest.map_or(0, |text| text.len() as u64);
        if let Some(part) = self.model {
            let part = part.raw(held)?;
            made.model = held.keep(part);
        }
        if let Some(told) = self.progress {
            made.progress = Some(crate::held::tell::<WarmResult>);
            made.progress_user = held.progress(told);
        }
        Ok(made)
    }
}

/// `quern_tune_options`.
#[derive(Default)]
pub struct TuneOptions<'a> {
    pub flags: u32,
    pub manifest: Option<&'a str>,
    pub model: Option<&'a Model>,
    pub rows: &'a [i64],
    pub milliseconds: f64,
    pub progress: Option<&'a mut dyn FnMut(u64, u64, &TuneResult) -> bool>,
}

impl<'a> TuneOptions<'a> {
    pub(crate) fn raw(self, held: &mut Held<'a>) -> crate::Result<sys::quern_tune_options> {
        let mut made = sys::quern_tune_options::default();
        made.flags = self.flags;
        made.manifest = held.text("manifest", self.manifest)?;
        made.manifest_length = self.manifest.map_or(0, |text| text.len() as u64);
        if let Some(part) = self.model {
            let part = part.raw(held)?;
            made.model = held.keep(part);
        }
        made.rows = self.rows.as_ptr();
        made.row_count = self.rows.len() as u64;
        made.milliseconds = self.milliseconds;
        if let Some(told) = self.progress {
            made.progress = Some(crate::held::tell::<TuneResult>);
            made.progress_user = held.progress(told);
        }
        Ok(made)
    }
}

/// `quern_trim_options`.
#[derive(Clone, Copy, Default)]
pub struct TrimOptions {
    pub flags: u32,
    pub limit: u64,
}

impl TrimOptions {
    pub(crate) fn raw(&self, _held: &mut Held<'_>) -> crate::Result<sys::quern_trim_options> {
        let mut made = sys::quern_trim_options::default();
        made.flags = self.flags;
        made.limit = self.limit;
        Ok(made)
    }
}

/// `quern_verify_options`.
#[derive(Default)]
pub struct VerifyOptions<'a> {
    pub flags: u32,
    pub prefix: Option<&'a str>,
    pub seed: u64,
    pub progress: Option<&'a mut dyn FnMut(u64, u64, &VerifyResult) -> bool>,
}

impl<'a> VerifyOptions<'a> {
    pub(crate) fn raw(self, held: &mut Held<'a>) -> crate::Result<sys::quern_verify_options> {
        let mut made = sys::quern_verify_options::default();
        made.flags = self.flags;
        made.prefix = held.text("prefix", self.prefix)?;
        made.seed = self.seed;
        if let Some(told) = self.progress {
            made.progress = Some(crate::held::tell::<VerifyResult>);
            made.progress_user = held.progress(told);
        }
        Ok(made)
    }
}
