/* quern.h without directives and prose, for FFIs that read declarations alone: cffi, LuaJIT, PHP. Numbers
 * that are macros there are an enum here. Made of quern.h, which has the documentation, by ./dev generate.
 * SPDX-License-Identifier: Apache-2.0 */
enum quern_constants {
  QUERN_VERSION_MAJOR = 0,
  QUERN_VERSION_MINOR = 1,
  QUERN_VERSION_PATCH = 0,
  QUERN_ABI_VERSION = 1
};
enum DLDeviceType {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLCUDAManaged = 13
};
enum DLDataTypeCode {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
  kDLFloat8_e3m4 = 7,
  kDLFloat8_e4m3 = 8,
  kDLFloat8_e4m3b11fnuz = 9,
  kDLFloat8_e4m3fn = 10,
  kDLFloat8_e4m3fnuz = 11,
  kDLFloat8_e5m2 = 12,
  kDLFloat8_e5m2fnuz = 13,
  kDLFloat8_e8m0fnu = 14,
  kDLFloat6_e2m3fn = 15,
  kDLFloat6_e3m2fn = 16,
  kDLFloat4_e2m1fn = 17
};
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;
enum quern_status {
  QUERN_OK = 0,
  QUERN_MISS = 1,
  QUERN_PENDING = 2,
  QUERN_INVALID = 3,
  QUERN_UNSUPPORTED = 4,
  QUERN_NOT_FOUND = 5,
  QUERN_COMPILE = 6,
  QUERN_DRIVER = 7,
  QUERN_STICKY = 8,
  QUERN_CAPTURING = 9,
  QUERN_NO_MEMORY = 10,
  QUERN_IO = 11,
  QUERN_DAMAGED = 12,
  QUERN_FORKED = 13,
  QUERN_PARTIAL = 14,
  QUERN_INTERNAL = 15,
  QUERN_FAULT = 16
};
typedef struct quern_error {
  uint32_t size;
  int32_t status;
  int64_t native;
  char text[4080];
} quern_error;
uint32_t quern_abi_version(void);
const char *quern_version(void);
const char *quern_status_name(int32_t status);
typedef struct quern_context quern_context;
enum quern_miss_policy {
  QUERN_MISS_COMPILE = 0,
  QUERN_MISS_CACHED_ONLY = 1,
  QUERN_MISS_BACKGROUND = 2
};
enum quern_context_flags {
  QUERN_CONTEXT_NO_CACHE = 1,
  QUERN_CONTEXT_READ_ONLY_CACHE = 2,
  QUERN_CONTEXT_SHARED_CACHE = 4,
  QUERN_CONTEXT_NVRTC_IN_HELPER = 8,
  QUERN_CONTEXT_HOST_SEED = 16,
  QUERN_CONTEXT_SIGNED_ONLY = 32,
  QUERN_CONTEXT_CHECKED = 64
};
typedef struct quern_event {
  uint32_t size;
  int32_t kind;
  const char *op;
  const char *target;
  const char *key;
  const char *text;
  double milliseconds;
  int32_t status;
  int32_t reserved;
} quern_event;
enum quern_event_kind {
  QUERN_EVENT_COMPILED = 1,
  QUERN_EVENT_LOADED = 2,
  QUERN_EVENT_FAILED = 3,
  QUERN_EVENT_REJECTED = 4,
  QUERN_EVENT_CACHE = 5,
  QUERN_EVENT_FAULT = 6
};
enum quern_log_level {
  QUERN_LOG_ERROR = 1,
  QUERN_LOG_WARNING = 2,
  QUERN_LOG_INFO = 3,
  QUERN_LOG_DEBUG = 4
};
typedef void (*quern_log_callback)(void *user, int32_t level, const char *text);
typedef void (*quern_event_callback)(void *user, const quern_event *event);
typedef struct quern_context_options {
  uint32_t size;
  uint32_t flags;
  int32_t device_type;
  int32_t device_id;
  int32_t miss_policy;
  int32_t compile_threads;
  const char *target;
  const char *cache_path;
  const char *const *bundles;
  uint64_t bundle_count;
  const char *const *search_dirs;
  uint64_t search_dir_count;
  const char *helper_path;
  const char *host_compiler;
  const char *compiler_pin;
  uint64_t cache_limit;
  uint32_t compile_timeout_ms;
  uint32_t flight_timeout_ms;
  uint64_t host_seed;
  uint32_t host_threads;
  int32_t log_level;
  quern_log_callback log;
  void *log_user;
  quern_event_callback event;
  void *event_user;
  const char *const *trusted_keys;
  uint64_t trusted_key_count;
  const char *cache_key;
  uint64_t max_kernels;
} quern_context_options;
int32_t quern_context_create(const quern_context_options *options, quern_context **context, quern_error
    *error);
