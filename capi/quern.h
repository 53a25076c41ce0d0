/* quern: kernels ground to order.
 *
 * One flat C99 interface. The conventions, stated once:
 *
 *  - Every function returns a status (enum quern_status); 0 is success. The caller may pass a quern_error to learn
 *    more, or NULL. It is written on an error only, within its size; one whose size is not set is left alone. On an
 *    error no output has been touched.
 *  - Every struct begins with `uint32_t size`, set by the caller to sizeof(the struct). A zeroed field means its
 *    default. Where zero is a meaningful value, a flag bit says that the field is set. A larger struct from a newer
 *    header is accepted as long as the part this library does not know is zero; a smaller one reads as if followed by
 *    zeros. In an array of structs all have the first one's size: that is how far apart they stand.
 *  - Tensors are borrowed `const DLTensor *` (DLPack 1.x): strides NULL means compact row-major, byte_offset is
 *    honoured, nothing is kept after the call returns. Device tensors are read and written in stream order. An extent
 *    is 0 to 2^31 - 1, unless an op says otherwise. What is written lies beside what is read, but where an op says that
 *    it may be in place.
 *  - Shapes, strides, dtypes and pointers are checked by every call. What lies in index tensors (lengths, page ids,
 *    offsets, positions) is not on a GPU, where reading it would cost the call a synchronisation: it is the caller's to
 *    keep within the tensors that it points into. On `host` it is checked before the launch: QUERN_INVALID names the
 *    sequence or row, the value and its bound, and nothing has run. QUERN_CONTEXT_CHECKED has it checked on any device.
 *  - A context is safe to use from several threads at once and belongs to one device. A GPU's is its primary context,
 *    the one that the CUDA runtime uses; it is made current for the time of a call where it is not.
 *  - Strings are UTF-8 and NUL-terminated unless a length stands beside them.
 *  - Callbacks come without any lock held, possibly from threads of quern's own; everything they say can be polled too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef QUERN_H
#define QUERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header, and of the library that it was made with; quern_version says the library's at run time.
 * The ABI has a number of its own, which is also that of the library's SONAME (libquern.so.1): it changes when a
 * program compiled against an older header could no longer run. */
#define QUERN_VERSION_MAJOR 0
#define QUERN_VERSION_MINOR 1
#define QUERN_VERSION_PATCH 0
#define QUERN_ABI_VERSION 1

/* ---- DLPack ----------------------------------------------------------------------------------------------------
 * DLPack 1.x's DLTensor and what belongs to it. Where dlpack.h was included first its own declarations hold; where it
 * comes afterwards these stand for it, which is why all of its types are here. Code that wants a later DLPack's
 * additions includes that dlpack.h before this file. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
enum DLDeviceType { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLROCM = 10, kDLROCMHost = 11, kDLCUDAManaged = 13 };
enum DLDataTypeCode {
  kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6,
  kDLFloat8_e3m4 = 7, kDLFloat8_e4m3 = 8, kDLFloat8_e4m3b11fnuz = 9, kDLFloat8_e4m3fn = 10, kDLFloat8_e4m3fnuz = 11,
  kDLFloat8_e5m2 = 12, kDLFloat8_e5m2fnuz = 13, kDLFloat8_e8m0fnu = 14, kDLFloat6_e2m3fn = 15, kDLFloat6_e3m2fn = 16,
  kDLFloat4_e2m1fn = 17
};
typedef struct {
  int32_t device_type; /* enum DLDeviceType */
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code; /* enum DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: compact row-major */
  uint64_t byte_offset;
} DLTensor;
#ifndef QUERN_DLPACK_TENSOR_ONLY /* quern takes none of these: they are here for who includes dlpack.h later */
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)
#define DLPACK_DLL
typedef enum DLDeviceType DLDeviceType;
typedef enum DLDataTypeCode DLDataTypeCode;
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
#endif
#endif

/* ---- Status and errors ---------------------------------------------------------------------------------------- */
enum quern_status {
  QUERN_OK = 0,
  QUERN_MISS = 1,        /* neither loaded nor cached, and the policy forbids compiling */
  QUERN_PENDING = 2,     /* being compiled in the background: call again */
  QUERN_INVALID = 3,     /* an argument is wrong; the text names it, what was given and what is allowed */
  QUERN_UNSUPPORTED = 4, /* well-formed, but no kernel or target here does it */
  QUERN_NOT_FOUND = 5,   /* a library, compiler, device, file or key is not there; the text says what was tried */
  QUERN_COMPILE = 6,     /* the kernel compiler refused, crashed or ran out of time; the text carries its log */
  QUERN_DRIVER = 7,      /* the GPU driver failed; `native` is its code */
  QUERN_STICKY = 8,      /* the GPU was in an error state before this call: an earlier launch's doing, quern's or not */
  QUERN_CAPTURING = 9,   /* not ready, and the stream is being captured into a graph: prepare first */
  QUERN_NO_MEMORY = 10,
  QUERN_IO = 11,      /* a file could not be read or written */
  QUERN_DAMAGED = 12, /* a cache file or bundle does not verify */
  QUERN_FORKED = 13,  /* the context was made by the parent of this process: make one of your own */
  QUERN_PARTIAL = 14, /* some items failed, the others were done; the result list says which */
  QUERN_INTERNAL = 15, /* a bug in quern */
  QUERN_FAULT = 16     /* an earlier call of this checked context found its index tensors wrong and did not run: see
                          quern_faults. This call has not run either. Each fault is told once */
};

typedef struct quern_error {
  uint32_t size;
  int32_t status;  /* enum quern_status */
  int64_t native;  /* the driver's, compiler's or system's own code, 0 if none */
  char text[4080]; /* what, which argument, what was given, what is allowed; NUL-terminated */
} quern_error;

/* QUERN_ABI_VERSION of the library. */
uint32_t quern_abi_version(void);
/* "0.1.0": QUERN_VERSION_MAJOR, _MINOR and _PATCH of the library. */
const char *quern_version(void);
/* "QUERN_INVALID" and so on; "unknown" for a number that is no status. */
const char *quern_status_name(int32_t status);

/* ---- Context --------------------------------------------------------------------------------------------------- */
/* Contexts of a process whose options for the cache, the compilers and compile_threads are equal share the open cache,
 * and compile a kernel once, whatever devices they are for. */
typedef struct quern_context quern_context;

enum quern_miss_policy {
  QUERN_MISS_COMPILE = 0,     /* compile and wait */
  QUERN_MISS_CACHED_ONLY = 1, /* return QUERN_MISS; no compiler is looked for */
  QUERN_MISS_BACKGROUND = 2   /* compile on quern's own threads and return QUERN_PENDING */
};

enum quern_context_flags {
  QUERN_CONTEXT_NO_CACHE = 1u << 0,        /* keep kernels in memory only (bundles are still read) */
  QUERN_CONTEXT_READ_ONLY_CACHE = 1u << 1, /* read the cache file, never write it */
  QUERN_CONTEXT_SHARED_CACHE = 1u << 2,    /* accept a cache folder, and bundles, that others own or can write */
  QUERN_CONTEXT_NVRTC_IN_HELPER = 1u << 3, /* run NVRTC in the helper process too, so that its crashes are survived */
  QUERN_CONTEXT_HOST_SEED = 1u << 4,       /* `host_seed` is set (0 included) */
  QUERN_CONTEXT_SIGNED_ONLY = 1u << 5,     /* consult nothing but bundles that one of `trusted_keys` has signed: the
                                              cache file is neither read nor written */
  QUERN_CONTEXT_CHECKED = 1u << 6          /* for finding mistakes: kernels are compiled in a checked form, with keys of
                                              its own. What lies in a call's index tensors is checked on the device, in
                                              stream order and under capture too, before the call's kernels: where it
                                              is wrong they write nothing and read nothing else (quern_faults). What
                                              kernels print (q::print) goes to `log`, or to standard output where there
                                              is none, also while a kernel hangs. Programmatic launch is left out */
};

typedef struct quern_event {
  uint32_t size;
  int32_t kind;        /* enum quern_event_kind */
  const char *op;      /* "attention" */
  const char *target;  /* "sm_90a" */
  const char *key;     /* 32 hexadecimal digits */
  const char *text;    /* a sentence for people */
  double milliseconds; /* how long it took, 0 where that means nothing */
  int32_t status;      /* enum quern_status */
  int32_t reserved;
} quern_event;

enum quern_event_kind {
  QUERN_EVENT_COMPILED = 1, /* a kernel was compiled */
  QUERN_EVENT_LOADED = 2,   /* a kernel was loaded from the cache or a bundle */
  QUERN_EVENT_FAILED = 3,   /* a compilation failed */
  QUERN_EVENT_REJECTED = 4, /* a cached image was refused (checksum, architecture) and will be made again */
  QUERN_EVENT_CACHE = 5,    /* the cache is unavailable, read-only, damaged or full; `text` says which */
  QUERN_EVENT_FAULT = 6     /* a checked call found its index tensors wrong: `op`, and `text` as in quern_fault */
};

enum quern_log_level { QUERN_LOG_ERROR = 1, QUERN_LOG_WARNING = 2, QUERN_LOG_INFO = 3, QUERN_LOG_DEBUG = 4 };

typedef void (*quern_log_callback)(void *user, int32_t level, const char *text);
typedef void (*quern_event_callback)(void *user, const quern_event *event);

typedef struct quern_context_options {
  uint32_t size;
  uint32_t flags;          /* enum quern_context_flags */
  int32_t device_type;     /* kDLCUDA, kDLROCM, kDLCPU (the `host` target, asked for by name); 0: no device, for warming
                              and cache administration */
  int32_t device_id;       /* ordinal of the device */
  int32_t miss_policy;     /* enum quern_miss_policy */
  int32_t compile_threads; /* compilations at once, of all contexts that share; 0: the number of cores, at most 8 */
  const char *target;      /* NULL: the device's own. "host64" gives the host a warp of 64. A CUDA device also takes a
                              target without a letter of its major version, no later than itself and with as much shared
                              memory ("sm_90" on an H200); others are refused */
  const char *cache_path;  /* folder; NULL: $XDG_CACHE_HOME/quern, else $HOME/.cache/quern */
  const char *const *bundles; /* files made by quern_cache_export, searched in order below the cache. Without
                                 trusted_keys a bundle must be this user's or root's, and nobody else's to write */
  uint64_t bundle_count;
  const char *const *search_dirs; /* absolute folders looked into first for NVRTC, hipRTC and drivers */
  uint64_t search_dir_count;
  const char *helper_path;      /* absolute; NULL: beside libquern */
  const char *host_compiler;    /* absolute path of the C++ compiler for `host`; NULL: c++ in /usr/bin and
                                   /usr/local/bin */
  const char *compiler_pin;     /* "nvrtc 13.0": use images of this compiler build only, and make none with another
                                   (QUERN_NOT_FOUND); NULL: any */
  uint64_t cache_limit;         /* bytes, file and journal together; 0: 1 GiB */
  uint32_t compile_timeout_ms;  /* in the helper; 0: 120 000 */
  uint32_t flight_timeout_ms;   /* waiting for another process that compiles the same kernel; 0: 30 000 */
  uint64_t host_seed;           /* `host`: seed of the unfair scheduling and late delivery; needs
                                   QUERN_CONTEXT_HOST_SEED */
  uint32_t host_threads;        /* `host`: CPU threads; 0: the number of cores */
  int32_t log_level;            /* enum quern_log_level: `log` is told this and what is worse; 0: all. Events are told
                                   whatever it is */
  quern_log_callback log;
  void *log_user;
  quern_event_callback event;
  void *event_user;
  const char *const *trusted_keys; /* public keys (quern_keys_make); where there are any, a bundle is used, and
                                      imported, only with a signature of one of them */
  uint64_t trusted_key_count;
  const char *cache_key;           /* 64 hexadecimal digits that all who share the cache folder know and nobody else:
                                      each entry carries a MAC under it (BLAKE2b), and one whose MAC is another's or
                                      wrong is never loaded but made again. NULL: checksums, which find damage and not
                                      malice. A folder belongs to hosts with one key: others replace its entries */
  uint64_t max_kernels;            /* loaded at once; 0: no bound. To load one more is QUERN_NO_MEMORY: quern_unload
                                      makes room */
} quern_context_options;

int32_t quern_context_create(const quern_context_options *options, quern_context **context, quern_error *error);
/* Ends background compilations and unloads the kernels. No call may be in flight. NULL is ignored. It waits for NVRTC
 * in this process where that is older than 12.8, and cannot be stopped. */
void quern_context_destroy(quern_context *context);

typedef struct quern_device_info {
  uint32_t size;
  int32_t device_type;
  int32_t device_id;
  uint32_t warp_size;
  uint32_t sm_count;
  uint32_t shared_per_block; /* bytes a block may opt in to */
  uint64_t l2_bytes;
  uint64_t memory_bytes;
  uint32_t driver_version; /* CUDA: 13000 for 13.0 */
  uint32_t reserved;
  char target[16];
  char name[104];
} quern_device_info;

int32_t quern_device(const quern_context *context, quern_device_info *info, quern_error *error);

typedef struct quern_stats {
  uint32_t size;
  uint32_t reserved;
  uint64_t kernels_loaded;  /* in this context now */
  uint64_t cache_hits;      /* kernels taken from the cache or a bundle */
  uint64_t cache_misses;    /* not there, or refused */
  uint64_t compiled;        /* compilations that succeeded */
  uint64_t compile_errors;  /* and those that did not */
  uint64_t rejected;        /* images refused: checksum, architecture */
  uint64_t stored;          /* kernels written to the cache */
  uint64_t store_errors;    /* writes that failed; the kernel served all the same */
  uint64_t flight_waits;    /* times another thread's or process's compilation was waited for */
  uint64_t pending;         /* compilations under way or queued */
  double compile_ms;        /* summed over compilations */
  double load_ms;           /* summed over loads into the driver */
} quern_stats;

int32_t quern_get_stats(const quern_context *context, quern_stats *stats, quern_error *error);

/* ---- Lists ------------------------------------------------------------------------------------------------------
 * What administration calls return: a snapshot, read by index. Strings live until the list is freed. */
typedef struct quern_list quern_list;
uint64_t quern_list_count(const quern_list *list);
void quern_list_free(quern_list *list); /* NULL is ignored */

/* ---- Faults of checked calls --------------------------------------------------------------------------------- */

/* What a checked call (QUERN_CONTEXT_CHECKED) found wrong first in its index tensors. */
typedef struct quern_fault {
  uint32_t size;
  uint32_t reserved;
  const char *op;       /* "attention" */
  const char *argument; /* "page_table" */
  const char *text;     /* "page_table[2][5] (sequence 2) is 70; allowed: 0 to 63, the pages of k and v" */
  uint64_t call;        /* which of the context's checked calls, from 1, as they were made. A captured one has one
                           number in all its replays */
  int64_t row;          /* where: argument[row][column], or argument[row] and -1 */
  int64_t column;
  int64_t value;        /* what stands there */
  int64_t least;        /* what is allowed */
  int64_t most;
} quern_fault;
/* The first faults found on the device since the last time this was asked, oldest first, and all there were (`total`,
 * may be NULL). Waits for nothing: of a stream that was synchronised all are told. QUERN_INVALID for a context that is
 * not checked. */
int32_t quern_faults(quern_context *context, quern_list **faults, uint64_t *total, quern_error *error);
int32_t quern_list_fault(const quern_list *list, uint64_t index, quern_fault *fault);

/* ---- Warming and recording --------------------------------------------------------------------------------------
 * A manifest is text, one specialisation a line:  OP TARGET NAME=VALUE ...   Values are percent-encoded where they hold
 * a space, '%', '=' or a control character; empty lines and lines that begin with '#' are skipped; TARGET '*' stands
 * for every target of the call. `quern_manifest` writes what a context has specialised in just this form. */
enum quern_model_flags {
  QUERN_MODEL_SINKS = 1u << 0,       /* attention sinks */
  QUERN_MODEL_MLA = 1u << 1,         /* latent attention (DeepSeek) */
  QUERN_MODEL_GATED_MLP = 1u << 2,   /* gate and up projections */
  QUERN_MODEL_BLOCK_FP8 = 1u << 3,   /* weights e4m3 with 128x128 scales */
  QUERN_MODEL_FP8 = 1u << 4,         /* weights e4m3 with a scale per tensor or output channel */
  QUERN_MODEL_BIAS = 1u << 5,        /* projections add a bias */
  QUERN_MODEL_QK_NORM = 1u << 6,     /* queries and keys are normalised head by head (Qwen-3) */
  QUERN_MODEL_ROPE_INTERLEAVED = 1u << 7, /* dimensions 2i and 2i+1 turn together */
  QUERN_MODEL_NO_ROPE = 1u << 8,     /* positions are not rotary */
  QUERN_MODEL_KV_TOKEN_SCALES = 1u << 9, /* an 8-bit cache has a scale a token and head, else one a tensor or head */
  QUERN_MODEL_LAYER_NORM = 1u << 10, /* norms are layer norms with weight and bias, not RMS norms (GPT-2) */
  QUERN_MODEL_EMBEDDING_SCALE = 1u << 11, /* embeddings are multiplied by the square root of hidden_size (Gemma) */
  QUERN_MODEL_FP8_QUERIES = 1u << 12, /* of an e4m3 cache: queries are e4m3, too, with a scale a token and head, where a
                                         sequence has several */
  QUERN_MODEL_FP8_LOGITS = 1u << 13   /* weights of 8 bits: the product that gives logits is of 8 bits, too */
};

