// A call's arguments, checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/sample/parameters.h"
#include "sources/sample/shape.h"

namespace quern::ops::sample {

struct Problem {
  Shape shape;
  q::SampleParams params;  // all but the workspace's, and how a row is divided
  int sms;
  bool bounded;  // the grid may not have more blocks than so many SMs hold
  bool rare;     // something is asked for that kernels of clusters leave to the portable one
  int blocks;    // of a cluster, which has a row; 0: the portable kernel
  bool rarer;    // so does the small one
};

// Rows of logits as every op that streams them takes them, into the params. Throws Error(QUERN_INVALID).
Tensor read_logits(const DLTensor* given, const char* name, const Place& place, q::SampleParams* p);

// int32 or int64 ids into the params. Throws Error(QUERN_INVALID).
void read_ids(const DLTensor* given, std::int64_t count, const Place& place, q::SampleParams* p);

// Throws Error(QUERN_INVALID).
Problem read_problem(const quern_sample_args& args, const Runtime& runtime, bool may_lack_data);

// Divides the rows among blocks.
void divide_rows(Problem* problem);
std::uint64_t workspace_of(const Problem& problem);
// Launches a problem whose rows have been divided. Throws what compiling and launching throw, and Error(QUERN_INVALID).
void launch_problem(const Runtime& runtime, Problem* problem, const jit::Kernel& kernel, void* workspace,
                    std::uint64_t workspace_size, std::uint32_t flags, void* stream, const char* what);

}  // namespace quern::ops::sample
