// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made
// of quern.h by ./dev generate; included by quern.hpp, which has Held.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <quern.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

// ---- What calls tell

struct DeviceInfo {
  using Raw = quern_device_info;
  std::int32_t device_type = 0;
  std::int32_t device_id = 0;
  std::uint32_t warp_size = 0;
  std::uint32_t sm_count = 0;
  std::uint32_t shared_per_block = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t driver_version = 0;
  std::string target = {};
  std::string name = {};

  static DeviceInfo of(const Raw& from) {
    DeviceInfo made;
    made.device_type = from.device_type;
    made.device_id = from.device_id;
    made.warp_size = from.warp_size;
    made.sm_count = from.sm_count;
    made.shared_per_block = from.shared_per_block;
    made.l2_bytes = from.l2_bytes;
    made.memory_bytes = from.memory_bytes;
    made.driver_version = from.driver_version;
    made.target = from.target;
    made.name = from.name;
    return made;
  }
};

struct Stats {
  using Raw = quern_stats;
  std::uint64_t kernels_loaded = 0;
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
  std::uint64_t compiled = 0;
  std::uint64_t compile_errors = 0;
  std::uint64_t rejected = 0;
  std::uint64_t stored = 0;
  std::uint64_t store_errors = 0;
  std::uint64_t flight_waits = 0;
  std::uint64_t pending = 0;
  double compile_ms = 0;
  double load_ms = 0;

  static Stats of(const Raw& from) {
    Stats made;
    made.kernels_loaded = from.kernels_loaded;
    made.cache_hits = from.cache_hits;
    made.cache_misses = from.cache_misses;
    made.compiled = from.compiled;
    made.compile_errors = from.compile_errors;
    made.rejected = from.rejected;
    made.stored = from.stored;
    made.store_errors = from.store_errors;
    made.flight_waits = from.flight_waits;
    made.pending = from.pending;
    made.compile_ms = from.compile_ms;
    made.load_ms = from.load_ms;
    return made;
  }
};

struct Event {
  using Raw = quern_event;
  std::int32_t kind = 0;
  std::string op = {};
  std::string target = {};
  std::string key = {};
  std::string text = {};
  double milliseconds = 0;
  std::int32_t status = 0;

  static Event of(const Raw& from) {
    Event made;
    made.kind = from.kind;
    made.op = from.op == nullptr ? "" : from.op;
    made.target = from.target == nullptr ? "" : from.target;
    made.key = from.key == nullptr ? "" : from.key;
    made.text = from.text == nullptr ? "" : from.text;
    made.milliseconds = from.milliseconds;
    made.status = from.status;
    return made;
  }
};

struct Fault {
  using Raw = quern_fault;
  std::string op = {};
  std::string argument = {};
  std::string text = {};
  std::uint64_t call = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t value = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;

  static Fault of(const Raw& from) {
    Fault made;
    made.op = from.op == nullptr ? "" : from.op;
    made.argument = from.argument == nullptr ? "" : from.argument;
    made.text = from.text == nullptr ? "" : from.text;
    made.call = from.call;
    made.row = from.row;
    made.column = from.column;
    made.value = from.value;
    made.least = from.least;
    made.most = from.most;
    return made;
  }
};

struct WarmResult {
  using Raw = quern_warm_result;
  std::int32_t outcome = 0;
  std::int32_t status = 0;
  std::uint32_t line = 0;
  std::string op = {};
  std::string target = {};
  std::string key = {};
  std::string spec = {};
  std::string text = {};
  double milliseconds = 0;

  static WarmResult of(const Raw& from) {
    WarmResult made;
    made.outcome = from.outcome;
    made.status = from.status;
    made.line = from.line;
    made.op = from.op == nullptr ? "" : from.op;
    made.target = from.target == nullptr ? "" : from.target;
    made.key = from.key == nullptr ? "" : from.key;
    made.spec = from.spec == nullptr ? "" : from.spec;
    made.text = from.text == nullptr ? "" : from.text;
    made.milliseconds = from.milliseconds;
    return made;
  }
};

struct TuneResult {
  using Raw = quern_tune_result;
  std::int32_t outcome = 0;
  std::int32_t status = 0;
  std::uint32_t line = 0;
  std::string op = {};
  std::string product = {};
  std::string choice = {};
  std::string model_choice = {};
  std::string text = {};
  std::int64_t rows = 0;
  double microseconds = 0;
  double model_microseconds = 0;
  std::uint32_t candidates = 0;