/* A transformer's shape, as config.json states it, before tensor parallelism divides it. */
typedef struct quern_model {
  uint32_t size;
  uint32_t flags;           /* enum quern_model_flags */
  uint32_t tensor_parallel; /* 0: 1 */
  uint32_t hidden_size;
  uint32_t intermediate_size;
  uint32_t layers;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_dim; /* of queries and keys; with latent attention its rope part included */
  uint32_t v_head_dim; /* 0: head_dim */
  uint32_t vocab_size;
  uint32_t max_positions;
  uint32_t sliding_window;       /* 0: none */
  uint32_t experts;              /* 0: dense */
  uint32_t experts_per_token;
  uint32_t expert_intermediate_size;
  uint32_t kv_lora_rank;         /* MLA */
  uint32_t q_lora_rank;
  uint32_t rope_head_dim;
  uint32_t page_size;            /* 0: 16 and 64 */
  float logit_cap;               /* 0: none */
  DLDataType dtype;              /* of activations; zeroed: bf16 */
  DLDataType kv_dtype;           /* zeroed: as dtype */
  uint32_t shared_experts;       /* every token visits these too */
  int32_t activation;            /* of the MLP, enum quern_activation; 0: silu */
  uint32_t rotary_dim;           /* dimensions of a head that turn; 0: head_dim */
  float final_logit_cap;         /* of what tokens are chosen by; 0: none */
  uint32_t index_heads;          /* of an indexer that chooses keys (DeepSeek-V3.2); 0: there is none */
  uint32_t index_head_dim;
  uint32_t index_top_k;          /* keys that it chooses */
} quern_model;

enum quern_warm_flags {
  QUERN_WARM_LIST_ONLY = 1u << 0,     /* say what would be made and whether it is there; compile nothing */
  QUERN_WARM_ALLOW_UNSERVED = 1u << 1 /* needs of the model that nothing here serves do not make it QUERN_PARTIAL */
};
enum quern_warm_outcome {
  QUERN_WARM_HIT = 1,      /* was there */
  QUERN_WARM_COMPILED = 2, /* compiled and stored */
  QUERN_WARM_FAILED = 3,   /* see status and text */
  QUERN_WARM_ABSENT = 4,   /* list only: is not there */
  QUERN_WARM_UNSERVED = 5  /* the model needs it and nothing here makes it: `op` is what it needs, `text` says why.
                              Its status is QUERN_UNSUPPORTED, its key and spec are "" */
};

typedef struct quern_warm_result {
  uint32_t size;
  int32_t outcome;     /* enum quern_warm_outcome */
  int32_t status;      /* enum quern_status */
  uint32_t line;       /* of the manifest, from 1; 0: from the model */
  const char *op;      /* "" for a line that could not be read */
  const char *target;
  const char *key;     /* 32 hexadecimal digits; "" where it failed */
  const char *spec;    /* the constants, as in a manifest */
  const char *text;    /* the error, or "" */
  double milliseconds;
} quern_warm_result;

/* Anything but 0 cancels: what is under way is finished, nothing more is begun, and the call returns QUERN_PARTIAL with
 * the results that there are. */
typedef int32_t (*quern_warm_callback)(void *user, uint64_t done, uint64_t total, const quern_warm_result *result);

typedef struct quern_warm_options {
  uint32_t size;
  uint32_t flags; /* enum quern_warm_flags */
  const char *const *targets; /* "sm_90a", "gfx90a", ...; none: the context's own */
  uint64_t target_count;
  const char *manifest; /* NULL: none */
  uint64_t manifest_length;
  const quern_model *model; /* NULL: none */
  quern_warm_callback progress;
  void *progress_user;
} quern_warm_options;

/* Compiles and stores whatever of the manifest and the model's needs is not in the cache or a bundle, without touching
 * a device. Returns QUERN_PARTIAL where some failed or nothing here serves a need of the model; `results` (may be NULL)
 * is set in both cases. `progress` is called on the calling thread, once for each result as it is done. */
int32_t quern_warm(quern_context *context, const quern_warm_options *options, quern_list **results, quern_error *error);
int32_t quern_list_warm_result(const quern_list *list, uint64_t index, quern_warm_result *result);

/* Makes what quern_warm makes of the context's own target, and loads it on the context's device, so that no call has
 * to: what is missing is compiled as the context's miss policy has it (with QUERN_MISS_CACHED_ONLY its status is
 * QUERN_MISS; with QUERN_MISS_BACKGROUND it is QUERN_PENDING: quern_wait, then load again). `targets` must be none,
 * lines of the manifest for other targets are passed over, and of the flags QUERN_WARM_ALLOW_UNSERVED is known. */
int32_t quern_load(quern_context *context, const quern_warm_options *options, quern_list **results, quern_error *error);
/* Unloads the kernels of an op, or those whose key begins with `prefix`; NULL or "": all. *count (may be NULL): how
 * many they were. The caller's promise: no call that launches one of them is in flight, on the device neither, and no
 * captured graph holds one that is launched again. Later calls load, or compile, them anew; handles from
 * quern_kernel_prepare of those unloaded are refused. */
int32_t quern_unload(quern_context *context, const char *prefix, uint64_t *count, quern_error *error);

/* Waits until nothing is being compiled in the background for this context, for at most so many milliseconds (0 only
 * looks). QUERN_PENDING when something still is. What became of each, the next call that needs it says. */
int32_t quern_wait(quern_context *context, uint64_t milliseconds, quern_error *error);
/* Drops the compilations in the background that have not begun; those that have are finished. *count (may be NULL):
 * how many were dropped. A call that is told QUERN_PENDING afterwards has asked for its kernel anew. */
int32_t quern_cancel(quern_context *context, uint64_t *count, quern_error *error);

/* Everything this context has specialised, sorted, as a manifest. *length in: the buffer's size; out: the text's length
 * without its NUL. A NULL or short buffer is left untouched and the length is still told. */
int32_t quern_manifest(const quern_context *context, char *buffer, uint64_t *length, quern_error *error);

/* ---- Tuning -----------------------------------------------------------------------------------------------------
 * Calls of quern_gemm and quern_fp8_gemm choose a kernel and a split by a model of waves and bytes. Where that errs,
 * tuning measures the candidates on the context's device and keeps the fastest in the cache, by device, product, N, K
 * and batch; calls on such devices take it from then on, from the cache or a bundle. It covers all numbers of rows up
 * to 16, 32, 64 or 128, and above those that make as many tiles of 128 rows. Batch-invariant calls and those with
 * max_sms are left as they are. Ask for the workspace and prepare again after tuning in the same process.
 *
 * A product is a manifest's line without `form` and with its extents:  fp8_gemm * scales=blocks n=7168 k=2048
 * (quern_gemm's may have batch=N). Its target is '*' or the context's. */
enum quern_tune_flags {
  QUERN_TUNE_AGAIN = 1u << 0,    /* measure what is known, too */
  QUERN_TUNE_LIST_ONLY = 1u << 1 /* say what would be measured and what is known; measure nothing */
};
enum quern_tune_outcome {
  QUERN_TUNE_MEASURED = 1,
  QUERN_TUNE_KNOWN = 2,  /* was in the cache or a bundle */
  QUERN_TUNE_FAILED = 3, /* see status and text */
  QUERN_TUNE_ABSENT = 4  /* list only: is not known */
};

typedef struct quern_tune_result {
  uint32_t size;
  int32_t outcome;           /* enum quern_tune_outcome */
  int32_t status;            /* enum quern_status */
  uint32_t line;             /* of the manifest, from 1; 0: from the model */
  const char *op;            /* "" for a line that could not be read */
  const char *product;       /* the constants and extents, as in a manifest */
  const char *choice;        /* what calls take: "swap_ab_16 parts=2 peers=1"; "" where nothing is known */
  const char *model_choice;  /* what they would take without tuning */
  const char *text;          /* the error, or "" */
  int64_t rows;
  double microseconds;       /* of a call as chosen, operands coming from memory; 0 where nothing is known */
  double model_microseconds; /* of one as the model has it, in the same run */
  uint32_t candidates;       /* measured in this call */
  uint32_t reserved;
} quern_tune_result;

/* As quern_warm_callback. */
typedef int32_t (*quern_tune_callback)(void *user, uint64_t done, uint64_t total, const quern_tune_result *result);

typedef struct quern_tune_options {
  uint32_t size;
  uint32_t flags;           /* enum quern_tune_flags */
  const char *manifest;     /* NULL: none */
  uint64_t manifest_length;
  const quern_model *model; /* NULL: none; else all its products, of one rank */
  const int64_t *rows;      /* none: 16, 32, 64, 128 and on in powers of two to 8192 */
  uint64_t row_count;
  double milliseconds;      /* that each candidate is measured for; 0: 20 */
  quern_tune_callback progress;
  void *progress_user;
} quern_tune_options;

/* Compiles what it measures. Uses the device alone for as long as it runs, with memory of its own; needs nobody else's
 * stream. Returns QUERN_PARTIAL where some failed; `results` (may be NULL) is set in both cases. `progress` is called
 * on the calling thread, once for each result as it is done. */
int32_t quern_tune(quern_context *context, const quern_tune_options *options, quern_list **results, quern_error *error);
int32_t quern_list_tune_result(const quern_list *list, uint64_t index, quern_tune_result *result);

/* ---- Cache administration --------------------------------------------------------------------------------------- */
typedef struct quern_entry {
  uint32_t size;
  int32_t layer;          /* 0: the user's file; 1 and up: the bundles in order */
  const char *key;        /* 32 hexadecimal digits */
  const char *op;
  const char *target;
  const char *entry_name; /* the kernel's symbol */
  const char *text;       /* the canonical text that the key is the hash of */
  const char *compiler;   /* "nvrtc 13.0" */
  const char *log;        /* the compiler's */
  const void *image;      /* NULL unless asked for by key */
  uint64_t image_size;    /* bytes */
  int64_t created;        /* seconds since 1970, 0 in bundles */
  uint64_t last_use;      /* a logical counter: larger is more recent */
  double compile_ms;
  int32_t registers;     /* per thread; -1 unknown */
  int32_t shared_bytes;  /* static; -1 unknown */
  int32_t local_bytes;   /* per thread, spills included; -1 unknown */
  int32_t kind;          /* 1: image, 2: tuning result */
} quern_entry;

/* Every entry whose key begins with `prefix`, or whose op or target equals it; NULL or "": all. Sorted by op, target,
 * text. */
int32_t quern_cache_list(quern_context *context, const char *prefix, quern_list **entries, quern_error *error);
/* The one entry whose key begins with `key` (at least 4 digits), image and all. */
int32_t quern_cache_inspect(quern_context *context, const char *key, quern_list **entry, quern_error *error);
int32_t quern_list_entry(const quern_list *list, uint64_t index, quern_entry *entry);

typedef struct quern_finding {
  uint32_t size;
  int32_t status;   /* QUERN_OK: fine; else what is wrong */
  const char *what; /* "nvrtc", "cache", a key */
  const char *text; /* what was found: path, version, state */
  const char *hint; /* what to do about it, or "" */
} quern_finding;

/* Reads and checks every row and bundle. QUERN_DAMAGED when something does not verify; findings name it. */
int32_t quern_cache_verify(quern_context *context, quern_list **findings, quern_error *error);

typedef struct quern_trim_options {
  uint32_t size;
  uint32_t flags;   /* enum quern_trim_flags */
  uint64_t limit;   /* bytes to trim to, least recently used first; 0: the context's limit */
} quern_trim_options;
enum quern_trim_flags {
  QUERN_TRIM_REBUILD = 1u << 0, /* write a fresh file with every row that verifies */
  QUERN_TRIM_ALL = 1u << 1      /* remove everything */
};
typedef struct quern_trim_result {
  uint32_t size;
  uint32_t reserved;
  uint64_t removed;      /* entries */
  uint64_t kept;
  uint64_t bytes_before; /* file and journal */
  uint64_t bytes_after;
} quern_trim_result;
int32_t quern_cache_trim(quern_context *context, const quern_trim_options *options, quern_trim_result *result,
    quern_error *error);

/* Writes the cache (or what `prefix` selects, as in quern_cache_list) as a bundle: equal to the byte for equal
 * contents. Paths are absolute, here and everywhere. */
int32_t quern_cache_export(quern_context *context, const char *path, const char *prefix, uint64_t *count,
    quern_error *error);
/* Adds a bundle's entries to the cache. All are verified before the first is written. *count: those that were not
 * there. */
int32_t quern_cache_import(quern_context *context, const char *path, uint64_t *count, quern_error *error);

/* Makes a pair of Ed25519 keys (RFC 8032), each written as 64 hexadecimal digits and a NUL. Who has the secret one can
 * sign bundles; the other goes into `trusted_keys` of the contexts that are to take them. */
int32_t quern_keys_make(char *secret_key, char *public_key, quern_error *error);
/* The public key of a secret one. */
int32_t quern_keys_public(const char *secret_key, char *public_key, quern_error *error);
/* Verifies a bundle and puts a signature over all of it behind those that it has; the same key's earlier one is
 * replaced. Several keys can sign a bundle, so that trust can move from one to the next. */
int32_t quern_bundle_sign(const char *path, const char *secret_key, quern_error *error);

typedef struct quern_cache_stats {
  uint32_t size;
  int32_t state;        /* enum quern_cache_state */
  uint64_t entries;
  uint64_t image_bytes;
  uint64_t file_bytes;  /* file and journal */
  uint64_t limit;
  uint64_t bundles;
  uint64_t bundle_entries;
  char path[2048];      /* of the file, "" where there is none */
  char reason[504];     /* why the state is not QUERN_CACHE_READY */
} quern_cache_stats;
enum quern_cache_state {
  QUERN_CACHE_READY = 0,
  QUERN_CACHE_READ_ONLY = 1,
  QUERN_CACHE_OFF = 2,     /* not asked for, or no place for it */
  QUERN_CACHE_DAMAGED = 3, /* and not mended yet: the next call that needs a kernel does, or QUERN_TRIM_REBUILD; what
                              could not be saved stays in the file kept beside, cache-1.damaged.db */
  QUERN_CACHE_REFUSED = 4  /* foreign owner, writable by others, symbolic link, network file system, newer schema */
};
int32_t quern_cache_get_stats(quern_context *context, quern_cache_stats *stats, quern_error *error);

/* What is here: drivers, devices, compilers with versions and paths, the helper, the cache. Never fails because
 * something is missing: that is a finding. */
int32_t quern_doctor(quern_context *context, quern_list **findings, quern_error *error);
/* Every kernel that a compiler has refused in this context and not made since: `what` is its key, `hint` its op and
 * constants, `text` what was said, which quern_error may have had to cut further: of a compiler's log above 64 KiB its
 * first 16 KiB and its last 48 KiB, with a line between them that says how many bytes were left out. */
int32_t quern_failures(quern_context *context, quern_list **findings, quern_error *error);
int32_t quern_list_finding(const quern_list *list, uint64_t index, quern_finding *finding);

/* ---- Verifying kernels -------------------------------------------------------------------------------------------
 * Every cached kernel is run on the context's device on random inputs and held against the `host` target's execution
 * of the same op, and against a plain loop in double precision where there is one: what a fleet does after an update of
 * its driver. */
enum quern_verify_outcome {
  QUERN_VERIFY_AGREES = 1,
  QUERN_VERIFY_DIFFERS = 2, /* `error` or `truth_error` is above 1: neither the image nor the driver is to be trusted */
  QUERN_VERIFY_FAILED = 3,  /* was refused by the driver, or its launch failed: status and text */
  QUERN_VERIFY_NOT_RUN = 4  /* nothing is known of it; `text` says why: another target's, an op without a trial, a
                               kernel that the trials' calls do not choose */
};
typedef struct quern_verify_result {
  uint32_t size;
  int32_t outcome;     /* enum quern_verify_outcome */
  int32_t status;      /* enum quern_status */
  uint32_t trials;     /* calls that launched it */
  const char *op;
  const char *target;
  const char *key;     /* 32 hexadecimal digits */
  const char *spec;    /* the constants, as in a manifest */
  const char *text;    /* what was compared, where the worst lies; or why nothing was */
  double error;        /* the worst, over what rounding alone allows: 1 is the bound */
  double truth_error;  /* the worst against double precision, in the same unit; -1 where there is no such loop */
  double milliseconds; /* for all of it */
} quern_verify_result;
/* As quern_warm_callback. */
typedef int32_t (*quern_verify_callback)(void *user, uint64_t done, uint64_t total, const quern_verify_result *result);
typedef struct quern_verify_options {
  uint32_t size;
  uint32_t flags;     /* none yet */
  const char *prefix; /* as in quern_cache_list; NULL: all */
  uint64_t seed;      /* of the random inputs; 0: one is drawn, and told in every text */
  quern_verify_callback progress;
  void *progress_user;
} quern_verify_options;
/* Needs a device, a cache or bundles, and the host's compiler. Nothing is compiled for the device: what is not cached
 * is not verified. QUERN_DAMAGED when a kernel differs or failed; `results` (may be NULL) is set in that case too. */
int32_t quern_verify(quern_context *context, const quern_verify_options *options, quern_list **results,
    quern_error *error);
int32_t quern_list_verify_result(const quern_list *list, uint64_t index, quern_verify_result *result);

/* ---- Ops ---------------------------------------------------------------------------------------------------------
 * Three calls an op, on one args struct:
 *   quern_OP_workspace  the bytes of workspace needed, from the maxima alone; grows with them. The caller zeroes the
 *                       workspace once; every launch leaves it ready for the next. Two calls in flight never share one.
 *   quern_OP_prepare    readies every kernel that any call with the same dtypes, head counts and flags and no larger
 *                       maxima can reach. Tensors may have NULL data.
 *   quern_OP            launches. After prepare it neither allocates, locks, synchronises, compiles nor touches a file,
 *                       and can be captured into a CUDA graph.
 * The fields up to max_sms are the same in every op. */
enum quern_call_flags {
  QUERN_CALL_BATCH_INVARIANT = 1u << 0, /* a row's bits do not depend on what else is in the batch; attention then takes
                                           at most 4 096 sequences times KV heads a call */
  QUERN_CALL_PROGRAMMATIC = 1u << 1,    /* launch with programmatic stream serialisation (sm_90 and up) */
  QUERN_CALL_CACHED_ONLY = 1u << 2,     /* this call: QUERN_MISS_CACHED_ONLY */
  QUERN_CALL_BACKGROUND = 1u << 3       /* this call: QUERN_MISS_BACKGROUND */
};

