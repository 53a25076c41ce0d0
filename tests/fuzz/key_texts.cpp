// The texts that keys are hashes of: what goes into one can be read back out of it, so that two kernels never share a
// text; and what a store holds in the place of one, written by anybody, is read by `quern list` and by quern_verify.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "bindings/cli/entry.h"
#include "jit/error.h"
#include "jit/key.h"
#include "jit/service.h"
#include "sources/manifest.h"
#include "sources/op.h"
#include "sources/verify/verifier.h"
#include "tests/fuzz/fuzz.h"

namespace quern::fuzz {
namespace {

// ---- written and read back

// A name as C has them, and any bytes at all.
std::string name_of(Bytes& bytes) {
  std::string name = "N";
  for (unsigned i = bytes.below(6); i > 0; --i) name += static_cast<char>('a' + bytes.below(26));
  return name;
}
std::string bytes_of(Bytes& bytes) {
  std::string value(bytes.below(24), '\0');
  for (char& c : value) c = bytes.take<char>();
  return value;
}

struct Read {
  std::string op, entry, source, shared, target;
  std::vector<jit::Constant> constants;
  std::vector<std::string> options, headers, passes;
};

// By the format's words alone (jit/key.h), and not by what writes it.
Read read_back(std::string_view text) {
  Read read;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) std::abort();
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) std::abort();
    const std::string_view what = line.substr(0, space);
    line.remove_prefix(space + 1);
    if (what == "op") read.op = ops::percent_decode(line);
    if (what == "target") read.target = line;
    if (what == "entry") read.entry = ops::percent_decode(line);
    if (what == "shared") read.shared = line;
    if (what == "pass") read.passes.emplace_back(line);
    if (what == "option") read.options.push_back(ops::percent_decode(line));
    if (what == "source") read.source = ops::percent_decode(line.substr(0, line.rfind(' ')));
    if (what == "header") read.headers.push_back(ops::percent_decode(line.substr(0, line.rfind(' '))));
    if (what == "const") {
      const std::size_t after = line.find(' ');
      if (after == std::string_view::npos) std::abort();
      read.constants.push_back(
          {ops::percent_decode(line.substr(0, after)), ops::percent_decode(line.substr(after + 1))});
    }
  }
  return read;
}

void run_written(std::string_view input) {
  Bytes bytes(input);
  jit::Unit unit;
  unit.op = name_of(bytes), unit.entry = name_of(bytes);
  unit.target = jit::Target::parse(bytes.below(2) == 0 ? "sm_90a" : "gfx90a");
  unit.max_shared_bytes = bytes.below(2) == 0 ? 0 : bytes.take<std::uint32_t>();
  unit.keep_operands = bytes.below(2) != 0, unit.checked = bytes.below(2) != 0;
  for (unsigned i = bytes.below(4); i > 0; --i) {
    std::string name = name_of(bytes);
    unit.constants.push_back({std::move(name), bytes_of(bytes)});
  }
  for (unsigned i = bytes.below(3); i > 0; --i) unit.options.push_back(bytes_of(bytes));
  const std::string source = bytes_of(bytes), header = bytes_of(bytes);
  std::vector<jit::File> used = {{source, "text"}};
  if (bytes.below(2) != 0) used.push_back({header, "other"});
  const std::string text = jit::canonical_text(unit, used);
  const Read read = read_back(text);
  std::vector<std::string> passes;
  if (unit.keep_operands) passes.emplace_back("keep-operands");
  if (unit.checked) passes.emplace_back("checked");
  const bool same = read.op == unit.op && read.entry == unit.entry && read.target == unit.target.name() &&
                    read.source == source && read.constants == unit.constants && read.options == unit.options &&
                    read.passes == passes &&
                    read.shared == (unit.max_shared_bytes == 0 ? "" : std::to_string(unit.max_shared_bytes)) &&
                    read.headers.size() == used.size() - 1 && (used.size() == 1 || read.headers[0] == header);
  if (!same) std::abort();
}

// ---- found in a store

struct Tried {
  jit::Service::Options where;
  jit::Service service;
  std::unique_ptr<jit::Driver> driver = jit::open_host({});
  std::string pin;
  ops::verify::Verifier verifier;

