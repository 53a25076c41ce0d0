// Whether bytes are an image that a GPU driver can be handed. Drivers take a pointer without a length and believe what
// they read, so a short or foreign image must be found out before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace quern::jit {

// An ELF file of CUDA's machine, whole as far as its headers tell, or NUL-terminated PTX.
bool is_cuda_image(std::string_view image);
// How many parameters the kernel `entry` of a CUDA image has, as the image says; -1 where it does not say it in a way
// that is known here.
std::int32_t cuda_parameters(std::string_view image, std::string_view entry);
// An ELF file of AMD's machine, whole as far as its headers tell, or a clang offload bundle.
bool is_hip_image(std::string_view image);

}  // namespace quern::jit