enum quern_attention_flags {
  QUERN_ATTENTION_CAUSAL = 1u << 16,       /* query i of a sequence sees keys j <= length - q_len + i */
  QUERN_ATTENTION_WINDOW_LEFT = 1u << 17,  /* `window_left` is set: keys j >= length - q_len + i - window_left */
  QUERN_ATTENTION_WINDOW_RIGHT = 1u << 18, /* `window_right` is set: keys j <= length - q_len + i + window_right */
  QUERN_ATTENTION_CONSTANT_PAST = 1u << 19 /* no launch that may still be running then writes lengths, cu_q, the pages'
                                              numbers or cu_kv, or what k, v and their scales hold of tokens in front of
                                              this call's: with QUERN_CALL_PROGRAMMATIC they may be read before the one
                                              before has finished */
};

/* Attention of ragged queries over a paged or ragged KV cache.
 *
 *   s[i,j] = scale * q[i] . k[j]            for the keys j that query i may see
 *   s      = logit_cap * tanh(s/logit_cap)  where logit_cap > 0
 *   s     += alibi_slopes[h] * (j - (length - q_len + i))   where given
 *   lse[i] = ln(sum_j exp(s[i,j]) + exp(sinks[h]))          (the last term where given)
 *   out[i] = sum_j exp(s[i,j] - lse[i]) v[j]
 *
 * A row that sees no key gives zeros, and lse -inf (or the sink). batch is the extent of `lengths`; heads a multiple of
 * kv_heads. Rows of q past the last sequence's are not read, those of out and lse not written. Slots past a sequence's
 * length are never read into a result. A NaN in a key or a value harms only the queries that see it.
 *
 * k and v may be e4m3, e5m2 or int8, and q e4m3 or e5m2: each number then stands for itself times its scale. A scale of
 * k or v belongs to the tensor, to a KV head, or to one head of one token; a scale of q to the tensor, a head, or one
 * head of one token. Scales are f32 and not negative; NULL is 1. Per-token scales may have a stride of 0 over the
 * heads.
 *
 * The custom mask narrows what causal and the windows leave. Of a sequence with q_len queries and m = mask_keys[b] it
 * holds q_len rows of m bits for the last m keys, each row in ceil(m/8) bytes of its own, the lowest bit of a byte
 * first: bit t of row i is 1 where query i may see key length - m + t. Earlier keys are left to causal and the windows.
 * With m = 0 there is no mask: a batch may mix tree speculation with ordinary decodes.
 *
 * out may be e4m3 or e5m2, as quern_fp8_gemm takes its rows: out = result / scale, of each 128 values of a head in
 * `out_scale`, scale = their largest magnitude / the dtype's largest number, 1 where all are 0. The results are those
 * in f32, not rounded to 16 bits before. */
typedef struct quern_attention_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_attention_flags */
  void *stream;   /* CUstream or hipStream_t; NULL: the default stream */
  void *workspace; /* on the device, 256-byte aligned */
  uint64_t workspace_size;
  int32_t alignment; /* bytes every tensor's rows are promised to be aligned to: 16 (0), or less */
  int32_t max_sms;   /* leave the other SMs free; 0: all */
  const DLTensor *q; /* [total_q, heads, d_k], f16, bf16, e4m3 or e5m2, last stride 1; d_k and d_v are multiples of 8 to
                        1024, to 256 where q, k or v have 8 bits */
  const DLTensor *k; /* paged: [pages, page_size, kv_heads, d_k]; ragged: [total_kv, kv_heads, d_k]; last stride 1;
                        out's dtype, e4m3, e5m2 or int8; out of 8 bits: q's, or with 8 bits there, too, f16 or bf16 */
  const DLTensor *v; /* as k with d_v, k's dtype */
  const DLTensor *out;  /* [total_q, heads, d_v], f16 or bf16 (q's dtype unless q has 8 bits), last stride 1; with d_v
                           128 or 256 also e4m3 or e5m2 */
  const DLTensor *lse;  /* optional [total_q, heads] f32, natural logarithm */
  const DLTensor *lengths; /* [batch] int32: keys of each sequence, this call's tokens included */
  const DLTensor *cu_q;    /* [batch+1] int32: where each sequence's queries begin; NULL: one query each */
  const DLTensor *page_table;   /* paged: [batch, max_pages] int32, last stride 1 ... */
  const DLTensor *page_indptr;  /* ... or [batch+1] int32 with ... */
  const DLTensor *page_indices; /* ... [>= indptr[batch]] int32 */
  const DLTensor *cu_kv;        /* ragged: [batch+1] int32 */
  const DLTensor *alibi_slopes; /* optional [heads] f32 */
  const DLTensor *sinks;        /* optional [heads] f32 */
  int32_t max_q_len;  /* no sequence has more queries; 0: 1 without cu_q, else total_q */
  int32_t max_kv_len; /* no sequence has more keys; must be given */
  int32_t window_left;
  int32_t window_right;
  float scale;     /* 0: 1/sqrt(d_k) */
  float logit_cap; /* 0: none */
  const DLTensor *q_scale;     /* with 8 bits in q, optional f32: [1], [heads] or [total_q, heads] */
  const DLTensor *k_scale;     /* with 8 bits in k, optional f32: [1], [kv_heads], or k's shape without its last
                                  dimension */
  const DLTensor *v_scale;     /* as k_scale; with per-token scales in one of the two, both have them */
  const DLTensor *mask;        /* optional [bytes] uint8: the custom mask's rows, those of a sequence one behind the
                                  other */
  const DLTensor *mask_indptr; /* with mask: [batch+1] int32: the byte where each sequence's rows begin */
  const DLTensor *mask_keys;   /* with mask: [batch] int32: m, how many of the last keys the rows are about */
  int32_t q_type;              /* enum quern_fp8, where q is uint8 */
  int32_t kv_type;             /* enum quern_fp8, where k and v are uint8 */
  const DLTensor *out_scale;   /* with 8 bits in out: written, [total_q, heads * d_v/128] f32, any strides: the groups
                                  of a token's heads one behind the other */
  int32_t out_type;            /* enum quern_fp8, where out is uint8 */
  uint32_t reserved;
} quern_attention_args;

/* Joins two partial results over disjoint sets of keys: lse = ln(exp(lse_a)+exp(lse_b)),
 * out = exp(lse_a-lse) out_a + exp(lse_b-lse) out_b; both -inf gives zeros and -inf. out may be out_a or out_b. */
typedef struct quern_merge_state_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *out_a; /* [rows, heads, d] f16, bf16 or f32 */
  const DLTensor *lse_a; /* [rows, heads] f32, natural logarithm */
  const DLTensor *out_b;
  const DLTensor *lse_b;
  const DLTensor *out; /* dtype of out_a */
  const DLTensor *lse; /* optional */
} quern_merge_state_args;

enum quern_mla_flags {
  QUERN_MLA_CAUSAL = 1u << 16,       /* as enum quern_attention_flags */
  QUERN_MLA_WINDOW_LEFT = 1u << 17,
  QUERN_MLA_WINDOW_RIGHT = 1u << 18,
  QUERN_MLA_SLOTS = 1u << 19         /* `indices` are places in the pool, page * page_size + slot: no page table, no
                                        lengths */
};
/* What the elements of `cache` are. */
enum quern_mla_cache {
  QUERN_MLA_CACHE_AS_TENSOR = 0, /* the tensor's own dtype: q's, or e4m3 */
  QUERN_MLA_CACHE_E4M3 = 1,      /* bytes (uint8) stand for e4m3 */
  QUERN_MLA_CACHE_ROWS_656 = 2   /* bytes (uint8), 656 a token: 512 e4m3, 4 f32 scales of 128 of them each, 64 bf16 of
                                    rope */
};
/* What a call found wrong on the device, or-ed into `status`. Nothing is read outside of the pool or the page table: a
 * length counts as what the table has room for; what a row gives that sees keys on such a page is not said. */
enum quern_mla_status {
  QUERN_MLA_STATUS_LENGTH = 1u << 0, /* a length below 0 or beyond the table's row or max_kv_len */
  QUERN_MLA_STATUS_PAGE = 1u << 1,   /* a page that is in use and not in the pool */
  QUERN_MLA_STATUS_INDEX = 1u << 2,  /* an index beyond the sequence's length, with QUERN_MLA_SLOTS beyond the pool; a
                                        slot beyond the pool */
  QUERN_MLA_STATUS_QUERIES = 1u << 3 /* a sequence with a negative number of queries, more than max_q_len, or beyond q's
                                        rows */
};

/* Attention over a latent cache (DeepSeek-V2's multi-head latent attention, absorbed form: W_UK is already multiplied
 * into q, and W_UV is multiplied with out afterwards). All heads see the same keys, whose first d_latent numbers are
 * the values too:
 *
 *   s[i,h,j] = scale * q[i,h] . cache[j]     for the keys j that query i may see; cap and sinks as quern_attention has
 *   them lse[i,h] = ln(sum_j exp(s[i,h,j]) + exp(sinks[h]))
 *   out[i,h] = sum_j exp(s[i,h,j] - lse[i,h]) cache[j, 0..d_latent)
 *
 * d_latent is a multiple of 16 from 16 to 512, d_rope one from 0 to 128; 512 and 64 with pages of a multiple of 8
 * tokens (fastest: 64) run at full speed on sm_90a. A row that sees no key gives zeros, and lse -inf (or the sink).
 * With `indices` query i sees the keys that it lists and that it may see; -1 is skipped, a key listed twice counts
 * twice. */
typedef struct quern_mla_decode_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_mla_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *q;      /* [total_q, heads, d_latent + d_rope], f16 or bf16, last stride 1; or d_latent alone, with
                             ... */
  const DLTensor *q_rope; /* ... [total_q, heads, d_rope], q's dtype */
  const DLTensor *cache;  /* [pages, page_size, d_latent + d_rope], q's dtype or e4m3, last stride 1; or d_latent alone,
                             with ... */
  const DLTensor *cache_rope;   /* ... [pages, page_size, d_rope], cache's dtype */
  const DLTensor *cache_scale;  /* e4m3: f32 [1], or one a token [pages, page_size]: x = q * scale */
  const DLTensor *out;          /* [total_q, heads, d_latent], q's dtype, last stride 1 */
  const DLTensor *lse;          /* optional [total_q, heads] f32, natural logarithm */
  const DLTensor *lengths;      /* [batch] int32: keys of each sequence, this call's tokens included */
  const DLTensor *cu_q;         /* [batch+1] int32: where each sequence's queries begin; NULL: one query each */
  const DLTensor *page_table;   /* [batch, max_pages] int32, last stride 1 ... */
  const DLTensor *page_indptr;  /* ... or [batch+1] int32 with ... */
  const DLTensor *page_indices; /* ... [>= indptr[batch]] int32 */
  const DLTensor *indices;      /* optional [total_q, top_k] int32, last stride 1: keys of the query's sequence, any
                                   order */
  const DLTensor *sinks;        /* optional [heads] f32 */
  const DLTensor *status;       /* optional [1] int32: enum quern_mla_status is or-ed into it */
  int32_t max_q_len;  /* no sequence has more queries; 0: 1 without cu_q, else total_q */
  int32_t max_kv_len; /* no sequence has more keys; must be given but with QUERN_MLA_SLOTS */
  int32_t window_left;
  int32_t window_right;
  int32_t cache_type; /* enum quern_mla_cache */
  float scale;        /* of the logits; must be given: 1/sqrt(d_nope + d_rope) before absorption, 1/sqrt(192) for
                         DeepSeek-V3 */
  float logit_cap;    /* 0: none */
} quern_mla_decode_args;

/* Joins any number of partial results over disjoint sets of keys in one call (cascades of shared prefixes):
 * lse = ln(sum_p exp(lse[p])), out = sum_p exp(lse[p] - lse) out[p], in the order of p. Parts whose lse is -inf count
 * nothing, whatever their values are; without any other part: zeros and -inf. No output may overlap an input. */
typedef struct quern_merge_states_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *parts;     /* [parts, rows, heads, d] f16, bf16 or f32; last stride 1 */
  const DLTensor *part_lses; /* [parts, rows, heads] f32, natural logarithm */
  const DLTensor *out;       /* [rows, heads, d], dtype of parts */
  const DLTensor *lse;       /* optional [rows, heads] f32 */
} quern_merge_states_args;

enum quern_rope_scaling { /* how the frequencies theta^(-2i/r) become those in use, r = rotary_dim, L =
                             original_positions */
  QUERN_ROPE_PLAIN = 0,
  QUERN_ROPE_LINEAR = 1, /* divided by factor */
  QUERN_ROPE_NTK = 2,    /* theta becomes theta * factor^(r/(r-2)) */
  QUERN_ROPE_YARN = 3,   /* divided by factor below a ramp, kept above it; the ramp runs between the i that turn
                            beta_slow and beta_fast times in L positions (Peng et al., 2023). cos and sin times
                            attention_factor */
  QUERN_ROPE_LLAMA3 = 4  /* divided by factor where the wavelength is more than L/low_freq_factor, kept where it is less
                            than L/high_freq_factor, linear in 1/wavelength between (Llama 3.1) */
};
enum quern_rope_flags {
  QUERN_ROPE_INTERLEAVED = 1u << 0, /* dimensions 2i and 2i+1 turn together, else i and i + rotary_dim/2 (NeoX) */
  QUERN_ROPE_EXACT_RAMP = 1u << 1   /* YaRN: the ramp's ends are not rounded to whole i (gpt-oss) */
};

/* Rotary positions: of each head of a token at position p the dimensions a and b of pair i become
 *   a cos(p f_i) - b sin(p f_i)  and  b cos(p f_i) + a sin(p f_i),   i < rotary_dim/2;
 * the dimensions from rotary_dim on stay. Angles are exact to 2^-32 of a turn at every position. */
typedef struct quern_rope_options {
  uint32_t size;
  uint32_t flags;             /* enum quern_rope_flags */
  int32_t scaling;            /* enum quern_rope_scaling; not with table */
  int32_t rotary_dim;         /* even; 0: all dimensions */
  double theta;               /* 0: 10000 */
  double factor;              /* 0: 1 */
  double attention_factor;    /* multiplies cos and sin; 0: 1, with YaRN 0.1 ln(factor) + 1 */
  double low_freq_factor;     /* Llama 3: 0: 1 */
  double high_freq_factor;    /* 0: 4 */
  double beta_fast;           /* YaRN: 0: 32 */
  double beta_slow;           /* 0: 1 */
  int32_t original_positions; /* YaRN and Llama 3: L, must be given there */
  int32_t reserved;
  const DLTensor *table;      /* optional [positions, rotary_dim] f32, f16 or bf16: the cosines of all pairs, then their
                                 sines; instead of computing them. A negative position leaves its token as 0 does,
                                 so does one beyond the rows; on `host` that is an error */
} quern_rope_options;

/* Turns q and k, each head by its token's position, in one launch. */
typedef struct quern_rope_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *q;         /* [tokens, heads, d] f16, bf16 or f32; last stride 1 */
  const DLTensor *k;         /* optional [tokens, kv_heads, d], q's dtype */
  const DLTensor *q_out;     /* as q; NULL: q is written over */
  const DLTensor *k_out;     /* as k; NULL: k is written over */
  const DLTensor *positions; /* [tokens] int32 or int64 */
  const quern_rope_options *rope; /* NULL: plain */
} quern_rope_args;

enum quern_kv_append_flags {
  QUERN_KV_APPEND_WEIGHT_PLUS_ONE = 1u << 16 /* the norms multiply by 1 + weight (Gemma) */
};

/* Puts the keys and values of new tokens into a paged cache, in one launch: k, and q where given, are normalised where
 * weights are given (each head: x / sqrt(mean(x^2) + eps) * weight), then turned where rope is given; k, v and q are
 * quantised where their outputs have 8 bits; k and v go to the cache, q to q_out.
 *
 * Where a token goes: slots[t] = page * page_size + place, a negative one is skipped. Or by page table: token t belongs
 * to the sequence b with cu_q[b] <= t < cu_q[b+1] (without cu_q to sequence t), and goes to positions[t] there; without
 * positions to lengths[b] - q_len + t - cu_q[b], as quern_attention places queries. A token of no sequence and a
 * negative position are skipped. Of a skipped token nothing is written, q_out included. No two tokens may go to one
 * slot.
 *
 * Quantising: code = saturate(x / scale), the largest number being 448, 57344 or 127 (int8: to nearest even, NaN
 * becomes 0). A scale of rank 1 is read: [1] or a head each; NULL is 1. One of the cache's shape without its last
 * dimension is written: the largest finite magnitude of the token's head / the largest number (but at least 2^-126), 1
 * where that is 0. */
typedef struct quern_kv_append_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_kv_append_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *k;            /* [tokens, kv_heads, d_k] f16, bf16 or f32; last stride 1 */
  const DLTensor *v;            /* [tokens, kv_heads, d_v], k's dtype; last stride 1 */
  const DLTensor *k_cache;      /* [pages, page_size, kv_heads, d_k]: k's dtype, e4m3, e5m2, int8 or uint8; any strides
                                   but the last, 1 */
  const DLTensor *v_cache;      /* [pages, page_size, kv_heads, d_v], k_cache's dtype */
  const DLTensor *k_scale;      /* with 8 bits, optional f32: [1] or [kv_heads], read; or [pages, page_size, kv_heads],
                                   written */
  const DLTensor *v_scale;      /* as k_scale; both are read, or both written */
  const DLTensor *slots;        /* [tokens] int32 or int64 ... */
  const DLTensor *page_table;   /* ... or [batch, max_pages] int32 ... */
  const DLTensor *page_indptr;  /* ... or [batch+1] int32 with ... */
  const DLTensor *page_indices; /* ... [>= indptr[batch]] int32 */
  const DLTensor *cu_q;         /* by page table: [batch+1] int32; NULL: one token each */
  const DLTensor *lengths;      /* by page table without positions: [batch] int32, this call's tokens included */
  const DLTensor *positions;    /* [tokens] int32 or int64; with rope and slots it must be given */
  const DLTensor *q;            /* optional [tokens, heads, d_k], k's dtype; last stride 1 */
  const DLTensor *q_out;        /* as q, or e4m3, e5m2 or uint8; NULL: q is written over */
  const DLTensor *q_scale;      /* with 8 bits in q_out, optional f32: [1] or [heads], read; or [tokens, heads],
                                   written */
  const DLTensor *q_weight;     /* optional [d_k], k's dtype or f32: q is normalised */
  const DLTensor *k_weight;     /* optional [d_k], k's dtype or f32: k is normalised */
  const quern_rope_options *rope; /* NULL: none */
  float eps;                    /* of the norms */
  int32_t q_type;               /* enum quern_fp8, where q_out is uint8 */
  int32_t kv_type;              /* enum quern_fp8, where the caches are uint8 */
  int32_t reserved;
} quern_kv_append_args;

