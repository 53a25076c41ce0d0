// SPDX-License-Identifier: Apache-2.0

package quern

// #include "callbacks.h"
import "C"

import (
	"fmt"
	"os"
	"runtime/cgo"
	"unsafe"
)

func named[T any](user unsafe.Pointer) T { return (*(*cgo.Handle)(user)).Value().(T) }

// A panic would leave the library's locks held on its way through C.
func ending() {
	if thrown := recover(); thrown != nil {
		fmt.Fprintf(os.Stderr, "quern: a callback panicked: %v\n", thrown)
		os.Exit(2)
	}
}

//export quernGoLog
func quernGoLog(user unsafe.Pointer, level C.int32_t, text *C.char) {
	defer ending()
	named[func(int32, string)](user)(int32(level), C.GoString(text))
}

//export quernGoEvent
func quernGoEvent(user unsafe.Pointer, event *C.quern_event) {
	defer ending()
	named[func(Event)](user)(newEvent(event))
}

// progress is a callback of one call. When it panics the call is cancelled, and the panic goes on behind it.
type progress[Result any] struct {
	told   func(done, total uint64, result Result) (cancel bool)
	thrown any
}

func progressOf[Result any](held *holder, told func(done, total uint64, result Result) bool) unsafe.Pointer {
	made := &progress[Result]{told: told}
	held.calls = append(held.calls, made)
	return held.handle(made)
}

func (p *progress[Result]) tell(done, total C.uint64_t, result Result) (cancel C.int32_t) {
	if p.thrown != nil {
		return 1
	}
	defer func() {
		if p.thrown = recover(); p.thrown != nil {
			cancel = 1
		}
	}()
	if p.told(uint64(done), uint64(total), result) {
		return 1
	}
	return 0
}

func (p *progress[Result]) rethrow() {
	if p.thrown != nil {
		panic(p.thrown)
	}
}

//export quernGoWarmResult
func quernGoWarmResult(user unsafe.Pointer, done, total C.uint64_t, result *C.quern_warm_result) C.int32_t {
	return named[*progress[WarmResult]](user).tell(done, total, newWarmResult(result))
}

//export quernGoTuneResult
func quernGoTuneResult(user unsafe.Pointer, done, total C.uint64_t, result *C.quern_tune_result) C.int32_t {
	return named[*progress[TuneResult]](user).tell(done, total, newTuneResult(result))
}

//export quernGoVerifyResult
func quernGoVerifyResult(user unsafe.Pointer, done, total C.uint64_t, result *C.quern_verify_result) C.int32_t {
	return named[*progress[VerifyResult]](user).tell(done, total, newVerifyResult(result))
}
