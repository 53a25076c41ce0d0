// What of Go's the library calls: exported by callbacks.go, whose pointers have no const.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <quern.h>
#include <stdlib.h>

void quernGoLog(void* user, int32_t level, char* text);
void quernGoEvent(void* user, quern_event* event);
int32_t quernGoWarmResult(void* user, uint64_t done, uint64_t total, quern_warm_result* result);
int32_t quernGoTuneResult(void* user, uint64_t done, uint64_t total, quern_tune_result* result);
int32_t quernGoVerifyResult(void* user, uint64_t done, uint64_t total, quern_verify_result* result);