/* Copies whole pages of a cache, with their per-token scales: page sources[i] of k and v to page destinations[i] of
 * k_to and v_to. Pairs with a negative number are skipped. No page may be written twice, or be both read and
 * written. */
typedef struct quern_kv_copy_pages_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *k;            /* [pages, page_size, kv_heads, d_k], any dtype of a cache; any strides but the last,
                                   1. Of a latent cache [pages, page_size, d], and its scales [pages, page_size] */
  const DLTensor *v;            /* [pages, page_size, kv_heads, d_v], k's dtype; NULL: k is all there is */
  const DLTensor *k_to;         /* another pool of the same page shape; NULL: k itself */
  const DLTensor *v_to;         /* NULL: v itself */
  const DLTensor *k_scale;      /* optional [pages, page_size, kv_heads] f32: copied too */
  const DLTensor *v_scale;
  const DLTensor *k_scale_to;   /* NULL: k_scale itself */
  const DLTensor *v_scale_to;
  const DLTensor *sources;      /* [pairs] int32 or int64, any stride */
  const DLTensor *destinations; /* [pairs], dtype of sources */
} quern_kv_copy_pages_args;
/* ---- Pointwise expressions ----------------------------------------------------------------------------------------
 * A formula that a kernel applies to each of its results, as text: "silu(acc + col0) * row1". Part of the kernel's
 * identity; made once, used in any number of calls.
 *
 *   leaves      acc: the op's result (its args say which names it offers); numbers (1, 0.5, 1e-3)
 *               rowN colN tensorN: operand N (0 to 7), a vector over rows, one over columns, or a tensor of the
 *               result's shape; scalarN: run-time scalar N (0 to 7), f32
 *               integerN: operand N, a tensor of the result's shape, as integers; indexN: the place along dimension
 *               N (0 to 5), place: its number in row-major order; both are integers (quern_pointwise alone)
 *   operators   + - * / and unary -; < <= > >= == != (their result is a truth value); && || !
 *               of integers also % & | ^ << >> and unary ~
 *   functions   abs exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tanh erf floor ceil trunc round sigmoid relu silu
 *               gelu gelu_tanh (x); min max pow atan2 (x, y); clamp (x, low, high); select (truth value, x, y)
 *   casts       f16 bf16 e4m3 e5m2 (x): rounded to that type; int8 uint8 int16 int32 int64 (x): an integer, cut towards
 *               0 and saturated; number (x): f32 of an integer; int64 and number of a truth value: 1 or 0
 *
 * Numbers are f32; operands of f16, bf16, f32, e4m3 and e5m2 are widened as they are read, integers rounded. Integers
 * have 64 bits and wrap around; with a number they become one. */
typedef struct quern_expression quern_expression;

/* Reads, type-checks and keeps an expression. QUERN_INVALID names the place and what is allowed there. The same formula
 * gives the same handle, which lives until the context is destroyed; it may be used with that context only. */
int32_t quern_expression_create(quern_context *context, const char *text, const quern_expression **expression,
    quern_error *error);

enum quern_activation {
  QUERN_ACTIVATION_DEFAULT = 0,   /* none; in front of a gate silu */
  QUERN_ACTIVATION_RELU = 1,
  QUERN_ACTIVATION_GELU = 2,      /* x/2 (1 + erf(x/sqrt(2))) */
  QUERN_ACTIVATION_GELU_TANH = 3, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  QUERN_ACTIVATION_SILU = 4,      /* x / (1 + exp(-x)) */
  QUERN_ACTIVATION_NONE = 5
};

/* What becomes of a matrix product's f32 results before they are stored:
 *   plain:  out = activation(acc + c + bias)
 *   gated:  out = activation(gate + c + bias) * (up + c + bias), gate and up the halves of the N columns, out [M, N/2]
 *   or      out = expression, whose leaves are acc, or with the gate flag gate and up
 * "row" counts the rows of out, "column" its columns. */
enum quern_epilogue_flags {
  QUERN_EPILOGUE_GATE = 1u << 0,        /* columns j and j + N/2 meet: out has N/2 columns. N even */
  QUERN_EPILOGUE_POWER_OF_TWO = 1u << 1 /* round out_scale up to powers of two */
};
typedef struct quern_epilogue {
  uint32_t size;
  uint32_t flags;                     /* enum quern_epilogue_flags */
  int32_t activation;                 /* enum quern_activation */
  uint32_t operand_count;             /* at most 8 */
  uint32_t scalar_count;              /* at most 8 */
  uint32_t reserved;
  const DLTensor *bias;               /* optional [N], grouped: [experts, N], batched: [N] or [batch, N]; f32, f16,
                                         bf16 */
  const DLTensor *c;                  /* optional, [M, N] with any leading dimension of out; f32, f16, bf16; may be
                                         out */
  const quern_expression *expression; /* instead of activation, bias and c */
  const DLTensor *const *operands;    /* row: [M]; col: [columns]; tensor: as out; each with any leading dimension of
                                         out */
  const float *scalars;
  const DLTensor *out_scale;          /* out e4m3 or e5m2: written, [M, ceil(columns/128)] f32, any strides. out =
                                         result / scale, scale = the largest magnitude of the row's 128 columns / the
                                         dtype's largest number */
} quern_epilogue;

/* ---- Matrix products -------------------------------------------------------------------------------------------- */
enum quern_fp8 { QUERN_FP8_AS_TENSOR = 0, QUERN_FP8_E4M3 = 1, QUERN_FP8_E5M2 = 2 }; /* what bytes (uint8) stand for */

/* out = epilogue(A B^T), A and B 8-bit floating point with scales: x = q * scale.
 *
 *   acc[m,n] = sum over k of scale_a[m, k/128] a[m,k] scale_b[n/128, k/128] b[n,k]     block scales
 *   acc[m,n] = scale_a[m] scale_b[n] sum over k of a[m,k] b[n,k]                       else
 *
 * K a multiple of 16, rows of a and b 16-byte aligned; with `alignment` 4, K a multiple of 4. N and M are any. */
typedef struct quern_fp8_gemm_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_gemm_flags: CONSTANT_B */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;       /* [M, K] e4m3 or e5m2, last stride 1 */
  const DLTensor *b;       /* [N, K] e4m3 or e5m2, last stride 1 */
  const DLTensor *scale_a; /* f32: [1] per tensor, [M] per row, or [M, ceil(K/128)] in blocks, any strides: read fastest
                              where M is contiguous with a leading dimension of round_up(M, 4) */
  const DLTensor *scale_b; /* f32: [1] per tensor, [N] per column, or, with blocks in a, [ceil(N/128), ceil(K/128)] */
  const DLTensor *out;     /* [M, N], gated [M, N/2]: bf16, f16, f32, e4m3, e5m2 (saturating), last stride 1 */
  const quern_epilogue *epilogue; /* NULL: out = acc */
  int32_t a_type;          /* enum quern_fp8, where a is uint8 */
  int32_t b_type;          /* enum quern_fp8, where b is uint8 */
} quern_fp8_gemm_args;

/* What a grouped product found wrong on the device, or-ed into `status`. Rows concerned are left out, never read or
 * written out of bounds. */
enum quern_group_status {
  QUERN_GROUP_OFFSETS = 1u << 0,  /* offsets[0] < 0, or an offset smaller than the one before */
  QUERN_GROUP_CAPACITY = 1u << 1, /* an offset or count beyond the rows there are, or a negative count */
  QUERN_GROUP_INDEX = 1u << 2     /* an index outside of a */
};

/* As quern_fp8_gemm for a mixture of experts, each row by its expert's weights, in one launch. Which rows those are is
 * read on the device: a captured call serves changing counts.
 *   contiguous  rows sorted by expert: expert e has the rows offsets[e] to offsets[e+1] of out, and of a unless
 *   gathered
 *   masked      a fixed capacity of rows an expert, of which counts[e] are there
 * Rows of out that belong to no expert are left untouched. */
typedef struct quern_grouped_fp8_gemm_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_gemm_flags: CONSTANT_B */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;       /* contiguous: [rows, K], gathered: [tokens, K]; masked: [experts, capacity, K] */
  const DLTensor *b;       /* [experts, N, K] */
  const DLTensor *scale_a; /* f32: [1], [rows of a] or [rows of a, ceil(K/128)]; masked: [1] or with the experts in
                              front */
  const DLTensor *scale_b; /* f32: [experts], [experts, N], or [experts, ceil(N/128), ceil(K/128)] */
  const DLTensor *out;     /* contiguous: [rows, N]; masked: [experts, capacity, N]; gated N/2 */
  const DLTensor *offsets; /* contiguous: [experts+1] int32, ascending, not aligned in any way ... */
  const DLTensor *counts;  /* ... or masked: [experts] int32 */
  const DLTensor *indices; /* contiguous, optional: [rows] int32: row r of out is made of row indices[r] of a and its
                              scales */
  const DLTensor *status;  /* optional [1] int32: enum quern_group_status or-ed in; the caller zeroes it */
  const quern_epilogue *epilogue;
  int32_t a_type; /* enum quern_fp8, where a is uint8 */
  int32_t b_type; /* enum quern_fp8, where b is uint8 */
  int32_t expected_rows; /* of an expert that has any, where the caller knows: what experts are padded to, or the
                            mean. It chooses the kernel; results are right for any. 0: rows / experts; masked: the
                            capacity */
  int32_t reserved;      /* 0 */
} quern_grouped_fp8_gemm_args;

enum quern_gemm_flags { /* of every product but for TF32, which is quern_gemm's */
  QUERN_GEMM_TF32 = 1u << 16,      /* f32 operands may be rounded to TF32 (10 bits of mantissa) where the target has
                                      it */
  QUERN_GEMM_CONSTANT_B = 1u << 17 /* no launch that may still be running then writes b or scale_b: with
                                      QUERN_CALL_PROGRAMMATIC they may be read before the one before has finished */
};

/* out = epilogue(A B^T) of bf16, f16 or f32, any of a and b in either order: the last stride may be 1, or the one
 * before it (NN: b is the transposed view of a [K, N] matrix; TN: both are views). */
typedef struct quern_gemm_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_gemm_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;   /* [M, K] or [batch, M, K]; f16, bf16 or f32 */
  const DLTensor *b;   /* [N, K] or [batch, N, K], a's dtype; a batch stride of 0 shares one b */
  const DLTensor *out; /* [M, N] or [batch, M, N], gated N/2; f16, bf16, f32, e4m3, e5m2; last stride 1 */
  const quern_epilogue *epilogue;
} quern_gemm_args;

/* ---- Products of quantized numbers ------------------------------------------------------------------------------ */
enum quern_quantized_format {     /* what a and b hold */
  QUERN_QUANTIZED_AS_TENSOR = 0,  /* numbers of the tensor's dtype; uint8: 0 to 255 less a zero point, 128 where none is
                                     given */
  QUERN_QUANTIZED_E4M3 = 1,       /* 8 bits, where the tensor is uint8 */
  QUERN_QUANTIZED_INT4 = 2,       /* this and all below: uint8, two in a byte along K, the first in the low four bits;
                                     -8 to 7, two's complement */
  QUERN_QUANTIZED_UINT4 = 3,      /* 0 to 15 less a zero point, 8 where none is given */
  QUERN_QUANTIZED_E2M1 = 4        /* a sign and 0, 0.5, 1, 1.5, 2, 3, 4 or 6 (FP4) */
};
enum quern_quantized_scale {            /* what scales of uint8 stand for */
  QUERN_QUANTIZED_SCALE_AS_TENSOR = 0,  /* the tensor's dtype, which is not uint8 */
  QUERN_QUANTIZED_SCALE_E4M3 = 1,
  QUERN_QUANTIZED_SCALE_UE8M0 = 2       /* 2^(byte - 127): OCP's e8m0 */
};

/* out = epilogue(A B^T) of numbers that are stored in 8 or 4 bits with scales, in the plain layout that they are stored
 * in, or of such weights and activations of 16 bits (W8A16, W4A16, W8A8, W4A8, W4A4, NVFP4, MXFP4):
 *
 *   acc[m,n] = tensor_scale_a tensor_scale_b
 *              sum over k of scale_a[m, k/group] a[m,k] scale_b[n, k/group] (b[n,k] - zero_b[n, k/group])
 *
 * Products are exact. They are summed within a group as int32, exactly, where a and b are both integers and b is not
 * uint8, else as f32; sums of groups are multiplied by their scales and added up in f32, so that no weight is rounded.
 * In groups of 16 a number times its scale is rounded to what tensor cores multiply: a's dtype, or f16 where a has 8 or
 * 4 bits. That is exact for numbers of 4 bits with scales of e4m3, as NVFP4 has them.
 *
 * A group is 16, 32, 64 or 128 of k, and K whole groups, or it is the whole of K; what groups there are is told by the
 * scales' shape. Of a and b either may be in groups, or both, then of the same size. Rows are whole copies of
 * `alignment` bytes, 16 or 4: K a multiple of 32 for 4 bits, 16 for 8, 8 for 16 bits; with `alignment` 4 a fourth of
 * that. */
typedef struct quern_quantized_gemm_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_gemm_flags: CONSTANT_B */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *a;              /* [M, K] f16, bf16, int8 or e4m3; INT4 and E2M1: uint8 [M, K/2]; last stride 1 */
  const DLTensor *b;              /* [N, K] int8, uint8 or e4m3; INT4, UINT4, E2M1: uint8 [N, K/2]; last stride 1 */
  const DLTensor *scale_a;        /* optional, not where a is f16 or bf16: [1], [M] or [M, K/group], any strides; f32,
                                     f16, bf16, e4m3, e8m0 or uint8 */
  const DLTensor *scale_b;        /* optional: [1], [N] or [N, K/group], likewise */
  const DLTensor *zero_b;         /* optional, of uint8 and UINT4: uint8 [N] or [N, K/group], the group scale_b's, any
                                     strides; of UINT4 at most 16 */
  const DLTensor *tensor_scale_a; /* optional [1] f32, beside scale_a */
  const DLTensor *tensor_scale_b; /* optional [1] f32, beside scale_b */
  const DLTensor *out;            /* [M, N], gated [M, N/2]: bf16, f16, f32, e4m3, e5m2 (saturating), last stride 1 */
  const quern_epilogue *epilogue; /* NULL: out = acc */
  int32_t a_format;               /* enum quern_quantized_format */
  int32_t b_format;               /* enum quern_quantized_format */
  int32_t scale_a_type;           /* enum quern_quantized_scale */
  int32_t scale_b_type;           /* enum quern_quantized_scale */
} quern_quantized_gemm_args;

/* ---- Quantisation
 * ------------------------------------------------------------------------------------------------- */
enum quern_quantize_front { /* what stands in front of the quantiser: y, from x */
  QUERN_FRONT_NONE = 0,
  QUERN_FRONT_RMSNORM = 1,      /* x += residual; x / sqrt(mean(x^2) + eps) * weight */
  QUERN_FRONT_LAYERNORM = 2,    /* x += residual; (x - mean) / sqrt(variance + eps) * weight + bias */
  QUERN_FRONT_SILU_MUL = 3,     /* silu(x[:n]) * x[n:] */
  QUERN_FRONT_GELU_MUL = 4,     /* gelu(x[:n]) * x[n:] */
  QUERN_FRONT_GELU_TANH_MUL = 5
};
enum quern_scale_kind {
  QUERN_SCALE_NONE = 0,      /* no quantisation: `dense` alone is written */
  QUERN_SCALE_STATIC = 1,    /* per tensor, given: scale [1] is read */
  QUERN_SCALE_TENSOR = 2,    /* per tensor, found: scale [1] is written */
  QUERN_SCALE_TOKEN = 3,     /* scale [rows] is written */
  QUERN_SCALE_GROUP = 4,     /* 1x128 of activations: scale [rows, ceil(n/128)] is written */
  QUERN_SCALE_BLOCK = 5      /* 128x128 of weights: scale [ceil(rows/128), ceil(n/128)] is written */
};
enum quern_quantize_flags {
  QUERN_QUANTIZE_POWER_OF_TWO = 1u << 16, /* round scales up to powers of two */
  QUERN_QUANTIZE_WEIGHT_PLUS_ONE = 1u << 17 /* norms multiply by 1 + weight (Gemma) */
};

/* out = saturate(y / scale), scale = the largest magnitude of y over what shares it / the dtype's largest number (448,
 * 57344 or 127); where all of y is 0 the scale is 1. NaN stays NaN, infinities become the largest number; neither
 * counts in the scale. int8 is symmetric: y / scale is rounded to the nearest integer, ties to even, -128 is never
 * written and NaN becomes 0. */
