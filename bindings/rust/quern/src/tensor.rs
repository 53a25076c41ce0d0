//! Tensors over slices, and over memory of a device.
// SPDX-License-Identifier: Apache-2.0
use quern_sys as sys;
use std::ffi::c_void;
use std::marker::PhantomData;

/// bfloat16: the upper half of an f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// The nearest, ties to even.
    #[must_use]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        if value.is_nan() {
            return Self((bits >> 16) as u16 | 0x40);
        }
        Self((bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }
    #[must_use]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// The bits of an IEEE half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);
/// The bits of a float8_e4m3fn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E4m3(pub u8);
/// The bits of a float8_e5m2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E5m2(pub u8);

/// What a tensor's elements can be.
///
/// # Safety
/// `DTYPE` has the size of the type, of which any bits are a value.
pub unsafe trait Element: Copy {
    const DTYPE: sys::DLDataType;
}

macro_rules! element {
    ($($kind:ty, $code:expr;)*) => {$(
        // SAFETY: numbers and wrappers of numbers.
        unsafe impl Element for $kind {
            const DTYPE: sys::DLDataType =
                sys::DLDataType { code: $code as u8, bits: 8 * std::mem::size_of::<$kind>() as u8, lanes: 1 };
        }
    )*};
}
element! {
    f32, sys::kDLFloat; f64, sys::kDLFloat; F16, sys::kDLFloat; Bf16, sys::kDLBfloat;
    E4m3, sys::kDLFloat8_e4m3fn; E5m2, sys::kDLFloat8_e5m2;
    i8, sys::kDLInt; i16, sys::kDLInt; i32, sys::kDLInt; i64, sys::kDLInt;
    u8, sys::kDLUInt; u16, sys::kDLUInt; u32, sys::kDLUInt; u64, sys::kDLUInt;
}

/// A tensor that is read.
pub struct Tensor<'a> {
    view: View,
    borrowed: PhantomData<&'a [u8]>,
}

/// A tensor that may be written.
pub struct TensorMut<'a> {
    view: View,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Tensor<'a> {
    /// Over a slice, row-major.
    ///
    /// # Panics
    /// Where the slice has fewer elements than the shape, or an extent is negative.
    #[must_use]
    pub fn new<T: Element>(memory: &'a [T], shape: &[i64]) -> Self {
        check(shape, &[], memory.len());
        Self { view: View::host(memory.as_ptr().cast(), T::DTYPE, shape, &[]), borrowed: PhantomData }
    }
    /// The same with strides, in elements.
    ///
    /// # Panics
    /// As `new`, and where a stride is negative or there are not as many as extents.
    #[must_use]
    pub fn strided<T: Element>(memory: &'a [T], shape: &[i64], strides: &[i64]) -> Self {
        assert_eq!(shape.len(), strides.len(), "quern: as many strides as extents");
        check(shape, strides, memory.len());
        Self { view: View::host(memory.as_ptr().cast(), T::DTYPE, shape, strides), borrowed: PhantomData }
    }
    /// Over memory of a device; NULL data for `prepare` and `workspace`.
    ///
    /// # Safety
    /// The memory holds the tensor for as long as a launch that was given it runs, which is longer than the call.
    #[must_use]
    pub unsafe fn from_raw(
        data: *const c_void,
        dtype: sys::DLDataType,
        shape: &[i64],
        strides: &[i64],
        device: sys::DLDevice,
    ) -> Self {
        Self { view: View::new(data, dtype, shape, strides, device), borrowed: PhantomData }
    }
    pub(crate) fn raw(&self) -> *const sys::DLTensor {
        &*self.view.tensor
    }
}

