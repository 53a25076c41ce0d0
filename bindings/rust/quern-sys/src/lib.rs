//! quern.h in Rust: every constant, struct and function under its C name. Documentation is the header's.
//! Made of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0
#![allow(non_camel_case_types, non_upper_case_globals)]

use std::os::raw::{c_char, c_void};

pub const QUERN_VERSION_MAJOR: i32 = 0;
pub const QUERN_VERSION_MINOR: i32 = 1;
pub const QUERN_VERSION_PATCH: i32 = 0;
pub const QUERN_ABI_VERSION: i32 = 1;
pub const kDLCPU: i32 = 1;
pub const kDLCUDA: i32 = 2;
pub const kDLCUDAHost: i32 = 3;
pub const kDLROCM: i32 = 10;
pub const kDLROCMHost: i32 = 11;
pub const kDLCUDAManaged: i32 = 13;
pub const kDLInt: i32 = 0;
pub const kDLUInt: i32 = 1;
pub const kDLFloat: i32 = 2;
pub const kDLOpaqueHandle: i32 = 3;
pub const kDLBfloat: i32 = 4;
pub const kDLComplex: i32 = 5;
pub const kDLBool: i32 = 6;
pub const kDLFloat8_e3m4: i32 = 7;
pub const kDLFloat8_e4m3: i32 = 8;
pub const kDLFloat8_e4m3b11fnuz: i32 = 9;
pub const kDLFloat8_e4m3fn: i32 = 10;
pub const kDLFloat8_e4m3fnuz: i32 = 11;
pub const kDLFloat8_e5m2: i32 = 12;
pub const kDLFloat8_e5m2fnuz: i32 = 13;
pub const kDLFloat8_e8m0fnu: i32 = 14;
pub const kDLFloat6_e2m3fn: i32 = 15;
pub const kDLFloat6_e3m2fn: i32 = 16;
pub const kDLFloat4_e2m1fn: i32 = 17;
pub const QUERN_OK: i32 = 0;
pub const QUERN_MISS: i32 = 1;
pub const QUERN_PENDING: i32 = 2;
pub const QUERN_INVALID: i32 = 3;
pub const QUERN_UNSUPPORTED: i32 = 4;
pub const QUERN_NOT_FOUND: i32 = 5;
pub const QUERN_COMPILE: i32 = 6;
pub const QUERN_DRIVER: i32 = 7;
pub const QUERN_STICKY: i32 = 8;
pub const QUERN_CAPTURING: i32 = 9;
pub const QUERN_NO_MEMORY: i32 = 10;
pub const QUERN_IO: i32 = 11;
pub const QUERN_DAMAGED: i32 = 12;
pub const QUERN_FORKED: i32 = 13;
pub const QUERN_PARTIAL: i32 = 14;
pub const QUERN_INTERNAL: i32 = 15;
pub const QUERN_FAULT: i32 = 16;
pub const QUERN_MISS_COMPILE: i32 = 0;
pub const QUERN_MISS_CACHED_ONLY: i32 = 1;
pub const QUERN_MISS_BACKGROUND: i32 = 2;
pub const QUERN_CONTEXT_NO_CACHE: u32 = 1;
pub const QUERN_CONTEXT_READ_ONLY_CACHE: u32 = 2;
pub const QUERN_CONTEXT_SHARED_CACHE: u32 = 4;
pub const QUERN_CONTEXT_NVRTC_IN_HELPER: u32 = 8;
pub const QUERN_CONTEXT_HOST_SEED: u32 = 16;
pub const QUERN_CONTEXT_SIGNED_ONLY: u32 = 32;
pub const QUERN_CONTEXT_CHECKED: u32 = 64;
pub const QUERN_EVENT_COMPILED: i32 = 1;
pub const QUERN_EVENT_LOADED: i32 = 2;
pub const QUERN_EVENT_FAILED: i32 = 3;
pub const QUERN_EVENT_REJECTED: i32 = 4;
pub const QUERN_EVENT_CACHE: i32 = 5;
pub const QUERN_EVENT_FAULT: i32 = 6;
pub const QUERN_LOG_ERROR: i32 = 1;
pub const QUERN_LOG_WARNING: i32 = 2;
pub const QUERN_LOG_INFO: i32 = 3;
pub const QUERN_LOG_DEBUG: i32 = 4;
pub const QUERN_MODEL_SINKS: u32 = 1;
pub const QUERN_MODEL_MLA: u32 = 2;
pub const QUERN_MODEL_GATED_MLP: u32 = 4;
pub const QUERN_MODEL_BLOCK_FP8: u32 = 8;
pub const QUERN_MODEL_FP8: u32 = 16;
pub const QUERN_MODEL_BIAS: u32 = 32;
pub const QUERN_MODEL_QK_NORM: u32 = 64;
pub const QUERN_MODEL_ROPE_INTERLEAVED: u32 = 128;
pub const QUERN_MODEL_NO_ROPE: u32 = 256;
pub const QUERN_MODEL_KV_TOKEN_SCALES: u32 = 512;
pub const QUERN_MODEL_LAYER_NORM: u32 = 1024;
pub const QUERN_MODEL_EMBEDDING_SCALE: u32 = 2048;
pub const QUERN_MODEL_FP8_QUERIES: u32 = 4096;
pub const QUERN_MODEL_FP8_LOGITS: u32 = 8192;
pub const QUERN_WARM_LIST_ONLY: u32 = 1;
pub const QUERN_WARM_ALLOW_UNSERVED: u32 = 2;
pub const QUERN_WARM_HIT: i32 = 1;
pub const QUERN_WARM_COMPILED: i32 = 2;
pub const QUERN_WARM_FAILED: i32 = 3;
pub const QUERN_WARM_ABSENT: i32 = 4;
pub const QUERN_WARM_UNSERVED: i32 = 5;
pub const QUERN_TUNE_AGAIN: u32 = 1;
pub const QUERN_TUNE_LIST_ONLY: u32 = 2;
pub const QUERN_TUNE_MEASURED: i32 = 1;
pub const QUERN_TUNE_KNOWN: i32 = 2;
pub const QUERN_TUNE_FAILED: i32 = 3;
pub const QUERN_TUNE_ABSENT: i32 = 4;
pub const QUERN_TRIM_REBUILD: u32 = 1;
pub const QUERN_TRIM_ALL: u32 = 2;
pub const QUERN_CACHE_READY: i32 = 0;
pub const QUERN_CACHE_READ_ONLY: i32 = 1;
pub const QUERN_CACHE_OFF: i32 = 2;
pub const QUERN_CACHE_DAMAGED: i32 = 3;
pub const QUERN_CACHE_REFUSED: i32 = 4;
pub const QUERN_VERIFY_AGREES: i32 = 1;
pub const QUERN_VERIFY_DIFFERS: i32 = 2;
pub const QUERN_VERIFY_FAILED: i32 = 3;
pub const QUERN_VERIFY_NOT_RUN: i32 = 4;
pub const QUERN_CALL_BATCH_INVARIANT: u32 = 1;
pub const QUERN_CALL_PROGRAMMATIC: u32 = 2;
pub const QUERN_CALL_CACHED_ONLY: u32 = 4;
pub const QUERN_CALL_BACKGROUND: u32 = 8;
pub const QUERN_ATTENTION_CAUSAL: u32 = 65536;
pub const QUERN_ATTENTION_WINDOW_LEFT: u32 = 131072;
pub const QUERN_ATTENTION_WINDOW_RIGHT: u32 = 262144;
pub const QUERN_ATTENTION_CONSTANT_PAST: u32 = 524288;
pub const QUERN_MLA_CAUSAL: u32 = 65536;
pub const QUERN_MLA_WINDOW_LEFT: u32 = 131072;
pub const QUERN_MLA_WINDOW_RIGHT: u32 = 262144;
pub const QUERN_MLA_SLOTS: u32 = 524288;
pub const QUERN_MLA_CACHE_AS_TENSOR: i32 = 0;
pub const QUERN_MLA_CACHE_E4M3: i32 = 1;
pub const QUERN_MLA_CACHE_ROWS_656: i32 = 2;
pub const QUERN_MLA_STATUS_LENGTH: i32 = 1;
pub const QUERN_MLA_STATUS_PAGE: i32 = 2;
pub const QUERN_MLA_STATUS_INDEX: i32 = 4;
pub const QUERN_MLA_STATUS_QUERIES: i32 = 8;
pub const QUERN_ROPE_PLAIN: i32 = 0;
pub const QUERN_ROPE_LINEAR: i32 = 1;
pub const QUERN_ROPE_NTK: i32 = 2;
pub const QUERN_ROPE_YARN: i32 = 3;
pub const QUERN_ROPE_LLAMA3: i32 = 4;
pub const QUERN_ROPE_INTERLEAVED: u32 = 1;
pub const QUERN_ROPE_EXACT_RAMP: u32 = 2;
pub const QUERN_KV_APPEND_WEIGHT_PLUS_ONE: u32 = 65536;
pub const QUERN_ACTIVATION_DEFAULT: i32 = 0;
pub const QUERN_ACTIVATION_RELU: i32 = 1;
pub const QUERN_ACTIVATION_GELU: i32 = 2;
pub const QUERN_ACTIVATION_GELU_TANH: i32 = 3;
pub const QUERN_ACTIVATION_SILU: i32 = 4;
pub const QUERN_ACTIVATION_NONE: i32 = 5;
pub const QUERN_EPILOGUE_GATE: u32 = 1;
pub const QUERN_EPILOGUE_POWER_OF_TWO: u32 = 2;
pub const QUERN_FP8_AS_TENSOR: i32 = 0;
pub const QUERN_FP8_E4M3: i32 = 1;
pub const QUERN_FP8_E5M2: i32 = 2;
pub const QUERN_GROUP_OFFSETS: i32 = 1;
pub const QUERN_GROUP_CAPACITY: i32 = 2;
pub const QUERN_GROUP_INDEX: i32 = 4;
pub const QUERN_GEMM_TF32: u32 = 65536;
pub const QUERN_GEMM_CONSTANT_B: u32 = 131072;
pub const QUERN_QUANTIZED_AS_TENSOR: i32 = 0;
pub const QUERN_QUANTIZED_E4M3: i32 = 1;
pub const QUERN_QUANTIZED_INT4: i32 = 2;
pub const QUERN_QUANTIZED_UINT4: i32 = 3;
pub const QUERN_QUANTIZED_E2M1: i32 = 4;
pub const QUERN_QUANTIZED_SCALE_AS_TENSOR: i32 = 0;
pub const QUERN_QUANTIZED_SCALE_E4M3: i32 = 1;
pub const QUERN_QUANTIZED_SCALE_UE8M0: i32 = 2;
pub const QUERN_FRONT_NONE: i32 = 0;
pub const QUERN_FRONT_RMSNORM: i32 = 1;
pub const QUERN_FRONT_LAYERNORM: i32 = 2;
pub const QUERN_FRONT_SILU_MUL: i32 = 3;
pub const QUERN_FRONT_GELU_MUL: i32 = 4;
pub const QUERN_FRONT_GELU_TANH_MUL: i32 = 5;
pub const QUERN_SCALE_NONE: i32 = 0;
pub const QUERN_SCALE_STATIC: i32 = 1;
pub const QUERN_SCALE_TENSOR: i32 = 2;
pub const QUERN_SCALE_TOKEN: i32 = 3;
pub const QUERN_SCALE_GROUP: i32 = 4;
pub const QUERN_SCALE_BLOCK: i32 = 5;
pub const QUERN_QUANTIZE_POWER_OF_TWO: u32 = 65536;
pub const QUERN_QUANTIZE_WEIGHT_PLUS_ONE: u32 = 131072;
pub const QUERN_MOE_SIGMOID: u32 = 65536;
pub const QUERN_MOE_RENORMALIZE: u32 = 131072;
pub const QUERN_RMSNORM_WEIGHT_PLUS_ONE: u32 = 65536;
pub const QUERN_RMSNORM_CONSTANT_WEIGHT: u32 = 131072;
pub const QUERN_GATHER_HAS_PADDING: u32 = 65536;
pub const QUERN_GATHER_SHARD: u32 = 131072;
pub const QUERN_SAMPLE_TEMPERATURE: u32 = 65536;
pub const QUERN_SAMPLE_TOP_P: u32 = 131072;
pub const QUERN_SAMPLE_TYPICAL_P: u32 = 262144;
pub const QUERN_SAMPLE_JOINT: u32 = 524288;
pub const QUERN_SAMPLE_TEMPERATURE_LAST: u32 = 1048576;
pub const QUERN_SAMPLE_LOGPROBS_FILTERED: u32 = 2097152;
pub const QUERN_SAMPLE_EMPTY: i32 = 1;
pub const QUERN_SAMPLE_NAN: i32 = 2;
pub const QUERN_SAMPLE_PARAMETER: i32 = 4;
pub const QUERN_SAMPLE_INDEX: i32 = 8;
pub const QUERN_SAMPLE_CAPACITY: i32 = 16;
pub const QUERN_MLA_APPEND_POWER_OF_TWO: u32 = 65536;
pub const QUERN_INDEX_SCORES_CAUSAL: u32 = 65536;
pub const QUERN_INDEX_SCORES_LEAVE_MASKED: u32 = 131072;
pub const QUERN_SOFTMAX_TEMPERATURE: u32 = 65536;
pub const QUERN_SOFTMAX_LOG: u32 = 131072;
pub const QUERN_TOP_K_SORTED: u32 = 65536;
pub const QUERN_RENORMALISE_TOP_P: u32 = 65536;
pub const QUERN_RENORMALISE_JOINT: u32 = 131072;
pub const QUERN_VERIFY_TEMPERATURE: u32 = 65536;
pub const QUERN_VERIFY_TOP_P: u32 = 131072;
pub const QUERN_VERIFY_JOINT: u32 = 262144;
pub const QUERN_VERIFY_LOGITS: u32 = 524288;
pub const QUERN_VERIFY_GREEDY: u32 = 1048576;
pub const QUERN_VERIFY_WITHOUT_REPLACEMENT: u32 = 2097152;
pub const QUERN_VERIFY_LOGPROBS_FILTERED: u32 = 4194304;
pub const QUERN_NORM_LAYER: i32 = 0;
pub const QUERN_NORM_RMS: i32 = 1;
pub const QUERN_NORM_L2: i32 = 2;
pub const QUERN_NORM_GROUP: i32 = 3;
pub const QUERN_NORM_WEIGHT_PLUS_ONE: u32 = 65536;
pub const QUERN_NORM_SCALE_ALONE: u32 = 131072;
pub const QUERN_NORM_POWER_OF_TWO: u32 = 262144;
pub const QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE: u32 = 65536;
pub const QUERN_REDUCE_SUM: i32 = 0;
pub const QUERN_REDUCE_MEAN: i32 = 1;
pub const QUERN_REDUCE_MAX: i32 = 2;
pub const QUERN_REDUCE_MIN: i32 = 3;
pub const QUERN_REDUCE_ARGMAX: i32 = 4;
pub const QUERN_REDUCE_ARGMIN: i32 = 5;
pub const QUERN_REDUCE_L2: i32 = 6;
pub const QUERN_REDUCE_DOT: i32 = 7;
pub const QUERN_REDUCE_LOGSUMEXP: i32 = 8;
pub const QUERN_REDUCE_ANY: i32 = 9;
pub const QUERN_REDUCE_ALL: i32 = 10;
pub const QUERN_REDUCE_F16_SUMS: u32 = 65536;
pub const QUERN_SCATTER_ADD: u32 = 65536;
pub const QUERN_SCATTER_HAS_PADDING: u32 = 131072;
pub const QUERN_SCATTER_SHARD: u32 = 262144;
pub const QUERN_SCATTER_UNIQUE: u32 = 524288;
pub const QUERN_HISTOGRAM_ACCUMULATE: u32 = 65536;
pub const QUERN_HISTOGRAM_CLAMP: u32 = 131072;
pub const QUERN_SORT_DESCENDING: u32 = 65536;
pub const QUERN_CONV1D_SILU: u32 = 65536;
pub const QUERN_FFT_FORWARD: i32 = 0;
pub const QUERN_FFT_INVERSE: i32 = 1;
pub const QUERN_FFT_REAL: i32 = 2;
pub const QUERN_FFT_TO_REAL: i32 = 3;
pub const QUERN_FFT_COMPLEX: i32 = 0;
pub const QUERN_FFT_POWER: i32 = 1;
pub const QUERN_FFT_MAGNITUDE: i32 = 2;
pub const QUERN_FFT_UNSCALED: i32 = 0;
pub const QUERN_FFT_BY_N: i32 = 1;
pub const QUERN_FFT_BY_ROOT: i32 = 2;
pub const QUERN_FFT_ZEROS: i32 = 0;
pub const QUERN_FFT_REFLECT: i32 = 1;
pub const QUERN_NMS_SCORE_THRESHOLD: u32 = 65536;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDevice {
    pub device_type: i32,
    pub device_id: i32,
}