typedef struct quern_quantize_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_quantize_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;            /* [rows, n], in front of a product [rows, 2n]; f16, bf16, f32; last stride 1 */
  const DLTensor *out;          /* [rows, n] e4m3, e5m2, int8 or uint8; last stride 1. NULL with QUERN_SCALE_NONE */
  const DLTensor *scale;        /* f32, see enum quern_scale_kind; any strides. A GEMM reads [rows, groups] fastest
                                   where rows are contiguous, with a leading dimension of round_up(rows, 4) */
  const DLTensor *residual;     /* norms, optional [rows, n], x's dtype */
  const DLTensor *residual_out; /* x + residual, as x; may be residual or x */
  const DLTensor *weight;       /* norms, optional [n]: x's dtype or f32 */
  const DLTensor *bias;         /* layer norm, optional [n]: weight's dtype */
  const DLTensor *dense;        /* optional: y itself, [rows, n], x's dtype */
  int32_t front;                /* enum quern_quantize_front */
  int32_t scale_kind;           /* enum quern_scale_kind */
  int32_t type;                 /* enum quern_fp8, where out is uint8 */
  float eps;                    /* norms */
} quern_quantize_args;

/* x = out * scale, the inverse of quern_quantize. */
typedef struct quern_dequantize_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;     /* [rows, n] e4m3, e5m2, int8 or uint8; last stride 1 */
  const DLTensor *scale; /* f32: [1], [rows], [rows, ceil(n/128)] or [ceil(rows/128), ceil(n/128)] by scale_kind */
  const DLTensor *out;   /* [rows, n] f16, bf16, f32; last stride 1 */
  int32_t scale_kind;    /* enum quern_scale_kind; STATIC and TENSOR are the same here */
  int32_t type;          /* enum quern_fp8, where x is uint8 */
} quern_dequantize_args;

/* ---- Mixture of experts
 * ------------------------------------------------------------------------------------------- */
enum quern_moe_flags {
  QUERN_MOE_SIGMOID = 1u << 16,    /* scores are sigmoid(logits), else softmax over the experts */
  QUERN_MOE_RENORMALIZE = 1u << 17 /* the weights of a token are divided by their sum */
};

/* Chooses each token's experts, and sorts the choices by expert for a grouped product.
 *
 *   score = softmax(logits) or sigmoid(logits);  choice = score + bias
 *   With groups > 1 (DeepSeek-V3) the experts fall into that many equal groups; a group's worth is the sum of its two
 *   largest choices with a bias, its largest one without; experts outside the top_groups best groups are passed over.
 *   ids: the top_k largest choices, largest first, the lower id on ties; weights: their scores, renormalised, times
 *   scale.
 *
 * A NaN choice is never taken before another. */
typedef struct quern_moe_route_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_moe_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits;    /* [tokens, experts] f32, f16, bf16; last stride 1 */
  const DLTensor *bias;      /* optional [experts] f32 */
  const DLTensor *weights;   /* written: [tokens, top_k] f32 */
  const DLTensor *ids;       /* written: [tokens, top_k] int32 */
  const DLTensor *offsets;   /* optional, written: [local_experts+1] int32: where each expert's rows begin */
  const DLTensor *indices;   /* optional, written: [tokens*top_k] int32: the token of each sorted row, in order of
                                expert, then token; rows past offsets' last are left alone. For `indices` of a grouped
                                product */
  const DLTensor *positions; /* optional, written: [tokens, top_k] int32: the sorted row of each choice, -1 where its
                                expert is not local. For quern_moe_combine */
  const DLTensor *counts;    /* optional, written: [local_experts] int32 */
  int32_t top_k;
  int32_t groups;            /* 0: 1 */
  int32_t top_groups;        /* 0: groups */
  int32_t first_expert;      /* expert parallelism: the sorted part holds experts first_expert on ... */
  int32_t local_experts;     /* ... this many; 0: all from first_expert on */
  float scale;               /* 0: 1 */
} quern_moe_route_args;

/* out[t] = sum over j, ascending, of weights[t,j] x[positions[t,j]]  (+ add[t]). Choices with a position of -1 give
 * nothing. */
typedef struct quern_moe_combine_args {
  uint32_t size;
  uint32_t flags;
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;         /* [rows, n] f16, bf16, f32; last stride 1 */
  const DLTensor *positions; /* [tokens, top_k] int32, below rows */
  const DLTensor *weights;   /* [tokens, top_k] f32; NULL: 1 each */
  const DLTensor *add;       /* optional [tokens, n], out's dtype: the shared experts' result; may be out */
  const DLTensor *out;       /* [tokens, n] f16, bf16, f32 */
} quern_moe_combine_args;

/* ---- Norms
 * -------------------------------------------------------------------------------------------------------- */
enum quern_rmsnorm_flags {
  QUERN_RMSNORM_WEIGHT_PLUS_ONE = 1u << 16, /* multiply by 1 + weight (Gemma) */
  QUERN_RMSNORM_CONSTANT_WEIGHT = 1u << 17  /* no launch that may still be running then writes weight: with
                                               QUERN_CALL_PROGRAMMATIC it may be read before the one before has
                                               finished */
};

/* out = y / sqrt(mean(y^2) + eps) * weight by row, y = x + residual; in f32, rounded once. (Zhang, Sennrich: "Root mean
 * square layer normalization", 2019.) Rows may lie at any distance: where that is no multiple of `alignment`, accesses
 * are narrower, and prepare readies the kernel for the strides that it is given. out and residual_out may each be x or
 * residual, row by row. */
typedef struct quern_rmsnorm_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_rmsnorm_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment; /* of data */
  int32_t max_sms;
  const DLTensor *x;            /* [rows, n], n to 65536; f16, bf16, f32; last stride 1 */
  const DLTensor *residual;     /* optional [rows, n], x's dtype */
  const DLTensor *weight;       /* optional [n]: x's dtype or f32 */
  const DLTensor *out;          /* [rows, n], x's dtype */
  const DLTensor *residual_out; /* optional, with residual: receives x + residual, as x */
  float eps;
  int32_t reserved; /* 0 */
} quern_rmsnorm_args;

/* ---- Rows of a table ----------------------------------------------------------------------------------------- */
enum quern_gather_flags {
  QUERN_GATHER_HAS_PADDING = 1u << 16, /* ids that are `padding` get zeros */
  QUERN_GATHER_SHARD = 1u << 17        /* ids outside of the table's rows get zeros: they are another shard's */
};

/* out[i] = scale * table[ids[i] - first] by row: token embeddings, of a whole vocabulary or of one shard of it. Where
 * dtypes differ or scale is not 1 the product is f32's, rounded once. An id outside of first to first + rows - 1 that
 * no flag allows is an error on `host`; on a GPU its row is zeros, and nothing is read outside of the table. */
typedef struct quern_gather_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_gather_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment; /* of data; rows may lie at any distance, as rmsnorm's */
  int32_t max_sms;
  const DLTensor *table; /* [rows, n] f16, bf16 or f32; with out of the same dtype also e4m3, e5m2, int8, uint8, int32
                            and int64; last stride 1 */
  const DLTensor *ids;   /* [count] int32 or int64, any stride */
  const DLTensor *out;   /* [count, n]: f16, bf16 or f32, or table's dtype */
  int64_t first;         /* the id of the table's row 0 */
  int64_t padding;
  float scale;           /* 0: 1 (Gemma: the square root of n) */
  int32_t reserved;      /* 0 */
} quern_gather_args;

/* ---- Sampling ----------------------------------------------------------------------------------------------- */
enum quern_sample_flags { /* the first three mean that a scalar is set, 0 included */
  QUERN_SAMPLE_TEMPERATURE = 1u << 16,      /* `temperature`, else 1 */
  QUERN_SAMPLE_TOP_P = 1u << 17,            /* `top_p`, else 1 */
  QUERN_SAMPLE_TYPICAL_P = 1u << 18,        /* `typical_p`, else 1 */
  QUERN_SAMPLE_JOINT = 1u << 19,            /* top-p is of what top-k began with, else of what it leaves */
  QUERN_SAMPLE_TEMPERATURE_LAST = 1u << 20, /* the filters see the distribution of temperature 1, as in llama.cpp */
  QUERN_SAMPLE_LOGPROBS_FILTERED = 1u << 21 /* log-probabilities are of the distribution that is drawn from */
};
enum quern_sample_status { /* of a row, or-ed; 0: fine */
  QUERN_SAMPLE_EMPTY = 1u << 0,     /* nothing is left to choose: the id is -1 */
  QUERN_SAMPLE_NAN = 1u << 1,       /* there are NaN logits among the tokens that may be chosen; none of them is */
  QUERN_SAMPLE_PARAMETER = 1u << 2, /* a parameter of the row is out of its range: the id is -1 */
  QUERN_SAMPLE_INDEX = 1u << 3,     /* the row's index or a bias id is out of range: the id is -1 */
  QUERN_SAMPLE_CAPACITY = 1u << 4   /* more than max_bias biases: the id is -1 */
};

/* One token for each row, from its logits x. In this order:
 *
 *   repetition  of tokens in the prompt or the output: x > 0 ? x / r : x * r
 *   presence    of tokens in the output: x -= presence;  frequency: x -= frequency * count in the output
 *   bias        x += bias;  banned ids and tokens whose bit of `allowed` is 0 are out, and NaN is
 *   n_sigma     tokens with x >= max - n_sigma * (standard deviation of the finite x that are in) stay; 0: off
 *   temperature p = softmax(x / temperature); 0: the largest x, the lowest id on ties, whatever follows
 *   min_p       tokens with p >= min_p * max p stay; 0: off
 *   top_k       the k largest stay, the lowest ids on ties; 0, -1: off
 *   top_p       of the rest by descending p, the lowest ids first, the fewest whose sum reaches top_p of all; 1: off
 *   typical_p   of the rest, with entropy H, by ascending |-log p - H|: the fewest whose sum exceeds typical_p; 1: off
 *   xtc         with probability xtc_probability: where more than one has p >= xtc_threshold, all of these go but the
 *               least probable; 0: off. Above 0.5 the threshold is off
 *   dynamic     with dynamic_range > 0 the temperature comes last, for the filters it is 1; and it is
 *   temperature low + (high - low) * (H / log(number of tokens that are left))^dynamic_exponent,
 *               low = max(temperature - dynamic_range, 0), high = temperature + dynamic_range
 *
 * Each parameter is an array [n], or the scalar beside it for all rows, the scalar's zero meaning off. The choice is a
 * function of the row's logits and parameters, seed and offset alone, whatever else is in the batch. `status` tells of
 * a row what only the device can see. */
typedef struct quern_sample_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_sample_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits;         /* [rows, vocab] f32, f16, bf16; last stride 1; vocab 1 to 2^20 */
  const DLTensor *rows;           /* optional [n] int32: which rows of logits; else n is rows. All else is by place */
  const DLTensor *ids;            /* written: [n] int32 or int64 */
  const DLTensor *logprobs;       /* optional, written: [n] f32, natural log; with temperature 0 as with 1 */
  const DLTensor *top_ids;        /* optional, written: [n, top_n] int32, the largest first, then -1; top_n to 128 */
  const DLTensor *top_logprobs;   /* with top_ids, written: [n, top_n] f32 */
  const DLTensor *status;         /* optional, written: [n] int32, enum quern_sample_status */
  const DLTensor *seeds;          /* [n] int64; NULL: `seed` for all, with a stream of its own for each place */
  const DLTensor *offsets;        /* optional [n] int64, read, and 1 more when the call is done; else `offset` */
  const DLTensor *temperatures;   /* [n] f32, as are all below unless said otherwise */
  const DLTensor *top_ks;         /* [n] int32 */
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
  const DLTensor *prompt_mask;    /* optional [n, ceil(vocab/32)] int32: bit t % 32 of word t / 32: t is in it ... */
  const DLTensor *prompt_tokens;  /* ... or its tokens: [n, most] int32; what is no token is passed over */
  const DLTensor *prompt_lengths; /* with prompt_tokens, optional [n] int32: how many of them are there */
  const DLTensor *output_counts;  /* optional [n, vocab] int32: each token's count; the chosen one's is raised ... */
  const DLTensor *output_tokens;  /* ... or the output's tokens: [n, most] int32. All lists of a row (these, the
                                     prompt's, banned ones, max_bias) have at most 8 192 places together */
  const DLTensor *output_lengths; /* with output_tokens, optional [n] int32 */
  const DLTensor *bias_offsets;   /* optional [n+1] int32: where each row's biases begin ... */
  const DLTensor *bias_ids;       /* ... [entries] int32, each once in a row */
  const DLTensor *bias_values;    /* [entries] f32 */
  const DLTensor *allowed;        /* optional [n, ceil(vocab/32)] int32: a bit for each token that may be chosen */
  const DLTensor *banned;         /* optional [n, most] int32: tokens that may not; what is no token is passed over */
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
  float dynamic_exponent;         /* 0: 1 */
  float repetition;               /* 0: 1 */
  float presence;
  float frequency;
  int32_t max_bias;               /* the most biases of a row; 0: all entries */
} quern_sample_args;

enum quern_mla_append_flags {
  QUERN_MLA_APPEND_POWER_OF_TWO = 1u << 16 /* scales that are found are rounded up to powers of two */
};

/* Puts new tokens into a latent cache as quern_mla_decode reads it, in one launch: the latent is normalised
 * (x / sqrt(mean(x^2) + eps) * weight, with weight only), the rope part, and q's where given, turned (with rope only);
 * then both are quantised as the cache has it and stored. The kinds of cache are those of quern_mla_decode:
 *
 *   kv's dtype                rounded once
 *   e4m3, cache_scale [1]     code = saturate(x / scale), the scale being read
 *   e4m3, one scale a token   scale = the largest finite magnitude of latent and rope part / 448 (at least 2^-126, 1
 *                             where that is 0), written
 *   656-byte rows             the same for each 128 of the latent, written into the row; the rope part bf16
 *
 * Where a token goes: as in quern_kv_append. Of a token that is skipped nothing is written, q_rope_out and kv_out
 * included. No two tokens may go to one slot. d_latent is a multiple of 16 from 16 to 512, d_rope one from 0 to 128. */
typedef struct quern_mla_append_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_mla_append_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *kv;           /* [tokens, d_latent + d_rope], f16 or bf16, last stride 1; or d_latent alone, with
                                   ... */
  const DLTensor *k_rope;       /* ... [tokens, d_rope], kv's dtype */
  const DLTensor *weight;       /* optional [d_latent], kv's dtype or f32: the latent is normalised */
  const DLTensor *cache;        /* [pages, page_size, d_latent + d_rope], kv's dtype, e4m3 or uint8, last stride 1; or
                                   d_latent alone, with ... */
  const DLTensor *cache_rope;   /* ... [pages, page_size, d_rope], cache's dtype */
  const DLTensor *cache_scale;  /* e4m3: f32 [1], read, or [pages, page_size], written */
  const DLTensor *slots;        /* [tokens] int32 or int64: page * page_size + place; negative: skipped ... */
  const DLTensor *page_table;   /* ... or [batch, max_pages] int32 ... */
  const DLTensor *page_indptr;  /* ... or [batch+1] int32 with ... */
  const DLTensor *page_indices; /* ... [>= indptr[batch]] int32 */
  const DLTensor *cu_q;         /* by page table: [batch+1] int32; NULL: one token each */
  const DLTensor *lengths;      /* by page table without positions: [batch] int32, this call's tokens included */
  const DLTensor *positions;    /* [tokens] int32 or int64; with rope and slots it must be given */
  const DLTensor *q_rope;       /* optional [tokens, heads, d_rope], kv's dtype, last stride 1: the queries' rope
                                   part */
  const DLTensor *q_rope_out;   /* as q_rope; NULL: q_rope is written over */
  const DLTensor *kv_out;       /* optional, as kv: what is stored, not quantised (for prefill). May be kv */
  const DLTensor *k_rope_out;   /* with kv_out and k_rope, as k_rope. May be k_rope */
  const DLTensor *status;       /* optional [1] int32: enum quern_mla_status is or-ed into it; what it tells of is
                                   skipped */
  const quern_rope_options *rope; /* NULL: none; rotary_dim is at most d_rope */
  float eps;                    /* of the norm */
  int32_t d_rope;               /* where k_rope is NULL: how many of kv's last numbers are the rope part */
  int32_t cache_type;           /* enum quern_mla_cache */
  int32_t reserved;
} quern_mla_append_args;

enum quern_index_scores_flags {
  QUERN_INDEX_SCORES_CAUSAL = 1u << 16,      /* query i of a sequence sees keys j <= length - q_len + i */
  QUERN_INDEX_SCORES_LEAVE_MASKED = 1u << 17 /* columns of keys that a query does not see hold -inf or what was there:
                                                for who reads lengths beside the scores */
};

/* What DeepSeek-V3.2's lightning indexer gives each key (DeepSeek-AI, "DeepSeek-V3.2-Exp", 2025), before the largest
 * are chosen:
 *
 *   out[i,j] = k_scale[j] * sum over heads h of weights[i,h] * q_scale[i,h] * max(q[i,h] . k[j], 0)
 *
 * for the keys j that query i of a sequence sees, j counting from the sequence's first key on; -inf in the other
 * columns of out. Scales are not negative. Rows of q past the last sequence's are not read, those of out not written.
 * Heads 1 to 128, d a multiple of 16 from 16 to 256; 64 heads of 128 with pages of a multiple of 8 keys run at full
 * speed on sm_90a. */
