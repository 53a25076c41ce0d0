// What a GPU driver's code means. HIP took CUDA's numbers, so both drivers share this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace quern::jit {

// A code that says nothing about the call that returned it: an earlier kernel or copy has broken the context, and every
// call returns this from then on.
constexpr bool is_sticky(int code) {
  switch (code) {
    case 214:  // ECC error that could not be corrected
    case 220:  // NVLink error that could not be corrected
    case 226:  // memory error, contained
    case 700:  // illegal address
    case 702:  // launch timed out
    case 709:  // context is destroyed
    case 710:  // device-side assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 721:  // tensor memory not freed
      return true;
    default:
      return false;
  }
}

// The image is not for this device, or no image at all: another one may do.
constexpr bool refuses_image(int code) {
  switch (code) {
    case 200:  // invalid image
    case 209:  // no binary for this GPU
    case 218:  // invalid PTX; HIP: invalid kernel file
    case 221:  // JIT compiler not found
    case 222:  // PTX of an unsupported version
    case 223:  // JIT compilation disabled
    case 300:  // invalid source
    case 303:  // HIP: shared object initialisation failed
      return true;
    default:
      return false;
  }
}

constexpr int kNotFoundCode = 500;  // no symbol of that name

// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
std::string code_text(int code, const char* name, const char* description);

// Throws QUERN_FORKED for kForkedCode, QUERN_STICKY, else `status` (a quern_status), with `described` from code_text().
[[noreturn]] void throw_gpu_error(int code, const std::string& described, std::string_view what, int status);

}  // namespace quern::jit