impl Default for DLDevice {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        unsafe { std::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

impl Default for DLDataType {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        unsafe { std::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device: DLDevice,
    pub ndim: i32,
    pub dtype: DLDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

impl Default for DLTensor {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        unsafe { std::mem::zeroed() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_error {
    pub size: u32,
    pub status: i32,
    pub native: i64,
    pub text: [c_char; 4080],
}

impl Default for quern_error {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
pub struct quern_context {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_event {
    pub size: u32,
    pub kind: i32,
    pub op: *const c_char,
    pub target: *const c_char,
    pub key: *const c_char,
    pub text: *const c_char,
    pub milliseconds: f64,
    pub status: i32,
    pub reserved: i32,
}

impl Default for quern_event {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

pub type quern_log_callback = Option<unsafe extern "C" fn(*mut c_void, i32, *const c_char)>;

pub type quern_event_callback = Option<unsafe extern "C" fn(*mut c_void, *const quern_event)>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_context_options {
    pub size: u32,
    pub flags: u32,
    pub device_type: i32,
    pub device_id: i32,
    pub miss_policy: i32,
    pub compile_threads: i32,
    pub target: *const c_char,
    pub cache_path: *const c_char,
    pub bundles: *const *const c_char,
    pub bundle_count: u64,
    pub search_dirs: *const *const c_char,
    pub search_dir_count: u64,
    pub helper_path: *const c_char,
    pub host_compiler: *const c_char,
    pub compiler_pin: *const c_char,
    pub cache_limit: u64,
    pub compile_timeout_ms: u32,
    pub flight_timeout_ms: u32,
    pub host_seed: u64,
    pub host_threads: u32,
    pub log_level: i32,
    pub log: quern_log_callback,
    pub log_user: *mut c_void,
    pub event: quern_event_callback,
    pub event_user: *mut c_void,
    pub trusted_keys: *const *const c_char,
    pub trusted_key_count: u64,
    pub cache_key: *const c_char,
    pub max_kernels: u64,
}

impl Default for quern_context_options {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_device_info {
    pub size: u32,
    pub device_type: i32,
    pub device_id: i32,
    pub warp_size: u32,
    pub sm_count: u32,
    pub shared_per_block: u32,
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    pub driver_version: u32,
    pub reserved: u32,
    pub target: [c_char; 16],
    pub name: [c_char; 104],
}

impl Default for quern_device_info {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_stats {
    pub size: u32,
    pub reserved: u32,
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

impl Default for quern_stats {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
pub struct quern_list {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_fault {
    pub size: u32,
    pub reserved: u32,
    pub op: *const c_char,
    pub argument: *const c_char,
    pub text: *const c_char,
    pub call: u64,
    pub row: i64,
    pub column: i64,
    pub value: i64,
    pub least: i64,
    pub most: i64,
}

impl Default for quern_fault {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_model {
    pub size: u32,
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
    pub dtype: DLDataType,
    pub kv_dtype: DLDataType,
    pub shared_experts: u32,
    pub activation: i32,
    pub rotary_dim: u32,
    pub final_logit_cap: f32,
    pub index_heads: u32,
    pub index_head_dim: u32,
    pub index_top_k: u32,
}

impl Default for quern_model {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_warm_result {
    pub size: u32,
    pub outcome: i32,
    pub status: i32,
    pub line: u32,
    pub op: *const c_char,
    pub target: *const c_char,
    pub key: *const c_char,
    pub spec: *const c_char,
    pub text: *const c_char,
    pub milliseconds: f64,
}

impl Default for quern_warm_result {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

pub type quern_warm_callback = Option<unsafe extern "C" fn(*mut c_void, u64, u64, *const quern_warm_result) -> i32>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_warm_options {
    pub size: u32,
    pub flags: u32,
    pub targets: *const *const c_char,
    pub target_count: u64,
    pub manifest: *const c_char,
    pub manifest_length: u64,
    pub model: *const quern_model,
    pub progress: quern_warm_callback,
    pub progress_user: *mut c_void,
}

impl Default for quern_warm_options {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_tune_result {
    pub size: u32,
    pub outcome: i32,
    pub status: i32,
    pub line: u32,
    pub op: *const c_char,
    pub product: *const c_char,
    pub choice: *const c_char,
    pub model_choice: *const c_char,
    pub text: *const c_char,
    pub rows: i64,
    pub microseconds: f64,
    pub model_microseconds: f64,
    pub candidates: u32,
    pub reserved: u32,
}

impl Default for quern_tune_result {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

pub type quern_tune_callback = Option<unsafe extern "C" fn(*mut c_void, u64, u64, *const quern_tune_result) -> i32>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_tune_options {
    pub size: u32,
    pub flags: u32,
    pub manifest: *const c_char,
    pub manifest_length: u64,
    pub model: *const quern_model,
    pub rows: *const i64,
    pub row_count: u64,
    pub milliseconds: f64,
    pub progress: quern_tune_callback,
    pub progress_user: *mut c_void,
}

impl Default for quern_tune_options {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_entry {
    pub size: u32,
    pub layer: i32,
    pub key: *const c_char,
    pub op: *const c_char,
    pub target: *const c_char,
    pub entry_name: *const c_char,
    pub text: *const c_char,
    pub compiler: *const c_char,
    pub log: *const c_char,
    pub image: *const c_void,
    pub image_size: u64,
    pub created: i64,
    pub last_use: u64,
    pub compile_ms: f64,
    pub registers: i32,
    pub shared_bytes: i32,
    pub local_bytes: i32,
    pub kind: i32,
}

impl Default for quern_entry {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_finding {
    pub size: u32,
    pub status: i32,
    pub what: *const c_char,
    pub text: *const c_char,
    pub hint: *const c_char,
}

impl Default for quern_finding {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_trim_options {
    pub size: u32,
    pub flags: u32,
    pub limit: u64,
}

impl Default for quern_trim_options {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_trim_result {
    pub size: u32,
    pub reserved: u32,
    pub removed: u64,
    pub kept: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

impl Default for quern_trim_result {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_cache_stats {
    pub size: u32,
    pub state: i32,
    pub entries: u64,
    pub image_bytes: u64,
    pub file_bytes: u64,
    pub limit: u64,
    pub bundles: u64,
    pub bundle_entries: u64,
    pub path: [c_char; 2048],
    pub reason: [c_char; 504],
}

impl Default for quern_cache_stats {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_verify_result {
    pub size: u32,
    pub outcome: i32,
    pub status: i32,
    pub trials: u32,
    pub op: *const c_char,
    pub target: *const c_char,
    pub key: *const c_char,
    pub spec: *const c_char,
    pub text: *const c_char,
    pub error: f64,
    pub truth_error: f64,
    pub milliseconds: f64,
}

impl Default for quern_verify_result {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

pub type quern_verify_callback = Option<unsafe extern "C" fn(*mut c_void, u64, u64, *const quern_verify_result) -> i32>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_verify_options {
    pub size: u32,
    pub flags: u32,
    pub prefix: *const c_char,
    pub seed: u64,
    pub progress: quern_verify_callback,
    pub progress_user: *mut c_void,
}

impl Default for quern_verify_options {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_attention_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub q: *const DLTensor,
    pub k: *const DLTensor,
    pub v: *const DLTensor,
    pub out: *const DLTensor,
    pub lse: *const DLTensor,
    pub lengths: *const DLTensor,
    pub cu_q: *const DLTensor,
    pub page_table: *const DLTensor,
    pub page_indptr: *const DLTensor,
    pub page_indices: *const DLTensor,
    pub cu_kv: *const DLTensor,
    pub alibi_slopes: *const DLTensor,
    pub sinks: *const DLTensor,
    pub max_q_len: i32,
    pub max_kv_len: i32,
    pub window_left: i32,
    pub window_right: i32,
    pub scale: f32,
    pub logit_cap: f32,
    pub q_scale: *const DLTensor,
    pub k_scale: *const DLTensor,
    pub v_scale: *const DLTensor,
    pub mask: *const DLTensor,
    pub mask_indptr: *const DLTensor,
    pub mask_keys: *const DLTensor,
    pub q_type: i32,
    pub kv_type: i32,
    pub out_scale: *const DLTensor,
    pub out_type: i32,
    pub reserved: u32,
}

impl Default for quern_attention_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_merge_state_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub out_a: *const DLTensor,
    pub lse_a: *const DLTensor,
    pub out_b: *const DLTensor,
    pub lse_b: *const DLTensor,
    pub out: *const DLTensor,
    pub lse: *const DLTensor,
}

impl Default for quern_merge_state_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_mla_decode_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub q: *const DLTensor,
    pub q_rope: *const DLTensor,
    pub cache: *const DLTensor,
    pub cache_rope: *const DLTensor,
    pub cache_scale: *const DLTensor,
    pub out: *const DLTensor,
    pub lse: *const DLTensor,
    pub lengths: *const DLTensor,
    pub cu_q: *const DLTensor,
    pub page_table: *const DLTensor,
    pub page_indptr: *const DLTensor,
    pub page_indices: *const DLTensor,
    pub indices: *const DLTensor,
    pub sinks: *const DLTensor,
    pub status: *const DLTensor,
    pub max_q_len: i32,
    pub max_kv_len: i32,
    pub window_left: i32,
    pub window_right: i32,
    pub cache_type: i32,
    pub scale: f32,
    pub logit_cap: f32,
}

impl Default for quern_mla_decode_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_merge_states_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub parts: *const DLTensor,
    pub part_lses: *const DLTensor,
    pub out: *const DLTensor,
    pub lse: *const DLTensor,
}

impl Default for quern_merge_states_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_rope_options {
    pub size: u32,
    pub flags: u32,
    pub scaling: i32,
    pub rotary_dim: i32,
    pub theta: f64,
    pub factor: f64,
    pub attention_factor: f64,
    pub low_freq_factor: f64,
    pub high_freq_factor: f64,
    pub beta_fast: f64,
    pub beta_slow: f64,
    pub original_positions: i32,
    pub reserved: i32,
    pub table: *const DLTensor,
}

impl Default for quern_rope_options {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_rope_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub q: *const DLTensor,
    pub k: *const DLTensor,
    pub q_out: *const DLTensor,
    pub k_out: *const DLTensor,
    pub positions: *const DLTensor,
    pub rope: *const quern_rope_options,
}

impl Default for quern_rope_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_kv_append_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub k: *const DLTensor,
    pub v: *const DLTensor,
    pub k_cache: *const DLTensor,
    pub v_cache: *const DLTensor,
    pub k_scale: *const DLTensor,
    pub v_scale: *const DLTensor,
    pub slots: *const DLTensor,
    pub page_table: *const DLTensor,
    pub page_indptr: *const DLTensor,
    pub page_indices: *const DLTensor,
    pub cu_q: *const DLTensor,
    pub lengths: *const DLTensor,
    pub positions: *const DLTensor,
    pub q: *const DLTensor,
    pub q_out: *const DLTensor,
    pub q_scale: *const DLTensor,
    pub q_weight: *const DLTensor,
    pub k_weight: *const DLTensor,
    pub rope: *const quern_rope_options,
    pub eps: f32,
    pub q_type: i32,
    pub kv_type: i32,
    pub reserved: i32,
}

impl Default for quern_kv_append_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_kv_copy_pages_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub k: *const DLTensor,
    pub v: *const DLTensor,
    pub k_to: *const DLTensor,
    pub v_to: *const DLTensor,
    pub k_scale: *const DLTensor,
    pub v_scale: *const DLTensor,
    pub k_scale_to: *const DLTensor,
    pub v_scale_to: *const DLTensor,
    pub sources: *const DLTensor,
    pub destinations: *const DLTensor,
}

impl Default for quern_kv_copy_pages_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
pub struct quern_expression {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_epilogue {
    pub size: u32,
    pub flags: u32,
    pub activation: i32,
    pub operand_count: u32,
    pub scalar_count: u32,
    pub reserved: u32,
    pub bias: *const DLTensor,
    pub c: *const DLTensor,
    pub expression: *const quern_expression,
    pub operands: *const *const DLTensor,
    pub scalars: *const f32,
    pub out_scale: *const DLTensor,
}

impl Default for quern_epilogue {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_fp8_gemm_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub a: *const DLTensor,
    pub b: *const DLTensor,
    pub scale_a: *const DLTensor,
    pub scale_b: *const DLTensor,
    pub out: *const DLTensor,
    pub epilogue: *const quern_epilogue,
    pub a_type: i32,
    pub b_type: i32,
}

impl Default for quern_fp8_gemm_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_grouped_fp8_gemm_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub a: *const DLTensor,
    pub b: *const DLTensor,
    pub scale_a: *const DLTensor,
    pub scale_b: *const DLTensor,
    pub out: *const DLTensor,
    pub offsets: *const DLTensor,
    pub counts: *const DLTensor,
    pub indices: *const DLTensor,
    pub status: *const DLTensor,
    pub epilogue: *const quern_epilogue,
    pub a_type: i32,
    pub b_type: i32,
    pub expected_rows: i32,
    pub reserved: i32,
}

impl Default for quern_grouped_fp8_gemm_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_gemm_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub a: *const DLTensor,
    pub b: *const DLTensor,
    pub out: *const DLTensor,
    pub epilogue: *const quern_epilogue,
}

impl Default for quern_gemm_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_quantized_gemm_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub a: *const DLTensor,
    pub b: *const DLTensor,
    pub scale_a: *const DLTensor,
    pub scale_b: *const DLTensor,
    pub zero_b: *const DLTensor,
    pub tensor_scale_a: *const DLTensor,
    pub tensor_scale_b: *const DLTensor,
    pub out: *const DLTensor,
    pub epilogue: *const quern_epilogue,
    pub a_format: i32,
    pub b_format: i32,
    pub scale_a_type: i32,
    pub scale_b_type: i32,
}

impl Default for quern_quantized_gemm_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_quantize_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub out: *const DLTensor,
    pub scale: *const DLTensor,
    pub residual: *const DLTensor,
    pub residual_out: *const DLTensor,
    pub weight: *const DLTensor,
    pub bias: *const DLTensor,
    pub dense: *const DLTensor,
    pub front: i32,
    pub scale_kind: i32,
    pub r#type: i32,
    pub eps: f32,
}

impl Default for quern_quantize_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_dequantize_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub scale: *const DLTensor,
    pub out: *const DLTensor,
    pub scale_kind: i32,
    pub r#type: i32,
}

impl Default for quern_dequantize_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_moe_route_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub logits: *const DLTensor,
    pub bias: *const DLTensor,
    pub weights: *const DLTensor,
    pub ids: *const DLTensor,
    pub offsets: *const DLTensor,
    pub indices: *const DLTensor,
    pub positions: *const DLTensor,
    pub counts: *const DLTensor,
    pub top_k: i32,
    pub groups: i32,
    pub top_groups: i32,
    pub first_expert: i32,
    pub local_experts: i32,
    pub scale: f32,
}

impl Default for quern_moe_route_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_moe_combine_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub positions: *const DLTensor,
    pub weights: *const DLTensor,
    pub add: *const DLTensor,
    pub out: *const DLTensor,
}

impl Default for quern_moe_combine_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_rmsnorm_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub residual: *const DLTensor,
    pub weight: *const DLTensor,
    pub out: *const DLTensor,
    pub residual_out: *const DLTensor,
    pub eps: f32,
    pub reserved: i32,
}

impl Default for quern_rmsnorm_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_gather_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub table: *const DLTensor,
    pub ids: *const DLTensor,
    pub out: *const DLTensor,
    pub first: i64,
    pub padding: i64,
    pub scale: f32,
    pub reserved: i32,
}

impl Default for quern_gather_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_sample_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub logits: *const DLTensor,
    pub rows: *const DLTensor,
    pub ids: *const DLTensor,
    pub logprobs: *const DLTensor,
    pub top_ids: *const DLTensor,
    pub top_logprobs: *const DLTensor,
    pub status: *const DLTensor,
    pub seeds: *const DLTensor,
    pub offsets: *const DLTensor,
    pub temperatures: *const DLTensor,
    pub top_ks: *const DLTensor,
    pub top_ps: *const DLTensor,
    pub min_ps: *const DLTensor,
    pub typical_ps: *const DLTensor,
    pub n_sigmas: *const DLTensor,
    pub xtc_probabilities: *const DLTensor,
    pub xtc_thresholds: *const DLTensor,
    pub dynamic_ranges: *const DLTensor,
    pub dynamic_exponents: *const DLTensor,
    pub repetitions: *const DLTensor,
    pub presences: *const DLTensor,
    pub frequencies: *const DLTensor,
    pub prompt_mask: *const DLTensor,
    pub prompt_tokens: *const DLTensor,
    pub prompt_lengths: *const DLTensor,
    pub output_counts: *const DLTensor,
    pub output_tokens: *const DLTensor,
    pub output_lengths: *const DLTensor,
    pub bias_offsets: *const DLTensor,
    pub bias_ids: *const DLTensor,
    pub bias_values: *const DLTensor,
    pub allowed: *const DLTensor,
    pub banned: *const DLTensor,
    pub seed: u64,
    pub offset: u64,
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub typical_p: f32,
    pub n_sigma: f32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub dynamic_range: f32,
    pub dynamic_exponent: f32,
    pub repetition: f32,
    pub presence: f32,
    pub frequency: f32,
    pub max_bias: i32,
}

impl Default for quern_sample_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_mla_append_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub kv: *const DLTensor,
    pub k_rope: *const DLTensor,
    pub weight: *const DLTensor,
    pub cache: *const DLTensor,
    pub cache_rope: *const DLTensor,
    pub cache_scale: *const DLTensor,
    pub slots: *const DLTensor,
    pub page_table: *const DLTensor,
    pub page_indptr: *const DLTensor,
    pub page_indices: *const DLTensor,
    pub cu_q: *const DLTensor,
    pub lengths: *const DLTensor,
    pub positions: *const DLTensor,
    pub q_rope: *const DLTensor,
    pub q_rope_out: *const DLTensor,
    pub kv_out: *const DLTensor,
    pub k_rope_out: *const DLTensor,
    pub status: *const DLTensor,
    pub rope: *const quern_rope_options,
    pub eps: f32,
    pub d_rope: i32,
    pub cache_type: i32,
    pub reserved: i32,
}

impl Default for quern_mla_append_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_index_scores_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub q: *const DLTensor,
    pub q_scale: *const DLTensor,
    pub weights: *const DLTensor,
    pub k: *const DLTensor,
    pub k_scale: *const DLTensor,
    pub out: *const DLTensor,
    pub lengths: *const DLTensor,
    pub cu_q: *const DLTensor,
    pub page_table: *const DLTensor,
    pub page_indptr: *const DLTensor,
    pub page_indices: *const DLTensor,
    pub cu_kv: *const DLTensor,
    pub status: *const DLTensor,
    pub max_q_len: i32,
    pub q_type: i32,
}

impl Default for quern_index_scores_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_softmax_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub logits: *const DLTensor,
    pub temperatures: *const DLTensor,
    pub out: *const DLTensor,
    pub status: *const DLTensor,
    pub temperature: f32,
    pub reserved: i32,
}

impl Default for quern_softmax_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_argmax_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub logits: *const DLTensor,
    pub ids: *const DLTensor,
    pub values: *const DLTensor,
}

impl Default for quern_argmax_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_top_k_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub lengths: *const DLTensor,
    pub ids: *const DLTensor,
    pub values: *const DLTensor,
}

impl Default for quern_top_k_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_renormalise_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub probs: *const DLTensor,
    pub out: *const DLTensor,
    pub status: *const DLTensor,
    pub top_ks: *const DLTensor,
    pub top_ps: *const DLTensor,
    pub min_ps: *const DLTensor,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub reserved: i32,
}

impl Default for quern_renormalise_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_verify_draft_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub target: *const DLTensor,
    pub draft: *const DLTensor,
    pub draft_ids: *const DLTensor,
    pub parents: *const DLTensor,
    pub lengths: *const DLTensor,
    pub accepted: *const DLTensor,
    pub ids: *const DLTensor,
    pub path: *const DLTensor,
    pub status: *const DLTensor,
    pub seeds: *const DLTensor,
    pub offsets: *const DLTensor,
    pub temperatures: *const DLTensor,
    pub top_ks: *const DLTensor,
    pub top_ps: *const DLTensor,
    pub min_ps: *const DLTensor,
    pub seed: u64,
    pub offset: u64,
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub logprobs: *const DLTensor,
    pub repetitions: *const DLTensor,
    pub presences: *const DLTensor,
    pub frequencies: *const DLTensor,
    pub prompt_mask: *const DLTensor,
    pub prompt_tokens: *const DLTensor,
    pub prompt_lengths: *const DLTensor,
    pub output_counts: *const DLTensor,
    pub output_tokens: *const DLTensor,
    pub output_lengths: *const DLTensor,
    pub bias_offsets: *const DLTensor,
    pub bias_ids: *const DLTensor,
    pub bias_values: *const DLTensor,
    pub allowed: *const DLTensor,
    pub banned: *const DLTensor,
    pub repetition: f32,
    pub presence: f32,
    pub frequency: f32,
    pub max_bias: i32,
}

impl Default for quern_verify_draft_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_pointwise_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub operands: *const *const DLTensor,
    pub out: *const DLTensor,
    pub out1: *const DLTensor,
    pub out2: *const DLTensor,
    pub out3: *const DLTensor,
    pub expression: *const quern_expression,
    pub expression1: *const quern_expression,
    pub expression2: *const quern_expression,
    pub expression3: *const quern_expression,
    pub scalars: *const f32,
    pub operand_count: u32,
    pub scalar_count: u32,
}

impl Default for quern_pointwise_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_copy_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub inputs: *const *const DLTensor,
    pub outputs: *const *const DLTensor,
    pub input_count: u32,
    pub output_count: u32,
    pub fill: f64,
}

impl Default for quern_copy_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_norm_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub residual: *const DLTensor,
    pub weight: *const DLTensor,
    pub bias: *const DLTensor,
    pub scale: *const DLTensor,
    pub shift: *const DLTensor,
    pub out: *const DLTensor,
    pub residual_out: *const DLTensor,
    pub out_scale: *const DLTensor,
    pub dense: *const DLTensor,
    pub kind: i32,
    pub groups: i32,
    pub scale_kind: i32,
    pub r#type: i32,
    pub eps: f32,
    pub reserved: i32,
}

impl Default for quern_norm_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_norm_backward_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub dout: *const DLTensor,
    pub x: *const DLTensor,
    pub weight: *const DLTensor,
    pub add: *const DLTensor,
    pub dx: *const DLTensor,
    pub dweight: *const DLTensor,
    pub dbias: *const DLTensor,
    pub kind: i32,
    pub eps: f32,
}

impl Default for quern_norm_backward_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_reduce_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub y: *const DLTensor,
    pub before: *const quern_expression,
    pub out: *const DLTensor,
    pub out1: *const DLTensor,
    pub out2: *const DLTensor,
    pub out3: *const DLTensor,
    pub after: *const quern_expression,
    pub after1: *const quern_expression,
    pub after2: *const quern_expression,
    pub after3: *const quern_expression,
    pub scalars: *const f32,
    pub scalar_count: u32,
    pub axes: u32,
    pub reduction: i32,
    pub reduction1: i32,
    pub reduction2: i32,
    pub reduction3: i32,
    pub r#type: i32,
    pub reserved: i32,
}

impl Default for quern_reduce_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_scatter_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub ids: *const DLTensor,
    pub out: *const DLTensor,
    pub first: i64,
    pub padding: i64,
    pub scale: f32,
    pub reserved: i32,
}