typedef struct quern_index_scores_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_index_scores_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *q;            /* [total_q, heads, d], e4m3 or e5m2, last stride 1 */
  const DLTensor *q_scale;      /* optional f32: [1] or [total_q, heads]; NULL: 1 */
  const DLTensor *weights;      /* [total_q, heads] f32 */
  const DLTensor *k;            /* paged: [pages, page_size, d]; ragged: [total_kv, d]; q's dtype, last stride 1 */
  const DLTensor *k_scale;      /* optional f32: [1], or k's shape without its last dimension; NULL: 1 */
  const DLTensor *out;          /* [total_q, columns] f32, last stride 1; columns: no sequence has more keys */
  const DLTensor *lengths;      /* [batch] int32: keys of each sequence, this call's tokens included */
  const DLTensor *cu_q;         /* [batch+1] int32: where each sequence's queries begin; NULL: one query each */
  const DLTensor *page_table;   /* paged: [batch, max_pages] int32, last stride 1 ... */
  const DLTensor *page_indptr;  /* ... or [batch+1] int32 with ... */
  const DLTensor *page_indices; /* ... [>= indptr[batch]] int32 */
  const DLTensor *cu_kv;        /* ragged: [batch+1] int32: where each sequence's keys begin */
  const DLTensor *status;       /* optional [1] int32: enum quern_mla_status is or-ed into it */
  int32_t max_q_len;            /* no sequence has more queries; 0: 1 without cu_q, else total_q */
  int32_t q_type;               /* enum quern_fp8, where q and k are uint8 */
} quern_index_scores_args;
/* The next five stand beside quern_sample: what engines put around a sampler of their own. Rows are independent, a
 * row's result is a function of that row and its parameters alone, and NaN is never chosen. Their `status` is
 * enum quern_sample_status. */
enum quern_softmax_flags {
  QUERN_SOFTMAX_TEMPERATURE = 1u << 16, /* `temperature` is set, 0 included; else 1 */
  QUERN_SOFTMAX_LOG = 1u << 17          /* out receives natural logarithms */
};

/* out = softmax(logits / temperature) by row; with temperature 0 it is 1 at the largest logit, the lowest index on
 * ties. -inf and NaN have probability 0, and where there are +inf these alone share it. A row with nothing else than
 * -inf and NaN is 0 throughout, one whose temperature is negative or not finite is NaN; status says so of both. */
typedef struct quern_softmax_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_softmax_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits;       /* [rows, vocab] f32, f16, bf16; last stride 1; vocab 1 to 2^20 */
  const DLTensor *temperatures; /* optional [rows] f32; else `temperature` for all */
  const DLTensor *out;          /* written: [rows, vocab] f32 or logits' dtype; last stride 1; may be logits */
  const DLTensor *status;       /* optional, written: [rows] int32 */
  float temperature;
  int32_t reserved; /* 0 */
} quern_softmax_args;

/* ids = where each row is largest, the lowest index on ties; -1 for a row of NaN alone. */
typedef struct quern_argmax_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *logits; /* [rows, vocab] f32, f16, bf16; last stride 1; vocab 1 to 2^24 */
  const DLTensor *ids;    /* written: [rows] int32 or int64 */
  const DLTensor *values; /* optional, written: [rows] f32; NaN where the id is -1 */
} quern_argmax_args;

enum quern_top_k_flags {
  QUERN_TOP_K_SORTED = 1u << 16 /* the largest first, the lowest index on ties; else by ascending index */
};

/* The k largest of each row, of equal ones those with the lowest indices. -inf is a number like others. Where a row has
 * fewer than k numbers, the rest of ids is -1 and the rest of values -inf. */
typedef struct quern_top_k_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_top_k_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *x;       /* [rows, n] f32, f16, bf16; last stride 1; n 1 to 2^24 */
  const DLTensor *lengths; /* optional [rows] int32, 0 to n: of each row only so many of the first are looked at, as
                              when a sparse attention chooses keys. On a GPU what is outside is taken for the nearer
                              end */
  const DLTensor *ids;     /* written: [rows, k] int32, last stride 1; k 1 to 2048 */
  const DLTensor *values;  /* optional, written: [rows, k] f32 or x's dtype, last stride 1 */
} quern_top_k_args;

enum quern_renormalise_flags {
  QUERN_RENORMALISE_TOP_P = 1u << 16, /* `top_p` is set, 0 included; else 1 */
  QUERN_RENORMALISE_JOINT = 1u << 17  /* top-p is of what top-k began with, else of what it leaves */
};

/* Probabilities with the unlikely tokens taken away: out = p / (sum over the tokens that stay) for those, 0 for the
 * others. min_p, top_k and top_p, in this order, take away what quern_sample's do; at least one token stays. The p of a
 * row need not add up to 1: what counts is their share. Those that are negative or NaN count as 0. A row of zeros, or
 * with +inf in it, is 0 throughout, and so is one whose parameters are out of their range; status says so. */
typedef struct quern_renormalise_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_renormalise_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *probs;   /* [rows, vocab] f32; last stride 1; vocab 1 to 2^20 */
  const DLTensor *out;     /* written: [rows, vocab] f32; last stride 1; may be probs */
  const DLTensor *status;  /* optional, written: [rows] int32 */
  const DLTensor *top_ks;  /* optional [rows] int32; else `top_k` for all, and so the next two */
  const DLTensor *top_ps;  /* optional [rows] f32 */
  const DLTensor *min_ps;  /* optional [rows] f32 */
  int32_t top_k;           /* 0, -1: off */
  float top_p;
  float min_p;             /* 0: off */
  int32_t reserved;        /* 0 */
} quern_renormalise_args;

enum quern_verify_flags {
  QUERN_VERIFY_TEMPERATURE = 1u << 16,        /* `temperature` is set, 0 included; else 1 */
  QUERN_VERIFY_TOP_P = 1u << 17,              /* `top_p` is set, 0 included; else 1 */
  QUERN_VERIFY_JOINT = 1u << 18,              /* as QUERN_SAMPLE_JOINT */
  QUERN_VERIFY_LOGITS = 1u << 19,             /* `target` holds logits; penalties, biases and masks edit them, then
                                                 temperature, min_p, top_k, top_p make its probabilities, all as
                                                 quern_sample's do */
  QUERN_VERIFY_GREEDY = 1u << 20,             /* accepted is what target has most of, the lowest id on ties */
  QUERN_VERIFY_WITHOUT_REPLACEMENT = 1u << 21, /* children of one node were drawn from `draft` one after the other, none
                                                  twice; else independently */
  QUERN_VERIFY_LOGPROBS_FILTERED = 1u << 22   /* as QUERN_SAMPLE_LOGPROBS_FILTERED */
};

/* Which of the tokens that a draft model proposed are accepted, and the token behind them: what is written is
 * distributed as if target alone had drawn it, token by token. (Leviathan, Kalman, Matias: "Fast inference from
 * transformers via speculative decoding", 2023, for chains; Miao et al., "SpecInfer", 2024, and Jeon et al., "Recursive
 * speculative decoding", 2024, for trees whose children are drawn with and without replacement.)
 *
 * Drafts are nodes of a tree whose root is the context: node i follows node parents[i] < i, or the root where that is
 * -1; without `parents` they are a chain. Row 0 of target's distributions is that behind the root, row i + 1 that
 * behind node i; draft's row likewise is what the children of that node were drawn from. From the root on, with p
 * target's distribution there and q draft's (without `draft`: all on the child's own token, so that any way of choosing
 * children is right that does not look at what is drawn here): the children are tried by ascending index, each accepted
 * with probability min(1, p(token)/q(token)); after each that is not, p becomes max(p - q, 0) over its sum. The first
 * that is accepted goes on; where none is, the last token is drawn from p.
 *
 * Penalties, biases and masks, which need QUERN_VERIFY_LOGITS, edit each row of target as quern_sample would that row,
 * with the drafts from the root to its node behind the sequence's output: each of these counts as one more output
 * token. So what is written is distributed as if quern_sample had drawn it token by token, its output growing; and when
 * greedy it is the same tokens. */
typedef struct quern_verify_draft_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_verify_flags */
  void *stream;
  void *workspace; /* with QUERN_VERIFY_LOGITS it holds where each distribution ends, with QUERN_VERIFY_GREEDY the
                      largest, and logits as edited */
  uint64_t workspace_size;
  int32_t alignment;
  int32_t max_sms;
  const DLTensor *target;       /* [batch, n+1, vocab] f32 probabilities; with QUERN_VERIFY_LOGITS or _GREEDY also
                                   f16, bf16; last stride 1; vocab 1 to 2^20. What is negative or NaN counts as 0 */
  const DLTensor *draft;        /* optional [batch, n, vocab] f32 probabilities, last stride 1; not when greedy */
  const DLTensor *draft_ids;    /* [batch, n] int32, last stride 1; n 0 to 256 */
  const DLTensor *parents;      /* optional [batch, n] int32, last stride 1 */
  const DLTensor *lengths;      /* optional [batch] int32: how many of the n drafts are there; 0 to n */
  const DLTensor *accepted;     /* written: [batch] int32, how many drafts are, from 0 to depth */
  const DLTensor *ids;          /* written: [batch, depth+1] int32, last stride 1: the accepted tokens, the one behind
                                   them, then -1. depth, 0 to n, is the most that are accepted: nodes further down are
                                   not tried */
  const DLTensor *path;         /* optional, written: [batch, depth] int32, last stride 1: the accepted nodes, then -1:
                                   whose keys and values stay */
  const DLTensor *status;       /* optional, written: [batch] int32; where it is not 0, accepted is 0 and ids -1 */
  const DLTensor *seeds;        /* [batch] int64; NULL: `seed` for all, with a stream of its own for each place */
  const DLTensor *offsets;      /* optional [batch] int64, read, and 1 more when the call is done; else `offset` */
  const DLTensor *temperatures; /* with QUERN_VERIFY_LOGITS, as all below: optional [batch] f32; else `temperature` */
  const DLTensor *top_ks;       /* [batch] int32 */
  const DLTensor *top_ps;       /* [batch] f32 */
  const DLTensor *min_ps;       /* [batch] f32 */
  uint64_t seed;
  uint64_t offset;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
  const DLTensor *logprobs;       /* with QUERN_VERIFY_LOGITS, as all below. Optional, written: [batch, depth+1] f32,
                                     last stride 1: of each of ids, natural log, of target as edited, at the
                                     temperature (0: as with 1), before min_p, top_k and top_p unless
                                     QUERN_VERIFY_LOGPROBS_FILTERED; NaN where ids has -1 */
  const DLTensor *repetitions;    /* [batch] f32; else `repetition` for all, and so the next two */
  const DLTensor *presences;      /* [batch] f32 */
  const DLTensor *frequencies;    /* [batch] f32 */
  const DLTensor *prompt_mask;    /* optional [batch, ceil(vocab/32)] int32: bit t % 32 of word t / 32: t is in it */
  const DLTensor *prompt_tokens;  /* ... or its tokens: [batch, most] int32; what is no token is passed over */
  const DLTensor *prompt_lengths; /* with prompt_tokens, optional [batch] int32: how many of them are there */
  const DLTensor *output_counts;  /* optional [batch, vocab] int32: each token's count; those of ids are raised ... */
  const DLTensor *output_tokens;  /* ... or the output's tokens, those before the drafts: [batch, most] int32. All lists
                                     of a row (these, the prompt's, banned ones, max_bias; and n where there are
                                     penalties) have at most 8 192 places together */
  const DLTensor *output_lengths; /* with output_tokens, optional [batch] int32 */
  const DLTensor *bias_offsets;   /* optional [batch+1] int32: where each sequence's biases begin ... */
  const DLTensor *bias_ids;       /* ... [entries] int32, each once in a sequence */
  const DLTensor *bias_values;    /* [entries] f32 */
  const DLTensor *allowed;        /* optional [batch, n+1, ceil(vocab/32)] int32, last stride 1: a bit for each token
                                     that may be chosen, in rows as target's. Rows behind drafts that are not allowed
                                     themselves may hold anything */
  const DLTensor *banned;         /* optional [batch, most] int32: tokens that may not; others are passed over */
  float repetition;               /* 0: 1 */
  float presence;
  float frequency;
  int32_t max_bias;               /* the most biases of a sequence; 0: all entries */
} quern_verify_draft_args;

/* ---- Element by element ------------------------------------------------------------------------------------------ */
/* Up to four results of up to eight tensors, element by element:
 *
 *   out = expression, out1 = expression1, ...    leaves tensorN, integerN, scalarN, indexN and place
 *
 * Operands are broadcast to the results' shape as NumPy does: extents are compared from the last dimension on, and what
 * is missing or 1 stands for all places. Dtypes: f32, f16, bf16, e4m3, e5m2, int8, uint8, int16, int32, int64 and bool
 * (a byte, true where it is not 0), each its own. Up to 6 dimensions, strides of any size and sign; 2^48 elements.
 *
 * tensorN is f32, rounded from integers to nearest, 1 or 0 of bool; integerN, of an integer or bool operand, has 64
 * bits. Results are rounded to nearest even in f16, bf16, e4m3, e5m2 (8 bits saturate, NaN stays); a number is cut
 * towards 0 to become an integer, and saturates, as integers do that do not fit; NaN becomes 0; bool is whether it is
 * not 0.
 *
 * A result may lie over an operand that has its shape, strides and size of element. Other overlaps are the caller's to
 * avoid; those that can be told are refused. An element's bits depend on its operands alone. */
typedef struct quern_pointwise_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment; /* bytes all data but a single element's are promised to be aligned to: 16 (0), 8, 4, 2, 1 */
  int32_t max_sms;
  const DLTensor *const *operands; /* number N of the expressions is operands[N]; what they do not use may be NULL */
  const DLTensor *out;
  const DLTensor *out1; /* optional, as out in another dtype or other strides ... */
  const DLTensor *out2; /* ... one after the other without a gap */
  const DLTensor *out3;
  const quern_expression *expression;
  const quern_expression *expression1; /* of out1, and so the others */
  const quern_expression *expression2;
  const quern_expression *expression3;
  const float *scalars; /* of all expressions; on the host, copied with the call */
  uint32_t operand_count; /* at most 8 */
  uint32_t scalar_count;  /* at most 8 */
} quern_pointwise_args;

/* outputs[i] = inputs[i], cast to outputs[i]'s dtype as quern_pointwise stores results; each part with strides of its
 * own: a transpose and a permutation (of the strides), a slice, the parts of a concatenation or a split, a repetition
 * (strides of 0), a padding (parts that are filled around one that is copied).
 *
 * inputs[i] is broadcast to the shape of outputs[i]; NULL fills it with `fill`. All inputs are of one dtype and all
 * outputs of one; any DLPack type of 8, 16, 32 or 64 bits where both are the same, else those of quern_pointwise. Up to
 * 6 dimensions, strides of any size and sign. No output overlaps anything but itself. */
typedef struct quern_copy_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment; /* bytes all data but a single element's are promised to be aligned to: 16 (0), 8, 4, 2, 1 */
  int32_t max_sms;
  const DLTensor *const *inputs;
  const DLTensor *const *outputs;
  uint32_t input_count;  /* 1 to 16 */
  uint32_t output_count; /* input_count */
  double fill;           /* rounded to outputs' dtype; of the types of quern_pointwise alone where it is not 0 */
} quern_copy_args;

/* ---- Norms of every kind ---------------------------------------------------------------------------------------- */
enum quern_norm_kind {
  QUERN_NORM_LAYER = 0, /* (s - mean(s)) / sqrt(variance(s) + eps) by row; the variance is divided by n */
  QUERN_NORM_RMS = 1,   /* s / sqrt(mean(s^2) + eps) by row */
  QUERN_NORM_L2 = 2,    /* s / sqrt(sum(s^2) + eps) by row */
  QUERN_NORM_GROUP = 3  /* as LAYER over the channels / groups neighbouring channels of a group at all places of one of
                           the batch; with as many groups as channels it is the instance norm */
};
enum quern_norm_flags {
  QUERN_NORM_WEIGHT_PLUS_ONE = 1u << 16, /* multiply by 1 + weight (Gemma) */
  QUERN_NORM_SCALE_ALONE = 1u << 17,     /* multiply by scale, not by 1 + scale */
  QUERN_NORM_POWER_OF_TWO = 1u << 18     /* 8-bit out: scales that are found are rounded up to powers of two */
};

/* out = ((norm(s) * weight) + bias) * (1 + scale) + shift, s = x + residual, norm as `kind` says; in f32, rounded once.
 * What is not given is left out. (Ba, Kiros, Hinton: "Layer normalization", 2016; Zhang, Sennrich: "Root mean square
 * layer normalization", 2019; Wu, He: "Group normalization", 2018; scale and shift a token or a sample: Peebles, Xie:
 * "Scalable diffusion models with transformers", 2023, AdaLN.)
 *
 * Rows (but of GROUP) are those of x [rows, n]; row r is modulated by row r / (rows / m) of scale and shift [m, n]: m
 * is rows for one a token, the batch for one a sample, 1 for one for all.
 *
 * out of 8 bits is that of quern_quantize, of all kinds but GROUP. With scale and shift, L2, or RMS with bias it takes
 * a second launch, over f32 rows in the workspace, and there is no dense.
 * out, dense and residual_out may each be x or residual, row by row, where they have its dtype. Rows longer than 16384
 * are read twice by two launches, through the workspace. */
typedef struct quern_norm_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_norm_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment; /* of data; where a stride of rows is no multiple of it accesses are narrower */
  int32_t max_sms;
  const DLTensor *x;            /* [rows, n]; GROUP: [batch, channels, places], each of the batch compact. f16, bf16 or
                                   f32, last stride 1 */
  const DLTensor *residual;     /* optional, as x */
  const DLTensor *weight;       /* optional [n], GROUP [channels]: x's dtype or f32 */
  const DLTensor *bias;         /* optional, as weight, weight's dtype where both are given */
  const DLTensor *scale;        /* optional [m, n], rows a multiple of m: x's dtype or f32; not with GROUP */
  const DLTensor *shift;        /* optional, as scale, scale's dtype where both are given */
  const DLTensor *out;          /* as x: f16, bf16 or f32; or e4m3, e5m2 or uint8, with out_scale */
  const DLTensor *residual_out; /* optional, with residual: receives s, as x */
  const DLTensor *out_scale;    /* 8-bit out: f32, see enum quern_scale_kind; any strides */
  const DLTensor *dense;        /* 8-bit out, optional: the same in x's dtype, as x */
  int32_t kind;                 /* enum quern_norm_kind */
  int32_t groups;               /* GROUP: channels is a multiple of it */
  int32_t scale_kind;           /* enum quern_scale_kind: 8-bit out STATIC, TENSOR, TOKEN or GROUP, else NONE */
  int32_t type;                 /* enum quern_fp8, where out is uint8 */
  float eps;                    /* 0 and more */
  int32_t reserved;             /* 0 */
} quern_norm_args;