void quern_context_destroy(quern_context *context);
typedef struct quern_device_info {
  uint32_t size;
  int32_t device_type;
  int32_t device_id;
  uint32_t warp_size;
  uint32_t sm_count;
  uint32_t shared_per_block;
  uint64_t l2_bytes;
  uint64_t memory_bytes;
  uint32_t driver_version;
  uint32_t reserved;
  char target[16];
  char name[104];
} quern_device_info;
int32_t quern_device(const quern_context *context, quern_device_info *info, quern_error *error);
typedef struct quern_stats {
  uint32_t size;
  uint32_t reserved;
  uint64_t kernels_loaded;
  uint64_t cache_hits;
  uint64_t cache_misses;
  uint64_t compiled;
  uint64_t compile_errors;
  uint64_t rejected;
  uint64_t stored;
  uint64_t store_errors;
  uint64_t flight_waits;
  uint64_t pending;
  double compile_ms;
  double load_ms;
} quern_stats;
int32_t quern_get_stats(const quern_context *context, quern_stats *stats, quern_error *error);
typedef struct quern_list quern_list;
uint64_t quern_list_count(const quern_list *list);
void quern_list_free(quern_list *list);
typedef struct quern_fault {
  uint32_t size;
  uint32_t reserved;
  const char *op;
  const char *argument;
  const char *text;
  uint64_t call;
  int64_t row;
  int64_t column;
  int64_t value;
  int64_t least;
  int64_t most;
} quern_fault;
int32_t quern_faults(quern_context *context, quern_list **faults, uint64_t *total, quern_error *error);
int32_t quern_list_fault(const quern_list *list, uint64_t index, quern_fault *fault);
enum quern_model_flags {
  QUERN_MODEL_SINKS = 1,
  QUERN_MODEL_MLA = 2,
  QUERN_MODEL_GATED_MLP = 4,
  QUERN_MODEL_BLOCK_FP8 = 8,
  QUERN_MODEL_FP8 = 16,
  QUERN_MODEL_BIAS = 32,
  QUERN_MODEL_QK_NORM = 64,
  QUERN_MODEL_ROPE_INTERLEAVED = 128,
  QUERN_MODEL_NO_ROPE = 256,
  QUERN_MODEL_KV_TOKEN_SCALES = 512,
  QUERN_MODEL_LAYER_NORM = 1024,
  QUERN_MODEL_EMBEDDING_SCALE = 2048,
  QUERN_MODEL_FP8_QUERIES = 4096,
  QUERN_MODEL_FP8_LOGITS = 8192
};
typedef struct quern_model {
  uint32_t size;
  uint32_t flags;
  uint32_t tensor_parallel;
  uint32_t hidden_size;
  uint32_t intermediate_size;
  uint32_t layers;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_dim;
  uint32_t v_head_dim;
  uint32_t vocab_size;
  uint32_t max_positions;
  uint32_t sliding_window;
  uint32_t experts;
  uint32_t experts_per_token;
  uint32_t expert_intermediate_size;
  uint32_t kv_lora_rank;
  uint32_t q_lora_rank;
  uint32_t rope_head_dim;
  uint32_t page_size;
  float logit_cap;
  DLDataType dtype;
  DLDataType kv_dtype;
  uint32_t shared_experts;
  int32_t activation;
  uint32_t rotary_dim;
  float final_logit_cap;
  uint32_t index_heads;
  uint32_t index_head_dim;
  uint32_t index_top_k;
} quern_model;
enum quern_warm_flags {
  QUERN_WARM_LIST_ONLY = 1,
  QUERN_WARM_ALLOW_UNSERVED = 2
};
enum quern_warm_outcome {
  QUERN_WARM_HIT = 1,
  QUERN_WARM_COMPILED = 2,
  QUERN_WARM_FAILED = 3,
  QUERN_WARM_ABSENT = 4,
  QUERN_WARM_UNSERVED = 5
};
typedef struct quern_warm_result {
  uint32_t size;
  int32_t outcome;
  int32_t status;
  uint32_t line;
  const char *op;
  const char *target;
  const char *key;
  const char *spec;
  const char *text;
  double milliseconds;
} quern_warm_result;
typedef int32_t (*quern_warm_callback)(void *user, uint64_t done, uint64_t total, const quern_warm_result
    *result);
typedef struct quern_warm_options {
  uint32_t size;
  uint32_t flags;
  const char *const *targets;
  uint64_t target_count;
  const char *manifest;
  uint64_t manifest_length;
  const quern_model *model;
  quern_warm_callback progress;
  void *progress_user;
} quern_warm_options;
int32_t quern_warm(quern_context *context, const quern_warm_options *options, quern_list **results,
    quern_error *error);
int32_t quern_list_warm_result(const quern_list *list, uint64_t index, quern_warm_result *result);
int32_t quern_load(quern_context *context, const quern_warm_options *options, quern_list **results,
    quern_error *error);
int32_t quern_unload(quern_context *context, const char *prefix, uint64_t *count, quern_error *error);
int32_t quern_wait(quern_context *context, uint64_t milliseconds, quern_error *error);
int32_t quern_cancel(quern_context *context, uint64_t *count, quern_error *error);
int32_t quern_manifest(const quern_context *context, char *buffer, uint64_t *length, quern_error *error);
enum quern_tune_flags {
  QUERN_TUNE_AGAIN = 1,
  QUERN_TUNE_LIST_ONLY = 2
};
enum quern_tune_outcome {
  QUERN_TUNE_MEASURED = 1,
  QUERN_TUNE_KNOWN = 2,
  QUERN_TUNE_FAILED = 3,
  QUERN_TUNE_ABSENT = 4
};
typedef struct quern_tune_result {
  uint32_t size;
  int32_t outcome;
  int32_t status;
  uint32_t line;
  const char *op;
  const char *product;
  const char *choice;
  const char *model_choice;
  const char *text;
  int64_t rows;
  double microseconds;
  double model_microseconds;
  uint32_t candidates;
  uint32_t reserved;
} quern_tune_result;
typedef int32_t (*quern_tune_callback)(void *user, uint64_t done, uint64_t total, const quern_tune_result
    *result);
typedef struct quern_tune_options {
  uint32_t size;
  uint32_t flags;
  const char *manifest;
  uint64_t manifest_length;
  const quern_model *model;
  const int64_t *rows;
  uint64_t row_count;
  double milliseconds;
  quern_tune_callback progress;
  void *progress_user;
} quern_tune_options;
int32_t quern_tune(quern_context *context, const quern_tune_options *options, quern_list **results,
    quern_error *error);
int32_t quern_list_tune_result(const quern_list *list, uint64_t index, quern_tune_result *result);
typedef struct quern_entry {
  uint32_t size;
  int32_t layer;
  const char *key;
  const char *op;
  const char *target;
  const char *entry_name;
  const char *text;
  const char *compiler;
  const char *log;
  const void *image;
  uint64_t image_size;
  int64_t created;
  uint64_t last_use;
  double compile_ms;
  int32_t registers;
  int32_t shared_bytes;
  int32_t local_bytes;
  int32_t kind;
} quern_entry;
int32_t quern_cache_list(quern_context *context, const char *prefix, quern_list **entries, quern_error
    *error);
int32_t quern_cache_inspect(quern_context *context, const char *key, quern_list **entry, quern_error *error);
int32_t quern_list_entry(const quern_list *list, uint64_t index, quern_entry *entry);
typedef struct quern_finding {
  uint32_t size;
  int32_t status;
  const char *what;
  const char *text;
  const char *hint;
} quern_finding;
int32_t quern_cache_verify(quern_context *context, quern_list **findings, quern_error *error);
typedef struct quern_trim_options {
  uint32_t size;
  uint32_t flags;
  uint64_t limit;
} quern_trim_options;
enum quern_trim_flags {
  QUERN_TRIM_REBUILD = 1,
  QUERN_TRIM_ALL = 2
};
typedef struct quern_trim_result {
  uint32_t size;
  uint32_t reserved;
  uint64_t removed;
  uint64_t kept;
  uint64_t bytes_before;
  uint64_t bytes_after;
} quern_trim_result;
int32_t quern_cache_trim(quern_context *context, const quern_trim_options *options, quern_trim_result *result,
    quern_error *error);
int32_t quern_cache_export(quern_context *context, const char *path, const char *prefix, uint64_t *count,
    quern_error *error);
