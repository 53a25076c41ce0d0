//! quern.h in Zig: every constant, struct and function under its C name, all fields with their defaults.
//! Documentation is the header's. Made of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0

pub const QUERN_VERSION_MAJOR = 0;
pub const QUERN_VERSION_MINOR = 1;
pub const QUERN_VERSION_PATCH = 0;
pub const QUERN_ABI_VERSION = 1;
pub const kDLCPU = 1;
pub const kDLCUDA = 2;
pub const kDLCUDAHost = 3;
pub const kDLROCM = 10;
pub const kDLROCMHost = 11;
pub const kDLCUDAManaged = 13;
pub const kDLInt = 0;
pub const kDLUInt = 1;
pub const kDLFloat = 2;
pub const kDLOpaqueHandle = 3;
pub const kDLBfloat = 4;
pub const kDLComplex = 5;
pub const kDLBool = 6;
pub const kDLFloat8_e3m4 = 7;
pub const kDLFloat8_e4m3 = 8;
pub const kDLFloat8_e4m3b11fnuz = 9;
pub const kDLFloat8_e4m3fn = 10;
pub const kDLFloat8_e4m3fnuz = 11;
pub const kDLFloat8_e5m2 = 12;
pub const kDLFloat8_e5m2fnuz = 13;
pub const kDLFloat8_e8m0fnu = 14;
pub const kDLFloat6_e2m3fn = 15;
pub const kDLFloat6_e3m2fn = 16;
pub const kDLFloat4_e2m1fn = 17;
pub const QUERN_OK = 0;
pub const QUERN_MISS = 1;
pub const QUERN_PENDING = 2;
pub const QUERN_INVALID = 3;
pub const QUERN_UNSUPPORTED = 4;
pub const QUERN_NOT_FOUND = 5;
pub const QUERN_COMPILE = 6;
pub const QUERN_DRIVER = 7;
pub const QUERN_STICKY = 8;
pub const QUERN_CAPTURING = 9;
pub const QUERN_NO_MEMORY = 10;
pub const QUERN_IO = 11;
pub const QUERN_DAMAGED = 12;
pub const QUERN_FORKED = 13;
pub const QUERN_PARTIAL = 14;
pub const QUERN_INTERNAL = 15;
pub const QUERN_FAULT = 16;
pub const QUERN_MISS_COMPILE = 0;
pub const QUERN_MISS_CACHED_ONLY = 1;
pub const QUERN_MISS_BACKGROUND = 2;
pub const QUERN_CONTEXT_NO_CACHE = 1;
pub const QUERN_CONTEXT_READ_ONLY_CACHE = 2;
pub const QUERN_CONTEXT_SHARED_CACHE = 4;
pub const QUERN_CONTEXT_NVRTC_IN_HELPER = 8;
pub const QUERN_CONTEXT_HOST_SEED = 16;
pub const QUERN_CONTEXT_SIGNED_ONLY = 32;
pub const QUERN_CONTEXT_CHECKED = 64;
pub const QUERN_EVENT_COMPILED = 1;
pub const QUERN_EVENT_LOADED = 2;
pub const QUERN_EVENT_FAILED = 3;
pub const QUERN_EVENT_REJECTED = 4;
pub const QUERN_EVENT_CACHE = 5;
pub const QUERN_EVENT_FAULT = 6;
pub const QUERN_LOG_ERROR = 1;
pub const QUERN_LOG_WARNING = 2;
pub const QUERN_LOG_INFO = 3;
pub const QUERN_LOG_DEBUG = 4;
pub const QUERN_MODEL_SINKS = 1;
pub const QUERN_MODEL_MLA = 2;
pub const QUERN_MODEL_GATED_MLP = 4;
pub const QUERN_MODEL_BLOCK_FP8 = 8;
pub const QUERN_MODEL_FP8 = 16;
pub const QUERN_MODEL_BIAS = 32;
pub const QUERN_MODEL_QK_NORM = 64;
pub const QUERN_MODEL_ROPE_INTERLEAVED = 128;
pub const QUERN_MODEL_NO_ROPE = 256;
pub const QUERN_MODEL_KV_TOKEN_SCALES = 512;
pub const QUERN_MODEL_LAYER_NORM = 1024;
pub const QUERN_MODEL_EMBEDDING_SCALE = 2048;
pub const QUERN_MODEL_FP8_QUERIES = 4096;
pub const QUERN_MODEL_FP8_LOGITS = 8192;
pub const QUERN_WARM_LIST_ONLY = 1;
pub const QUERN_WARM_ALLOW_UNSERVED = 2;
pub const QUERN_WARM_HIT = 1;
pub const QUERN_WARM_COMPILED = 2;
pub const QUERN_WARM_FAILED = 3;
pub const QUERN_WARM_ABSENT = 4;
pub const QUERN_WARM_UNSERVED = 5;
pub const QUERN_TUNE_AGAIN = 1;
pub const QUERN_TUNE_LIST_ONLY = 2;
pub const QUERN_TUNE_MEASURED = 1;
pub const QUERN_TUNE_KNOWN = 2;
pub const QUERN_TUNE_FAILED = 3;
pub const QUERN_TUNE_ABSENT = 4;
pub const QUERN_TRIM_REBUILD = 1;
pub const QUERN_TRIM_ALL = 2;
pub const QUERN_CACHE_READY = 0;
pub const QUERN_CACHE_READ_ONLY = 1;
pub const QUERN_CACHE_OFF = 2;
pub const QUERN_CACHE_DAMAGED = 3;
pub const QUERN_CACHE_REFUSED = 4;
pub const QUERN_VERIFY_AGREES = 1;
pub const QUERN_VERIFY_DIFFERS = 2;
pub const QUERN_VERIFY_FAILED = 3;
pub const QUERN_VERIFY_NOT_RUN = 4;
pub const QUERN_CALL_BATCH_INVARIANT = 1;
pub const QUERN_CALL_PROGRAMMATIC = 2;
pub const QUERN_CALL_CACHED_ONLY = 4;
pub const QUERN_CALL_BACKGROUND = 8;
pub const QUERN_ATTENTION_CAUSAL = 65536;
pub const QUERN_ATTENTION_WINDOW_LEFT = 131072;
pub const QUERN_ATTENTION_WINDOW_RIGHT = 262144;
pub const QUERN_ATTENTION_CONSTANT_PAST = 524288;
pub const QUERN_MLA_CAUSAL = 65536;
pub const QUERN_MLA_WINDOW_LEFT = 131072;
pub const QUERN_MLA_WINDOW_RIGHT = 262144;
pub const QUERN_MLA_SLOTS = 524288;
pub const QUERN_MLA_CACHE_AS_TENSOR = 0;
pub const QUERN_MLA_CACHE_E4M3 = 1;
pub const QUERN_MLA_CACHE_ROWS_656 = 2;
pub const QUERN_MLA_STATUS_LENGTH = 1;
pub const QUERN_MLA_STATUS_PAGE = 2;
pub const QUERN_MLA_STATUS_INDEX = 4;
pub const QUERN_MLA_STATUS_QUERIES = 8;
pub const QUERN_ROPE_PLAIN = 0;
pub const QUERN_ROPE_LINEAR = 1;
pub const QUERN_ROPE_NTK = 2;
pub const QUERN_ROPE_YARN = 3;
pub const QUERN_ROPE_LLAMA3 = 4;
pub const QUERN_ROPE_INTERLEAVED = 1;
pub const QUERN_ROPE_EXACT_RAMP = 2;
pub const QUERN_KV_APPEND_WEIGHT_PLUS_ONE = 65536;
pub const QUERN_ACTIVATION_DEFAULT = 0;
pub const QUERN_ACTIVATION_RELU = 1;
pub const QUERN_ACTIVATION_GELU = 2;
pub const QUERN_ACTIVATION_GELU_TANH = 3;
pub const QUERN_ACTIVATION_SILU = 4;
pub const QUERN_ACTIVATION_NONE = 5;
pub const QUERN_EPILOGUE_GATE = 1;
pub const QUERN_EPILOGUE_POWER_OF_TWO = 2;
pub const QUERN_FP8_AS_TENSOR = 0;
pub const QUERN_FP8_E4M3 = 1;
pub const QUERN_FP8_E5M2 = 2;
pub const QUERN_GROUP_OFFSETS = 1;
pub const QUERN_GROUP_CAPACITY = 2;
pub const QUERN_GROUP_INDEX = 4;
pub const QUERN_GEMM_TF32 = 65536;
pub const QUERN_GEMM_CONSTANT_B = 131072;
pub const QUERN_QUANTIZED_AS_TENSOR = 0;
pub const QUERN_QUANTIZED_E4M3 = 1;
pub const QUERN_QUANTIZED_INT4 = 2;
pub const QUERN_QUANTIZED_UINT4 = 3;
pub const QUERN_QUANTIZED_E2M1 = 4;
pub const QUERN_QUANTIZED_SCALE_AS_TENSOR = 0;
pub const QUERN_QUANTIZED_SCALE_E4M3 = 1;
pub const QUERN_QUANTIZED_SCALE_UE8M0 = 2;
pub const QUERN_FRONT_NONE = 0;
pub const QUERN_FRONT_RMSNORM = 1;
pub const QUERN_FRONT_LAYERNORM = 2;
pub const QUERN_FRONT_SILU_MUL = 3;
pub const QUERN_FRONT_GELU_MUL = 4;
pub const QUERN_FRONT_GELU_TANH_MUL = 5;
pub const QUERN_SCALE_NONE = 0;
pub const QUERN_SCALE_STATIC = 1;
pub const QUERN_SCALE_TENSOR = 2;
pub const QUERN_SCALE_TOKEN = 3;
pub const QUERN_SCALE_GROUP = 4;
pub const QUERN_SCALE_BLOCK = 5;
pub const QUERN_QUANTIZE_POWER_OF_TWO = 65536;
pub const QUERN_QUANTIZE_WEIGHT_PLUS_ONE = 131072;
pub const QUERN_MOE_SIGMOID = 65536;
pub const QUERN_MOE_RENORMALIZE = 131072;
pub const QUERN_RMSNORM_WEIGHT_PLUS_ONE = 65536;
pub const QUERN_RMSNORM_CONSTANT_WEIGHT = 131072;
pub const QUERN_GATHER_HAS_PADDING = 65536;
pub const QUERN_GATHER_SHARD = 131072;
pub const QUERN_SAMPLE_TEMPERATURE = 65536;
pub const QUERN_SAMPLE_TOP_P = 131072;
pub const QUERN_SAMPLE_TYPICAL_P = 262144;
pub const QUERN_SAMPLE_JOINT = 524288;
pub const QUERN_SAMPLE_TEMPERATURE_LAST = 1048576;
pub const QUERN_SAMPLE_LOGPROBS_FILTERED = 2097152;
pub const QUERN_SAMPLE_EMPTY = 1;
pub const QUERN_SAMPLE_NAN = 2;
pub const QUERN_SAMPLE_PARAMETER = 4;
pub const QUERN_SAMPLE_INDEX = 8;
pub const QUERN_SAMPLE_CAPACITY = 16;
pub const QUERN_MLA_APPEND_POWER_OF_TWO = 65536;
pub const QUERN_INDEX_SCORES_CAUSAL = 65536;
pub const QUERN_INDEX_SCORES_LEAVE_MASKED = 131072;
pub const QUERN_SOFTMAX_TEMPERATURE = 65536;
pub const QUERN_SOFTMAX_LOG = 131072;
pub const QUERN_TOP_K_SORTED = 65536;
pub const QUERN_RENORMALISE_TOP_P = 65536;
pub const QUERN_RENORMALISE_JOINT = 131072;
pub const QUERN_VERIFY_TEMPERATURE = 65536;
pub const QUERN_VERIFY_TOP_P = 131072;
pub const QUERN_VERIFY_JOINT = 262144;
pub const QUERN_VERIFY_LOGITS = 524288;
pub const QUERN_VERIFY_GREEDY = 1048576;
pub const QUERN_VERIFY_WITHOUT_REPLACEMENT = 2097152;
pub const QUERN_VERIFY_LOGPROBS_FILTERED = 4194304;
pub const QUERN_NORM_LAYER = 0;
pub const QUERN_NORM_RMS = 1;
pub const QUERN_NORM_L2 = 2;
pub const QUERN_NORM_GROUP = 3;
pub const QUERN_NORM_WEIGHT_PLUS_ONE = 65536;
pub const QUERN_NORM_SCALE_ALONE = 131072;
pub const QUERN_NORM_POWER_OF_TWO = 262144;
pub const QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE = 65536;
pub const QUERN_REDUCE_SUM = 0;
pub const QUERN_REDUCE_MEAN = 1;
pub const QUERN_REDUCE_MAX = 2;
pub const QUERN_REDUCE_MIN = 3;
pub const QUERN_REDUCE_ARGMAX = 4;
pub const QUERN_REDUCE_ARGMIN = 5;
pub const QUERN_REDUCE_L2 = 6;
pub const QUERN_REDUCE_DOT = 7;
pub const QUERN_REDUCE_LOGSUMEXP = 8;
pub const QUERN_REDUCE_ANY = 9;
pub const QUERN_REDUCE_ALL = 10;
pub const QUERN_REDUCE_F16_SUMS = 65536;
pub const QUERN_SCATTER_ADD = 65536;
pub const QUERN_SCATTER_HAS_PADDING = 131072;
pub const QUERN_SCATTER_SHARD = 262144;
pub const QUERN_SCATTER_UNIQUE = 524288;
pub const QUERN_HISTOGRAM_ACCUMULATE = 65536;
pub const QUERN_HISTOGRAM_CLAMP = 131072;
pub const QUERN_SORT_DESCENDING = 65536;
pub const QUERN_CONV1D_SILU = 65536;
pub const QUERN_FFT_FORWARD = 0;
pub const QUERN_FFT_INVERSE = 1;
pub const QUERN_FFT_REAL = 2;
pub const QUERN_FFT_TO_REAL = 3;
pub const QUERN_FFT_COMPLEX = 0;
pub const QUERN_FFT_POWER = 1;
pub const QUERN_FFT_MAGNITUDE = 2;
pub const QUERN_FFT_UNSCALED = 0;
pub const QUERN_FFT_BY_N = 1;
pub const QUERN_FFT_BY_ROOT = 2;
pub const QUERN_FFT_ZEROS = 0;
pub const QUERN_FFT_REFLECT = 1;
pub const QUERN_NMS_SCORE_THRESHOLD = 65536;

