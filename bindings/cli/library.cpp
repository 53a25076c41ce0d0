// quern.h for C++: a context and lists that free themselves, and failures as exceptions.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/library.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

void log_to_console(void* user, std::int32_t level, const char* text) {
  Console& console = *static_cast<Console*>(user);
  const std::string shown = printable(text, true);
  // Errors are what a call fails with: the command shows them itself.
  if (level == QUERN_LOG_WARNING) {
    console.warning(shown);
  } else {
    console.detail(shown);
  }
}

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> all;
  for (const std::string& string : strings) all.push_back(string.c_str());
  return all;
}

}  // namespace

void check(std::int32_t status, const quern_error& error) {
  if (status == QUERN_OK) return;
  const std::string text = error.text[0] != '\0' ? error.text : quern_status_name(status);
  throw Failure(status, text, error.native);
}

Context::Context(const ContextOptions& options, Console& console) {
  // The library goes on without a bundle that it cannot open. Who names one here wants it.
  for (const std::string& bundle : options.bundles) {
    if (::access(bundle.c_str(), R_OK) != 0) {
      throw Failure(errno == ENOENT ? QUERN_NOT_FOUND : QUERN_IO,
                    "--bundle: cannot read '" + printable(bundle) + "': " + std::generic_category().message(errno),
                    errno);
    }
  }
  const std::vector<const char*> bundles = pointers(options.bundles);
  const std::vector<const char*> search_dirs = pointers(options.search_dirs);
  const std::vector<const char*> trusted_keys = pointers(options.trusted_keys);
  auto given = sized<quern_context_options>();
  given.flags = options.flags;
  if (options.shared_cache) given.flags |= QUERN_CONTEXT_SHARED_CACHE;
  given.device_type = options.device_type;
  given.device_id = options.device_id;
  given.compile_threads = options.compile_threads;
  given.cache_path = options.cache.empty() ? nullptr : options.cache.c_str();
  given.target = options.target.empty() ? nullptr : options.target.c_str();
  given.cache_key = options.cache_key.empty() ? nullptr : options.cache_key.c_str();
  given.bundles = bundles.data();
  given.bundle_count = bundles.size();
  given.search_dirs = search_dirs.data();
  given.search_dir_count = search_dirs.size();
  given.trusted_keys = trusted_keys.data();
  given.trusted_key_count = trusted_keys.size();
  if (!options.silent) {
    given.log = log_to_console;
    given.log_user = &console;
  }
  quern_context* context = nullptr;
  auto error = sized<quern_error>();
  check(quern_context_create(&given, &context, &error), error);
  context_.reset(context);
}

}  // namespace quern::cli