int32_t quern_cache_import(quern_context *context, const char *path, uint64_t *count, quern_error *error);
int32_t quern_keys_make(char *secret_key, char *public_key, quern_error *error);
int32_t quern_keys_public(const char *secret_key, char *public_key, quern_error *error);
int32_t quern_bundle_sign(const char *path, const char *secret_key, quern_error *error);
typedef struct quern_cache_stats {
  uint32_t size;
  int32_t state;
  uint64_t entries;
  uint64_t image_bytes;
  uint64_t file_bytes;
  uint64_t limit;
  uint64_t bundles;
  uint64_t bundle_entries;
  char path[2048];
  char reason[504];
} quern_cache_stats;
enum quern_cache_state {
  QUERN_CACHE_READY = 0,
  QUERN_CACHE_READ_ONLY = 1,
  QUERN_CACHE_OFF = 2,
  QUERN_CACHE_DAMAGED = 3,
  QUERN_CACHE_REFUSED = 4
};
int32_t quern_cache_get_stats(quern_context *context, quern_cache_stats *stats, quern_error *error);
int32_t quern_doctor(quern_context *context, quern_list **findings, quern_error *error);
int32_t quern_failures(quern_context *context, quern_list **findings, quern_error *error);
int32_t quern_list_finding(const quern_list *list, uint64_t index, quern_finding *finding);
enum quern_verify_outcome {
  QUERN_VERIFY_AGREES = 1,
  QUERN_VERIFY_DIFFERS = 2,
  QUERN_VERIFY_FAILED = 3,
  QUERN_VERIFY_NOT_RUN = 4
};
typedef struct quern_verify_result {
  uint32_t size;
  int32_t outcome;
  int32_t status;
  uint32_t trials;
  const char *op;
  const char *target;
  const char *key;
  const char *spec;
  const char *text;
  double error;
  double truth_error;
  double milliseconds;
} quern_verify_result;
typedef int32_t (*quern_verify_callback)(void *user, uint64_t done, uint64_t total, const quern_verify_result
    *result);
typedef struct quern_verify_options {
  uint32_t size;
  uint32_t flags;
  const char *prefix;
  uint64_t seed;
  quern_verify_callback progress;
  void *progress_user;
} quern_verify_options;
int32_t quern_verify(quern_context *context, const quern_verify_options *options, quern_list **results,
    quern_error *error);
int32_t quern_list_verify_result(const quern_list *list, uint64_t index, quern_verify_result *result);
enum quern_call_flags {
  QUERN_CALL_BATCH_INVARIANT = 1,
  QUERN_CALL_PROGRAMMATIC = 2,
  QUERN_CALL_CACHED_ONLY = 4,
  QUERN_CALL_BACKGROUND = 8
};
enum quern_attention_flags {
  QUERN_ATTENTION_CAUSAL = 65536,
  QUERN_ATTENTION_WINDOW_LEFT = 131072,
  QUERN_ATTENTION_WINDOW_RIGHT = 262144,
  QUERN_ATTENTION_CONSTANT_PAST = 524288
};
typedef struct quern_attention_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *q;
  const DLTensor *k;
  const DLTensor *v;
  const DLTensor *out;
  const DLTensor *lse;
  const DLTensor *lengths;
  const DLTensor *cu_q;
  const DLTensor *page_table;
  const DLTensor *page_indptr;
  const DLTensor *page_indices;
  const DLTensor *cu_kv;
  const DLTensor *alibi_slopes;
  const DLTensor *sinks;
  int32_t max_q_len;
  int32_t max_kv_len;
  int32_t window_left;
  int32_t window_right;
  float scale;
  float logit_cap;
  const DLTensor *q_scale;
  const DLTensor *k_scale;
  const DLTensor *v_scale;
  const DLTensor *mask;
  const DLTensor *mask_indptr;
  const DLTensor *mask_keys;
  int32_t q_type;
  int32_t kv_type;
  const DLTensor *out_scale;
  int32_t out_type;
  uint32_t reserved;
} quern_attention_args;
typedef struct quern_merge_state_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *out_a;
  const DLTensor *lse_a;
  const DLTensor *out_b;
  const DLTensor *lse_b;
  const DLTensor *out;
  const DLTensor *lse;
} quern_merge_state_args;
enum quern_mla_flags {
  QUERN_MLA_CAUSAL = 65536,
  QUERN_MLA_WINDOW_LEFT = 131072,
  QUERN_MLA_WINDOW_RIGHT = 262144,
  QUERN_MLA_SLOTS = 524288
};
enum quern_mla_cache {
  QUERN_MLA_CACHE_AS_TENSOR = 0,
  QUERN_MLA_CACHE_E4M3 = 1,
  QUERN_MLA_CACHE_ROWS_656 = 2
};
enum quern_mla_status {
  QUERN_MLA_STATUS_LENGTH = 1,
  QUERN_MLA_STATUS_PAGE = 2,
  QUERN_MLA_STATUS_INDEX = 4,
  QUERN_MLA_STATUS_QUERIES = 8
};
typedef struct quern_mla_decode_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *q;
  const DLTensor *q_rope;
  const DLTensor *cache;
  const DLTensor *cache_rope;
  const DLTensor *cache_scale;
  const DLTensor *out;
  const DLTensor *lse;
  const DLTensor *lengths;
  const DLTensor *cu_q;
  const DLTensor *page_table;
  const DLTensor *page_indptr;
  const DLTensor *page_indices;
  const DLTensor *indices;
  const DLTensor *sinks;
  const DLTensor *status;
  int32_t max_q_len;
  int32_t max_kv_len;
  int32_t window_left;
  int32_t window_right;
  int32_t cache_type;
  float scale;
  float logit_cap;
} quern_mla_decode_args;
typedef struct quern_merge_states_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *parts;
  const DLTensor *part_lses;
  const DLTensor *out;
  const DLTensor *lse;
} quern_merge_states_args;
enum quern_rope_scaling {
  QUERN_ROPE_PLAIN = 0,
  QUERN_ROPE_LINEAR = 1,
  QUERN_ROPE_NTK = 2,
  QUERN_ROPE_YARN = 3,
  QUERN_ROPE_LLAMA3 = 4
};
enum quern_rope_flags {
  QUERN_ROPE_INTERLEAVED = 1,
  QUERN_ROPE_EXACT_RAMP = 2
};
typedef struct quern_rope_options {
  uint32_t size;
  uint32_t flags;
  int32_t scaling;
  int32_t rotary_dim;
  double theta;
  double factor;
  double attention_factor;
  double low_freq_factor;
  double high_freq_factor;
  double beta_fast;
  double beta_slow;
  int32_t original_positions;
  int32_t reserved;
  const DLTensor *table;
} quern_rope_options;
typedef struct quern_rope_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *q;
  const DLTensor *k;
  const DLTensor *q_out;
  const DLTensor *k_out;
  const DLTensor *positions;
  const quern_rope_options *rope;
} quern_rope_args;
enum quern_kv_append_flags {
  QUERN_KV_APPEND_WEIGHT_PLUS_ONE = 65536
};
typedef struct quern_kv_append_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *k;
  const DLTensor *v;
  const DLTensor *k_cache;
  const DLTensor *v_cache;
  const DLTensor *k_scale;
  const DLTensor *v_scale;
  const DLTensor *slots;
  const DLTensor *page_table;
  const DLTensor *page_indptr;
  const DLTensor *page_indices;
  const DLTensor *cu_q;
  const DLTensor *lengths;
  const DLTensor *positions;
  const DLTensor *q;
  const DLTensor *q_out;
  const DLTensor *q_scale;
  const DLTensor *q_weight;
  const DLTensor *k_weight;
  const quern_rope_options *rope;
  float eps;
  int32_t q_type;
  int32_t kv_type;
  int32_t reserved;
} quern_kv_append_args;
typedef struct quern_kv_copy_pages_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *k;
  const DLTensor *v;
  const DLTensor *k_to;
  const DLTensor *v_to;
  const DLTensor *k_scale;
  const DLTensor *v_scale;
  const DLTensor *k_scale_to;
  const DLTensor *v_scale_to;
  const DLTensor *sources;
  const DLTensor *destinations;
} quern_kv_copy_pages_args;
typedef struct quern_expression quern_expression;
int32_t quern_expression_create(quern_context *context, const char *text, const quern_expression **expression,
    quern_error *error);