pub const DLDevice = extern struct {
    device_type: i32 = 0,
    device_id: i32 = 0,
};

pub const DLDataType = extern struct {
    code: u8 = 0,
    bits: u8 = 0,
    lanes: u16 = 0,
};

pub const DLTensor = extern struct {
    data: ?*anyopaque = null,
    device: DLDevice = .{},
    ndim: i32 = 0,
    dtype: DLDataType = .{},
    shape: [*c]i64 = null,
    strides: [*c]i64 = null,
    byte_offset: u64 = 0,
};

pub const quern_error = extern struct {
    size: u32 = @sizeOf(quern_error),
    status: i32 = 0,
    native: i64 = 0,
    text: [4080]u8 = @splat(0),
};

pub const quern_context = opaque {};

pub const quern_event = extern struct {
    size: u32 = @sizeOf(quern_event),
    kind: i32 = 0,
    op: ?[*:0]const u8 = null,
    target: ?[*:0]const u8 = null,
    key: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    milliseconds: f64 = 0,
    status: i32 = 0,
    reserved: i32 = 0,
};

pub const quern_log_callback = ?*const fn (?*anyopaque, i32, ?[*:0]const u8) callconv(.c) void;

pub const quern_event_callback = ?*const fn (?*anyopaque, [*c]const quern_event) callconv(.c) void;

pub const quern_context_options = extern struct {
    size: u32 = @sizeOf(quern_context_options),
    flags: u32 = 0,
    device_type: i32 = 0,
    device_id: i32 = 0,
    miss_policy: i32 = 0,
    compile_threads: i32 = 0,
    target: ?[*:0]const u8 = null,
    cache_path: ?[*:0]const u8 = null,
    bundles: [*c]const [*:0]const u8 = null,
    bundle_count: u64 = 0,
    search_dirs: [*c]const [*:0]const u8 = null,
    search_dir_count: u64 = 0,
    helper_path: ?[*:0]const u8 = null,
    host_compiler: ?[*:0]const u8 = null,
    compiler_pin: ?[*:0]const u8 = null,
    cache_limit: u64 = 0,
    compile_timeout_ms: u32 = 0,
    flight_timeout_ms: u32 = 0,
    host_seed: u64 = 0,
    host_threads: u32 = 0,
    log_level: i32 = 0,
    log: quern_log_callback = null,
    log_user: ?*anyopaque = null,
    event: quern_event_callback = null,
    event_user: ?*anyopaque = null,
    trusted_keys: [*c]const [*:0]const u8 = null,
    trusted_key_count: u64 = 0,
    cache_key: ?[*:0]const u8 = null,
    max_kernels: u64 = 0,
};

pub const quern_device_info = extern struct {
    size: u32 = @sizeOf(quern_device_info),
    device_type: i32 = 0,
    device_id: i32 = 0,
    warp_size: u32 = 0,
    sm_count: u32 = 0,
    shared_per_block: u32 = 0,
    l2_bytes: u64 = 0,
    memory_bytes: u64 = 0,
    driver_version: u32 = 0,
    reserved: u32 = 0,
    target: [16]u8 = @splat(0),
    name: [104]u8 = @splat(0),
};

pub const quern_stats = extern struct {
    size: u32 = @sizeOf(quern_stats),
    reserved: u32 = 0,
    kernels_loaded: u64 = 0,
    cache_hits: u64 = 0,
    cache_misses: u64 = 0,
    compiled: u64 = 0,
    compile_errors: u64 = 0,
    rejected: u64 = 0,
    stored: u64 = 0,
    store_errors: u64 = 0,
    flight_waits: u64 = 0,
    pending: u64 = 0,
    compile_ms: f64 = 0,
    load_ms: f64 = 0,
};

pub const quern_list = opaque {};

pub const quern_fault = extern struct {
    size: u32 = @sizeOf(quern_fault),
    reserved: u32 = 0,
    op: ?[*:0]const u8 = null,
    argument: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    call: u64 = 0,
    row: i64 = 0,
    column: i64 = 0,
    value: i64 = 0,
    least: i64 = 0,
    most: i64 = 0,
};

pub const quern_model = extern struct {
    size: u32 = @sizeOf(quern_model),
    flags: u32 = 0,
    tensor_parallel: u32 = 0,
    hidden_size: u32 = 0,
    intermediate_size: u32 = 0,
    layers: u32 = 0,
    heads: u32 = 0,
    kv_heads: u32 = 0,
    head_dim: u32 = 0,
    v_head_dim: u32 = 0,
    vocab_size: u32 = 0,
    max_positions: u32 = 0,
    sliding_window: u32 = 0,
    experts: u32 = 0,
    experts_per_token: u32 = 0,
    expert_intermediate_size: u32 = 0,
    kv_lora_rank: u32 = 0,
    q_lora_rank: u32 = 0,
    rope_head_dim: u32 = 0,
    page_size: u32 = 0,
    logit_cap: f32 = 0,
    dtype: DLDataType = .{},
    kv_dtype: DLDataType = .{},
    shared_experts: u32 = 0,
    activation: i32 = 0,
    rotary_dim: u32 = 0,
    final_logit_cap: f32 = 0,
    index_heads: u32 = 0,
    index_head_dim: u32 = 0,
    index_top_k: u32 = 0,
};