impl Default for quern_scatter_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_histogram_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub counts: *const DLTensor,
    pub first: i64,
    pub low: f32,
    pub high: f32,
}

impl Default for quern_histogram_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_sort_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub keys: *const DLTensor,
    pub values: *const DLTensor,
    pub offsets: *const DLTensor,
    pub keys_out: *const DLTensor,
    pub values_out: *const DLTensor,
    pub max_segment: i64,
}

impl Default for quern_sort_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_conv1d_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub weight: *const DLTensor,
    pub bias: *const DLTensor,
    pub offsets: *const DLTensor,
    pub state: *const DLTensor,
    pub state_ids: *const DLTensor,
    pub has_state: *const DLTensor,
    pub out: *const DLTensor,
    pub stride: i32,
    pub dilation: i32,
    pub groups: i32,
    pub pad_begin: i32,
    pub pad_end: i32,
    pub reserved: i32,
}

impl Default for quern_conv1d_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_conv2d_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub weight: *const DLTensor,
    pub bias: *const DLTensor,
    pub out: *const DLTensor,
    pub stride_h: i32,
    pub stride_w: i32,
    pub dilation_h: i32,
    pub dilation_w: i32,
    pub groups: i32,
    pub pad_top: i32,
    pub pad_bottom: i32,
    pub pad_left: i32,
    pub pad_right: i32,
    pub activation: i32,
}

