// Hopper's instruments on the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