pub const quern_warm_result = extern struct {
    size: u32 = @sizeOf(quern_warm_result),
    outcome: i32 = 0,
    status: i32 = 0,
    line: u32 = 0,
    op: ?[*:0]const u8 = null,
    target: ?[*:0]const u8 = null,
    key: ?[*:0]const u8 = null,
    spec: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    milliseconds: f64 = 0,
};

pub const quern_warm_callback = ?*const fn (?*anyopaque, u64, u64, [*c]const quern_warm_result) callconv(.c) i32;

pub const quern_warm_options = extern struct {
    size: u32 = @sizeOf(quern_warm_options),
    flags: u32 = 0,
    targets: [*c]const [*:0]const u8 = null,
    target_count: u64 = 0,
    manifest: ?[*:0]const u8 = null,
    manifest_length: u64 = 0,
    model: [*c]const quern_model = null,
    progress: quern_warm_callback = null,
    progress_user: ?*anyopaque = null,
};

pub const quern_tune_result = extern struct {
    size: u32 = @sizeOf(quern_tune_result),
    outcome: i32 = 0,
    status: i32 = 0,
    line: u32 = 0,
    op: ?[*:0]const u8 = null,
    product: ?[*:0]const u8 = null,
    choice: ?[*:0]const u8 = null,
    model_choice: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    rows: i64 = 0,
    microseconds: f64 = 0,
    model_microseconds: f64 = 0,
    candidates: u32 = 0,
    reserved: u32 = 0,
};

pub const quern_tune_callback = ?*const fn (?*anyopaque, u64, u64, [*c]const quern_tune_result) callconv(.c) i32;

pub const quern_tune_options = extern struct {
    size: u32 = @sizeOf(quern_tune_options),
    flags: u32 = 0,
    manifest: ?[*:0]const u8 = null,
    manifest_length: u64 = 0,
    model: [*c]const quern_model = null,
    rows: [*c]const i64 = null,
    row_count: u64 = 0,
    milliseconds: f64 = 0,
    progress: quern_tune_callback = null,
    progress_user: ?*anyopaque = null,
};

pub const quern_entry = extern struct {
    size: u32 = @sizeOf(quern_entry),
    layer: i32 = 0,
    key: ?[*:0]const u8 = null,
    op: ?[*:0]const u8 = null,
    target: ?[*:0]const u8 = null,
    entry_name: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    compiler: ?[*:0]const u8 = null,
    log: ?[*:0]const u8 = null,
    image: ?*const anyopaque = null,
    image_size: u64 = 0,
    created: i64 = 0,
    last_use: u64 = 0,
    compile_ms: f64 = 0,
    registers: i32 = 0,
    shared_bytes: i32 = 0,
    local_bytes: i32 = 0,
    kind: i32 = 0,
};

pub const quern_finding = extern struct {
    size: u32 = @sizeOf(quern_finding),
    status: i32 = 0,
    what: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    hint: ?[*:0]const u8 = null,
};

pub const quern_trim_options = extern struct {
    size: u32 = @sizeOf(quern_trim_options),
    flags: u32 = 0,
    limit: u64 = 0,
};

pub const quern_trim_result = extern struct {
    size: u32 = @sizeOf(quern_trim_result),
    reserved: u32 = 0,
    removed: u64 = 0,
    kept: u64 = 0,
    bytes_before: u64 = 0,
    bytes_after: u64 = 0,
};

pub const quern_cache_stats = extern struct {
    size: u32 = @sizeOf(quern_cache_stats),
    state: i32 = 0,
    entries: u64 = 0,
    image_bytes: u64 = 0,
    file_bytes: u64 = 0,
    limit: u64 = 0,
    bundles: u64 = 0,
    bundle_entries: u64 = 0,
    path: [2048]u8 = @splat(0),
    reason: [504]u8 = @splat(0),
};

pub const quern_verify_result = extern struct {
    size: u32 = @sizeOf(quern_verify_result),
    outcome: i32 = 0,
    status: i32 = 0,
    trials: u32 = 0,
    op: ?[*:0]const u8 = null,
    target: ?[*:0]const u8 = null,
    key: ?[*:0]const u8 = null,
    spec: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    @"error": f64 = 0,
    truth_error: f64 = 0,
    milliseconds: f64 = 0,
};

pub const quern_verify_callback = ?*const fn (?*anyopaque, u64, u64, [*c]const quern_verify_result) callconv(.c) i32;

pub const quern_verify_options = extern struct {
    size: u32 = @sizeOf(quern_verify_options),
    flags: u32 = 0,
    prefix: ?[*:0]const u8 = null,
    seed: u64 = 0,
    progress: quern_verify_callback = null,
    progress_user: ?*anyopaque = null,
};