enum quern_activation {
  QUERN_ACTIVATION_DEFAULT = 0,
  QUERN_ACTIVATION_RELU = 1,
  QUERN_ACTIVATION_GELU = 2,
  QUERN_ACTIVATION_GELU_TANH = 3,
  QUERN_ACTIVATION_SILU = 4,
  QUERN_ACTIVATION_NONE = 5
};
enum quern_epilogue_flags {
  QUERN_EPILOGUE_GATE = 1,
  QUERN_EPILOGUE_POWER_OF_TWO = 2
};
typedef struct quern_epilogue {
  uint32_t size;
  uint32_t flags;
  int32_t activation;
  uint32_t operand_count;
  uint32_t scalar_count;
  uint32_t reserved;
  const DLTensor *bias;
  const DLTensor *c;
  const quern_expression *expression;
  const DLTensor *const *operands;
  const float *scalars;
  const DLTensor *out_scale;
} quern_epilogue;
enum quern_fp8 {
  QUERN_FP8_AS_TENSOR = 0,
  QUERN_FP8_E4M3 = 1,
  QUERN_FP8_E5M2 = 2
};
typedef struct quern_fp8_gemm_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;
  const DLTensor *b;
  const DLTensor *scale_a;
  const DLTensor *scale_b;
  const DLTensor *out;
  const quern_epilogue *epilogue;
  int32_t a_type;
  int32_t b_type;
} quern_fp8_gemm_args;
enum quern_group_status {
  QUERN_GROUP_OFFSETS = 1,
  QUERN_GROUP_CAPACITY = 2,
  QUERN_GROUP_INDEX = 4
};
typedef struct quern_grouped_fp8_gemm_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;
  const DLTensor *b;
  const DLTensor *scale_a;
  const DLTensor *scale_b;
  const DLTensor *out;
  const DLTensor *offsets;
  const DLTensor *counts;
  const DLTensor *indices;
  const DLTensor *status;
  const quern_epilogue *epilogue;
  int32_t a_type;
  int32_t b_type;
  int32_t expected_rows;
  int32_t reserved;
} quern_grouped_fp8_gemm_args;
enum quern_gemm_flags {
  QUERN_GEMM_TF32 = 65536,
  QUERN_GEMM_CONSTANT_B = 131072
};
typedef struct quern_gemm_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;
  const DLTensor *b;
  const DLTensor *out;
  const quern_epilogue *epilogue;
} quern_gemm_args;
enum quern_quantized_format {
  QUERN_QUANTIZED_AS_TENSOR = 0,
  QUERN_QUANTIZED_E4M3 = 1,
  QUERN_QUANTIZED_INT4 = 2,
  QUERN_QUANTIZED_UINT4 = 3,
  QUERN_QUANTIZED_E2M1 = 4
};
enum quern_quantized_scale {
  QUERN_QUANTIZED_SCALE_AS_TENSOR = 0,
  QUERN_QUANTIZED_SCALE_E4M3 = 1,
  QUERN_QUANTIZED_SCALE_UE8M0 = 2
};
typedef struct quern_quantized_gemm_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;
  const DLTensor *b;
  const DLTensor *scale_a;
  const DLTensor *scale_b;
  const DLTensor *zero_b;
  const DLTensor *tensor_scale_a;
  const DLTensor *tensor_scale_b;
  const DLTensor *out;
  const quern_epilogue *epilogue;
  int32_t a_format;
  int32_t b_format;
  int32_t scale_a_type;
  int32_t scale_b_type;
} quern_quantized_gemm_args;
enum quern_quantize_front {
  QUERN_FRONT_NONE = 0,
  QUERN_FRONT_RMSNORM = 1,
  QUERN_FRONT_LAYERNORM = 2,
  QUERN_FRONT_SILU_MUL = 3,
  QUERN_FRONT_GELU_MUL = 4,
  QUERN_FRONT_GELU_TANH_MUL = 5
};
enum quern_scale_kind {
  QUERN_SCALE_NONE = 0,
  QUERN_SCALE_STATIC = 1,
  QUERN_SCALE_TENSOR = 2,
  QUERN_SCALE_TOKEN = 3,
  QUERN_SCALE_GROUP = 4,
  QUERN_SCALE_BLOCK = 5
};
enum quern_quantize_flags {
  QUERN_QUANTIZE_POWER_OF_TWO = 65536,
  QUERN_QUANTIZE_WEIGHT_PLUS_ONE = 131072
};
typedef struct quern_quantize_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *out;
  const DLTensor *scale;
  const DLTensor *residual;
  const DLTensor *residual_out;
  const DLTensor *weight;
  const DLTensor *bias;
  const DLTensor *dense;
  int32_t front;
  int32_t scale_kind;
  int32_t type;
  float eps;
} quern_quantize_args;
typedef struct quern_dequantize_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *scale;
  const DLTensor *out;
  int32_t scale_kind;
  int32_t type;
} quern_dequantize_args;
enum quern_moe_flags {
  QUERN_MOE_SIGMOID = 65536,
  QUERN_MOE_RENORMALIZE = 131072
};
typedef struct quern_moe_route_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits;
  const DLTensor *bias;
  const DLTensor *weights;
  const DLTensor *ids;
  const DLTensor *offsets;
  const DLTensor *indices;
  const DLTensor *positions;
  const DLTensor *counts;
  int32_t top_k;
  int32_t groups;
  int32_t top_groups;
  int32_t first_expert;
  int32_t local_experts;
  float scale;
} quern_moe_route_args;
typedef struct quern_moe_combine_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *positions;
  const DLTensor *weights;
  const DLTensor *add;
  const DLTensor *out;
} quern_moe_combine_args;
enum quern_rmsnorm_flags {
  QUERN_RMSNORM_WEIGHT_PLUS_ONE = 65536,
  QUERN_RMSNORM_CONSTANT_WEIGHT = 131072
};
typedef struct quern_rmsnorm_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *residual;
  const DLTensor *weight;
  const DLTensor *out;
  const DLTensor *residual_out;
  float eps;
  int32_t reserved;
} quern_rmsnorm_args;
enum quern_gather_flags {
  QUERN_GATHER_HAS_PADDING = 65536,
  QUERN_GATHER_SHARD = 131072
};
typedef struct quern_gather_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *table;
  const DLTensor *ids;
  const DLTensor *out;
  int64_t first;
  int64_t padding;
  float scale;
  int32_t reserved;
} quern_gather_args;
enum quern_sample_flags {
  QUERN_SAMPLE_TEMPERATURE = 65536,
  QUERN_SAMPLE_TOP_P = 131072,
  QUERN_SAMPLE_TYPICAL_P = 262144,
  QUERN_SAMPLE_JOINT = 524288,
  QUERN_SAMPLE_TEMPERATURE_LAST = 1048576,
  QUERN_SAMPLE_LOGPROBS_FILTERED = 2097152
};
enum quern_sample_status {
  QUERN_SAMPLE_EMPTY = 1,
  QUERN_SAMPLE_NAN = 2,
  QUERN_SAMPLE_PARAMETER = 4,
  QUERN_SAMPLE_INDEX = 8,
  QUERN_SAMPLE_CAPACITY = 16
};
typedef struct quern_sample_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits;
  const DLTensor *rows;
  const DLTensor *ids;
  const DLTensor *logprobs;
  const DLTensor *top_ids;
  const DLTensor *top_logprobs;
  const DLTensor *status;
  const DLTensor *seeds;
  const DLTensor *offsets;
  const DLTensor *temperatures;
  const DLTensor *top_ks;
  const DLTensor *top_ps;
  const DLTensor *min_ps;
  const DLTensor *typical_ps;
  const DLTensor *n_sigmas;
  const DLTensor *xtc_probabilities;
  const DLTensor *xtc_thresholds;
  const DLTensor *dynamic_ranges;
  const DLTensor *dynamic_exponents;
  const DLTensor *repetitions;
  const DLTensor *presences;
  const DLTensor *frequencies;
  const DLTensor *prompt_mask;
  const DLTensor *prompt_tokens;
  const DLTensor *prompt_lengths;
  const DLTensor *output_counts;
  const DLTensor *output_tokens;
  const DLTensor *output_lengths;
  const DLTensor *bias_offsets;
  const DLTensor *bias_ids;
  const DLTensor *bias_values;
  const DLTensor *allowed;
  const DLTensor *banned;
  uint64_t seed;
  uint64_t offset;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
  float typical_p;
  float n_sigma;
  float xtc_probability;
  float xtc_threshold;
  float dynamic_range;
  float dynamic_exponent;
  float repetition;
  float presence;
  float frequency;
  int32_t max_bias;
} quern_sample_args;
enum quern_mla_append_flags {
  QUERN_MLA_APPEND_POWER_OF_TWO = 65536
};
typedef struct quern_mla_append_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *kv;
  const DLTensor *k_rope;
  const DLTensor *weight;
  const DLTensor *cache;
  const DLTensor *cache_rope;
  const DLTensor *cache_scale;
  const DLTensor *slots;
  const DLTensor *page_table;
  const DLTensor *page_indptr;
  const DLTensor *page_indices;
  const DLTensor *cu_q;
  const DLTensor *lengths;
  const DLTensor *positions;
  const DLTensor *q_rope;
  const DLTensor *q_rope_out;
  const DLTensor *kv_out;
  const DLTensor *k_rope_out;
  const DLTensor *status;
  const quern_rope_options *rope;
  float eps;
  int32_t d_rope;
  int32_t cache_type;
  int32_t reserved;
} quern_mla_append_args;
enum quern_index_scores_flags {
  QUERN_INDEX_SCORES_CAUSAL = 65536,
  QUERN_INDEX_SCORES_LEAVE_MASKED = 131072
};
typedef struct quern_index_scores_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *q;
  const DLTensor *q_scale;
  const DLTensor *weights;
  const DLTensor *k;
  const DLTensor *k_scale;
  const DLTensor *out;
  const DLTensor *lengths;
  const DLTensor *cu_q;
  const DLTensor *page_table;
  const DLTensor *page_indptr;
  const DLTensor *page_indices;
  const DLTensor *cu_kv;
  const DLTensor *status;
  int32_t max_q_len;
  int32_t q_type;
} quern_index_scores_args;
enum quern_softmax_flags {
  QUERN_SOFTMAX_TEMPERATURE = 65536,
  QUERN_SOFTMAX_LOG = 131072
};
typedef struct quern_softmax_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits;
  const DLTensor *temperatures;
  const DLTensor *out;
  const DLTensor *status;
  float temperature;
  int32_t reserved;
} quern_softmax_args;
typedef struct quern_argmax_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits;
  const DLTensor *ids;
  const DLTensor *values;
} quern_argmax_args;
enum quern_top_k_flags {
  QUERN_TOP_K_SORTED = 65536
};
typedef struct quern_top_k_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *lengths;
  const DLTensor *ids;
  const DLTensor *values;
} quern_top_k_args;
enum quern_renormalise_flags {
  QUERN_RENORMALISE_TOP_P = 65536,
  QUERN_RENORMALISE_JOINT = 131072
};
typedef struct quern_renormalise_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *probs;
  const DLTensor *out;
  const DLTensor *status;
  const DLTensor *top_ks;
  const DLTensor *top_ps;
  const DLTensor *min_ps;
  int32_t top_k;
  float top_p;
  float min_p;
  int32_t reserved;
} quern_renormalise_args;
enum quern_verify_flags {
  QUERN_VERIFY_TEMPERATURE = 65536,
  QUERN_VERIFY_TOP_P = 131072,
  QUERN_VERIFY_JOINT = 262144,
  QUERN_VERIFY_LOGITS = 524288,
  QUERN_VERIFY_GREEDY = 1048576,
  QUERN_VERIFY_WITHOUT_REPLACEMENT = 2097152,
  QUERN_VERIFY_LOGPROBS_FILTERED = 4194304
};
typedef struct quern_verify_draft_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *target;
  const DLTensor *draft;
  const DLTensor *draft_ids;
  const DLTensor *parents;
  const DLTensor *lengths;
  const DLTensor *accepted;
  const DLTensor *ids;
  const DLTensor *path;
  const DLTensor *status;
  const DLTensor *seeds;
  const DLTensor *offsets;
  const DLTensor *temperatures;
  const DLTensor *top_ks;
  const DLTensor *top_ps;
  const DLTensor *min_ps;
  uint64_t seed;
  uint64_t offset;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
  const DLTensor *logprobs;
  const DLTensor *repetitions;
  const DLTensor *presences;
  const DLTensor *frequencies;
  const DLTensor *prompt_mask;
  const DLTensor *prompt_tokens;
  const DLTensor *prompt_lengths;
  const DLTensor *output_counts;
  const DLTensor *output_tokens;
  const DLTensor *output_lengths;
  const DLTensor *bias_offsets;
  const DLTensor *bias_ids;
  const DLTensor *bias_values;
  const DLTensor *allowed;
  const DLTensor *banned;
  float repetition;
  float presence;
  float frequency;
  int32_t max_bias;
} quern_verify_draft_args;
typedef struct quern_pointwise_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *const *operands;
  const DLTensor *out;
  const DLTensor *out1;
  const DLTensor *out2;
  const DLTensor *out3;
  const quern_expression *expression;
  const quern_expression *expression1;
  const quern_expression *expression2;
  const quern_expression *expression3;
  const float *scalars;
  uint32_t operand_count;
  uint32_t scalar_count;
} quern_pointwise_args;
typedef struct quern_copy_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *const *inputs;
  const DLTensor *const *outputs;
  uint32_t input_count;
  uint32_t output_count;
  double fill;
} quern_copy_args;
enum quern_norm_kind {
  QUERN_NORM_LAYER = 0,
  QUERN_NORM_RMS = 1,
  QUERN_NORM_L2 = 2,
  QUERN_NORM_GROUP = 3
};
enum quern_norm_flags {
  QUERN_NORM_WEIGHT_PLUS_ONE = 65536,
  QUERN_NORM_SCALE_ALONE = 131072,
  QUERN_NORM_POWER_OF_TWO = 262144
};
typedef struct quern_norm_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *residual;
  const DLTensor *weight;
  const DLTensor *bias;
  const DLTensor *scale;
  const DLTensor *shift;
  const DLTensor *out;
  const DLTensor *residual_out;
  const DLTensor *out_scale;
  const DLTensor *dense;
  int32_t kind;
  int32_t groups;
  int32_t scale_kind;
  int32_t type;
  float eps;
  int32_t reserved;
} quern_norm_args;
enum quern_norm_backward_flags {
  QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE = 65536
};
typedef struct quern_norm_backward_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *dout;
  const DLTensor *x;
  const DLTensor *weight;
  const DLTensor *add;
  const DLTensor *dx;
  const DLTensor *dweight;
  const DLTensor *dbias;
  int32_t kind;
  float eps;
} quern_norm_backward_args;
enum quern_reduction {
  QUERN_REDUCE_SUM = 0,
  QUERN_REDUCE_MEAN = 1,
  QUERN_REDUCE_MAX = 2,
  QUERN_REDUCE_MIN = 3,
  QUERN_REDUCE_ARGMAX = 4,
  QUERN_REDUCE_ARGMIN = 5,
  QUERN_REDUCE_L2 = 6,
  QUERN_REDUCE_DOT = 7,
  QUERN_REDUCE_LOGSUMEXP = 8,
  QUERN_REDUCE_ANY = 9,
  QUERN_REDUCE_ALL = 10
};
enum quern_reduce_flags {
  QUERN_REDUCE_F16_SUMS = 65536
};
typedef struct quern_reduce_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *y;
  const quern_expression *before;
  const DLTensor *out;
  const DLTensor *out1;
  const DLTensor *out2;
  const DLTensor *out3;
  const quern_expression *after;
  const quern_expression *after1;
  const quern_expression *after2;
  const quern_expression *after3;
  const float *scalars;
  uint32_t scalar_count;
  uint32_t axes;
  int32_t reduction;
  int32_t reduction1;
  int32_t reduction2;
  int32_t reduction3;
  int32_t type;
  int32_t reserved;
} quern_reduce_args;
enum quern_scatter_flags {
  QUERN_SCATTER_ADD = 65536,
  QUERN_SCATTER_HAS_PADDING = 131072,
  QUERN_SCATTER_SHARD = 262144,
  QUERN_SCATTER_UNIQUE = 524288
};
typedef struct quern_scatter_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *ids;
  const DLTensor *out;
  int64_t first;
  int64_t padding;
  float scale;
  int32_t reserved;
} quern_scatter_args;
enum quern_histogram_flags {
  QUERN_HISTOGRAM_ACCUMULATE = 65536,
  QUERN_HISTOGRAM_CLAMP = 131072
};
typedef struct quern_histogram_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *counts;
  int64_t first;
  float low, high;
} quern_histogram_args;
enum quern_sort_flags {
  QUERN_SORT_DESCENDING = 65536
};
typedef struct quern_sort_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *keys;
  const DLTensor *values;
  const DLTensor *offsets;
  const DLTensor *keys_out;
  const DLTensor *values_out;
  int64_t max_segment;
} quern_sort_args;
enum quern_conv1d_flags {
  QUERN_CONV1D_SILU = 65536
};
typedef struct quern_conv1d_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *weight;
  const DLTensor *bias;
  const DLTensor *offsets;
  const DLTensor *state;
  const DLTensor *state_ids;
  const DLTensor *has_state;
  const DLTensor *out;
  int32_t stride;
  int32_t dilation;
  int32_t groups;
  int32_t pad_begin;
  int32_t pad_end;
  int32_t reserved;
} quern_conv1d_args;
typedef struct quern_conv2d_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *weight;
  const DLTensor *bias;
  const DLTensor *out;
  int32_t stride_h;
  int32_t stride_w;
  int32_t dilation_h;
  int32_t dilation_w;
  int32_t groups;
  int32_t pad_top;
  int32_t pad_bottom;
  int32_t pad_left;
  int32_t pad_right;
  int32_t activation;
} quern_conv2d_args;
enum quern_fft_kind {
  QUERN_FFT_FORWARD = 0,
  QUERN_FFT_INVERSE = 1,
  QUERN_FFT_REAL = 2,
  QUERN_FFT_TO_REAL = 3
};
enum quern_fft_result {
  QUERN_FFT_COMPLEX = 0,
  QUERN_FFT_POWER = 1,
  QUERN_FFT_MAGNITUDE = 2
};
enum quern_fft_scaling {
  QUERN_FFT_UNSCALED = 0,
  QUERN_FFT_BY_N = 1,
  QUERN_FFT_BY_ROOT = 2
};
enum quern_fft_padding {
  QUERN_FFT_ZEROS = 0,
  QUERN_FFT_REFLECT = 1
};
typedef struct quern_fft_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;
  const DLTensor *window;
  const DLTensor *out;
  int32_t n;
  int32_t kind;
  int32_t result;
  int32_t scaling;
  int32_t hop;
  int32_t pad_begin;
  int32_t pad_end;
  int32_t padding;
} quern_fft_args;
enum quern_nms_flags {
  QUERN_NMS_SCORE_THRESHOLD = 65536
};
typedef struct quern_nms_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *boxes;
  const DLTensor *scores;
  const DLTensor *classes;
  const DLTensor *lengths;
  const DLTensor *ids;
  const DLTensor *counts;
  float iou_threshold;
  float score_threshold;
} quern_nms_args;
int32_t quern_attention_workspace(quern_context *context, const quern_attention_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_attention_prepare(quern_context *context, const quern_attention_args *args, quern_error *error);
int32_t quern_attention(quern_context *context, const quern_attention_args *args, quern_error *error);
int32_t quern_merge_state_workspace(quern_context *context, const quern_merge_state_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_merge_state_prepare(quern_context *context, const quern_merge_state_args *args, quern_error
    *error);
int32_t quern_merge_state(quern_context *context, const quern_merge_state_args *args, quern_error *error);
int32_t quern_fp8_gemm_workspace(quern_context *context, const quern_fp8_gemm_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_fp8_gemm_prepare(quern_context *context, const quern_fp8_gemm_args *args, quern_error *error);
int32_t quern_fp8_gemm(quern_context *context, const quern_fp8_gemm_args *args, quern_error *error);
int32_t quern_grouped_fp8_gemm_workspace(quern_context *context, const quern_grouped_fp8_gemm_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_grouped_fp8_gemm_prepare(quern_context *context, const quern_grouped_fp8_gemm_args *args,
    quern_error *error);
int32_t quern_grouped_fp8_gemm(quern_context *context, const quern_grouped_fp8_gemm_args *args, quern_error
    *error);
int32_t quern_gemm_workspace(quern_context *context, const quern_gemm_args *args, uint64_t *bytes, quern_error
    *error);
int32_t quern_gemm_prepare(quern_context *context, const quern_gemm_args *args, quern_error *error);
int32_t quern_gemm(quern_context *context, const quern_gemm_args *args, quern_error *error);
int32_t quern_quantize_workspace(quern_context *context, const quern_quantize_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_quantize_prepare(quern_context *context, const quern_quantize_args *args, quern_error *error);
int32_t quern_quantize(quern_context *context, const quern_quantize_args *args, quern_error *error);
int32_t quern_dequantize_workspace(quern_context *context, const quern_dequantize_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_dequantize_prepare(quern_context *context, const quern_dequantize_args *args, quern_error
    *error);
int32_t quern_dequantize(quern_context *context, const quern_dequantize_args *args, quern_error *error);
int32_t quern_moe_route_workspace(quern_context *context, const quern_moe_route_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_moe_route_prepare(quern_context *context, const quern_moe_route_args *args, quern_error *error);
int32_t quern_moe_route(quern_context *context, const quern_moe_route_args *args, quern_error *error);
int32_t quern_moe_combine_workspace(quern_context *context, const quern_moe_combine_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_moe_combine_prepare(quern_context *context, const quern_moe_combine_args *args, quern_error
    *error);
int32_t quern_moe_combine(quern_context *context, const quern_moe_combine_args *args, quern_error *error);
int32_t quern_merge_states_workspace(quern_context *context, const quern_merge_states_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_merge_states_prepare(quern_context *context, const quern_merge_states_args *args, quern_error
    *error);
int32_t quern_merge_states(quern_context *context, const quern_merge_states_args *args, quern_error *error);
int32_t quern_rope_workspace(quern_context *context, const quern_rope_args *args, uint64_t *bytes, quern_error
    *error);
int32_t quern_rope_prepare(quern_context *context, const quern_rope_args *args, quern_error *error);
int32_t quern_rope(quern_context *context, const quern_rope_args *args, quern_error *error);
int32_t quern_kv_append_workspace(quern_context *context, const quern_kv_append_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_kv_append_prepare(quern_context *context, const quern_kv_append_args *args, quern_error *error);
int32_t quern_kv_append(quern_context *context, const quern_kv_append_args *args, quern_error *error);
int32_t quern_kv_copy_pages_workspace(quern_context *context, const quern_kv_copy_pages_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_kv_copy_pages_prepare(quern_context *context, const quern_kv_copy_pages_args *args, quern_error
    *error);
int32_t quern_kv_copy_pages(quern_context *context, const quern_kv_copy_pages_args *args, quern_error *error);
int32_t quern_mla_decode_workspace(quern_context *context, const quern_mla_decode_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_mla_decode_prepare(quern_context *context, const quern_mla_decode_args *args, quern_error
    *error);
int32_t quern_mla_decode(quern_context *context, const quern_mla_decode_args *args, quern_error *error);
int32_t quern_rmsnorm_workspace(quern_context *context, const quern_rmsnorm_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_rmsnorm_prepare(quern_context *context, const quern_rmsnorm_args *args, quern_error *error);
int32_t quern_rmsnorm(quern_context *context, const quern_rmsnorm_args *args, quern_error *error);
int32_t quern_sample_workspace(quern_context *context, const quern_sample_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_sample_prepare(quern_context *context, const quern_sample_args *args, quern_error *error);
int32_t quern_sample(quern_context *context, const quern_sample_args *args, quern_error *error);
int32_t quern_gather_workspace(quern_context *context, const quern_gather_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_gather_prepare(quern_context *context, const quern_gather_args *args, quern_error *error);
int32_t quern_gather(quern_context *context, const quern_gather_args *args, quern_error *error);
int32_t quern_mla_append_workspace(quern_context *context, const quern_mla_append_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_mla_append_prepare(quern_context *context, const quern_mla_append_args *args, quern_error
    *error);
int32_t quern_mla_append(quern_context *context, const quern_mla_append_args *args, quern_error *error);
int32_t quern_index_scores_workspace(quern_context *context, const quern_index_scores_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_index_scores_prepare(quern_context *context, const quern_index_scores_args *args, quern_error
    *error);
int32_t quern_index_scores(quern_context *context, const quern_index_scores_args *args, quern_error *error);
int32_t quern_softmax_workspace(quern_context *context, const quern_softmax_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_softmax_prepare(quern_context *context, const quern_softmax_args *args, quern_error *error);
int32_t quern_softmax(quern_context *context, const quern_softmax_args *args, quern_error *error);
int32_t quern_argmax_workspace(quern_context *context, const quern_argmax_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_argmax_prepare(quern_context *context, const quern_argmax_args *args, quern_error *error);
int32_t quern_argmax(quern_context *context, const quern_argmax_args *args, quern_error *error);
int32_t quern_top_k_workspace(quern_context *context, const quern_top_k_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_top_k_prepare(quern_context *context, const quern_top_k_args *args, quern_error *error);
int32_t quern_top_k(quern_context *context, const quern_top_k_args *args, quern_error *error);
int32_t quern_renormalise_workspace(quern_context *context, const quern_renormalise_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_renormalise_prepare(quern_context *context, const quern_renormalise_args *args, quern_error
    *error);
int32_t quern_renormalise(quern_context *context, const quern_renormalise_args *args, quern_error *error);
int32_t quern_verify_draft_workspace(quern_context *context, const quern_verify_draft_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_verify_draft_prepare(quern_context *context, const quern_verify_draft_args *args, quern_error
    *error);
int32_t quern_verify_draft(quern_context *context, const quern_verify_draft_args *args, quern_error *error);
int32_t quern_pointwise_workspace(quern_context *context, const quern_pointwise_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_pointwise_prepare(quern_context *context, const quern_pointwise_args *args, quern_error *error);
int32_t quern_pointwise(quern_context *context, const quern_pointwise_args *args, quern_error *error);
int32_t quern_copy_workspace(quern_context *context, const quern_copy_args *args, uint64_t *bytes, quern_error
    *error);
int32_t quern_copy_prepare(quern_context *context, const quern_copy_args *args, quern_error *error);
int32_t quern_copy(quern_context *context, const quern_copy_args *args, quern_error *error);
int32_t quern_norm_workspace(quern_context *context, const quern_norm_args *args, uint64_t *bytes, quern_error
    *error);
int32_t quern_norm_prepare(quern_context *context, const quern_norm_args *args, quern_error *error);
int32_t quern_norm(quern_context *context, const quern_norm_args *args, quern_error *error);
int32_t quern_norm_backward_workspace(quern_context *context, const quern_norm_backward_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_norm_backward_prepare(quern_context *context, const quern_norm_backward_args *args, quern_error
    *error);
int32_t quern_norm_backward(quern_context *context, const quern_norm_backward_args *args, quern_error *error);
int32_t quern_reduce_workspace(quern_context *context, const quern_reduce_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_reduce_prepare(quern_context *context, const quern_reduce_args *args, quern_error *error);
int32_t quern_reduce(quern_context *context, const quern_reduce_args *args, quern_error *error);
int32_t quern_scatter_workspace(quern_context *context, const quern_scatter_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_scatter_prepare(quern_context *context, const quern_scatter_args *args, quern_error *error);
int32_t quern_scatter(quern_context *context, const quern_scatter_args *args, quern_error *error);
int32_t quern_histogram_workspace(quern_context *context, const quern_histogram_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_histogram_prepare(quern_context *context, const quern_histogram_args *args, quern_error *error);
int32_t quern_histogram(quern_context *context, const quern_histogram_args *args, quern_error *error);
int32_t quern_sort_workspace(quern_context *context, const quern_sort_args *args, uint64_t *bytes, quern_error
    *error);
int32_t quern_sort_prepare(quern_context *context, const quern_sort_args *args, quern_error *error);
int32_t quern_sort(quern_context *context, const quern_sort_args *args, quern_error *error);
int32_t quern_conv1d_workspace(quern_context *context, const quern_conv1d_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_conv1d_prepare(quern_context *context, const quern_conv1d_args *args, quern_error *error);
int32_t quern_conv1d(quern_context *context, const quern_conv1d_args *args, quern_error *error);
int32_t quern_nms_workspace(quern_context *context, const quern_nms_args *args, uint64_t *bytes, quern_error
    *error);
int32_t quern_nms_prepare(quern_context *context, const quern_nms_args *args, quern_error *error);
int32_t quern_nms(quern_context *context, const quern_nms_args *args, quern_error *error);
int32_t quern_conv2d_workspace(quern_context *context, const quern_conv2d_args *args, uint64_t *bytes,
    quern_error *error);
int32_t quern_conv2d_prepare(quern_context *context, const quern_conv2d_args *args, quern_error *error);
int32_t quern_conv2d(quern_context *context, const quern_conv2d_args *args, quern_error *error);
int32_t quern_quantized_gemm_workspace(quern_context *context, const quern_quantized_gemm_args *args, uint64_t
    *bytes, quern_error *error);
int32_t quern_quantized_gemm_prepare(quern_context *context, const quern_quantized_gemm_args *args,
    quern_error *error);
int32_t quern_quantized_gemm(quern_context *context, const quern_quantized_gemm_args *args, quern_error
    *error);
int32_t quern_fft_workspace(quern_context *context, const quern_fft_args *args, uint64_t *bytes, quern_error
    *error);
int32_t quern_fft_prepare(quern_context *context, const quern_fft_args *args, quern_error *error);
int32_t quern_fft(quern_context *context, const quern_fft_args *args, quern_error *error);
typedef struct quern_source {
  uint32_t size;
  uint32_t reserved;
  const char *name;
  const char *text;
  uint64_t length;
} quern_source;
typedef struct quern_constant {
  uint32_t size;
  uint32_t reserved;
  const char *name;
  const char *value;
} quern_constant;
typedef struct quern_kernel_desc {
  uint32_t size;
  uint32_t flags;
  const char *entry;
  const quern_source *source;
  const quern_source *headers;
  uint64_t header_count;
  const quern_constant *constants;
  uint64_t constant_count;
  const char *const *options;
  uint64_t option_count;
  const char *target;
  uint32_t max_shared_bytes;
  uint32_t reserved;
} quern_kernel_desc;
typedef struct quern_kernel quern_kernel;
int32_t quern_kernel_prepare(quern_context *context, const quern_kernel_desc *desc, quern_kernel **kernel,
    quern_error *error);
typedef struct quern_kernel_info {
  uint32_t size;
  int32_t registers;
  int32_t shared_bytes;
  int32_t local_bytes;
  int32_t max_threads;
  int32_t reserved;
  char key[40];
} quern_kernel_info;
int32_t quern_kernel_get_info(const quern_kernel *kernel, quern_kernel_info *info, quern_error *error);
typedef struct quern_launch {
  uint32_t size;
  uint32_t flags;
  void *stream;
  uint32_t grid_x, grid_y, grid_z;
  uint32_t block_x, block_y, block_z;
  uint32_t cluster_x, cluster_y, cluster_z;
  uint32_t shared_bytes;
  void *const *args;
  uint64_t arg_count;
} quern_launch;
int32_t quern_kernel_launch(quern_context *context, const quern_kernel *kernel, const quern_launch *launch,
    quern_error *error);
