// What the helper does for itself where the C library cannot have it done between fork and exec: posix_spawn closes
// descriptors from glibc 2.34 on, and changes the folder from 2.29 on. Packages are built for older ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <features.h>

#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
#define QUERN_SPAWN_PREPARES 1
#endif
#endif