enum quern_norm_backward_flags {
  QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE = 1u << 16 /* the norm multiplied by 1 + weight */
};

/* The gradients of a layer or RMS norm out = y * weight + bias, y = (x - mean) * r (RMS: x * r), r = 1 / sqrt(. + eps),
 * of what the caller has for its results, dout:
 *
 *   g       = dout * weight
 *   dx      = r * (g - mean(g) - y * mean(g * y))   (RMS without mean(g))   + add
 *   dweight = sum over rows of dout * y,   dbias = sum over rows of dout
 *
 * All in f32, rounded once; the sums over rows in an order that the number of rows alone decides. dx may be dout, x or
 * add, row by row, where rows lie as far apart. */
typedef struct quern_norm_backward_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_norm_backward_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment; /* of data; where a stride of rows is no multiple of it accesses are narrower */
  int32_t max_sms;
  const DLTensor *dout;    /* [rows, n], x's dtype, last stride 1 */
  const DLTensor *x;       /* [rows, n], n 1 to 16384: what was normalised (behind a residual: residual_out); f16, bf16
                              or f32, last stride 1 */
  const DLTensor *weight;  /* optional [n]: x's dtype or f32 */
  const DLTensor *add;     /* optional [rows, n], x's dtype: what else flows into x (a residual's gradient) */
  const DLTensor *dx;      /* optional, written: [rows, n], x's dtype; last stride 1 */
  const DLTensor *dweight; /* optional, written: [n], f32 or x's dtype */
  const DLTensor *dbias;   /* optional, written: [n], dweight's dtype where both are given; LAYER alone */
  int32_t kind;            /* enum quern_norm_kind: LAYER or RMS */
  float eps;
} quern_norm_backward_args;

/* ---- Reductions ------------------------------------------------------------------------------------------------ */
enum quern_reduction {   /* over the v of a row; of no elements: */
  QUERN_REDUCE_SUM = 0,  /* 0 */
  QUERN_REDUCE_MEAN = 1, /* NaN */
  QUERN_REDUCE_MAX = 2,  /* -inf; a NaN gives NaN */
  QUERN_REDUCE_MIN = 3,  /* inf; a NaN gives NaN */
  QUERN_REDUCE_ARGMAX = 4, /* -1; the place of the largest, the first on ties, in the order of the axes; NaN is above
                              all */
  QUERN_REDUCE_ARGMIN = 5, /* -1; likewise of the smallest; NaN is below all */
  QUERN_REDUCE_L2 = 6,     /* 0; sqrt(sum of v^2) */
  QUERN_REDUCE_DOT = 7,    /* 0; sum of v * y */
  QUERN_REDUCE_LOGSUMEXP = 8, /* -inf; log(sum of e^v), without overflow */
  QUERN_REDUCE_ANY = 9,       /* 0; 1 where one is not 0 */
  QUERN_REDUCE_ALL = 10       /* 1; 0 where one is 0 */
};
enum quern_reduce_flags {
  QUERN_REDUCE_F16_SUMS = 1u << 16 /* SUM, MEAN, L2 and DOT round to f16 after every addition, as kernels that
                                      accumulate in f16 do */
};

/* Up to four reductions of x over some of its axes, in one pass:
 *
 *   v = before(x)                          acc is x's element, tensor0 y's
 *   out = after(reduction of the v of all elements whose places differ in `axes` alone)     acc is the result
 *
 * In f32; SUM, MEAN and DOT of int8 without `before` are exact, in 64 bits, of which an int32 result has the low ones.
 * The order of sums is a matter of shapes and strides alone, so that the same call has the same bits. A result is
 * stored for each place of the axes that are kept, in their order; where nothing is reduced each element is a row. */
typedef struct quern_reduce_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_reduce_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment; /* 16 (0) or less; data that are aligned to less are read element by element at a row's ends */
  int32_t max_sms;
  const DLTensor *x; /* 1 to 6 dimensions, any strides; f32, f16, bf16, e4m3, e5m2 or int8 */
  const DLTensor *y; /* of DOT and tensor0: x's shape and dtype, any strides */
  const quern_expression *before; /* NULL: v = x */
  const DLTensor *out;  /* the axes that are kept, or all of x's with 1 for those that are reduced; any strides. f32,
                           f16 or bf16; ARGMAX and ARGMIN int32 or int64; ANY and ALL uint8, int32 or f32; SUM and DOT
                           of int8 also int32 */
  const DLTensor *out1; /* optional: of reduction1, as out and so the others */
  const DLTensor *out2;
  const DLTensor *out3;
  const quern_expression *after; /* of reduction's result, NULL: none; not of ARGMAX, ARGMIN, ANY, ALL, nor with int32
                                    out */
  const quern_expression *after1;
  const quern_expression *after2;
  const quern_expression *after3;
  const float *scalars;   /* of all of these expressions */
  uint32_t scalar_count;  /* at most 8 */
  uint32_t axes;          /* bit d: dimension d is reduced; 0: all are */
  int32_t reduction;      /* enum quern_reduction */
  int32_t reduction1;     /* enum quern_reduction */
  int32_t reduction2;     /* enum quern_reduction */
  int32_t reduction3;     /* enum quern_reduction */
  int32_t type;           /* enum quern_fp8, where x is uint8 */
  int32_t reserved;       /* 0 */
} quern_reduce_args;

/* ---- Rows to places of a table ------------------------------------------------------------------------------- */
enum quern_scatter_flags {
  QUERN_SCATTER_ADD = 1u << 16,         /* to what out has, else in its place */
  QUERN_SCATTER_HAS_PADDING = 1u << 17, /* rows whose id is `padding` are passed over */
  QUERN_SCATTER_SHARD = 1u << 18,       /* rows whose id lies outside of out's are: they are another shard's */
  QUERN_SCATTER_UNIQUE = 1u << 19       /* no id comes twice: one launch, and no workspace */
};

/* out[ids[i] - first] = scale * x[i] by row, or with QUERN_SCATTER_ADD += : gather's mirror, and the gradient of an
 * embedding. Rows of out that no id names are untouched. Where an id comes more than once the last of its rows stands,
 * or all of them are added in f32, and to what out has, in an order that their places alone decide, and rounded once:
 * the same bits in every run. An id that no flag allows is an error on `host`; on a GPU its row is passed over, and
 * nothing is written outside of out. */
typedef struct quern_scatter_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_scatter_flags */
  void *stream;
  void *workspace; /* none with QUERN_SCATTER_UNIQUE */
  uint64_t workspace_size;
  int32_t alignment; /* of data; rows may lie at any distance */
  int32_t max_sms;
  const DLTensor *x;   /* [count, n] f16, bf16 or f32; where it is not added and out is of the same dtype also e4m3,
                          e5m2, int8, uint8, int32 and int64; last stride 1 */
  const DLTensor *ids; /* [count] int32 or int64, any stride */
  const DLTensor *out; /* [rows, n]: f16, bf16 or f32, or x's dtype; no part of x or ids */
  int64_t first;       /* the id of out's row 0 */
  int64_t padding;
  float scale;         /* 0: 1; others for f16, bf16 and f32 */
  int32_t reserved;    /* 0 */
} quern_scatter_args;

/* ---- Counting ------------------------------------------------------------------------------------------------ */
enum quern_histogram_flags {
  QUERN_HISTOGRAM_ACCUMULATE = 1u << 16, /* add to what counts has */
  QUERN_HISTOGRAM_CLAMP = 1u << 17       /* what lies below the first bin is counted in it, above the last in that */
};

/* counts[r][b] = how many of x[r] fall into bin b. Of integers the bin is x - first; of floats it is
 * floor((x - low) * (bins / (high - low))) in f32, each operation rounded, and the last bin for x = high. What falls
 * into none is not counted, and NaN never is. Counts are exact, and wrap at their width. */
typedef struct quern_histogram_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_histogram_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment; /* of data; rows may lie at any distance */
  int32_t max_sms;
  const DLTensor *x;      /* [rows, n] int8, uint8, int32, int64, f16, bf16 or f32; last stride 1 */
  const DLTensor *counts; /* [rows, bins] int32 or int64, last stride 1; bins to 2^24 */
  int64_t first;          /* of integers: what is counted in bin 0 */
  float low, high;        /* of floats: low < high, both finite */
} quern_histogram_args;

/* ---- Sorting ------------------------------------------------------------------------------------------------- */
enum quern_sort_flags {
  QUERN_SORT_DESCENDING = 1u << 16 /* the largest first; equal keys stay as they were all the same */
};

/* Sorts keys by segments, and values with them. Stable. -0 and 0 are equal, NaNs equal to each other and larger than
 * all else: the last, or with QUERN_SORT_DESCENDING the first. Keys keep their bits. A segment is a row of keys; or
 * with `offsets`, where keys are [1, n], what lies from offsets[s] to offsets[s + 1], and what lies in none is
 * untouched. Segments of up to 4 096 take one launch, longer ones three for every 8 bits of a key (a radix sort, least
 * significant digit first; Knuth, "The art of computer programming", volume 3, 5.2.5). keys_out may be keys, and
 * values_out values. */
typedef struct quern_sort_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_sort_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment; /* any: elements are read one by one */
  int32_t max_sms;
  const DLTensor *keys;       /* [rows, n] f16, bf16, f32, int32, uint32 or int64; last stride 1 */
  const DLTensor *values;     /* optional [rows, n], any dtype of 8, 16, 32 or 64 bits; last stride 1 */
  const DLTensor *offsets;    /* optional [segments + 1] int32, never falling */
  const DLTensor *keys_out;   /* as keys; NULL: not wanted */
  const DLTensor *values_out; /* with values as they are; without, int32 or int64: receives where in its segment each
                                 key was; NULL: not wanted */
  int64_t max_segment;        /* with offsets: no segment is longer; 0: n */
} quern_sort_args;

/* ---- Convolutions -------------------------------------------------------------------------------------------- */
enum quern_conv1d_flags {
  QUERN_CONV1D_SILU = 1u << 16 /* out = y / (1 + exp(-y)) */
};

/* With a weight of two dimensions the causal depthwise convolution of state-space models and gated delta nets, over
 * ragged sequences:
 *
 *   y[t][c] = bias[c] + sum over j from 0 to width - 1 of weight[c][j] x[t - (width - 1) + j][c]
 *
 * in f32, rounded once. What comes before a sequence's first token is its state, the width - 1 inputs before it, the
 * oldest first; without one it is zeros. The call leaves the last width - 1 inputs in the state, old ones among them
 * where the sequence has fewer tokens; one without tokens leaves it alone. Each token's result depends on its own
 * window alone, whatever the batch. (Gu, Dao: "Mamba", 2023.)
 *
 * A weight of three dimensions asks for the general convolution of neural networks (a cross-correlation) instead, with
 * zeros for what lies outside x; G = groups, C = in_channels / G:
 *
 *   y[b][o][t] = bias[o] + sum over c < C, j < width of
 *                weight[o][c][j] x[b][o / (out_channels / G) C + c][t stride + j dilation - pad_begin]
 *
 * x is then [batch, in_channels, length], weight [out_channels, C, width] of any width, bias [out_channels] and out
 * [batch, out_channels, out_length], all of x's dtype, with any strides;
 * out_length = (length + pad_begin + pad_end - dilation (width - 1) - 1) / stride + 1. offsets, state, state_ids and
 * has_state are NULL. f16 and bf16 are multiplied on tensor cores; sums are f32's, in an order that the shapes give,
 * rounded once. */
typedef struct quern_conv1d_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_conv1d_flags */
  void *stream;
  void *workspace; /* the general one may need some; the causal one none */
  uint64_t workspace_size;
  int32_t alignment; /* of data; rows may lie at any distance */
  int32_t max_sms;
  const DLTensor *x;         /* [tokens, channels] f16, bf16 or f32; last stride 1 */
  const DLTensor *weight;    /* [channels, width], x's dtype or f32, any strides; width 2 to 8 */
  const DLTensor *bias;      /* optional [channels], weight's dtype */
  const DLTensor *offsets;   /* [batch + 1] int32: sequence b has the tokens from offsets[b] to offsets[b + 1]; NULL:
                                one token each */
  const DLTensor *state;     /* optional [slots, width - 1, channels], x's dtype or f32, read and written; any strides,
                                so [slots, channels, width - 1] does too, as a view; no two elements in one place */
  const DLTensor *state_ids; /* optional [batch] int32: each sequence's slot, no slot twice; -1: it has none. NULL: its
                                place */
  const DLTensor *has_state; /* optional [batch] uint8 or bool: where 0, the slot's state is old, zeros are taken */
  const DLTensor *out;       /* [tokens, channels], x's dtype; no part of x. Tokens of no sequence are untouched */
  int32_t stride;            /* of the general convolution, as all below; 0: 1 */
  int32_t dilation;          /* elements from tap to tap; 0: 1 */
  int32_t groups;            /* 0: 1; divides in_channels and out_channels */
  int32_t pad_begin;         /* zeros before x's first element: 0 and more */
  int32_t pad_end;           /* zeros behind its last */
  int32_t reserved;          /* 0 */
} quern_conv1d_args;

/* The convolution of images (a cross-correlation, as in neural networks), with zeros for what lies outside x;
 * G = groups, C = in_channels / G:
 *
 *   out[b][o][r][s] = activation(bias[o] + sum over c < C, i < kernel height, j < kernel width of
 *     weight[o][c][i][j] x[b][o / (out_channels / G) C + c][r stride_h + i dilation_h - pad_top]
 *                                                          [s stride_w + j dilation_w - pad_left])
 *
 *   out_height = (height + pad_top + pad_bottom - dilation_h (kernel height - 1) - 1) / stride_h + 1
 *   out_width  = (width + pad_left + pad_right - dilation_w (kernel width - 1) - 1) / stride_w + 1
 *
 * Tensors have any strides: what is laid out with channels last, [batch, height, width, channels], is given as a view,
 * and is what is read and written fastest. f16 and bf16 are multiplied on tensor cores; sums are f32's, in an order
 * that the shapes give, rounded once. */
typedef struct quern_conv2d_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags */
  void *stream;
  void *workspace; /* that what is laid out anew needs; none where all lies well */
  uint64_t workspace_size;
  int32_t alignment; /* of data; rows may lie at any distance */
  int32_t max_sms;
  const DLTensor *x;      /* [batch, in_channels, height, width] f16, bf16 or f32 */
  const DLTensor *weight; /* [out_channels, C, kernel height, kernel width], x's dtype; fastest as a view of
                             [out_channels, kernel height, kernel width, C] */
  const DLTensor *bias;   /* optional [out_channels], x's dtype; last stride 1 */
  const DLTensor *out;    /* [batch, out_channels, out_height, out_width], x's dtype; no part of x */
  int32_t stride_h;       /* rows from window to window; 0: 1 */
  int32_t stride_w;       /* columns; 0: 1 */
  int32_t dilation_h;     /* rows from tap to tap; 0: 1 */
  int32_t dilation_w;     /* columns; 0: 1 */
  int32_t groups;         /* 0: 1; divides in_channels and out_channels */
  int32_t pad_top;        /* rows of zeros above x: 0 and more */
  int32_t pad_bottom;     /* below */
  int32_t pad_left;       /* columns of zeros before x: 0 and more */
  int32_t pad_right;      /* behind */
  int32_t activation;     /* enum quern_activation */
} quern_conv2d_args;

/* ---- Fourier transforms -------------------------------------------------------------------------------------- */
enum quern_fft_kind {
  QUERN_FFT_FORWARD = 0, /* complex to complex */
  QUERN_FFT_INVERSE = 1,
  QUERN_FFT_REAL = 2,   /* real to the n / 2 + 1 complex numbers that say it all */
  QUERN_FFT_TO_REAL = 3 /* its inverse: the imaginary parts of X[0] and, of even n, X[n / 2] are taken as 0 */
};
enum quern_fft_result {
  QUERN_FFT_COMPLEX = 0,
  QUERN_FFT_POWER = 1,    /* re^2 + im^2 of each number, scaled before */
  QUERN_FFT_MAGNITUDE = 2 /* its root */
};
enum quern_fft_scaling {
  QUERN_FFT_UNSCALED = 0,
  QUERN_FFT_BY_N = 1,   /* 1 / n */
  QUERN_FFT_BY_ROOT = 2 /* 1 / sqrt(n) */
};
enum quern_fft_padding {
  QUERN_FFT_ZEROS = 0,
  QUERN_FFT_REFLECT = 1 /* the signal's mirror image at its first and last sample, neither of which comes twice */
};

/* Discrete Fourier transforms of rows:
 *
 *   X[k] = scale * sum over j < n of window[j] x[j] exp(-2 pi i j k / n)      with exp(+...) of the inverse kinds
 *
 * in f32, rounded once to out's dtype. A row with fewer than n numbers is one with zeros behind them. Complex numbers
 * are pairs of real elements, re before im: a last dimension of 2, or DLPack's complex of 64 bits. Of frames
 * (`hop` > 0), each signal of x is cut into frames of as many samples as window has, else n, frame f from sample
 * f hop - pad_begin on: a short-time transform. Each row's results depend on that row alone. out may be x of the
 * complex kinds, where both lie alike. */