  static TuneResult of(const Raw& from) {
    TuneResult made;
    made.outcome = from.outcome;
    made.status = from.status;
    made.line = from.line;
    made.op = from.op == nullptr ? "" : from.op;
    made.product = from.product == nullptr ? "" : from.product;
    made.choice = from.choice == nullptr ? "" : from.choice;
    made.model_choice = from.model_choice == nullptr ? "" : from.model_choice;
    made.text = from.text == nullptr ? "" : from.text;
    made.rows = from.rows;
    made.microseconds = from.microseconds;
    made.model_microseconds = from.model_microseconds;
    made.candidates = from.candidates;
    return made;
  }
};

struct Entry {
  using Raw = quern_entry;
  std::int32_t layer = 0;
  std::string key = {};
  std::string op = {};
  std::string target = {};
  std::string entry_name = {};
  std::string text = {};
  std::string compiler = {};
  std::string log = {};
  std::vector<std::byte> image = {};
  std::uint64_t image_size = 0;
  std::int64_t created = 0;
  std::uint64_t last_use = 0;
  double compile_ms = 0;
  std::int32_t registers = 0;
  std::int32_t shared_bytes = 0;
  std::int32_t local_bytes = 0;
  std::int32_t kind = 0;

  static Entry of(const Raw& from) {
    Entry made;
    made.layer = from.layer;
    made.key = from.key == nullptr ? "" : from.key;
    made.op = from.op == nullptr ? "" : from.op;
    made.target = from.target == nullptr ? "" : from.target;
    made.entry_name = from.entry_name == nullptr ? "" : from.entry_name;
    made.text = from.text == nullptr ? "" : from.text;
    made.compiler = from.compiler == nullptr ? "" : from.compiler;
    made.log = from.log == nullptr ? "" : from.log;
    const auto* image = static_cast<const std::byte*>(from.image);
    if (image != nullptr) made.image.assign(image, image + from.image_size);
    made.image_size = from.image_size;
    made.created = from.created;
    made.last_use = from.last_use;
    made.compile_ms = from.compile_ms;
    made.registers = from.registers;
    made.shared_bytes = from.shared_bytes;
    made.local_bytes = from.local_bytes;
    made.kind = from.kind;
    return made;
  }
};

struct Finding {
  using Raw = quern_finding;
  std::int32_t status = 0;
  std::string what = {};
  std::string text = {};
  std::string hint = {};

  static Finding of(const Raw& from) {
    Finding made;
    made.status = from.status;
    made.what = from.what == nullptr ? "" : from.what;
    made.text = from.text == nullptr ? "" : from.text;
    made.hint = from.hint == nullptr ? "" : from.hint;
    return made;
  }
};

struct TrimResult {
  using Raw = quern_trim_result;
  std::uint64_t removed = 0;
  std::uint64_t kept = 0;
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;

  static TrimResult of(const Raw& from) {
    TrimResult made;
    made.removed = from.removed;
    made.kept = from.kept;
    made.bytes_before = from.bytes_before;
    made.bytes_after = from.bytes_after;
    return made;
  }
};

struct CacheStats {
  using Raw = quern_cache_stats;
  std::int32_t state = 0;
  std::uint64_t entries = 0;
  std::uint64_t image_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t limit = 0;
  std::uint64_t bundles = 0;
  std::uint64_t bundle_entries = 0;
  std::string path = {};
  std::string reason = {};

  static CacheStats of(const Raw& from) {
    CacheStats made;
    made.state = from.state;
    made.entries = from.entries;
    made.image_bytes = from.image_bytes;
    made.file_bytes = from.file_bytes;
    made.limit = from.limit;
    made.bundles = from.bundles;
    made.bundle_entries = from.bundle_entries;
    made.path = from.path;
    made.reason = from.reason;
    return made;
  }
};

struct VerifyResult {
  using Raw = quern_verify_result;
  std::int32_t outcome = 0;
  std::int32_t status = 0;
  std::uint32_t trials = 0;
  std::string op = {};
  std::string target = {};
  std::string key = {};
  std::string spec = {};
  std::string text = {};
  double error = 0;
  double truth_error = 0;
  double milliseconds = 0;

