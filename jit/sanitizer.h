// Which sanitizer this library was built with. Kernels for `host` are compiled with the same one, so that accesses out
// of bounds and missing barriers in them are found; such an image needs the sanitizer's runtime in the process that
// loads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUERN_BUILT_WITH_ASAN 1
#elif __has_feature(thread_sanitizer)
#define QUERN_BUILT_WITH_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define QUERN_BUILT_WITH_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define QUERN_BUILT_WITH_TSAN 1
#endif

namespace quern::jit {

// The compiler option, "" in an ordinary build.
#if defined(QUERN_BUILT_WITH_ASAN)
inline constexpr std::string_view kSanitizerOption = "-fsanitize=address";
#elif defined(QUERN_BUILT_WITH_TSAN)
inline constexpr std::string_view kSanitizerOption = "-fsanitize=thread";
#else
inline constexpr std::string_view kSanitizerOption;
#endif

}  // namespace quern::jit
