// SPDX-License-Identifier: Apache-2.0

package quern

// #include <stdlib.h>
// #include <quern.h>
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// BF16 is bfloat16: the upper half of a float32.
type BF16 uint16

// ToBF16 is the nearest, ties to even.
func ToBF16(value float32) BF16 {
	bits := math.Float32bits(value)
	if value != value {
		return BF16(bits>>16 | 0x40)
	}
	return BF16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 is its value.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// F16, E4M3 and E5M2 are the bits of one element.
type (
	F16  uint16
	E4M3 uint8
	E5M2 uint8
)

// Element is what a tensor's elements can be.
type Element interface {
	float32 | float64 | BF16 | F16 | E4M3 | E5M2 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// DType is DLPack's name for an element type.
type DType struct {
	Code, Bits uint8
}

func (d DType) raw() C.DLDataType {
	if d == (DType{}) {
		return C.DLDataType{}
	}
	return C.DLDataType{C.uint8_t(d.Code), C.uint8_t(d.Bits), 1}
}

// DTypeOf is the name of T.
func DTypeOf[T Element]() DType {
	var one T
	bits := uint8(8 * unsafe.Sizeof(one))
	switch any(one).(type) {
	case float32, float64, F16:
		return DType{C.kDLFloat, bits}
	case BF16:
		return DType{C.kDLBfloat, bits}
	case E4M3:
		return DType{C.kDLFloat8_e4m3fn, bits}
	case E5M2:
		return DType{C.kDLFloat8_e5m2, bits}
	case int8, int16, int32, int64:
		return DType{C.kDLInt, bits}
	default:
		return DType{C.kDLUInt, bits}
	}
}

// Tensor is a DLTensor in C's memory, which may hold no pointers into Go's.
type Tensor struct {
	made *C.DLTensor
	keep any
}

func (t *Tensor) raw() *C.DLTensor {
	if t == nil {
		return nil
	}
	return t.made
}

// Wrap makes a tensor over memory that is not Go's: a device's, or C's. nil for Prepare. strides are in elements; nil:
// compact row-major.
func Wrap(data unsafe.Pointer, dtype DType, shape, strides []int64, device Device) *Tensor {
	if len(strides) != 0 && len(strides) != len(shape) {
		panic(fmt.Sprintf("quern: %d strides for %d dimensions", len(strides), len(shape)))
	}
	dimensions := len(shape)
	// The extents stand behind the DLTensor.
	start := C.calloc(1, C.size_t(unsafe.Sizeof(C.DLTensor{})+uintptr(16*dimensions)))
	if start == nil {
		panic("quern: no memory for a tensor")
	}
	made := (*C.DLTensor)(start)
	extents := (*C.int64_t)(unsafe.Add(start, unsafe.Sizeof(C.DLTensor{})))
	places := unsafe.Slice((*int64)(extents), 2*dimensions)
	copy(places, shape)
	made.data = data
	made.device = C.DLDevice{C.int32_t(device.Type), C.int32_t(device.ID)}
	made.ndim = C.int32_t(dimensions)
	made.dtype = dtype.raw()
	made.shape = extents
	if len(strides) != 0 {
		copy(places[dimensions:], strides)
		made.strides = (*C.int64_t)(unsafe.Add(unsafe.Pointer(extents), 8*dimensions))
	}
	tensor := &Tensor{made: made}
	runtime.SetFinalizer(tensor, func(t *Tensor) { C.free(unsafe.Pointer(t.made)) })
	return tensor
}

// New makes a tensor with zeroed memory of the CPU, and its elements as a slice, which is good for as long as the tensor
// is reachable.
func New[T Element](shape ...int64) (*Tensor, []T) {
	count := int64(1)
	for _, extent := range shape {
		if extent < 0 {
			panic(fmt.Sprintf("quern: shape %v", shape))
		}
		count *= extent
	}
	var one T
	memory := allocate(uint64(count) * uint64(unsafe.Sizeof(one)))
	tensor := Wrap(memory.start, DTypeOf[T](), shape, nil, Device{DeviceHost, 0})
	tensor.keep = memory
	return tensor, unsafe.Slice((*T)(memory.start), count)
}

// Of makes a tensor with a copy of these elements.
func Of[T Element](elements []T, shape ...int64) *Tensor {
	tensor, memory := New[T](shape...)
	if len(memory) != len(elements) {
		panic(fmt.Sprintf("quern: %d elements for shape %v", len(elements), shape))
	}
	copy(memory, elements)
	return tensor
}

// Reshape is the same memory with another shape of as many elements.
func (t *Tensor) Reshape(shape ...int64) *Tensor {
	if t.made.strides != nil {
		panic("quern: a tensor with strides cannot be reshaped")
	}
	count := func(extents []int64) int64 {
		product := int64(1)
		for _, extent := range extents {
			product *= extent
		}
		return product
	}
	if count(shape) != count(unsafe.Slice((*int64)(t.made.shape), t.made.ndim)) {
		panic(fmt.Sprintf("quern: shape %v has another number of elements", shape))
	}
	dtype := DType{uint8(t.made.dtype.code), uint8(t.made.dtype.bits)}
	device := Device{int32(t.made.device.device_type), int32(t.made.device.device_id)}
	made := Wrap(unsafe.Add(t.made.data, uintptr(t.made.byte_offset)), dtype, shape, nil, device)
	made.keep = t
	return made
}
