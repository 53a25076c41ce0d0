// Whether bytes are an image that a GPU driver can be handed. Drivers take a pointer without a length and believe what
// they read, so a short or foreign image must be found out before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace quern::jit {

// An ELF file of CUDA's machine, whole as far as its headers tell, or NUL-terminated PTX.
bool is_cuda_image(std::string_view image);
// An ELF file of AMD's machine, whole as far as its headers tell, or a clang offload bundle.
bool is_hip_image(std::string_view image);

}  // namespace quern::jit