pub const quern_attention_args = extern struct {
    size: u32 = @sizeOf(quern_attention_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    q: [*c]const DLTensor = null,
    k: [*c]const DLTensor = null,
    v: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    lse: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    cu_q: [*c]const DLTensor = null,
    page_table: [*c]const DLTensor = null,
    page_indptr: [*c]const DLTensor = null,
    page_indices: [*c]const DLTensor = null,
    cu_kv: [*c]const DLTensor = null,
    alibi_slopes: [*c]const DLTensor = null,
    sinks: [*c]const DLTensor = null,
    max_q_len: i32 = 0,
    max_kv_len: i32 = 0,
    window_left: i32 = 0,
    window_right: i32 = 0,
    scale: f32 = 0,
    logit_cap: f32 = 0,
    q_scale: [*c]const DLTensor = null,
    k_scale: [*c]const DLTensor = null,
    v_scale: [*c]const DLTensor = null,
    mask: [*c]const DLTensor = null,
    mask_indptr: [*c]const DLTensor = null,
    mask_keys: [*c]const DLTensor = null,
    q_type: i32 = 0,
    kv_type: i32 = 0,
    out_scale: [*c]const DLTensor = null,
    out_type: i32 = 0,
    reserved: u32 = 0,
};

pub const quern_merge_state_args = extern struct {
    size: u32 = @sizeOf(quern_merge_state_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    out_a: [*c]const DLTensor = null,
    lse_a: [*c]const DLTensor = null,
    out_b: [*c]const DLTensor = null,
    lse_b: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    lse: [*c]const DLTensor = null,
};

pub const quern_mla_decode_args = extern struct {
    size: u32 = @sizeOf(quern_mla_decode_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    q: [*c]const DLTensor = null,
    q_rope: [*c]const DLTensor = null,
    cache: [*c]const DLTensor = null,
    cache_rope: [*c]const DLTensor = null,
    cache_scale: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    lse: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    cu_q: [*c]const DLTensor = null,
    page_table: [*c]const DLTensor = null,
    page_indptr: [*c]const DLTensor = null,
    page_indices: [*c]const DLTensor = null,
    indices: [*c]const DLTensor = null,
    sinks: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    max_q_len: i32 = 0,
    max_kv_len: i32 = 0,
    window_left: i32 = 0,
    window_right: i32 = 0,
    cache_type: i32 = 0,
    scale: f32 = 0,
    logit_cap: f32 = 0,
};

pub const quern_merge_states_args = extern struct {
    size: u32 = @sizeOf(quern_merge_states_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    parts: [*c]const DLTensor = null,
    part_lses: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    lse: [*c]const DLTensor = null,
};

pub const quern_rope_options = extern struct {
    size: u32 = @sizeOf(quern_rope_options),
    flags: u32 = 0,
    scaling: i32 = 0,
    rotary_dim: i32 = 0,
    theta: f64 = 0,
    factor: f64 = 0,
    attention_factor: f64 = 0,
    low_freq_factor: f64 = 0,
    high_freq_factor: f64 = 0,
    beta_fast: f64 = 0,
    beta_slow: f64 = 0,
    original_positions: i32 = 0,
    reserved: i32 = 0,
    table: [*c]const DLTensor = null,
};

pub const quern_rope_args = extern struct {
    size: u32 = @sizeOf(quern_rope_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    q: [*c]const DLTensor = null,
    k: [*c]const DLTensor = null,
    q_out: [*c]const DLTensor = null,
    k_out: [*c]const DLTensor = null,
    positions: [*c]const DLTensor = null,
    rope: [*c]const quern_rope_options = null,
};

pub const quern_kv_append_args = extern struct {
    size: u32 = @sizeOf(quern_kv_append_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    k: [*c]const DLTensor = null,
    v: [*c]const DLTensor = null,
    k_cache: [*c]const DLTensor = null,
    v_cache: [*c]const DLTensor = null,
    k_scale: [*c]const DLTensor = null,
    v_scale: [*c]const DLTensor = null,
    slots: [*c]const DLTensor = null,
    page_table: [*c]const DLTensor = null,
    page_indptr: [*c]const DLTensor = null,
    page_indices: [*c]const DLTensor = null,
    cu_q: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    positions: [*c]const DLTensor = null,
    q: [*c]const DLTensor = null,
    q_out: [*c]const DLTensor = null,
    q_scale: [*c]const DLTensor = null,
    q_weight: [*c]const DLTensor = null,
    k_weight: [*c]const DLTensor = null,
    rope: [*c]const quern_rope_options = null,
    eps: f32 = 0,
    q_type: i32 = 0,
    kv_type: i32 = 0,
    reserved: i32 = 0,
};

pub const quern_kv_copy_pages_args = extern struct {
    size: u32 = @sizeOf(quern_kv_copy_pages_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    k: [*c]const DLTensor = null,
    v: [*c]const DLTensor = null,
    k_to: [*c]const DLTensor = null,
    v_to: [*c]const DLTensor = null,
    k_scale: [*c]const DLTensor = null,
    v_scale: [*c]const DLTensor = null,
    k_scale_to: [*c]const DLTensor = null,
    v_scale_to: [*c]const DLTensor = null,
    sources: [*c]const DLTensor = null,
    destinations: [*c]const DLTensor = null,
};

pub const quern_expression = opaque {};

pub const quern_epilogue = extern struct {
    size: u32 = @sizeOf(quern_epilogue),
    flags: u32 = 0,
    activation: i32 = 0,
    operand_count: u32 = 0,
    scalar_count: u32 = 0,
    reserved: u32 = 0,
    bias: [*c]const DLTensor = null,
    c: [*c]const DLTensor = null,
    expression: ?*const quern_expression = null,
    operands: [*c]const [*c]const DLTensor = null,
    scalars: [*c]const f32 = null,
    out_scale: [*c]const DLTensor = null,
};

pub const quern_fp8_gemm_args = extern struct {
    size: u32 = @sizeOf(quern_fp8_gemm_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    a: [*c]const DLTensor = null,
    b: [*c]const DLTensor = null,
    scale_a: [*c]const DLTensor = null,
    scale_b: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    epilogue: [*c]const quern_epilogue = null,
    a_type: i32 = 0,
    b_type: i32 = 0,
};

pub const quern_grouped_fp8_gemm_args = extern struct {
    size: u32 = @sizeOf(quern_grouped_fp8_gemm_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    a: [*c]const DLTensor = null,
    b: [*c]const DLTensor = null,
    scale_a: [*c]const DLTensor = null,
    scale_b: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    offsets: [*c]const DLTensor = null,
    counts: [*c]const DLTensor = null,
    indices: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    epilogue: [*c]const quern_epilogue = null,
    a_type: i32 = 0,
    b_type: i32 = 0,
    expected_rows: i32 = 0,
    reserved: i32 = 0,
};

pub const quern_gemm_args = extern struct {
    size: u32 = @sizeOf(quern_gemm_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    a: [*c]const DLTensor = null,
    b: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    epilogue: [*c]const quern_epilogue = null,
};

pub const quern_quantized_gemm_args = extern struct {
    size: u32 = @sizeOf(quern_quantized_gemm_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    a: [*c]const DLTensor = null,
    b: [*c]const DLTensor = null,
    scale_a: [*c]const DLTensor = null,
    scale_b: [*c]const DLTensor = null,
    zero_b: [*c]const DLTensor = null,
    tensor_scale_a: [*c]const DLTensor = null,
    tensor_scale_b: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    epilogue: [*c]const quern_epilogue = null,
    a_format: i32 = 0,
    b_format: i32 = 0,
    scale_a_type: i32 = 0,
    scale_b_type: i32 = 0,
};

pub const quern_quantize_args = extern struct {
    size: u32 = @sizeOf(quern_quantize_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    scale: [*c]const DLTensor = null,
    residual: [*c]const DLTensor = null,
    residual_out: [*c]const DLTensor = null,
    weight: [*c]const DLTensor = null,
    bias: [*c]const DLTensor = null,
    dense: [*c]const DLTensor = null,
    front: i32 = 0,
    scale_kind: i32 = 0,
    type: i32 = 0,
    eps: f32 = 0,
};

pub const quern_dequantize_args = extern struct {
    size: u32 = @sizeOf(quern_dequantize_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    scale: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    scale_kind: i32 = 0,
    type: i32 = 0,
};

pub const quern_moe_route_args = extern struct {
    size: u32 = @sizeOf(quern_moe_route_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    logits: [*c]const DLTensor = null,
    bias: [*c]const DLTensor = null,
    weights: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    offsets: [*c]const DLTensor = null,
    indices: [*c]const DLTensor = null,
    positions: [*c]const DLTensor = null,
    counts: [*c]const DLTensor = null,
    top_k: i32 = 0,
    groups: i32 = 0,
    top_groups: i32 = 0,
    first_expert: i32 = 0,
    local_experts: i32 = 0,
    scale: f32 = 0,
};

pub const quern_moe_combine_args = extern struct {
    size: u32 = @sizeOf(quern_moe_combine_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    positions: [*c]const DLTensor = null,
    weights: [*c]const DLTensor = null,
    add: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
};

pub const quern_rmsnorm_args = extern struct {
    size: u32 = @sizeOf(quern_rmsnorm_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    residual: [*c]const DLTensor = null,
    weight: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    residual_out: [*c]const DLTensor = null,
    eps: f32 = 0,
    reserved: i32 = 0,
};

pub const quern_gather_args = extern struct {
    size: u32 = @sizeOf(quern_gather_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    table: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    first: i64 = 0,
    padding: i64 = 0,
    scale: f32 = 0,
    reserved: i32 = 0,
};

pub const quern_sample_args = extern struct {
    size: u32 = @sizeOf(quern_sample_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    logits: [*c]const DLTensor = null,
    rows: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    logprobs: [*c]const DLTensor = null,
    top_ids: [*c]const DLTensor = null,
    top_logprobs: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    seeds: [*c]const DLTensor = null,
    offsets: [*c]const DLTensor = null,
    temperatures: [*c]const DLTensor = null,
    top_ks: [*c]const DLTensor = null,
    top_ps: [*c]const DLTensor = null,
    min_ps: [*c]const DLTensor = null,
    typical_ps: [*c]const DLTensor = null,
    n_sigmas: [*c]const DLTensor = null,
    xtc_probabilities: [*c]const DLTensor = null,
    xtc_thresholds: [*c]const DLTensor = null,
    dynamic_ranges: [*c]const DLTensor = null,
    dynamic_exponents: [*c]const DLTensor = null,
    repetitions: [*c]const DLTensor = null,
    presences: [*c]const DLTensor = null,
    frequencies: [*c]const DLTensor = null,
    prompt_mask: [*c]const DLTensor = null,
    prompt_tokens: [*c]const DLTensor = null,
    prompt_lengths: [*c]const DLTensor = null,
    output_counts: [*c]const DLTensor = null,
    output_tokens: [*c]const DLTensor = null,
    output_lengths: [*c]const DLTensor = null,
    bias_offsets: [*c]const DLTensor = null,
    bias_ids: [*c]const DLTensor = null,
    bias_values: [*c]const DLTensor = null,
    allowed: [*c]const DLTensor = null,
    banned: [*c]const DLTensor = null,
    seed: u64 = 0,
    offset: u64 = 0,
    temperature: f32 = 0,
    top_k: i32 = 0,
    top_p: f32 = 0,
    min_p: f32 = 0,
    typical_p: f32 = 0,
    n_sigma: f32 = 0,
    xtc_probability: f32 = 0,
    xtc_threshold: f32 = 0,
    dynamic_range: f32 = 0,
    dynamic_exponent: f32 = 0,
    repetition: f32 = 0,
    presence: f32 = 0,
    frequency: f32 = 0,
    max_bias: i32 = 0,
};

pub const quern_mla_append_args = extern struct {
    size: u32 = @sizeOf(quern_mla_append_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    kv: [*c]const DLTensor = null,
    k_rope: [*c]const DLTensor = null,
    weight: [*c]const DLTensor = null,
    cache: [*c]const DLTensor = null,
    cache_rope: [*c]const DLTensor = null,
    cache_scale: [*c]const DLTensor = null,
    slots: [*c]const DLTensor = null,
    page_table: [*c]const DLTensor = null,
    page_indptr: [*c]const DLTensor = null,
    page_indices: [*c]const DLTensor = null,
    cu_q: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    positions: [*c]const DLTensor = null,
    q_rope: [*c]const DLTensor = null,
    q_rope_out: [*c]const DLTensor = null,
    kv_out: [*c]const DLTensor = null,
    k_rope_out: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    rope: [*c]const quern_rope_options = null,
    eps: f32 = 0,
    d_rope: i32 = 0,
    cache_type: i32 = 0,
    reserved: i32 = 0,
};

pub const quern_index_scores_args = extern struct {
    size: u32 = @sizeOf(quern_index_scores_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    q: [*c]const DLTensor = null,
    q_scale: [*c]const DLTensor = null,
    weights: [*c]const DLTensor = null,
    k: [*c]const DLTensor = null,
    k_scale: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    cu_q: [*c]const DLTensor = null,
    page_table: [*c]const DLTensor = null,
    page_indptr: [*c]const DLTensor = null,
    page_indices: [*c]const DLTensor = null,
    cu_kv: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    max_q_len: i32 = 0,
    q_type: i32 = 0,
};

pub const quern_softmax_args = extern struct {
    size: u32 = @sizeOf(quern_softmax_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    logits: [*c]const DLTensor = null,
    temperatures: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    temperature: f32 = 0,
    reserved: i32 = 0,
};

pub const quern_argmax_args = extern struct {
    size: u32 = @sizeOf(quern_argmax_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    logits: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    values: [*c]const DLTensor = null,
};

pub const quern_top_k_args = extern struct {
    size: u32 = @sizeOf(quern_top_k_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    values: [*c]const DLTensor = null,
};

pub const quern_renormalise_args = extern struct {
    size: u32 = @sizeOf(quern_renormalise_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    probs: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    top_ks: [*c]const DLTensor = null,
    top_ps: [*c]const DLTensor = null,
    min_ps: [*c]const DLTensor = null,
    top_k: i32 = 0,
    top_p: f32 = 0,
    min_p: f32 = 0,
    reserved: i32 = 0,
};

pub const quern_verify_draft_args = extern struct {
    size: u32 = @sizeOf(quern_verify_draft_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    target: [*c]const DLTensor = null,
    draft: [*c]const DLTensor = null,
    draft_ids: [*c]const DLTensor = null,
    parents: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    accepted: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    path: [*c]const DLTensor = null,
    status: [*c]const DLTensor = null,
    seeds: [*c]const DLTensor = null,
    offsets: [*c]const DLTensor = null,
    temperatures: [*c]const DLTensor = null,
    top_ks: [*c]const DLTensor = null,
    top_ps: [*c]const DLTensor = null,
    min_ps: [*c]const DLTensor = null,
    seed: u64 = 0,
    offset: u64 = 0,
    temperature: f32 = 0,
    top_k: i32 = 0,
    top_p: f32 = 0,
    min_p: f32 = 0,
    logprobs: [*c]const DLTensor = null,
    repetitions: [*c]const DLTensor = null,
    presences: [*c]const DLTensor = null,
    frequencies: [*c]const DLTensor = null,
    prompt_mask: [*c]const DLTensor = null,
    prompt_tokens: [*c]const DLTensor = null,
    prompt_lengths: [*c]const DLTensor = null,
    output_counts: [*c]const DLTensor = null,
    output_tokens: [*c]const DLTensor = null,
    output_lengths: [*c]const DLTensor = null,
    bias_offsets: [*c]const DLTensor = null,
    bias_ids: [*c]const DLTensor = null,
    bias_values: [*c]const DLTensor = null,
    allowed: [*c]const DLTensor = null,
    banned: [*c]const DLTensor = null,
    repetition: f32 = 0,
    presence: f32 = 0,
    frequency: f32 = 0,
    max_bias: i32 = 0,
};

pub const quern_pointwise_args = extern struct {
    size: u32 = @sizeOf(quern_pointwise_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    operands: [*c]const [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    out1: [*c]const DLTensor = null,
    out2: [*c]const DLTensor = null,
    out3: [*c]const DLTensor = null,
    expression: ?*const quern_expression = null,
    expression1: ?*const quern_expression = null,
    expression2: ?*const quern_expression = null,
    expression3: ?*const quern_expression = null,
    scalars: [*c]const f32 = null,
    operand_count: u32 = 0,
    scalar_count: u32 = 0,
};

pub const quern_copy_args = extern struct {
    size: u32 = @sizeOf(quern_copy_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    inputs: [*c]const [*c]const DLTensor = null,
    outputs: [*c]const [*c]const DLTensor = null,
    input_count: u32 = 0,
    output_count: u32 = 0,
    fill: f64 = 0,
};

pub const quern_norm_args = extern struct {
    size: u32 = @sizeOf(quern_norm_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    residual: [*c]const DLTensor = null,
    weight: [*c]const DLTensor = null,
    bias: [*c]const DLTensor = null,
    scale: [*c]const DLTensor = null,
    shift: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    residual_out: [*c]const DLTensor = null,
    out_scale: [*c]const DLTensor = null,
    dense: [*c]const DLTensor = null,
    kind: i32 = 0,
    groups: i32 = 0,
    scale_kind: i32 = 0,
    type: i32 = 0,
    eps: f32 = 0,
    reserved: i32 = 0,
};

pub const quern_norm_backward_args = extern struct {
    size: u32 = @sizeOf(quern_norm_backward_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    dout: [*c]const DLTensor = null,
    x: [*c]const DLTensor = null,
    weight: [*c]const DLTensor = null,
    add: [*c]const DLTensor = null,
    dx: [*c]const DLTensor = null,
    dweight: [*c]const DLTensor = null,
    dbias: [*c]const DLTensor = null,
    kind: i32 = 0,
    eps: f32 = 0,
};

pub const quern_reduce_args = extern struct {
    size: u32 = @sizeOf(quern_reduce_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    y: [*c]const DLTensor = null,
    before: ?*const quern_expression = null,
    out: [*c]const DLTensor = null,
    out1: [*c]const DLTensor = null,
    out2: [*c]const DLTensor = null,
    out3: [*c]const DLTensor = null,
    after: ?*const quern_expression = null,
    after1: ?*const quern_expression = null,
    after2: ?*const quern_expression = null,
    after3: ?*const quern_expression = null,
    scalars: [*c]const f32 = null,
    scalar_count: u32 = 0,
    axes: u32 = 0,
    reduction: i32 = 0,
    reduction1: i32 = 0,
    reduction2: i32 = 0,
    reduction3: i32 = 0,
    type: i32 = 0,
    reserved: i32 = 0,
};

pub const quern_scatter_args = extern struct {
    size: u32 = @sizeOf(quern_scatter_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    first: i64 = 0,
    padding: i64 = 0,
    scale: f32 = 0,
    reserved: i32 = 0,
};

pub const quern_histogram_args = extern struct {
    size: u32 = @sizeOf(quern_histogram_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    counts: [*c]const DLTensor = null,
    first: i64 = 0,
    low: f32 = 0,
    high: f32 = 0,
};

pub const quern_sort_args = extern struct {
    size: u32 = @sizeOf(quern_sort_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    keys: [*c]const DLTensor = null,
    values: [*c]const DLTensor = null,
    offsets: [*c]const DLTensor = null,
    keys_out: [*c]const DLTensor = null,
    values_out: [*c]const DLTensor = null,
    max_segment: i64 = 0,
};

pub const quern_conv1d_args = extern struct {
    size: u32 = @sizeOf(quern_conv1d_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    weight: [*c]const DLTensor = null,
    bias: [*c]const DLTensor = null,
    offsets: [*c]const DLTensor = null,
    state: [*c]const DLTensor = null,
    state_ids: [*c]const DLTensor = null,
    has_state: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    stride: i32 = 0,
    dilation: i32 = 0,
    groups: i32 = 0,
    pad_begin: i32 = 0,
    pad_end: i32 = 0,
    reserved: i32 = 0,
};

pub const quern_conv2d_args = extern struct {
    size: u32 = @sizeOf(quern_conv2d_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    weight: [*c]const DLTensor = null,
    bias: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    stride_h: i32 = 0,
    stride_w: i32 = 0,
    dilation_h: i32 = 0,
    dilation_w: i32 = 0,
    groups: i32 = 0,
    pad_top: i32 = 0,
    pad_bottom: i32 = 0,
    pad_left: i32 = 0,
    pad_right: i32 = 0,
    activation: i32 = 0,
};

pub const quern_fft_args = extern struct {
    size: u32 = @sizeOf(quern_fft_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    x: [*c]const DLTensor = null,
    window: [*c]const DLTensor = null,
    out: [*c]const DLTensor = null,
    n: i32 = 0,
    kind: i32 = 0,
    result: i32 = 0,
    scaling: i32 = 0,
    hop: i32 = 0,
    pad_begin: i32 = 0,
    pad_end: i32 = 0,
    padding: i32 = 0,
};

pub const quern_nms_args = extern struct {
    size: u32 = @sizeOf(quern_nms_args),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    workspace: ?*anyopaque = null,
    workspace_size: u64 = 0,
    alignment: i32 = 0,
    max_sms: i32 = 0,
    boxes: [*c]const DLTensor = null,
    scores: [*c]const DLTensor = null,
    classes: [*c]const DLTensor = null,
    lengths: [*c]const DLTensor = null,
    ids: [*c]const DLTensor = null,
    counts: [*c]const DLTensor = null,
    iou_threshold: f32 = 0,
    score_threshold: f32 = 0,
};

pub const quern_source = extern struct {
    size: u32 = @sizeOf(quern_source),
    reserved: u32 = 0,
    name: ?[*:0]const u8 = null,
    text: ?[*:0]const u8 = null,
    length: u64 = 0,
};

pub const quern_constant = extern struct {
    size: u32 = @sizeOf(quern_constant),
    reserved: u32 = 0,
    name: ?[*:0]const u8 = null,
    value: ?[*:0]const u8 = null,
};

pub const quern_kernel_desc = extern struct {
    size: u32 = @sizeOf(quern_kernel_desc),
    flags: u32 = 0,
    entry: ?[*:0]const u8 = null,
    source: [*c]const quern_source = null,
    headers: [*c]const quern_source = null,
    header_count: u64 = 0,
    constants: [*c]const quern_constant = null,
    constant_count: u64 = 0,
    options: [*c]const [*:0]const u8 = null,
    option_count: u64 = 0,
    target: ?[*:0]const u8 = null,
    max_shared_bytes: u32 = 0,
    reserved: u32 = 0,
};

pub const quern_kernel = opaque {};

pub const quern_kernel_info = extern struct {
    size: u32 = @sizeOf(quern_kernel_info),
    registers: i32 = 0,
    shared_bytes: i32 = 0,
    local_bytes: i32 = 0,
    max_threads: i32 = 0,
    reserved: i32 = 0,
    key: [40]u8 = @splat(0),
};

pub const quern_launch = extern struct {
    size: u32 = @sizeOf(quern_launch),
    flags: u32 = 0,
    stream: ?*anyopaque = null,
    grid_x: u32 = 0,
    grid_y: u32 = 0,
    grid_z: u32 = 0,
    block_x: u32 = 0,
    block_y: u32 = 0,
    block_z: u32 = 0,
    cluster_x: u32 = 0,
    cluster_y: u32 = 0,
    cluster_z: u32 = 0,
    shared_bytes: u32 = 0,
    args: [*c]?*anyopaque = null,
    arg_count: u64 = 0,
};

pub extern fn quern_abi_version() u32;
pub extern fn quern_version() ?[*:0]const u8;
pub extern fn quern_status_name(i32) ?[*:0]const u8;
pub extern fn quern_context_create([*c]const quern_context_options, [*c]?*quern_context, [*c]quern_error) i32;
pub extern fn quern_context_destroy(?*quern_context) void;
pub extern fn quern_device(?*const quern_context, [*c]quern_device_info, [*c]quern_error) i32;
pub extern fn quern_get_stats(?*const quern_context, [*c]quern_stats, [*c]quern_error) i32;
pub extern fn quern_list_count(?*const quern_list) u64;
pub extern fn quern_list_free(?*quern_list) void;
pub extern fn quern_faults(?*quern_context, [*c]?*quern_list, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_list_fault(?*const quern_list, u64, [*c]quern_fault) i32;
pub extern fn quern_warm(?*quern_context, [*c]const quern_warm_options, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_list_warm_result(?*const quern_list, u64, [*c]quern_warm_result) i32;
pub extern fn quern_load(?*quern_context, [*c]const quern_warm_options, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_unload(?*quern_context, ?[*:0]const u8, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_wait(?*quern_context, u64, [*c]quern_error) i32;
pub extern fn quern_cancel(?*quern_context, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_manifest(?*const quern_context, [*c]u8, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_tune(?*quern_context, [*c]const quern_tune_options, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_list_tune_result(?*const quern_list, u64, [*c]quern_tune_result) i32;
pub extern fn quern_cache_list(?*quern_context, ?[*:0]const u8, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_cache_inspect(?*quern_context, ?[*:0]const u8, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_list_entry(?*const quern_list, u64, [*c]quern_entry) i32;
pub extern fn quern_cache_verify(?*quern_context, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_cache_trim(?*quern_context, [*c]const quern_trim_options, [*c]quern_trim_result, [*c]quern_error) i32;
pub extern fn quern_cache_export(?*quern_context, ?[*:0]const u8, ?[*:0]const u8, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_cache_import(?*quern_context, ?[*:0]const u8, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_keys_make([*c]u8, [*c]u8, [*c]quern_error) i32;
pub extern fn quern_keys_public(?[*:0]const u8, [*c]u8, [*c]quern_error) i32;
pub extern fn quern_bundle_sign(?[*:0]const u8, ?[*:0]const u8, [*c]quern_error) i32;
pub extern fn quern_cache_get_stats(?*quern_context, [*c]quern_cache_stats, [*c]quern_error) i32;
pub extern fn quern_doctor(?*quern_context, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_failures(?*quern_context, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_list_finding(?*const quern_list, u64, [*c]quern_finding) i32;
pub extern fn quern_verify(?*quern_context, [*c]const quern_verify_options, [*c]?*quern_list, [*c]quern_error) i32;
pub extern fn quern_list_verify_result(?*const quern_list, u64, [*c]quern_verify_result) i32;
pub extern fn quern_expression_create(?*quern_context, ?[*:0]const u8, [*c]?*const quern_expression, [*c]quern_error) i32;
pub extern fn quern_attention_workspace(?*quern_context, [*c]const quern_attention_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_attention_prepare(?*quern_context, [*c]const quern_attention_args, [*c]quern_error) i32;
pub extern fn quern_attention(?*quern_context, [*c]const quern_attention_args, [*c]quern_error) i32;
pub extern fn quern_merge_state_workspace(?*quern_context, [*c]const quern_merge_state_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_merge_state_prepare(?*quern_context, [*c]const quern_merge_state_args, [*c]quern_error) i32;
pub extern fn quern_merge_state(?*quern_context, [*c]const quern_merge_state_args, [*c]quern_error) i32;
pub extern fn quern_fp8_gemm_workspace(?*quern_context, [*c]const quern_fp8_gemm_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_fp8_gemm_prepare(?*quern_context, [*c]const quern_fp8_gemm_args, [*c]quern_error) i32;
pub extern fn quern_fp8_gemm(?*quern_context, [*c]const quern_fp8_gemm_args, [*c]quern_error) i32;
pub extern fn quern_grouped_fp8_gemm_workspace(?*quern_context, [*c]const quern_grouped_fp8_gemm_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_grouped_fp8_gemm_prepare(?*quern_context, [*c]const quern_grouped_fp8_gemm_args, [*c]quern_error) i32;
pub extern fn quern_grouped_fp8_gemm(?*quern_context, [*c]const quern_grouped_fp8_gemm_args, [*c]quern_error) i32;
pub extern fn quern_gemm_workspace(?*quern_context, [*c]const quern_gemm_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_gemm_prepare(?*quern_context, [*c]const quern_gemm_args, [*c]quern_error) i32;
pub extern fn quern_gemm(?*quern_context, [*c]const quern_gemm_args, [*c]quern_error) i32;
pub extern fn quern_quantize_workspace(?*quern_context, [*c]const quern_quantize_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_quantize_prepare(?*quern_context, [*c]const quern_quantize_args, [*c]quern_error) i32;
pub extern fn quern_quantize(?*quern_context, [*c]const quern_quantize_args, [*c]quern_error) i32;
pub extern fn quern_dequantize_workspace(?*quern_context, [*c]const quern_dequantize_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_dequantize_prepare(?*quern_context, [*c]const quern_dequantize_args, [*c]quern_error) i32;
pub extern fn quern_dequantize(?*quern_context, [*c]const quern_dequantize_args, [*c]quern_error) i32;
pub extern fn quern_moe_route_workspace(?*quern_context, [*c]const quern_moe_route_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_moe_route_prepare(?*quern_context, [*c]const quern_moe_route_args, [*c]quern_error) i32;
pub extern fn quern_moe_route(?*quern_context, [*c]const quern_moe_route_args, [*c]quern_error) i32;
pub extern fn quern_moe_combine_workspace(?*quern_context, [*c]const quern_moe_combine_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_moe_combine_prepare(?*quern_context, [*c]const quern_moe_combine_args, [*c]quern_error) i32;
pub extern fn quern_moe_combine(?*quern_context, [*c]const quern_moe_combine_args, [*c]quern_error) i32;
pub extern fn quern_merge_states_workspace(?*quern_context, [*c]const quern_merge_states_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_merge_states_prepare(?*quern_context, [*c]const quern_merge_states_args, [*c]quern_error) i32;
pub extern fn quern_merge_states(?*quern_context, [*c]const quern_merge_states_args, [*c]quern_error) i32;
pub extern fn quern_rope_workspace(?*quern_context, [*c]const quern_rope_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_rope_prepare(?*quern_context, [*c]const quern_rope_args, [*c]quern_error) i32;
pub extern fn quern_rope(?*quern_context, [*c]const quern_rope_args, [*c]quern_error) i32;
pub extern fn quern_kv_append_workspace(?*quern_context, [*c]const quern_kv_append_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_kv_append_prepare(?*quern_context, [*c]const quern_kv_append_args, [*c]quern_error) i32;
pub extern fn quern_kv_append(?*quern_context, [*c]const quern_kv_append_args, [*c]quern_error) i32;
pub extern fn quern_kv_copy_pages_workspace(?*quern_context, [*c]const quern_kv_copy_pages_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_kv_copy_pages_prepare(?*quern_context, [*c]const quern_kv_copy_pages_args, [*c]quern_error) i32;
pub extern fn quern_kv_copy_pages(?*quern_context, [*c]const quern_kv_copy_pages_args, [*c]quern_error) i32;
pub extern fn quern_mla_decode_workspace(?*quern_context, [*c]const quern_mla_decode_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_mla_decode_prepare(?*quern_context, [*c]const quern_mla_decode_args, [*c]quern_error) i32;
pub extern fn quern_mla_decode(?*quern_context, [*c]const quern_mla_decode_args, [*c]quern_error) i32;
pub extern fn quern_rmsnorm_workspace(?*quern_context, [*c]const quern_rmsnorm_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_rmsnorm_prepare(?*quern_context, [*c]const quern_rmsnorm_args, [*c]quern_error) i32;
pub extern fn quern_rmsnorm(?*quern_context, [*c]const quern_rmsnorm_args, [*c]quern_error) i32;
pub extern fn quern_sample_workspace(?*quern_context, [*c]const quern_sample_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_sample_prepare(?*quern_context, [*c]const quern_sample_args, [*c]quern_error) i32;
pub extern fn quern_sample(?*quern_context, [*c]const quern_sample_args, [*c]quern_error) i32;
pub extern fn quern_gather_workspace(?*quern_context, [*c]const quern_gather_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_gather_prepare(?*quern_context, [*c]const quern_gather_args, [*c]quern_error) i32;
pub extern fn quern_gather(?*quern_context, [*c]const quern_gather_args, [*c]quern_error) i32;
pub extern fn quern_mla_append_workspace(?*quern_context, [*c]const quern_mla_append_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_mla_append_prepare(?*quern_context, [*c]const quern_mla_append_args, [*c]quern_error) i32;
pub extern fn quern_mla_append(?*quern_context, [*c]const quern_mla_append_args, [*c]quern_error) i32;
pub extern fn quern_index_scores_workspace(?*quern_context, [*c]const quern_index_scores_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_index_scores_prepare(?*quern_context, [*c]const quern_index_scores_args, [*c]quern_error) i32;
pub extern fn quern_index_scores(?*quern_context, [*c]const quern_index_scores_args, [*c]quern_error) i32;
pub extern fn quern_softmax_workspace(?*quern_context, [*c]const quern_softmax_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_softmax_prepare(?*quern_context, [*c]const quern_softmax_args, [*c]quern_error) i32;
pub extern fn quern_softmax(?*quern_context, [*c]const quern_softmax_args, [*c]quern_error) i32;
pub extern fn quern_argmax_workspace(?*quern_context, [*c]const quern_argmax_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_argmax_prepare(?*quern_context, [*c]const quern_argmax_args, [*c]quern_error) i32;
pub extern fn quern_argmax(?*quern_context, [*c]const quern_argmax_args, [*c]quern_error) i32;
pub extern fn quern_top_k_workspace(?*quern_context, [*c]const quern_top_k_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_top_k_prepare(?*quern_context, [*c]const quern_top_k_args, [*c]quern_error) i32;
pub extern fn quern_top_k(?*quern_context, [*c]const quern_top_k_args, [*c]quern_error) i32;
pub extern fn quern_renormalise_workspace(?*quern_context, [*c]const quern_renormalise_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_renormalise_prepare(?*quern_context, [*c]const quern_renormalise_args, [*c]quern_error) i32;
pub extern fn quern_renormalise(?*quern_context, [*c]const quern_renormalise_args, [*c]quern_error) i32;
pub extern fn quern_verify_draft_workspace(?*quern_context, [*c]const quern_verify_draft_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_verify_draft_prepare(?*quern_context, [*c]const quern_verify_draft_args, [*c]quern_error) i32;
pub extern fn quern_verify_draft(?*quern_context, [*c]const quern_verify_draft_args, [*c]quern_error) i32;
pub extern fn quern_pointwise_workspace(?*quern_context, [*c]const quern_pointwise_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_pointwise_prepare(?*quern_context, [*c]const quern_pointwise_args, [*c]quern_error) i32;
pub extern fn quern_pointwise(?*quern_context, [*c]const quern_pointwise_args, [*c]quern_error) i32;
pub extern fn quern_copy_workspace(?*quern_context, [*c]const quern_copy_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_copy_prepare(?*quern_context, [*c]const quern_copy_args, [*c]quern_error) i32;
pub extern fn quern_copy(?*quern_context, [*c]const quern_copy_args, [*c]quern_error) i32;
pub extern fn quern_norm_workspace(?*quern_context, [*c]const quern_norm_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_norm_prepare(?*quern_context, [*c]const quern_norm_args, [*c]quern_error) i32;
pub extern fn quern_norm(?*quern_context, [*c]const quern_norm_args, [*c]quern_error) i32;
pub extern fn quern_norm_backward_workspace(?*quern_context, [*c]const quern_norm_backward_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_norm_backward_prepare(?*quern_context, [*c]const quern_norm_backward_args, [*c]quern_error) i32;
pub extern fn quern_norm_backward(?*quern_context, [*c]const quern_norm_backward_args, [*c]quern_error) i32;
pub extern fn quern_reduce_workspace(?*quern_context, [*c]const quern_reduce_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_reduce_prepare(?*quern_context, [*c]const quern_reduce_args, [*c]quern_error) i32;
pub extern fn quern_reduce(?*quern_context, [*c]const quern_reduce_args, [*c]quern_error) i32;
pub extern fn quern_scatter_workspace(?*quern_context, [*c]const quern_scatter_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_scatter_prepare(?*quern_context, [*c]const quern_scatter_args, [*c]quern_error) i32;
pub extern fn quern_scatter(?*quern_context, [*c]const quern_scatter_args, [*c]quern_error) i32;
pub extern fn quern_histogram_workspace(?*quern_context, [*c]const quern_histogram_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_histogram_prepare(?*quern_context, [*c]const quern_histogram_args, [*c]quern_error) i32;
pub extern fn quern_histogram(?*quern_context, [*c]const quern_histogram_args, [*c]quern_error) i32;
pub extern fn quern_sort_workspace(?*quern_context, [*c]const quern_sort_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_sort_prepare(?*quern_context, [*c]const quern_sort_args, [*c]quern_error) i32;
pub extern fn quern_sort(?*quern_context, [*c]const quern_sort_args, [*c]quern_error) i32;
pub extern fn quern_conv1d_workspace(?*quern_context, [*c]const quern_conv1d_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_conv1d_prepare(?*quern_context, [*c]const quern_conv1d_args, [*c]quern_error) i32;
pub extern fn quern_conv1d(?*quern_context, [*c]const quern_conv1d_args, [*c]quern_error) i32;
pub extern fn quern_nms_workspace(?*quern_context, [*c]const quern_nms_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_nms_prepare(?*quern_context, [*c]const quern_nms_args, [*c]quern_error) i32;
pub extern fn quern_nms(?*quern_context, [*c]const quern_nms_args, [*c]quern_error) i32;
pub extern fn quern_conv2d_workspace(?*quern_context, [*c]const quern_conv2d_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_conv2d_prepare(?*quern_context, [*c]const quern_conv2d_args, [*c]quern_error) i32;
pub extern fn quern_conv2d(?*quern_context, [*c]const quern_conv2d_args, [*c]quern_error) i32;
pub extern fn quern_quantized_gemm_workspace(?*quern_context, [*c]const quern_quantized_gemm_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_quantized_gemm_prepare(?*quern_context, [*c]const quern_quantized_gemm_args, [*c]quern_error) i32;
pub extern fn quern_quantized_gemm(?*quern_context, [*c]const quern_quantized_gemm_args, [*c]quern_error) i32;
pub extern fn quern_fft_workspace(?*quern_context, [*c]const quern_fft_args, [*c]u64, [*c]quern_error) i32;
pub extern fn quern_fft_prepare(?*quern_context, [*c]const quern_fft_args, [*c]quern_error) i32;
pub extern fn quern_fft(?*quern_context, [*c]const quern_fft_args, [*c]quern_error) i32;
pub extern fn quern_kernel_prepare(?*quern_context, [*c]const quern_kernel_desc, [*c]?*quern_kernel, [*c]quern_error) i32;
pub extern fn quern_kernel_get_info(?*const quern_kernel, [*c]quern_kernel_info, [*c]quern_error) i32;
pub extern fn quern_kernel_launch(?*quern_context, ?*const quern_kernel, [*c]const quern_launch, [*c]quern_error) i32;

comptime {
    // As C lays them out.
    if (@sizeOf(DLDevice) != 8) @compileError("DLDevice");
    if (@sizeOf(DLDataType) != 4) @compileError("DLDataType");
    if (@sizeOf(DLTensor) != 48) @compileError("DLTensor");
    if (@sizeOf(quern_error) != 4096) @compileError("quern_error");
    if (@sizeOf(quern_event) != 56) @compileError("quern_event");
    if (@sizeOf(quern_context_options) != 192) @compileError("quern_context_options");
    if (@sizeOf(quern_device_info) != 168) @compileError("quern_device_info");
    if (@sizeOf(quern_stats) != 104) @compileError("quern_stats");
    if (@sizeOf(quern_fault) != 80) @compileError("quern_fault");
    if (@sizeOf(quern_model) != 120) @compileError("quern_model");
    if (@sizeOf(quern_warm_result) != 64) @compileError("quern_warm_result");
    if (@sizeOf(quern_warm_options) != 64) @compileError("quern_warm_options");
    if (@sizeOf(quern_tune_result) != 88) @compileError("quern_tune_result");
    if (@sizeOf(quern_tune_options) != 72) @compileError("quern_tune_options");
    if (@sizeOf(quern_entry) != 120) @compileError("quern_entry");
    if (@sizeOf(quern_finding) != 32) @compileError("quern_finding");
    if (@sizeOf(quern_trim_options) != 16) @compileError("quern_trim_options");
    if (@sizeOf(quern_trim_result) != 40) @compileError("quern_trim_result");
    if (@sizeOf(quern_cache_stats) != 2608) @compileError("quern_cache_stats");
    if (@sizeOf(quern_verify_result) != 80) @compileError("quern_verify_result");
    if (@sizeOf(quern_verify_options) != 40) @compileError("quern_verify_options");
    if (@sizeOf(quern_attention_args) != 240) @compileError("quern_attention_args");
    if (@sizeOf(quern_merge_state_args) != 88) @compileError("quern_merge_state_args");
    if (@sizeOf(quern_mla_decode_args) != 192) @compileError("quern_mla_decode_args");
    if (@sizeOf(quern_merge_states_args) != 72) @compileError("quern_merge_states_args");
    if (@sizeOf(quern_rope_options) != 88) @compileError("quern_rope_options");
    if (@sizeOf(quern_rope_args) != 88) @compileError("quern_rope_args");
    if (@sizeOf(quern_kv_append_args) != 208) @compileError("quern_kv_append_args");
    if (@sizeOf(quern_kv_copy_pages_args) != 120) @compileError("quern_kv_copy_pages_args");
    if (@sizeOf(quern_epilogue) != 72) @compileError("quern_epilogue");
    if (@sizeOf(quern_fp8_gemm_args) != 96) @compileError("quern_fp8_gemm_args");
    if (@sizeOf(quern_grouped_fp8_gemm_args) != 136) @compileError("quern_grouped_fp8_gemm_args");
    if (@sizeOf(quern_gemm_args) != 72) @compileError("quern_gemm_args");
    if (@sizeOf(quern_quantized_gemm_args) != 128) @compileError("quern_quantized_gemm_args");
    if (@sizeOf(quern_quantize_args) != 120) @compileError("quern_quantize_args");
    if (@sizeOf(quern_dequantize_args) != 72) @compileError("quern_dequantize_args");
    if (@sizeOf(quern_moe_route_args) != 128) @compileError("quern_moe_route_args");
    if (@sizeOf(quern_moe_combine_args) != 80) @compileError("quern_moe_combine_args");
    if (@sizeOf(quern_rmsnorm_args) != 88) @compileError("quern_rmsnorm_args");
    if (@sizeOf(quern_gather_args) != 88) @compileError("quern_gather_args");
    if (@sizeOf(quern_sample_args) != 376) @compileError("quern_sample_args");
    if (@sizeOf(quern_mla_append_args) != 208) @compileError("quern_mla_append_args");
    if (@sizeOf(quern_index_scores_args) != 152) @compileError("quern_index_scores_args");
    if (@sizeOf(quern_softmax_args) != 80) @compileError("quern_softmax_args");
    if (@sizeOf(quern_argmax_args) != 64) @compileError("quern_argmax_args");
    if (@sizeOf(quern_top_k_args) != 72) @compileError("quern_top_k_args");
    if (@sizeOf(quern_renormalise_args) != 104) @compileError("quern_renormalise_args");
    if (@sizeOf(quern_verify_draft_args) != 328) @compileError("quern_verify_draft_args");
    if (@sizeOf(quern_pointwise_args) != 128) @compileError("quern_pointwise_args");
    if (@sizeOf(quern_copy_args) != 72) @compileError("quern_copy_args");
    if (@sizeOf(quern_norm_args) != 144) @compileError("quern_norm_args");
    if (@sizeOf(quern_norm_backward_args) != 104) @compileError("quern_norm_backward_args");
    if (@sizeOf(quern_reduce_args) != 168) @compileError("quern_reduce_args");
    if (@sizeOf(quern_scatter_args) != 88) @compileError("quern_scatter_args");
    if (@sizeOf(quern_histogram_args) != 72) @compileError("quern_histogram_args");
    if (@sizeOf(quern_sort_args) != 88) @compileError("quern_sort_args");
    if (@sizeOf(quern_conv1d_args) != 128) @compileError("quern_conv1d_args");
    if (@sizeOf(quern_conv2d_args) != 112) @compileError("quern_conv2d_args");
    if (@sizeOf(quern_fft_args) != 96) @compileError("quern_fft_args");
    if (@sizeOf(quern_nms_args) != 96) @compileError("quern_nms_args");
    if (@sizeOf(quern_source) != 32) @compileError("quern_source");
    if (@sizeOf(quern_constant) != 24) @compileError("quern_constant");
    if (@sizeOf(quern_kernel_desc) != 88) @compileError("quern_kernel_desc");
    if (@sizeOf(quern_kernel_info) != 64) @compileError("quern_kernel_info");
    if (@sizeOf(quern_launch) != 72) @compileError("quern_launch");
}

// The ops by the structs of their arguments.
pub const Attention = quern_attention_args;
pub const MergeState = quern_merge_state_args;
pub const Fp8Gemm = quern_fp8_gemm_args;
pub const GroupedFp8Gemm = quern_grouped_fp8_gemm_args;
pub const Gemm = quern_gemm_args;
pub const Quantize = quern_quantize_args;
pub const Dequantize = quern_dequantize_args;
pub const MoeRoute = quern_moe_route_args;
pub const MoeCombine = quern_moe_combine_args;
pub const MergeStates = quern_merge_states_args;
pub const Rope = quern_rope_args;
pub const KvAppend = quern_kv_append_args;
pub const KvCopyPages = quern_kv_copy_pages_args;
pub const MlaDecode = quern_mla_decode_args;
pub const Rmsnorm = quern_rmsnorm_args;
pub const Sample = quern_sample_args;
pub const Gather = quern_gather_args;
pub const MlaAppend = quern_mla_append_args;
pub const IndexScores = quern_index_scores_args;
pub const Softmax = quern_softmax_args;
pub const Argmax = quern_argmax_args;
pub const TopK = quern_top_k_args;
pub const Renormalise = quern_renormalise_args;
pub const VerifyDraft = quern_verify_draft_args;
pub const Pointwise = quern_pointwise_args;
pub const Copy = quern_copy_args;
pub const Norm = quern_norm_args;
pub const NormBackward = quern_norm_backward_args;
pub const Reduce = quern_reduce_args;
pub const Scatter = quern_scatter_args;
pub const Histogram = quern_histogram_args;
pub const Sort = quern_sort_args;
pub const Conv1d = quern_conv1d_args;
pub const Nms = quern_nms_args;
pub const Conv2d = quern_conv2d_args;
pub const QuantizedGemm = quern_quantized_gemm_args;
pub const Fft = quern_fft_args;

/// The three calls of an op.
pub fn calls(comptime Args: type) type {
    return switch (Args) {
        quern_attention_args => struct {
            pub const run = quern_attention;
            pub const prepare = quern_attention_prepare;
            pub const workspace = quern_attention_workspace;
        },
        quern_merge_state_args => struct {
            pub const run = quern_merge_state;
            pub const prepare = quern_merge_state_prepare;
            pub const workspace = quern_merge_state_workspace;
        },
        quern_fp8_gemm_args => struct {
            pub const run = quern_fp8_gemm;
            pub const prepare = quern_fp8_gemm_prepare;
            pub const workspace = quern_fp8_gemm_workspace;
        },
        quern_grouped_fp8_gemm_args => struct {
            pub const run = quern_grouped_fp8_gemm;
            pub const prepare = quern_grouped_fp8_gemm_prepare;
            pub const workspace = quern_grouped_fp8_gemm_workspace;
        },
        quern_gemm_args => struct {
            pub const run = quern_gemm;
            pub const prepare = quern_gemm_prepare;
            pub const workspace = quern_gemm_workspace;
        },
        quern_quantize_args => struct {
            pub const run = quern_quantize;
            pub const prepare = quern_quantize_prepare;
            pub const workspace = quern_quantize_workspace;
        },
        quern_dequantize_args => struct {
            pub const run = quern_dequantize;
            pub const prepare = quern_dequantize_prepare;
            pub const workspace = quern_dequantize_workspace;
        },
        quern_moe_route_args => struct {
            pub const run = quern_moe_route;
            pub const prepare = quern_moe_route_prepare;
            pub const workspace = quern_moe_route_workspace;
        },
        quern_moe_combine_args => struct {
            pub const run = quern_moe_combine;
            pub const prepare = quern_moe_combine_prepare;
            pub const workspace = quern_moe_combine_workspace;
        },
        quern_merge_states_args => struct {
            pub const run = quern_merge_states;
            pub const prepare = quern_merge_states_prepare;
            pub const workspace = quern_merge_states_workspace;
        },
        quern_rope_args => struct {
            pub const run = quern_rope;
            pub const prepare = quern_rope_prepare;
            pub const workspace = quern_rope_workspace;
        },
        quern_kv_append_args => struct {
            pub const run = quern_kv_append;
            pub const prepare = quern_kv_append_prepare;
            pub const workspace = quern_kv_append_workspace;
        },
        quern_kv_copy_pages_args => struct {
            pub const run = quern_kv_copy_pages;
            pub const prepare = quern_kv_copy_pages_prepare;
            pub const workspace = quern_kv_copy_pages_workspace;
        },
        quern_mla_decode_args => struct {
            pub const run = quern_mla_decode;
            pub const prepare = quern_mla_decode_prepare;
            pub const workspace = quern_mla_decode_workspace;
        },
        quern_rmsnorm_args => struct {
            pub const run = quern_rmsnorm;
            pub const prepare = quern_rmsnorm_prepare;
            pub const workspace = quern_rmsnorm_workspace;
        },
        quern_sample_args => struct {
            pub const run = quern_sample;
            pub const prepare = quern_sample_prepare;
            pub const workspace = quern_sample_workspace;
        },
        quern_gather_args => struct {
            pub const run = quern_gather;
            pub const prepare = quern_gather_prepare;
            pub const workspace = quern_gather_workspace;
        },
        quern_mla_append_args => struct {
            pub const run = quern_mla_append;
            pub const prepare = quern_mla_append_prepare;
            pub const workspace = quern_mla_append_workspace;
        },
        quern_index_scores_args => struct {
            pub const run = quern_index_scores;
            pub const prepare = quern_index_scores_prepare;
            pub const workspace = quern_index_scores_workspace;
        },
        quern_softmax_args => struct {
            pub const run = quern_softmax;
            pub const prepare = quern_softmax_prepare;
            pub const workspace = quern_softmax_workspace;
        },
        quern_argmax_args => struct {
            pub const run = quern_argmax;
            pub const prepare = quern_argmax_prepare;
            pub const workspace = quern_argmax_workspace;
        },
        quern_top_k_args => struct {
            pub const run = quern_top_k;
            pub const prepare = quern_top_k_prepare;
            pub const workspace = quern_top_k_workspace;
        },
        quern_renormalise_args => struct {
            pub const run = quern_renormalise;
            pub const prepare = quern_renormalise_prepare;
            pub const workspace = quern_renormalise_workspace;
        },
        quern_verify_draft_args => struct {
            pub const run = quern_verify_draft;
            pub const prepare = quern_verify_draft_prepare;
            pub const workspace = quern_verify_draft_workspace;
        },
        quern_pointwise_args => struct {
            pub const run = quern_pointwise;
            pub const prepare = quern_pointwise_prepare;
            pub const workspace = quern_pointwise_workspace;
        },
        quern_copy_args => struct {
            pub const run = quern_copy;
            pub const prepare = quern_copy_prepare;
            pub const workspace = quern_copy_workspace;
        },
        quern_norm_args => struct {
            pub const run = quern_norm;
            pub const prepare = quern_norm_prepare;
            pub const workspace = quern_norm_workspace;
        },
        quern_norm_backward_args => struct {
            pub const run = quern_norm_backward;
            pub const prepare = quern_norm_backward_prepare;
            pub const workspace = quern_norm_backward_workspace;
        },
        quern_reduce_args => struct {
            pub const run = quern_reduce;
            pub const prepare = quern_reduce_prepare;
            pub const workspace = quern_reduce_workspace;
        },
        quern_scatter_args => struct {
            pub const run = quern_scatter;
            pub const prepare = quern_scatter_prepare;
            pub const workspace = quern_scatter_workspace;
        },
        quern_histogram_args => struct {
            pub const run = quern_histogram;
            pub const prepare = quern_histogram_prepare;
            pub const workspace = quern_histogram_workspace;
        },
        quern_sort_args => struct {
            pub const run = quern_sort;
            pub const prepare = quern_sort_prepare;
            pub const workspace = quern_sort_workspace;
        },
        quern_conv1d_args => struct {
            pub const run = quern_conv1d;
            pub const prepare = quern_conv1d_prepare;
            pub const workspace = quern_conv1d_workspace;
        },
        quern_nms_args => struct {
            pub const run = quern_nms;
            pub const prepare = quern_nms_prepare;
            pub const workspace = quern_nms_workspace;
        },
        quern_conv2d_args => struct {
            pub const run = quern_conv2d;
            pub const prepare = quern_conv2d_prepare;
            pub const workspace = quern_conv2d_workspace;
        },
        quern_quantized_gemm_args => struct {
            pub const run = quern_quantized_gemm;
            pub const prepare = quern_quantized_gemm_prepare;
            pub const workspace = quern_quantized_gemm_workspace;
        },
        quern_fft_args => struct {
            pub const run = quern_fft;
            pub const prepare = quern_fft_prepare;
            pub const workspace = quern_fft_workspace;
        },
        else => @compileError("no op takes a " ++ @typeName(Args)),
    };
}

/// What a call fails with, but for QUERN_OK.
pub const Error = error{
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
    Unknown,
};

pub fn errorOf(status: i32) Error {
    return switch (status) {
        QUERN_MISS => error.Miss,
        QUERN_PENDING => error.Pending,
        QUERN_INVALID => error.Invalid,
        QUERN_UNSUPPORTED => error.Unsupported,
        QUERN_NOT_FOUND => error.NotFound,
        QUERN_COMPILE => error.Compile,
        QUERN_DRIVER => error.Driver,
        QUERN_STICKY => error.Sticky,
        QUERN_CAPTURING => error.Capturing,
        QUERN_NO_MEMORY => error.NoMemory,
        QUERN_IO => error.Io,
        QUERN_DAMAGED => error.Damaged,
        QUERN_FORKED => error.Forked,
        QUERN_PARTIAL => error.Partial,
        QUERN_INTERNAL => error.Internal,
        QUERN_FAULT => error.Fault,
        else => error.Unknown,
    };
}