  static VerifyResult of(const Raw& from) {
    VerifyResult made;
    made.outcome = from.outcome;
    made.status = from.status;
    made.trials = from.trials;
    made.op = from.op == nullptr ? "" : from.op;
    made.target = from.target == nullptr ? "" : from.target;
    made.key = from.key == nullptr ? "" : from.key;
    made.spec = from.spec == nullptr ? "" : from.spec;
    made.text = from.text == nullptr ? "" : from.text;
    made.error = from.error;
    made.truth_error = from.truth_error;
    made.milliseconds = from.milliseconds;
    return made;
  }
};

struct KernelInfo {
  using Raw = quern_kernel_info;
  std::int32_t registers = 0;
  std::int32_t shared_bytes = 0;
  std::int32_t local_bytes = 0;
  std::int32_t max_threads = 0;
  std::string key = {};

  static KernelInfo of(const Raw& from) {
    KernelInfo made;
    made.registers = from.registers;
    made.shared_bytes = from.shared_bytes;
    made.local_bytes = from.local_bytes;
    made.max_threads = from.max_threads;
    made.key = from.key;
    return made;
  }
};

// ---- What they are given

struct ContextOptions {
  using Raw = quern_context_options;
  std::uint32_t flags = 0;
  std::int32_t device_type = 0;
  std::int32_t device_id = 0;
  std::int32_t miss_policy = 0;
  std::int32_t compile_threads = 0;
  std::string target = {};
  std::string cache_path = {};
  std::vector<std::string> bundles = {};
  std::vector<std::string> search_dirs = {};
  std::string helper_path = {};
  std::string host_compiler = {};
  std::string compiler_pin = {};
  std::uint64_t cache_limit = 0;
  std::uint32_t compile_timeout_ms = 0;
  std::uint32_t flight_timeout_ms = 0;
  std::uint64_t host_seed = 0;
  std::uint32_t host_threads = 0;
  std::int32_t log_level = 0;
  std::function<void(std::int32_t level, std::string_view text)> log = {};
  std::function<void(const Event&)> event = {};
  std::vector<std::string> trusted_keys = {};
  std::string cache_key = {};
  std::uint64_t max_kernels = 0;

  // In C, for as long as this and `held` live.
  template <typename Held>
  [[nodiscard]] Raw raw(Held& held) const {
    Raw made = {};
    made.size = sizeof made;
    made.flags = flags;
    made.device_type = device_type;
    made.device_id = device_id;
    made.miss_policy = miss_policy;
    made.compile_threads = compile_threads;
    made.target = held.text("target", target);
    made.cache_path = held.text("cache_path", cache_path);
    made.bundles = held.texts("bundles", bundles);
    made.bundle_count = bundles.size();
    made.search_dirs = held.texts("search_dirs", search_dirs);
    made.search_dir_count = search_dirs.size();
    made.helper_path = held.text("helper_path", helper_path);
    made.host_compiler = held.text("host_compiler", host_compiler);
    made.compiler_pin = held.text("compiler_pin", compiler_pin);
    made.cache_limit = cache_limit;
    made.compile_timeout_ms = compile_timeout_ms;
    made.flight_timeout_ms = flight_timeout_ms;
    made.host_seed = host_seed;
    made.host_threads = host_threads;
    made.log_level = log_level;
    if (log) held.log(log, made.log, made.log_user);
    if (event) held.event(event, made.event, made.event_user);
    made.trusted_keys = held.texts("trusted_keys", trusted_keys);
    made.trusted_key_count = trusted_keys.size();
    made.cache_key = held.text("cache_key", cache_key);
    made.max_kernels = max_kernels;
    return made;
  }
};

struct Model {
  using Raw = quern_model;
  std::uint32_t flags = 0;
  std::uint32_t tensor_parallel = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t v_head_dim = 0;
  std::uint32_t vocab_size = 0;
  std::uint32_t max_positions = 0;
  std::uint32_t sliding_window = 0;
  std::uint32_t experts = 0;
  std::uint32_t experts_per_token = 0;
  std::uint32_t expert_intermediate_size = 0;
  std::uint32_t kv_lora_rank = 0;
  std::uint32_t q_lora_rank = 0;
  std::uint32_t rope_head_dim = 0;
  std::uint32_t page_size = 0;
  float logit_cap = 0;
  DLDataType dtype = {};
  DLDataType kv_dtype = {};
  std::uint32_t shared_experts = 0;
  std::int32_t activation = 0;
  std::uint32_t rotary_dim = 0;
  float final_logit_cap = 0;
  std::uint32_t index_heads = 0;
  std::uint32_t index_head_dim = 0;
  std::uint32_t index_top_k = 0;

