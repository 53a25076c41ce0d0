// A private folder for one question to the helper, removed with everything in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace quern::jit::helper {

class WorkFolder {
 public:
  // 0700, in $TMPDIR where that is an absolute path and the process is not privileged, else in /tmp. Throws
  // Error(QUERN_IO).
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace quern::jit::helper
