// What was compiled without a GPU, as the cache tells of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/ops/manifest.h"

namespace quern::test {

// A context that only compiles.
Context compiling_context();

// Whether a compiler for the GPU target is here; `why` is what was found.
bool has_compiler(quern_context* context, const std::string& target, std::string* why);

// Fails the test for each that was not.
void expect_compiled(const std::vector<Warmed>& warmed);

// Calls `look` with the entry of every kernel that was warmed: a cache that outlives the test holds those of other
// sources too.
void each_entry(quern_context* context, const std::string& target, const std::vector<Warmed>& warmed,
                const std::function<void(const quern_entry&)>& look);

// Lines of a manifest, "OP * CONSTANTS", that TakeEveryTemplate in targets_test.cpp compiles for every target too: all
// that matters of an op's constants, named beside its other tests.
struct ForEveryTarget {
  ForEveryTarget(std::initializer_list<const char*> lines);
  static const std::vector<std::string>& lines();
};

// Its image.
std::string image_of(quern_context* context, const quern_entry& entry);

// Its constants: " ELEMENT_A=e4m3 TILE_M=128 ...".
std::string constants_of(const quern_entry& entry);

}  // namespace quern::test