impl Default for quern_conv2d_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_fft_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub x: *const DLTensor,
    pub window: *const DLTensor,
    pub out: *const DLTensor,
    pub n: i32,
    pub kind: i32,
    pub result: i32,
    pub scaling: i32,
    pub hop: i32,
    pub pad_begin: i32,
    pub pad_end: i32,
    pub padding: i32,
}

impl Default for quern_fft_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_nms_args {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
    pub alignment: i32,
    pub max_sms: i32,
    pub boxes: *const DLTensor,
    pub scores: *const DLTensor,
    pub classes: *const DLTensor,
    pub lengths: *const DLTensor,
    pub ids: *const DLTensor,
    pub counts: *const DLTensor,
    pub iou_threshold: f32,
    pub score_threshold: f32,
}

impl Default for quern_nms_args {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_source {
    pub size: u32,
    pub reserved: u32,
    pub name: *const c_char,
    pub text: *const c_char,
    pub length: u64,
}

impl Default for quern_source {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_constant {
    pub size: u32,
    pub reserved: u32,
    pub name: *const c_char,
    pub value: *const c_char,
}

impl Default for quern_constant {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_kernel_desc {
    pub size: u32,
    pub flags: u32,
    pub entry: *const c_char,
    pub source: *const quern_source,
    pub headers: *const quern_source,
    pub header_count: u64,
    pub constants: *const quern_constant,
    pub constant_count: u64,
    pub options: *const *const c_char,
    pub option_count: u64,
    pub target: *const c_char,
    pub max_shared_bytes: u32,
    pub reserved: u32,
}

impl Default for quern_kernel_desc {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
pub struct quern_kernel {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_kernel_info {
    pub size: u32,
    pub registers: i32,
    pub shared_bytes: i32,
    pub local_bytes: i32,
    pub max_threads: i32,
    pub reserved: i32,
    pub key: [c_char; 40],
}

impl Default for quern_kernel_info {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct quern_launch {
    pub size: u32,
    pub flags: u32,
    pub stream: *mut c_void,
    pub grid_x: u32,
    pub grid_y: u32,
    pub grid_z: u32,
    pub block_x: u32,
    pub block_y: u32,
    pub block_z: u32,
    pub cluster_x: u32,
    pub cluster_y: u32,
    pub cluster_z: u32,
    pub shared_bytes: u32,
    pub args: *mut *mut c_void,
    pub arg_count: u64,
}

impl Default for quern_launch {
    fn default() -> Self {
        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.size = std::mem::size_of::<Self>() as u32;
        made
    }
}

extern "C" {
    pub fn quern_abi_version() -> u32;
    pub fn quern_version() -> *const c_char;
    pub fn quern_status_name(a0: i32) -> *const c_char;
    pub fn quern_context_create(a0: *const quern_context_options, a1: *mut *mut quern_context, a2: *mut quern_error) -> i32;
    pub fn quern_context_destroy(a0: *mut quern_context);
    pub fn quern_device(a0: *const quern_context, a1: *mut quern_device_info, a2: *mut quern_error) -> i32;
    pub fn quern_get_stats(a0: *const quern_context, a1: *mut quern_stats, a2: *mut quern_error) -> i32;
    pub fn quern_list_count(a0: *const quern_list) -> u64;
    pub fn quern_list_free(a0: *mut quern_list);
    pub fn quern_faults(a0: *mut quern_context, a1: *mut *mut quern_list, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_list_fault(a0: *const quern_list, a1: u64, a2: *mut quern_fault) -> i32;
    pub fn quern_warm(a0: *mut quern_context, a1: *const quern_warm_options, a2: *mut *mut quern_list, a3: *mut quern_error) -> i32;
    pub fn quern_list_warm_result(a0: *const quern_list, a1: u64, a2: *mut quern_warm_result) -> i32;
    pub fn quern_load(a0: *mut quern_context, a1: *const quern_warm_options, a2: *mut *mut quern_list, a3: *mut quern_error) -> i32;
    pub fn quern_unload(a0: *mut quern_context, a1: *const c_char, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_wait(a0: *mut quern_context, a1: u64, a2: *mut quern_error) -> i32;
    pub fn quern_cancel(a0: *mut quern_context, a1: *mut u64, a2: *mut quern_error) -> i32;
    pub fn quern_manifest(a0: *const quern_context, a1: *mut c_char, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_tune(a0: *mut quern_context, a1: *const quern_tune_options, a2: *mut *mut quern_list, a3: *mut quern_error) -> i32;
    pub fn quern_list_tune_result(a0: *const quern_list, a1: u64, a2: *mut quern_tune_result) -> i32;
    pub fn quern_cache_list(a0: *mut quern_context, a1: *const c_char, a2: *mut *mut quern_list, a3: *mut quern_error) -> i32;
    pub fn quern_cache_inspect(a0: *mut quern_context, a1: *const c_char, a2: *mut *mut quern_list, a3: *mut quern_error) -> i32;
    pub fn quern_list_entry(a0: *const quern_list, a1: u64, a2: *mut quern_entry) -> i32;
    pub fn quern_cache_verify(a0: *mut quern_context, a1: *mut *mut quern_list, a2: *mut quern_error) -> i32;
    pub fn quern_cache_trim(a0: *mut quern_context, a1: *const quern_trim_options, a2: *mut quern_trim_result, a3: *mut quern_error) -> i32;
    pub fn quern_cache_export(a0: *mut quern_context, a1: *const c_char, a2: *const c_char, a3: *mut u64, a4: *mut quern_error) -> i32;
    pub fn quern_cache_import(a0: *mut quern_context, a1: *const c_char, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_keys_make(a0: *mut c_char, a1: *mut c_char, a2: *mut quern_error) -> i32;
    pub fn quern_keys_public(a0: *const c_char, a1: *mut c_char, a2: *mut quern_error) -> i32;
    pub fn quern_bundle_sign(a0: *const c_char, a1: *const c_char, a2: *mut quern_error) -> i32;
    pub fn quern_cache_get_stats(a0: *mut quern_context, a1: *mut quern_cache_stats, a2: *mut quern_error) -> i32;
    pub fn quern_doctor(a0: *mut quern_context, a1: *mut *mut quern_list, a2: *mut quern_error) -> i32;
    pub fn quern_failures(a0: *mut quern_context, a1: *mut *mut quern_list, a2: *mut quern_error) -> i32;
    pub fn quern_list_finding(a0: *const quern_list, a1: u64, a2: *mut quern_finding) -> i32;
    pub fn quern_verify(a0: *mut quern_context, a1: *const quern_verify_options, a2: *mut *mut quern_list, a3: *mut quern_error) -> i32;
    pub fn quern_list_verify_result(a0: *const quern_list, a1: u64, a2: *mut quern_verify_result) -> i32;
    pub fn quern_expression_create(a0: *mut quern_context, a1: *const c_char, a2: *mut *const quern_expression, a3: *mut quern_error) -> i32;
    pub fn quern_attention_workspace(a0: *mut quern_context, a1: *const quern_attention_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_attention_prepare(a0: *mut quern_context, a1: *const quern_attention_args, a2: *mut quern_error) -> i32;
    pub fn quern_attention(a0: *mut quern_context, a1: *const quern_attention_args, a2: *mut quern_error) -> i32;
    pub fn quern_merge_state_workspace(a0: *mut quern_context, a1: *const quern_merge_state_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_merge_state_prepare(a0: *mut quern_context, a1: *const quern_merge_state_args, a2: *mut quern_error) -> i32;
    pub fn quern_merge_state(a0: *mut quern_context, a1: *const quern_merge_state_args, a2: *mut quern_error) -> i32;
    pub fn quern_fp8_gemm_workspace(a0: *mut quern_context, a1: *const quern_fp8_gemm_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_fp8_gemm_prepare(a0: *mut quern_context, a1: *const quern_fp8_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_fp8_gemm(a0: *mut quern_context, a1: *const quern_fp8_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_grouped_fp8_gemm_workspace(a0: *mut quern_context, a1: *const quern_grouped_fp8_gemm_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_grouped_fp8_gemm_prepare(a0: *mut quern_context, a1: *const quern_grouped_fp8_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_grouped_fp8_gemm(a0: *mut quern_context, a1: *const quern_grouped_fp8_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_gemm_workspace(a0: *mut quern_context, a1: *const quern_gemm_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_gemm_prepare(a0: *mut quern_context, a1: *const quern_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_gemm(a0: *mut quern_context, a1: *const quern_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_quantize_workspace(a0: *mut quern_context, a1: *const quern_quantize_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_quantize_prepare(a0: *mut quern_context, a1: *const quern_quantize_args, a2: *mut quern_error) -> i32;
    pub fn quern_quantize(a0: *mut quern_context, a1: *const quern_quantize_args, a2: *mut quern_error) -> i32;
    pub fn quern_dequantize_workspace(a0: *mut quern_context, a1: *const quern_dequantize_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_dequantize_prepare(a0: *mut quern_context, a1: *const quern_dequantize_args, a2: *mut quern_error) -> i32;
    pub fn quern_dequantize(a0: *mut quern_context, a1: *const quern_dequantize_args, a2: *mut quern_error) -> i32;
    pub fn quern_moe_route_workspace(a0: *mut quern_context, a1: *const quern_moe_route_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_moe_route_prepare(a0: *mut quern_context, a1: *const quern_moe_route_args, a2: *mut quern_error) -> i32;
    pub fn quern_moe_route(a0: *mut quern_context, a1: *const quern_moe_route_args, a2: *mut quern_error) -> i32;
    pub fn quern_moe_combine_workspace(a0: *mut quern_context, a1: *const quern_moe_combine_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_moe_combine_prepare(a0: *mut quern_context, a1: *const quern_moe_combine_args, a2: *mut quern_error) -> i32;
    pub fn quern_moe_combine(a0: *mut quern_context, a1: *const quern_moe_combine_args, a2: *mut quern_error) -> i32;
    pub fn quern_merge_states_workspace(a0: *mut quern_context, a1: *const quern_merge_states_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_merge_states_prepare(a0: *mut quern_context, a1: *const quern_merge_states_args, a2: *mut quern_error) -> i32;
    pub fn quern_merge_states(a0: *mut quern_context, a1: *const quern_merge_states_args, a2: *mut quern_error) -> i32;
    pub fn quern_rope_workspace(a0: *mut quern_context, a1: *const quern_rope_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_rope_prepare(a0: *mut quern_context, a1: *const quern_rope_args, a2: *mut quern_error) -> i32;
    pub fn quern_rope(a0: *mut quern_context, a1: *const quern_rope_args, a2: *mut quern_error) -> i32;
    pub fn quern_kv_append_workspace(a0: *mut quern_context, a1: *const quern_kv_append_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_kv_append_prepare(a0: *mut quern_context, a1: *const quern_kv_append_args, a2: *mut quern_error) -> i32;
    pub fn quern_kv_append(a0: *mut quern_context, a1: *const quern_kv_append_args, a2: *mut quern_error) -> i32;
    pub fn quern_kv_copy_pages_workspace(a0: *mut quern_context, a1: *const quern_kv_copy_pages_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_kv_copy_pages_prepare(a0: *mut quern_context, a1: *const quern_kv_copy_pages_args, a2: *mut quern_error) -> i32;
    pub fn quern_kv_copy_pages(a0: *mut quern_context, a1: *const quern_kv_copy_pages_args, a2: *mut quern_error) -> i32;
    pub fn quern_mla_decode_workspace(a0: *mut quern_context, a1: *const quern_mla_decode_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_mla_decode_prepare(a0: *mut quern_context, a1: *const quern_mla_decode_args, a2: *mut quern_error) -> i32;
    pub fn quern_mla_decode(a0: *mut quern_context, a1: *const quern_mla_decode_args, a2: *mut quern_error) -> i32;
    pub fn quern_rmsnorm_workspace(a0: *mut quern_context, a1: *const quern_rmsnorm_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_rmsnorm_prepare(a0: *mut quern_context, a1: *const quern_rmsnorm_args, a2: *mut quern_error) -> i32;
    pub fn quern_rmsnorm(a0: *mut quern_context, a1: *const quern_rmsnorm_args, a2: *mut quern_error) -> i32;
    pub fn quern_sample_workspace(a0: *mut quern_context, a1: *const quern_sample_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_sample_prepare(a0: *mut quern_context, a1: *const quern_sample_args, a2: *mut quern_error) -> i32;
    pub fn quern_sample(a0: *mut quern_context, a1: *const quern_sample_args, a2: *mut quern_error) -> i32;
    pub fn quern_gather_workspace(a0: *mut quern_context, a1: *const quern_gather_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_gather_prepare(a0: *mut quern_context, a1: *const quern_gather_args, a2: *mut quern_error) -> i32;
    pub fn quern_gather(a0: *mut quern_context, a1: *const quern_gather_args, a2: *mut quern_error) -> i32;
    pub fn quern_mla_append_workspace(a0: *mut quern_context, a1: *const quern_mla_append_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_mla_append_prepare(a0: *mut quern_context, a1: *const quern_mla_append_args, a2: *mut quern_error) -> i32;
    pub fn quern_mla_append(a0: *mut quern_context, a1: *const quern_mla_append_args, a2: *mut quern_error) -> i32;
    pub fn quern_index_scores_workspace(a0: *mut quern_context, a1: *const quern_index_scores_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_index_scores_prepare(a0: *mut quern_context, a1: *const quern_index_scores_args, a2: *mut quern_error) -> i32;
    pub fn quern_index_scores(a0: *mut quern_context, a1: *const quern_index_scores_args, a2: *mut quern_error) -> i32;
    pub fn quern_softmax_workspace(a0: *mut quern_context, a1: *const quern_softmax_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_softmax_prepare(a0: *mut quern_context, a1: *const quern_softmax_args, a2: *mut quern_error) -> i32;
    pub fn quern_softmax(a0: *mut quern_context, a1: *const quern_softmax_args, a2: *mut quern_error) -> i32;
    pub fn quern_argmax_workspace(a0: *mut quern_context, a1: *const quern_argmax_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_argmax_prepare(a0: *mut quern_context, a1: *const quern_argmax_args, a2: *mut quern_error) -> i32;
    pub fn quern_argmax(a0: *mut quern_context, a1: *const quern_argmax_args, a2: *mut quern_error) -> i32;
    pub fn quern_top_k_workspace(a0: *mut quern_context, a1: *const quern_top_k_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_top_k_prepare(a0: *mut quern_context, a1: *const quern_top_k_args, a2: *mut quern_error) -> i32;
    pub fn quern_top_k(a0: *mut quern_context, a1: *const quern_top_k_args, a2: *mut quern_error) -> i32;
    pub fn quern_renormalise_workspace(a0: *mut quern_context, a1: *const quern_renormalise_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_renormalise_prepare(a0: *mut quern_context, a1: *const quern_renormalise_args, a2: *mut quern_error) -> i32;
    pub fn quern_renormalise(a0: *mut quern_context, a1: *const quern_renormalise_args, a2: *mut quern_error) -> i32;
    pub fn quern_verify_draft_workspace(a0: *mut quern_context, a1: *const quern_verify_draft_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_verify_draft_prepare(a0: *mut quern_context, a1: *const quern_verify_draft_args, a2: *mut quern_error) -> i32;
    pub fn quern_verify_draft(a0: *mut quern_context, a1: *const quern_verify_draft_args, a2: *mut quern_error) -> i32;
    pub fn quern_pointwise_workspace(a0: *mut quern_context, a1: *const quern_pointwise_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_pointwise_prepare(a0: *mut quern_context, a1: *const quern_pointwise_args, a2: *mut quern_error) -> i32;
    pub fn quern_pointwise(a0: *mut quern_context, a1: *const quern_pointwise_args, a2: *mut quern_error) -> i32;
    pub fn quern_copy_workspace(a0: *mut quern_context, a1: *const quern_copy_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_copy_prepare(a0: *mut quern_context, a1: *const quern_copy_args, a2: *mut quern_error) -> i32;
    pub fn quern_copy(a0: *mut quern_context, a1: *const quern_copy_args, a2: *mut quern_error) -> i32;
    pub fn quern_norm_workspace(a0: *mut quern_context, a1: *const quern_norm_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_norm_prepare(a0: *mut quern_context, a1: *const quern_norm_args, a2: *mut quern_error) -> i32;
    pub fn quern_norm(a0: *mut quern_context, a1: *const quern_norm_args, a2: *mut quern_error) -> i32;
    pub fn quern_norm_backward_workspace(a0: *mut quern_context, a1: *const quern_norm_backward_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_norm_backward_prepare(a0: *mut quern_context, a1: *const quern_norm_backward_args, a2: *mut quern_error) -> i32;
    pub fn quern_norm_backward(a0: *mut quern_context, a1: *const quern_norm_backward_args, a2: *mut quern_error) -> i32;
    pub fn quern_reduce_workspace(a0: *mut quern_context, a1: *const quern_reduce_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_reduce_prepare(a0: *mut quern_context, a1: *const quern_reduce_args, a2: *mut quern_error) -> i32;
    pub fn quern_reduce(a0: *mut quern_context, a1: *const quern_reduce_args, a2: *mut quern_error) -> i32;
    pub fn quern_scatter_workspace(a0: *mut quern_context, a1: *const quern_scatter_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_scatter_prepare(a0: *mut quern_context, a1: *const quern_scatter_args, a2: *mut quern_error) -> i32;
    pub fn quern_scatter(a0: *mut quern_context, a1: *const quern_scatter_args, a2: *mut quern_error) -> i32;
    pub fn quern_histogram_workspace(a0: *mut quern_context, a1: *const quern_histogram_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_histogram_prepare(a0: *mut quern_context, a1: *const quern_histogram_args, a2: *mut quern_error) -> i32;
    pub fn quern_histogram(a0: *mut quern_context, a1: *const quern_histogram_args, a2: *mut quern_error) -> i32;
    pub fn quern_sort_workspace(a0: *mut quern_context, a1: *const quern_sort_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_sort_prepare(a0: *mut quern_context, a1: *const quern_sort_args, a2: *mut quern_error) -> i32;
    pub fn quern_sort(a0: *mut quern_context, a1: *const quern_sort_args, a2: *mut quern_error) -> i32;
    pub fn quern_conv1d_workspace(a0: *mut quern_context, a1: *const quern_conv1d_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_conv1d_prepare(a0: *mut quern_context, a1: *const quern_conv1d_args, a2: *mut quern_error) -> i32;
    pub fn quern_conv1d(a0: *mut quern_context, a1: *const quern_conv1d_args, a2: *mut quern_error) -> i32;
    pub fn quern_nms_workspace(a0: *mut quern_context, a1: *const quern_nms_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_nms_prepare(a0: *mut quern_context, a1: *const quern_nms_args, a2: *mut quern_error) -> i32;
    pub fn quern_nms(a0: *mut quern_context, a1: *const quern_nms_args, a2: *mut quern_error) -> i32;
    pub fn quern_conv2d_workspace(a0: *mut quern_context, a1: *const quern_conv2d_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_conv2d_prepare(a0: *mut quern_context, a1: *const quern_conv2d_args, a2: *mut quern_error) -> i32;
    pub fn quern_conv2d(a0: *mut quern_context, a1: *const quern_conv2d_args, a2: *mut quern_error) -> i32;
    pub fn quern_quantized_gemm_workspace(a0: *mut quern_context, a1: *const quern_quantized_gemm_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_quantized_gemm_prepare(a0: *mut quern_context, a1: *const quern_quantized_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_quantized_gemm(a0: *mut quern_context, a1: *const quern_quantized_gemm_args, a2: *mut quern_error) -> i32;
    pub fn quern_fft_workspace(a0: *mut quern_context, a1: *const quern_fft_args, a2: *mut u64, a3: *mut quern_error) -> i32;
    pub fn quern_fft_prepare(a0: *mut quern_context, a1: *const quern_fft_args, a2: *mut quern_error) -> i32;
    pub fn quern_fft(a0: *mut quern_context, a1: *const quern_fft_args, a2: *mut quern_error) -> i32;
    pub fn quern_kernel_prepare(a0: *mut quern_context, a1: *const quern_kernel_desc, a2: *mut *mut quern_kernel, a3: *mut quern_error) -> i32;
    pub fn quern_kernel_get_info(a0: *const quern_kernel, a1: *mut quern_kernel_info, a2: *mut quern_error) -> i32;
    pub fn quern_kernel_launch(a0: *mut quern_context, a1: *const quern_kernel, a2: *const quern_launch, a3: *mut quern_error) -> i32;
}
