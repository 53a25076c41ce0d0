// A file system under SQLite that remembers every write, truncation and sync, and can tell what a disk might hold if
// the power had failed after any of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "tests/fault/torture.h"

namespace quern::cache::testing {

// From now on everything that SQLite does to files is noted, under their names without folders. Becomes SQLite's
// default on its first use.
void record_power();
// Stops, and returns how many operations were noted.
std::size_t stop_power();
// How many were noted so far.
std::size_t noted_power();

// What could be on the disk had the power failed after the first `count` operations: of each file whatever was synced,
// and of what was not, sectors chosen at random, in any order, half of a write without the other.
std::map<std::string, std::string> after_power_failure(std::size_t count, Random& random);

}  // namespace quern::cache::testing