impl<'a> TensorMut<'a> {
    /// Over a slice, row-major; panics as `Tensor::new`.
    #[must_use]
    pub fn new<T: Element>(memory: &'a mut [T], shape: &[i64]) -> Self {
        check(shape, &[], memory.len());
        Self { view: View::host(memory.as_mut_ptr().cast(), T::DTYPE, shape, &[]), borrowed: PhantomData }
    }
    /// The same with strides, in elements; panics as `Tensor::strided`.
    #[must_use]
    pub fn strided<T: Element>(memory: &'a mut [T], shape: &[i64], strides: &[i64]) -> Self {
        assert_eq!(shape.len(), strides.len(), "quern: as many strides as extents");
        check(shape, strides, memory.len());
        Self { view: View::host(memory.as_mut_ptr().cast(), T::DTYPE, shape, strides), borrowed: PhantomData }
    }
    /// Over memory of a device.
    ///
    /// # Safety
    /// As `Tensor::from_raw`; and nobody else uses the memory meanwhile.
    #[must_use]
    pub unsafe fn from_raw(
        data: *mut c_void,
        dtype: sys::DLDataType,
        shape: &[i64],
        strides: &[i64],
        device: sys::DLDevice,
    ) -> Self {
        Self { view: View::new(data, dtype, shape, strides, device), borrowed: PhantomData }
    }
    pub(crate) fn raw(&mut self) -> *const sys::DLTensor {
        &*self.view.tensor
    }
}

/// A DLTensor with its extents, where they stay when it is moved.
struct View {
    tensor: Box<sys::DLTensor>,
    _extents: Vec<i64>,
}

impl View {
    fn host(data: *const c_void, dtype: sys::DLDataType, shape: &[i64], strides: &[i64]) -> Self {
        Self::new(data, dtype, shape, strides, sys::DLDevice { device_type: sys::kDLCPU, device_id: 0 })
    }
    fn new(data: *const c_void, dtype: sys::DLDataType, shape: &[i64], strides: &[i64], device: sys::DLDevice) -> Self {
        let mut extents: Vec<i64> = shape.iter().chain(strides).copied().collect();
        let start = extents.as_mut_ptr();
        let tensor = Box::new(sys::DLTensor {
            data: data as *mut c_void,
            device,
            ndim: shape.len() as i32,
            dtype,
            shape: start,
            strides: if strides.is_empty() { std::ptr::null_mut() } else { start.wrapping_add(shape.len()) },
            byte_offset: 0,
        });
        Self { tensor, _extents: extents }
    }
}

/// Panics where a tensor reaches beyond its memory.
fn check(shape: &[i64], strides: &[i64], elements: usize) {
    let mut last: i64 = 0;
    let mut compact: i64 = 1;
    for i in (0..shape.len()).rev() {
        assert!(shape[i] >= 0, "quern: extent {} of {:?} is negative", i, shape);
        if shape.contains(&0) {
            return;
        }
        let stride = if strides.is_empty() { compact } else { strides[i] };
        assert!(stride >= 0, "quern: stride {} of {:?} is negative", i, strides);
        let reach = (shape[i] - 1).checked_mul(stride).and_then(|reach| last.checked_add(reach));
        last = reach.expect("quern: a tensor beyond all memory");
        compact = compact.checked_mul(shape[i]).expect("quern: a tensor beyond all memory");
    }
    assert!((last as u64) < elements as u64, "quern: shape {:?} reaches element {} of {}", shape, last, elements);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_rounds_to_even() {
        for (value, bits) in [(1.0, 0x3f80), (-2.5, 0xc020), (1.003_906_2, 0x3f80), (1.011_718_8, 0x3f82)] {
            assert_eq!(Bf16::from_f32(value).0, bits);
        }
        assert!(Bf16::from_f32(f32::NAN).to_f32().is_nan());
    }

    #[test]
    fn a_moved_tensor_says_the_same() {
        let memory = [0f32; 12];
        let tensor = Box::new(Tensor::strided(&memory, &[3, 2], &[4, 1]));
        let moved = *tensor;
        // SAFETY: the tensor is alive, and has two extents and strides.
        let (shape, strides) = unsafe {
            let raw = &*moved.raw();
            (std::slice::from_raw_parts(raw.shape, 2), std::slice::from_raw_parts(raw.strides, 2))
        };
        assert_eq!((shape, strides), (&[3, 2][..], &[4, 1][..]));
    }

    #[test]
    #[should_panic(expected = "reaches element 12 of 12")]
    fn a_short_slice_is_refused() {
        let _ = Tensor::new(&[0f32; 12], &[13]);
    }

    #[test]
    fn no_elements_need_no_memory() {
        let _ = Tensor::new::<f32>(&[], &[1000, 0]);
    }
}
