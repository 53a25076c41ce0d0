// Reading quern_rope_options: which heads' dimensions turn, and how fast.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capi/quern.h"
#include "sources/common/integers.cuh"
#include "sources/description.h"
#include "sources/index_data.h"
#include "sources/rope/params.cuh"
#include "sources/tensor.h"

namespace quern::ops::rope {

// The constants of a kernel that turns heads.
struct RopeShape {
  int rotary = 0;  // dimensions that turn; 0: none
  bool interleaved = false;
  Dtype table = Dtype::other;  // other: computed
};

inline constexpr Names<Dtype, 4> kTableDtypes = {
    {{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}, {"none", Dtype::other}}};

// HAS_TABLE and TABLE_ELEMENT, which a kernel that turns heads is compiled with.
void define_table(const RopeShape& shape, jit::Unit* unit);

// Positions are held against the table's rows; negative ones turn nothing.
void list_positions(const q::Integers& positions, std::int64_t tokens, const q::Rope& rope, IndexList* list);

// A manifest's width: 0 becomes the widest. Throws Error(QUERN_INVALID) where it is no part of the widest.
void take_width(const char* op, int widest, int* width);

// `dim` are a head's dimensions. Fills what the kernel reads. NULL options are plain. Throws Error(QUERN_INVALID)
// naming the field, what was given and what is allowed.
RopeShape read_options(const quern_rope_options* given, int dim, const Place& place, q::Rope* rope);

// The elements that a kernel takes in one access: as many as the rows' alignment in bytes and the pairs allow.
int vector_width(const RopeShape& shape, int dim_k, int dim_v, Dtype element, int alignment);

// Lanes that share a head.
int team_lanes(const RopeShape& shape, int dim_k, int dim_v, int width);

// Teams that share a token's heads, so many that `teams` are busy, and none takes more than four heads unless there are
// more tokens than teams.
int strips_of(std::int64_t heads, std::int64_t all_heads, std::int64_t tokens, std::int64_t teams);

}  // namespace quern::ops::rope
