// Package quern calls quern's C ABI: GPU kernels specialised, compiled, cached and launched at run time. A Context is one
// device, its kernels and its cache; an op is a struct of its arguments, run on it. Tensors have their memory and extents
// outside of Go's heap, since C keeps pointers among them.
//
// cgo finds quern.h by CGO_CFLAGS=-I... and libquern by CGO_LDFLAGS=-L..., where the compiler does not by itself.
// SPDX-License-Identifier: Apache-2.0
package quern

// #cgo LDFLAGS: -lquern
// #include <stdlib.h>
// #include <string.h>
// #include <quern.h>
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"strings"
	"unsafe"
)

// Error is what a call returns that failed. The text names the argument, what was given and what is allowed.
type Error struct {
	Status int   // Invalid, NotFound and so on
	Native int64 // the driver's, compiler's or system's own code, 0 if none
	Text   string
}

func (e *Error) Error() string {
	return C.GoString(C.quern_status_name(C.int32_t(e.Status))) + ": " + e.Text
}

func newError() *C.quern_error {
	failure := new(C.quern_error)
	failure.size = C.uint32_t(unsafe.Sizeof(*failure))
	return failure
}

func checked(status C.int32_t, failure *C.quern_error) error {
	if status == C.QUERN_OK {
		return nil
	}
	return &Error{Status: int(status), Native: int64(failure.native), Text: C.GoString(&failure.text[0])}
}

// Device says which device a context is of.
type Device struct {
	Type int32 // DeviceHost, DeviceCUDA, DeviceROCm; 0: none, for warming
	ID   int32
}

const (
	DeviceHost = C.kDLCPU
	DeviceCUDA = C.kDLCUDA
	DeviceROCm = C.kDLROCM
)

// Context is one device, its kernels and its cache. Safe to use from several goroutines.
type Context struct {
	handle    *C.quern_context
	callbacks holder // what the library calls until the context is closed
}

// Open makes a context. Close it, or leave it to the garbage collector. options.Log and options.Event are called by
// threads of the library's, too; one that panics ends the program.
func Open(options Options) (opened *Context, err error) {
	made := new(Context)
	defer func() {
		if err != nil {
			made.callbacks.free()
		}
	}()
	defer told(&err)
	given, failure := options.raw(&made.callbacks), newError()
	if err := checked(C.quern_context_create(given, &made.handle, failure), failure); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(made, (*Context).Close)
	return made, nil
}

// Close unloads the kernels. No call may be in flight. A second time it does nothing.
func (c *Context) Close() {
	C.quern_context_destroy(c.handle)
	c.callbacks.free()
	c.handle = nil
	runtime.SetFinalizer(c, nil)
}

// Op is a struct of this package with an op's arguments.
type Op interface {
	run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t
	prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t
	workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t
}

// Run launches an op; on a GPU it returns once that is launched. The workspace is grown as the op asks, on `host`, and
// one call's at a time.
func (c *Context) Run(op Op, workspace *Workspace) error {
	size, err := c.Workspace(op)
	if err != nil {
		return err
	}
	memory := workspace.reserve(size)
	return c.call(op, func(held *holder, failure *C.quern_error) C.int32_t {
		status := op.run(c.handle, held, memory, size, failure)
		runtime.KeepAlive(workspace)
		return status
	})
}

// Prepare readies every kernel that calls with the same dtypes, head counts and flags and no larger maxima can reach.
func (c *Context) Prepare(op Op) error {
	return c.call(op, func(held *holder, failure *C.quern_error) C.int32_t {
		return op.prepare(c.handle, held, failure)
	})
}

// Workspace says how many bytes of workspace an op needs.
func (c *Context) Workspace(op Op) (uint64, error) {
	var size C.uint64_t
	err := c.call(op, func(held *holder, failure *C.quern_error) C.int32_t {
		return op.workspace(c.handle, held, &size, failure)
	})
	return uint64(size), err
}

// call keeps what C reads alive until the call is over.
func (c *Context) call(op any, run func(held *holder, failure *C.quern_error) C.int32_t) (err error) {
	if c.handle == nil {
		return &Error{Status: Invalid, Text: "context: is closed"}
	}
	var held holder
	defer held.free()
	defer told(&err)
	failure := newError()
	status := run(&held, failure)
	runtime.KeepAlive(op)
	runtime.KeepAlive(c)
	held.rethrow()
	return checked(status, failure)
}

// Expression is a formula that an op applies to each of its results. It lives as long as its context.
type Expression struct {
	made    *C.quern_expression
	context *Context
}

func (e *Expression) raw() *C.quern_expression {
	if e == nil {
		return nil
	}
	return e.made
}

// Expression checks a formula, "silu(acc + col0) * row1". The same formula is the same kernel.
func (c *Context) Expression(formula string) (*Expression, error) {
	text := C.CString(formula)
	defer C.free(unsafe.Pointer(text))
	made := &Expression{context: c}
	failure := newError()
	status := C.quern_expression_create(c.handle, text, &made.made, failure)
	if err := checked(status, failure); err != nil {
		return nil, err
	}
	return made, nil
}

