// SPDX-License-Identifier: Apache-2.0

package quern

// #include <quern.h>
import "C"

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sort"
	"unsafe"
)

// Source is a text in memory, under the name that #include "name" and the compiler's log know it by.
type Source struct {
	Name, Text string
}

// KernelDesc is quern_kernel_desc: a kernel of the caller's own. Everything in it is part of its key.
type KernelDesc struct {
	Flags          uint32 // CallCachedOnly, CallBackground
	Entry          string
	Source         Source
	Headers        []Source          // what the source may include; nothing else can be
	Constants      map[string]string // become #define NAME VALUE
	Options        []string
	Target         string // "": the context's device
	MaxSharedBytes uint32
}

// Kernel is ready to launch. It lives as long as its context.
type Kernel struct {
	made    *C.quern_kernel
	context *Context
}

func (s Source) put(held *holder, place *C.quern_source) {
	place.size = C.sizeof_quern_source
	place.name, place.text = held.text("source name", s.Name), held.text(s.Name, s.Text)
}

// Kernel readies a kernel; nil for a target that is not the device's, for which it is compiled and stored.
func (c *Context) Kernel(desc *KernelDesc) (*Kernel, error) {
	kernel := &Kernel{context: c}
	err := c.call(nil, func(held *holder, failure *C.quern_error) C.int32_t {
		given := (*C.quern_kernel_desc)(held.allocate(C.sizeof_quern_kernel_desc))
		given.size = C.sizeof_quern_kernel_desc
		given.flags, given.max_shared_bytes = C.uint32_t(desc.Flags), C.uint32_t(desc.MaxSharedBytes)
		given.entry, given.target = held.text("entry", desc.Entry), held.text("target", desc.Target)
		given.source = (*C.quern_source)(held.allocate(C.sizeof_quern_source))
		desc.Source.put(held, given.source)
		if count := len(desc.Headers); count > 0 {
			given.headers = (*C.quern_source)(held.allocate(C.size_t(count) * C.sizeof_quern_source))
			given.header_count = C.uint64_t(count)
			for i, header := range desc.Headers {
				header.put(held, &unsafe.Slice(given.headers, count)[i])
			}
		}
		if count := len(desc.Constants); count > 0 {
			given.constants = (*C.quern_constant)(held.allocate(C.size_t(count) * C.sizeof_quern_constant))
			given.constant_count = C.uint64_t(count)
			names := make([]string, 0, count)
			for name := range desc.Constants {
				names = append(names, name)
			}
			sort.Strings(names)
			for i, name := range names {
				place := &unsafe.Slice(given.constants, count)[i]
				place.size = C.sizeof_quern_constant
				place.name, place.value = held.text("constant", name), held.always(name, desc.Constants[name])
			}
		}
		given.options, given.option_count = held.texts("options", desc.Options), C.uint64_t(len(desc.Options))
		return C.quern_kernel_prepare(c.handle, given, &kernel.made, failure)
	})
	if err != nil || kernel.made == nil {
		return nil, err
	}
	return kernel, nil
}

// Info says what the compiler made of the kernel.
func (k *Kernel) Info() (KernelInfo, error) {
	told, err := asked(k.context, func(_ *cContext, _ *holder, told *C.quern_kernel_info, failure *cError) C.int32_t {
		return C.quern_kernel_get_info(k.made, told, failure)
	})
	return newKernelInfo(&told), err
}

// Launch says how a kernel is launched; extents of zero are one.
type Launch struct {
	Flags                uint32 // CallProgrammatic
	Stream               unsafe.Pointer
	Grid, Block, Cluster [3]uint32
	SharedBytes          uint32
}

// Launch launches the kernel; on a GPU it returns once that is done. args are the values of its parameters, which are
// not checked against them: numbers and bools of a fixed size, addresses (unsafe.Pointer), or a *Tensor, which gives
// the address of its data.
func (k *Kernel) Launch(launch Launch, args ...any) error {
	err := k.context.call(args, func(held *holder, failure *C.quern_error) C.int32_t {
		given := (*C.quern_launch)(held.allocate(C.sizeof_quern_launch))
		given.size = C.sizeof_quern_launch
		given.flags, given.stream = C.uint32_t(launch.Flags), launch.Stream
		given.grid_x, given.grid_y, given.grid_z = extents(launch.Grid)
		given.block_x, given.block_y, given.block_z = extents(launch.Block)
		given.cluster_x, given.cluster_y, given.cluster_z = extents(launch.Cluster)
		given.shared_bytes = C.uint32_t(launch.SharedBytes)
		if count := len(args); count > 0 {
			given.args = (*unsafe.Pointer)(held.allocate(C.size_t(count) * C.size_t(unsafe.Sizeof(uintptr(0)))))
			given.arg_count = C.uint64_t(count)
			for i, arg := range args {
				unsafe.Slice(given.args, count)[i] = value(held, i, arg)
			}
		}
		return C.quern_kernel_launch(k.context.handle, k.made, given, failure)
	})
	runtime.KeepAlive(k)
	return err
}

func extents(of [3]uint32) (x, y, z C.uint32_t) {
	return C.uint32_t(of[0]), C.uint32_t(of[1]), C.uint32_t(of[2])
}

// value is a place in C's memory that holds an argument.
func value(held *holder, index int, arg any) unsafe.Pointer {
	switch given := arg.(type) {
	case *Tensor:
		return value(held, index, unsafe.Add(given.made.data, uintptr(given.made.byte_offset)))
	case unsafe.Pointer:
		place := held.allocate(C.size_t(unsafe.Sizeof(given)))
		*(*unsafe.Pointer)(place) = given
		return place
	}
	size := binary.Size(arg)
	if size < 0 {
		const allowed = "numbers of a fixed size, unsafe.Pointer and *Tensor"
		text := fmt.Sprintf("args[%d]: a %T given; allowed are %s", index, arg, allowed)
		panic(refusal{&Error{Status: Invalid, Text: text}})
	}
	var written bytes.Buffer
	if err := binary.Write(&written, binary.LittleEndian, arg); err != nil {
		panic(refusal{&Error{Status: Invalid, Text: fmt.Sprintf("args[%d]: %v", index, err)}})
	}
	place := held.allocate(C.size_t(size))
	copy(unsafe.Slice((*byte)(place), size), written.Bytes())
	return place
}