  static jit::Service::Options options() {
    jit::Service::Options none;
    none.store.no_file = true;
    none.compilers.helper_path = "/nowhere/quern-compile-helper";  // nothing is compiled for what was thought up here
    return none;
  }
  explicit Tried(std::string of_pin)
      : where(options()),
        service(where),
        pin(std::move(of_pin)),
        verifier(*driver, service, where.compilers, pin, [](std::string_view) {}, 7) {}
};

void run_stored(std::string_view input) {
  static Tried plain(""), pinned("cxx g++ 12");
  Bytes bytes(input);
  const std::span<const ops::Op> all = ops::all();
  const unsigned which = bytes.below(64);
  ops::verify::Cached cached;
  cached.op = which < all.size() ? all[which].name : bytes_of(bytes);
  cached.target = bytes.below(4) != 0 ? "host" : bytes_of(bytes);
  cached.compiler = bytes.below(2) != 0 ? "cxx g++ 12" : bytes_of(bytes);
  Tried& tried = bytes.below(2) == 0 ? plain : pinned;
  const bool tries = bytes.below(64) == 0;
  cached.text = bytes.rest();
  // Interned for good: not a million of them.
  if (cached.op == "kernel" && cached.text.find("\nspec ") != std::string::npos) return;
  // Few of those that are what this library would load: calls are made up for each.
  cached.key = tries ? jit::key_of(cached.text) : cache::Key{1, 2};
  try {
    const ops::verify::Finding found = tried.verifier.finish(*tried.verifier.begin(cached));
    if (found.outcome == QUERN_VERIFY_AGREES || found.outcome == QUERN_VERIFY_DIFFERS) std::abort();
  } catch (const Error& error) {
    if (error.status() == QUERN_INTERNAL || error.status() == QUERN_NO_MEMORY) std::abort();
  }
  // What the command shows.
  quern_entry entry{};
  entry.size = sizeof(entry);
  const std::string key(32, '0');
  entry.key = key.c_str(), entry.op = cached.op.c_str(), entry.target = cached.target.c_str();
  entry.entry_name = entry.compiler = entry.log = "";
  const std::string text = cached.text.c_str();
  entry.text = text.c_str();
  for (const std::int32_t kind : {1, 2}) {
    entry.kind = kind;
    const std::string line = cli::manifest_line(entry);
    if (line.find('\n') != std::string::npos && cached.op.find('\n') == std::string::npos &&
        cached.target.find('\n') == std::string::npos)
      std::abort();
  }
}

void run(std::string_view input) {
  if (input.empty()) return;
  return (input[0] & 1) == 0 ? run_written(input.substr(1)) : run_stored(input.substr(1));
}

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (std::uint32_t number = 0; number < 16; ++number) {
    std::string seed(160, '\0');
    std::uint32_t state = number * 2654435761U + 1;
    for (char& byte : seed) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
    seed[0] = 0;
    seeds.push_back(seed);
  }
  quern_model model{};
  model.size = sizeof(model);
  model.flags = QUERN_MODEL_GATED_MLP;
  model.heads = 32, model.kv_heads = 8, model.head_dim = 128, model.hidden_size = 4096, model.layers = 2;
  model.intermediate_size = 14336, model.vocab_size = 32000, model.max_positions = 8192, model.page_size = 16;
  const jit::TargetInfo host = jit::limits_of(jit::Target::parse("host"));
  for (std::size_t op = 0; op < ops::all().size(); ++op) {
    std::vector<jit::Spec> specs;
    ops::all()[op].list(model, host, &specs);
    if (specs.empty()) continue;
    const jit::Unit unit = ops::describe(specs[0]);
    const std::string text = jit::canonical_text(unit, jit::used_files(unit));
    for (const char* pin : {"", "compiler cxx g++ 12\n", "compiler cxx 1\n"}) {
      for (const char mode : {'\0', '\1'})
        seeds.push_back(std::string("\1") + static_cast<char>(op) + "\1\1" + mode + "\1" + text + pin);
    }
  }
  return seeds;
}

}  // namespace

const Target key_texts{"key_texts", run, seeds};

}  // namespace quern::fuzz