// refusal is what holder panics with for an argument that C cannot be given; told makes an error of it.
type refusal struct{ wrong *Error }

func told(err *error) {
	switch thrown := recover().(type) {
	case nil:
	case refusal:
		*err = thrown.wrong
	default:
		panic(thrown)
	}
}

// holder has the C structs of one call, which may hold no pointers into Go's memory.
type holder struct {
	blocks  []unsafe.Pointer
	handles []cgo.Handle
	calls   []interface{ rethrow() }
}

func (h *holder) allocate(bytes C.size_t) unsafe.Pointer {
	made := C.calloc(1, bytes)
	if made == nil {
		panic(fmt.Sprintf("quern: no memory for %d bytes", bytes))
	}
	h.blocks = append(h.blocks, made)
	return made
}

// text is a string in C's memory; nil where it is empty.
func (h *holder) text(argument, value string) *C.char {
	if value == "" {
		return nil
	}
	return h.always(argument, value)
}

// always is a string in C's memory, an empty one too.
func (h *holder) always(argument, value string) *C.char {
	if place := strings.IndexByte(value, 0); place >= 0 {
		text := fmt.Sprintf("%s: a NUL given at byte %d; allowed is text without one", argument, place)
		panic(refusal{&Error{Status: Invalid, Text: text}})
	}
	made := (*C.char)(h.allocate(C.size_t(len(value) + 1)))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(made)), len(value)), value)
	return made
}

func (h *holder) texts(argument string, list []string) **C.char {
	if len(list) == 0 {
		return nil
	}
	start := (**C.char)(h.allocate(C.size_t(len(list)) * C.size_t(unsafe.Sizeof(uintptr(0)))))
	for i, value := range list {
		unsafe.Slice(start, len(list))[i] = h.text(fmt.Sprintf("%s[%d]", argument, i), value)
	}
	return start
}

func (h *holder) numbers(list []int64) *C.int64_t {
	if len(list) == 0 {
		return nil
	}
	start := h.allocate(C.size_t(8 * len(list)))
	copy(unsafe.Slice((*int64)(start), len(list)), list)
	return (*C.int64_t)(start)
}

// handle is what C gives back to a callback: a place that names a value of Go's.
func (h *holder) handle(value any) unsafe.Pointer {
	made := cgo.NewHandle(value)
	h.handles = append(h.handles, made)
	place := h.allocate(C.size_t(unsafe.Sizeof(made)))
	*(*cgo.Handle)(place) = made
	return place
}

// rethrow goes on with the panic of a callback, which could not go through C.
func (h *holder) rethrow() {
	for _, call := range h.calls {
		call.rethrow()
	}
}

func (h *holder) tensors(list []*Tensor) **C.DLTensor {
	if len(list) == 0 {
		return nil
	}
	start := h.allocate(C.size_t(len(list)) * C.size_t(unsafe.Sizeof(uintptr(0))))
	for i, tensor := range list {
		unsafe.Slice((**C.DLTensor)(start), len(list))[i] = tensor.raw()
	}
	return (**C.DLTensor)(start)
}

func (h *holder) floats(list []float32) *C.float {
	if len(list) == 0 {
		return nil
	}
	start := h.allocate(C.size_t(4 * len(list)))
	copy(unsafe.Slice((*float32)(start), len(list)), list)
	return (*C.float)(start)
}

func (h *holder) free() {
	for _, handle := range h.handles {
		handle.Delete()
	}
	for _, block := range h.blocks {
		C.free(block)
	}
	h.handles, h.blocks = nil, nil
}

// Version is the library's, "0.1.0".
func Version() string { return C.GoString(C.quern_version()) }

// Workspace is zeroed memory that ops work in. Its zero value is the CPU's, for `host`.
type Workspace struct {
	memory *Memory
	device unsafe.Pointer
	bytes  uint64
}

// DeviceWorkspace is of memory of a GPU: 256-byte aligned, zeroed once.
func DeviceWorkspace(memory unsafe.Pointer, bytes uint64) *Workspace {
	return &Workspace{device: memory, bytes: bytes}
}

func (w *Workspace) reserve(size uint64) unsafe.Pointer {
	if size == 0 || (w.device != nil && w.bytes < size) {
		return nil // too little is told by the library: as none
	}
	if w.device != nil {
		return w.device
	}
	if w.memory == nil || w.memory.bytes < size {
		w.memory = allocate(size)
	}
	return w.memory.start
}

// Memory of C's, aligned to 256 bytes and zeroed; freed when nothing refers to it.
type Memory struct {
	start unsafe.Pointer
	bytes uint64
}

func allocate(bytes uint64) *Memory {
	rounded := (bytes + 255) / 256 * 256
	if rounded == 0 {
		rounded = 256
	}
	start := C.aligned_alloc(256, C.size_t(rounded))
	if start == nil {
		panic(fmt.Sprintf("quern: no memory for %d bytes", bytes))
	}
	C.memset(start, 0, C.size_t(rounded))
	made := &Memory{start, rounded}
	runtime.SetFinalizer(made, func(m *Memory) { C.free(m.start) })
	return made
}