typedef struct quern_fft_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags */
  void *stream;
  void *workspace; /* none is needed */
  uint64_t workspace_size;
  int32_t alignment; /* of x's and out's data; rows may lie at any distance */
  int32_t max_sms;
  const DLTensor *x;      /* f32, f16 or bf16, any strides but that of the last dimension of 2, 1: [rows, m], m <= n, or
                             of complex numbers [rows, m, 2]; TO_REAL m <= n / 2 + 1; with `hop` [signals, samples].
                             Each may have a further dimension before it: [outer, rows, m], but not with `hop` */
  const DLTensor *window; /* optional [m] f32, last stride 1, any alignment; not of TO_REAL */
  const DLTensor *out;    /* f32, f16 or bf16, strides likewise: [rows, n, 2], REAL [rows, n / 2 + 1, 2], TO_REAL
                             [rows, n]; of POWER and MAGNITUDE without the last dimension; with `hop` [signals, frames,
                             n / 2 + 1, 2], any number of frames to (samples + pad_begin + pad_end - m) / hop + 1; with
                             x's further dimension where it has one */
  int32_t n;              /* 1 to 16384, of REAL and TO_REAL even numbers to 32768; 0: out's extent of TO_REAL, window's
                             with `hop`, else x's */
  int32_t kind;           /* enum quern_fft_kind */
  int32_t result;         /* enum quern_fft_result; not of TO_REAL */
  int32_t scaling;        /* enum quern_fft_scaling */
  int32_t hop;            /* samples from frame to frame, REAL alone; 0: rows as they are */
  int32_t pad_begin;      /* with `hop`: samples before the signal's first; QUERN_FFT_REFLECT fewer than it has */
  int32_t pad_end;        /* behind its last */
  int32_t padding;        /* enum quern_fft_padding */
} quern_fft_args;

/* ---- Boxes --------------------------------------------------------------------------------------------------- */
enum quern_nms_flags {
  QUERN_NMS_SCORE_THRESHOLD = 1u << 16 /* `score_threshold` is set: boxes whose score is not above it are out */
};

/* Non-maximum suppression: goes through an image's boxes by descending score, the lower place first on ties, and keeps
 * each that overlaps no kept box of its class by more than iou_threshold. A box is x1, y1, x2, y2, its area (x2 - x1)
 * (y2 - y1), 0 where a side is negative; two overlap too much if inter > iou_threshold * (area + area - inter), in f32.
 * Boxes with a NaN score are out, boxes with a NaN corner overlap none. */
typedef struct quern_nms_args {
  uint32_t size;
  uint32_t flags; /* enum quern_call_flags | enum quern_nms_flags */
  void *stream;
  void *workspace;
  uint64_t workspace_size;
  int32_t alignment; /* any: elements are read one by one */
  int32_t max_sms;
  const DLTensor *boxes;   /* [images, n, 4] f32, n to 32768; last stride 1 */
  const DLTensor *scores;  /* [images, n] f32; last stride 1 */
  const DLTensor *classes; /* optional [images, n] int32; last stride 1; NULL: one class */
  const DLTensor *lengths; /* optional [images] int32: how many boxes there are, at most n */
  const DLTensor *ids;     /* written: [images, m] int32: the places of the kept boxes by descending score, then -1 */
  const DLTensor *counts;  /* optional, written: [images] int32: how many are kept, at most m */
  float iou_threshold;     /* 0 to 1 */
  float score_threshold;
} quern_nms_args;

/* ---- The three calls of every op: made of sources/ops.def by ./dev generate, not edited by hand */
int32_t quern_attention_workspace(quern_context *context, const quern_attention_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_attention_prepare(quern_context *context, const quern_attention_args *args,
    quern_error *error);
int32_t quern_attention(quern_context *context, const quern_attention_args *args, quern_error *error);

int32_t quern_merge_state_workspace(quern_context *context, const quern_merge_state_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_merge_state_prepare(quern_context *context, const quern_merge_state_args *args,
    quern_error *error);
int32_t quern_merge_state(quern_context *context, const quern_merge_state_args *args, quern_error *error);

int32_t quern_fp8_gemm_workspace(quern_context *context, const quern_fp8_gemm_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_fp8_gemm_prepare(quern_context *context, const quern_fp8_gemm_args *args,
    quern_error *error);
int32_t quern_fp8_gemm(quern_context *context, const quern_fp8_gemm_args *args, quern_error *error);

int32_t quern_grouped_fp8_gemm_workspace(quern_context *context, const quern_grouped_fp8_gemm_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_grouped_fp8_gemm_prepare(quern_context *context, const quern_grouped_fp8_gemm_args *args,
    quern_error *error);
int32_t quern_grouped_fp8_gemm(quern_context *context, const quern_grouped_fp8_gemm_args *args, quern_error *error);

int32_t quern_gemm_workspace(quern_context *context, const quern_gemm_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_gemm_prepare(quern_context *context, const quern_gemm_args *args,
    quern_error *error);
int32_t quern_gemm(quern_context *context, const quern_gemm_args *args, quern_error *error);

int32_t quern_quantize_workspace(quern_context *context, const quern_quantize_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_quantize_prepare(quern_context *context, const quern_quantize_args *args,
    quern_error *error);
int32_t quern_quantize(quern_context *context, const quern_quantize_args *args, quern_error *error);

int32_t quern_dequantize_workspace(quern_context *context, const quern_dequantize_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_dequantize_prepare(quern_context *context, const quern_dequantize_args *args,
    quern_error *error);
int32_t quern_dequantize(quern_context *context, const quern_dequantize_args *args, quern_error *error);

int32_t quern_moe_route_workspace(quern_context *context, const quern_moe_route_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_moe_route_prepare(quern_context *context, const quern_moe_route_args *args,
    quern_error *error);
int32_t quern_moe_route(quern_context *context, const quern_moe_route_args *args, quern_error *error);

int32_t quern_moe_combine_workspace(quern_context *context, const quern_moe_combine_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_moe_combine_prepare(quern_context *context, const quern_moe_combine_args *args,
    quern_error *error);
int32_t quern_moe_combine(quern_context *context, const quern_moe_combine_args *args, quern_error *error);

int32_t quern_merge_states_workspace(quern_context *context, const quern_merge_states_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_merge_states_prepare(quern_context *context, const quern_merge_states_args *args,
    quern_error *error);
int32_t quern_merge_states(quern_context *context, const quern_merge_states_args *args, quern_error *error);

int32_t quern_rope_workspace(quern_context *context, const quern_rope_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_rope_prepare(quern_context *context, const quern_rope_args *args,
    quern_error *error);
int32_t quern_rope(quern_context *context, const quern_rope_args *args, quern_error *error);

int32_t quern_kv_append_workspace(quern_context *context, const quern_kv_append_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_kv_append_prepare(quern_context *context, const quern_kv_append_args *args,
    quern_error *error);
int32_t quern_kv_append(quern_context *context, const quern_kv_append_args *args, quern_error *error);

int32_t quern_kv_copy_pages_workspace(quern_context *context, const quern_kv_copy_pages_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_kv_copy_pages_prepare(quern_context *context, const quern_kv_copy_pages_args *args,
    quern_error *error);
int32_t quern_kv_copy_pages(quern_context *context, const quern_kv_copy_pages_args *args, quern_error *error);

int32_t quern_mla_decode_workspace(quern_context *context, const quern_mla_decode_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_mla_decode_prepare(quern_context *context, const quern_mla_decode_args *args,
    quern_error *error);
int32_t quern_mla_decode(quern_context *context, const quern_mla_decode_args *args, quern_error *error);

int32_t quern_rmsnorm_workspace(quern_context *context, const quern_rmsnorm_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_rmsnorm_prepare(quern_context *context, const quern_rmsnorm_args *args,
    quern_error *error);
int32_t quern_rmsnorm(quern_context *context, const quern_rmsnorm_args *args, quern_error *error);

int32_t quern_sample_workspace(quern_context *context, const quern_sample_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_sample_prepare(quern_context *context, const quern_sample_args *args,
    quern_error *error);
int32_t quern_sample(quern_context *context, const quern_sample_args *args, quern_error *error);

int32_t quern_gather_workspace(quern_context *context, const quern_gather_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_gather_prepare(quern_context *context, const quern_gather_args *args,
    quern_error *error);
int32_t quern_gather(quern_context *context, const quern_gather_args *args, quern_error *error);

int32_t quern_mla_append_workspace(quern_context *context, const quern_mla_append_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_mla_append_prepare(quern_context *context, const quern_mla_append_args *args,
    quern_error *error);
int32_t quern_mla_append(quern_context *context, const quern_mla_append_args *args, quern_error *error);

int32_t quern_index_scores_workspace(quern_context *context, const quern_index_scores_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_index_scores_prepare(quern_context *context, const quern_index_scores_args *args,
    quern_error *error);
int32_t quern_index_scores(quern_context *context, const quern_index_scores_args *args, quern_error *error);

int32_t quern_softmax_workspace(quern_context *context, const quern_softmax_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_softmax_prepare(quern_context *context, const quern_softmax_args *args,
    quern_error *error);
int32_t quern_softmax(quern_context *context, const quern_softmax_args *args, quern_error *error);

int32_t quern_argmax_workspace(quern_context *context, const quern_argmax_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_argmax_prepare(quern_context *context, const quern_argmax_args *args,
    quern_error *error);
int32_t quern_argmax(quern_context *context, const quern_argmax_args *args, quern_error *error);

int32_t quern_top_k_workspace(quern_context *context, const quern_top_k_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_top_k_prepare(quern_context *context, const quern_top_k_args *args,
    quern_error *error);
int32_t quern_top_k(quern_context *context, const quern_top_k_args *args, quern_error *error);

int32_t quern_renormalise_workspace(quern_context *context, const quern_renormalise_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_renormalise_prepare(quern_context *context, const quern_renormalise_args *args,
    quern_error *error);
int32_t quern_renormalise(quern_context *context, const quern_renormalise_args *args, quern_error *error);

int32_t quern_verify_draft_workspace(quern_context *context, const quern_verify_draft_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_verify_draft_prepare(quern_context *context, const quern_verify_draft_args *args,
    quern_error *error);
int32_t quern_verify_draft(quern_context *context, const quern_verify_draft_args *args, quern_error *error);

int32_t quern_pointwise_workspace(quern_context *context, const quern_pointwise_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_pointwise_prepare(quern_context *context, const quern_pointwise_args *args,
    quern_error *error);
int32_t quern_pointwise(quern_context *context, const quern_pointwise_args *args, quern_error *error);

int32_t quern_copy_workspace(quern_context *context, const quern_copy_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_copy_prepare(quern_context *context, const quern_copy_args *args,
    quern_error *error);
int32_t quern_copy(quern_context *context, const quern_copy_args *args, quern_error *error);

int32_t quern_norm_workspace(quern_context *context, const quern_norm_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_norm_prepare(quern_context *context, const quern_norm_args *args,
    quern_error *error);
int32_t quern_norm(quern_context *context, const quern_norm_args *args, quern_error *error);

int32_t quern_norm_backward_workspace(quern_context *context, const quern_norm_backward_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_norm_backward_prepare(quern_context *context, const quern_norm_backward_args *args,
    quern_error *error);
int32_t quern_norm_backward(quern_context *context, const quern_norm_backward_args *args, quern_error *error);

int32_t quern_reduce_workspace(quern_context *context, const quern_reduce_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_reduce_prepare(quern_context *context, const quern_reduce_args *args,
    quern_error *error);
int32_t quern_reduce(quern_context *context, const quern_reduce_args *args, quern_error *error);

int32_t quern_scatter_workspace(quern_context *context, const quern_scatter_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_scatter_prepare(quern_context *context, const quern_scatter_args *args,
    quern_error *error);
int32_t quern_scatter(quern_context *context, const quern_scatter_args *args, quern_error *error);

int32_t quern_histogram_workspace(quern_context *context, const quern_histogram_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_histogram_prepare(quern_context *context, const quern_histogram_args *args,
    quern_error *error);
int32_t quern_histogram(quern_context *context, const quern_histogram_args *args, quern_error *error);

int32_t quern_sort_workspace(quern_context *context, const quern_sort_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_sort_prepare(quern_context *context, const quern_sort_args *args,
    quern_error *error);
int32_t quern_sort(quern_context *context, const quern_sort_args *args, quern_error *error);

int32_t quern_conv1d_workspace(quern_context *context, const quern_conv1d_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_conv1d_prepare(quern_context *context, const quern_conv1d_args *args,
    quern_error *error);
int32_t quern_conv1d(quern_context *context, const quern_conv1d_args *args, quern_error *error);

int32_t quern_nms_workspace(quern_context *context, const quern_nms_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_nms_prepare(quern_context *context, const quern_nms_args *args,
    quern_error *error);
int32_t quern_nms(quern_context *context, const quern_nms_args *args, quern_error *error);

int32_t quern_conv2d_workspace(quern_context *context, const quern_conv2d_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_conv2d_prepare(quern_context *context, const quern_conv2d_args *args,
    quern_error *error);
int32_t quern_conv2d(quern_context *context, const quern_conv2d_args *args, quern_error *error);

int32_t quern_quantized_gemm_workspace(quern_context *context, const quern_quantized_gemm_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_quantized_gemm_prepare(quern_context *context, const quern_quantized_gemm_args *args,
    quern_error *error);
int32_t quern_quantized_gemm(quern_context *context, const quern_quantized_gemm_args *args, quern_error *error);

int32_t quern_fft_workspace(quern_context *context, const quern_fft_args *args,
    uint64_t *bytes, quern_error *error);
int32_t quern_fft_prepare(quern_context *context, const quern_fft_args *args,
    quern_error *error);
int32_t quern_fft(quern_context *context, const quern_fft_args *args, quern_error *error);
/* ---- end of the ops' calls */

/* ---- A host's own kernels ----------------------------------------------------------------------------------------
 * The same service for a kernel that the host brings: specialised by constants, keyed, cached, compiled once,
 * launched. */
typedef struct quern_source {
  uint32_t size;
  uint32_t reserved;
  const char *name; /* as #include "name" finds it, and as the compiler's log names it */
  const char *text;
  uint64_t length; /* 0: up to the NUL */
} quern_source;

typedef struct quern_constant {
  uint32_t size;
  uint32_t reserved;
  const char *name;  /* a C identifier; becomes  #define name value */
  const char *value;
} quern_constant;

typedef struct quern_kernel_desc {
  uint32_t size;
  uint32_t flags;            /* QUERN_CALL_CACHED_ONLY, QUERN_CALL_BACKGROUND */
  const char *entry;         /* the kernel's name; see "quern/kernel.cuh" in the README for one source on every
                                target */
  const quern_source *source;
  const quern_source *headers; /* what the source may include; nothing else can be */
  uint64_t header_count;
  const quern_constant *constants;
  uint64_t constant_count;
  const char *const *options; /* further compiler options, part of the key */
  uint64_t option_count;
  const char *target;         /* NULL: the context's device. Another one is compiled and stored, not loaded */
  uint32_t max_shared_bytes;  /* the most dynamic shared memory a launch will ask for */
  uint32_t reserved;
} quern_kernel_desc;

typedef struct quern_kernel quern_kernel;

/* Readies the kernel. The handle lives until the context is destroyed; the same desc gives the same handle.
 * `kernel` may be NULL, and is set to NULL for a target that is not the device's. */
int32_t quern_kernel_prepare(quern_context *context, const quern_kernel_desc *desc, quern_kernel **kernel,
    quern_error *error);

typedef struct quern_kernel_info {
  uint32_t size;
  int32_t registers;    /* per thread; -1 unknown */
  int32_t shared_bytes; /* static */
  int32_t local_bytes;  /* per thread */
  int32_t max_threads;  /* a block */
  int32_t reserved;
  char key[40];
} quern_kernel_info;
int32_t quern_kernel_get_info(const quern_kernel *kernel, quern_kernel_info *info, quern_error *error);

typedef struct quern_launch {
  uint32_t size;
  uint32_t flags; /* QUERN_CALL_PROGRAMMATIC */
  void *stream;
  uint32_t grid_x, grid_y, grid_z;          /* 0: 1 */
  uint32_t block_x, block_y, block_z;       /* 0: 1 */
  uint32_t cluster_x, cluster_y, cluster_z; /* 0: 1 */
  uint32_t shared_bytes;                    /* dynamic */
  void *const *args;                        /* one pointer to each argument's value */
  uint64_t arg_count;
} quern_launch;
int32_t quern_kernel_launch(quern_context *context, const quern_kernel *kernel, const quern_launch *launch,
    quern_error *error);

#ifdef __cplusplus
}
#if __cplusplus >= 201103L
/* C++26 has no arithmetic on two different enums, so what combines flags of all calls with an op's own is given
 * here. */
#define QUERN_COMBINES(op_flags)                                                          \
  constexpr uint32_t operator|(quern_call_flags a, op_flags b) noexcept {                 \
    return static_cast<uint32_t>(a) | static_cast<uint32_t>(b);                           \
  }                                                                                       \
  constexpr uint32_t operator|(op_flags a, quern_call_flags b) noexcept { return b | a; }
/* made of the enums that stand beside quern_call_flags, by ./dev generate */
QUERN_COMBINES(quern_attention_flags)
QUERN_COMBINES(quern_mla_flags)
QUERN_COMBINES(quern_kv_append_flags)
QUERN_COMBINES(quern_gemm_flags)
QUERN_COMBINES(quern_quantize_flags)
QUERN_COMBINES(quern_moe_flags)
QUERN_COMBINES(quern_rmsnorm_flags)
QUERN_COMBINES(quern_gather_flags)
QUERN_COMBINES(quern_sample_flags)
QUERN_COMBINES(quern_mla_append_flags)
QUERN_COMBINES(quern_index_scores_flags)
QUERN_COMBINES(quern_softmax_flags)
QUERN_COMBINES(quern_top_k_flags)
QUERN_COMBINES(quern_renormalise_flags)
QUERN_COMBINES(quern_verify_flags)
QUERN_COMBINES(quern_norm_flags)
QUERN_COMBINES(quern_norm_backward_flags)
QUERN_COMBINES(quern_reduce_flags)
QUERN_COMBINES(quern_scatter_flags)
QUERN_COMBINES(quern_histogram_flags)
QUERN_COMBINES(quern_sort_flags)
QUERN_COMBINES(quern_conv1d_flags)
QUERN_COMBINES(quern_nms_flags)
#undef QUERN_COMBINES
#endif
#endif
#endif