  // In C, for as long as this and `held` live.
  template <typename Held>
  [[nodiscard]] Raw raw(Held& held) const {
    Raw made = {};
    made.size = sizeof made;
    made.flags = flags;
    made.tensor_parallel = tensor_parallel;
    made.hidden_size = hidden_size;
    made.intermediate_size = intermediate_size;
    made.layers = layers;
    made.heads = heads;
    made.kv_heads = kv_heads;
    made.head_dim = head_dim;
    made.v_head_dim = v_head_dim;
    made.vocab_size = vocab_size;
    made.max_positions = max_positions;
    made.sliding_window = sliding_window;
    made.experts = experts;
    made.experts_per_token = experts_per_token;
    made.expert_intermediate_size = expert_intermediate_size;
    made.kv_lora_rank = kv_lora_rank;
    made.q_lora_rank = q_lora_rank;
    made.rope_head_dim = rope_head_dim;
    made.page_size = page_size;
    made.logit_cap = logit_cap;
    made.dtype = dtype;
    made.kv_dtype = kv_dtype;
    made.shared_experts = shared_experts;
    made.activation = activation;
    made.rotary_dim = rotary_dim;
    made.final_logit_cap = final_logit_cap;
    made.index_heads = index_heads;
    made.index_head_dim = index_head_dim;
    made.index_top_k = index_top_k;
    static_cast<void>(held);
    return made;
  }
};

struct WarmOptions {
  using Raw = quern_warm_options;
  std::uint32_t flags = 0;
  std::vector<std::string> targets = {};
  std::string manifest = {};
  std::optional<Model> model = {};
  std::function<bool(std::uint64_t done, std::uint64_t total, const WarmResult& result)> progress = {};

  // In C, for as long as this and `held` live.
  template <typename Held>
  [[nodiscard]] Raw raw(Held& held) const {
    Raw made = {};
    made.size = sizeof made;
    made.flags = flags;
    made.targets = held.texts("targets", targets);
    made.target_count = targets.size();
    made.manifest = held.text("manifest", manifest);
    made.manifest_length = manifest.size();
    if (model) made.model = held.keep(model->raw(held));
    if (progress) held.progress(progress, made.progress, made.progress_user);
    return made;
  }
};

struct TuneOptions {
  using Raw = quern_tune_options;
  std::uint32_t flags = 0;
  std::string manifest = {};
  std::optional<Model> model = {};
  std::vector<std::int64_t> rows = {};
  double milliseconds = 0;
  std::function<bool(std::uint64_t done, std::uint64_t total, const TuneResult& result)> progress = {};

  // In C, for as long as this and `held` live.
  template <typename Held>
  [[nodiscard]] Raw raw(Held& held) const {
    Raw made = {};
    made.size = sizeof made;
    made.flags = flags;
    made.manifest = held.text("manifest", manifest);
    made.manifest_length = manifest.size();
    if (model) made.model = held.keep(model->raw(held));
    made.rows = rows.data();
    made.row_count = rows.size();
    made.milliseconds = milliseconds;
    if (progress) held.progress(progress, made.progress, made.progress_user);
    return made;
  }
};

struct TrimOptions {
  using Raw = quern_trim_options;
  std::uint32_t flags = 0;
  std::uint64_t limit = 0;

  // In C, for as long as this and `held` live.
  template <typename Held>
  [[nodiscard]] Raw raw(Held& held) const {
    Raw made = {};
    made.size = sizeof made;
    made.flags = flags;
    made.limit = limit;
    static_cast<void>(held);
    return made;
  }
};

struct VerifyOptions {
  using Raw = quern_verify_options;
  std::uint32_t flags = 0;
  std::string prefix = {};
  std::uint64_t seed = 0;
  std::function<bool(std::uint64_t done, std::uint64_t total, const VerifyResult& result)> progress = {};

  // In C, for as long as this and `held` live.
  template <typename Held>
  [[nodiscard]] Raw raw(Held& held) const {
    Raw made = {};
    made.size = sizeof made;
    made.flags = flags;
    made.prefix = held.text("prefix", prefix);
    made.seed = seed;
    if (progress) held.progress(progress, made.progress, made.progress_user);
    return made;
  }
};

}  // namespace quern
