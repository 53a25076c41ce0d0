# What of bindings/rust is made of quern.h: quern-sys whole, and the builders of the ops in the safe crate.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from header import Function, Header, Struct
from render_cpp import camel

SCALARS = {
    "None": "()",
    "c_char": "c_char",
    "c_char_p": "*const c_char",
    "c_void_p": "*mut c_void",
    "c_float": "f32",
    "c_double": "f64",
    "c_size_t": "usize",
    **{f"c_{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}
# Tensors that are written over where none is given for their result: DLTensors of memory that may be written.
IN_PLACE = {
    "rope": {"q", "k"},
    "kv_append": {"q"},
    "mla_append": {"q_rope"},
    "kv_copy_pages": {"k", "v", "k_scale", "v_scale"},
}
KEYWORDS = {"type", "ref", "move", "box", "in", "mut"}


def type_of(kind: str, field: bool = False) -> str:
    """A type of ctypes' in Rust."""
    read_only = getattr(kind, "read_only", False)
    if kind.startswith("POINTER("):
        pointed = type_of(kind[len("POINTER(") : -1])
        inner = kind[len("POINTER(") : -1]
        if read_only and inner.startswith("POINTER("):
            pointed = pointed.replace("*mut", "*const")  # const DLTensor *const *
        return f"*const {pointed}" if read_only else f"*mut {pointed}"
    if array := re.fullmatch(r"(\w+) \* (\d+)", kind):
        return f"[{type_of(array[1])}; {array[2]}]"
    if kind == "c_void_p" and read_only:
        return "*const c_void"
    return SCALARS.get(kind, kind)


def identifier(name: str) -> str:
    return f"r#{name}" if name in KEYWORDS else name


def sys_crate(header: Header) -> str:
    """bindings/rust/quern-sys/src/lib.rs."""
    lines = [
        "//! quern.h in Rust: every constant, struct and function under its C name. Documentation is the header's.",
        "//! Made of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "#![allow(non_camel_case_types, non_upper_case_globals)]",
        "",
        "use std::os::raw::{c_char, c_void};",
        "",
    ]
    flags = {name for enum in header.enums if (enum.name or "").endswith("_flags") for name in enum.values}
    for name, value in header.constants.items():
        lines.append(f"pub const {name}: {'u32' if name in flags else 'i32'} = {value};")
    for name, kind in header.types:
        lines.append("")
        if isinstance(kind, Function):
            parameters = ", ".join(type_of(parameter) for parameter in kind.parameters)
            result = "" if kind.result == "None" else f" -> {type_of(kind.result)}"
            lines.append(f'pub type {name} = Option<unsafe extern "C" fn({parameters}){result}>;')
            continue
        if not kind.fields:
            lines += ["#[repr(C)]", f"pub struct {name} {{", "    _private: [u8; 0],", "}"]
            continue
        lines += ["#[repr(C)]", "#[derive(Clone, Copy)]", f"pub struct {name} {{"]
        lines += [f"    pub {identifier(member)}: {type_of(of)}," for member, of in kind.fields]
        lines += ["}", "", f"impl Default for {name} {{", "    fn default() -> Self {"]
        lines += ["        // SAFETY: zero is a value of every field: numbers, pointers that may be NULL, options."]
        if kind.fields[0] == ("size", "c_uint32"):
            lines += ["        let mut made: Self = unsafe { std::mem::zeroed() };"]
            lines += ["        made.size = std::mem::size_of::<Self>() as u32;", "        made"]
        else:
            lines += ["        unsafe { std::mem::zeroed() }"]
        lines += ["    }", "}"]
    lines += ["", 'extern "C" {']
    for name, function in header.functions.items():
        parameters = ", ".join(f"a{i}: {type_of(of)}" for i, of in enumerate(function.parameters))
        result = "" if function.result == "None" else f" -> {type_of(function.result)}"
        lines.append(f"    pub fn {name}({parameters}){result};")
    lines += ["}", ""]
    return "\n".join(lines)


def ops_module(header: Header, outputs: dict[str, list[str]]) -> str:
    """bindings/rust/quern/src/ops.rs: a builder an op."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    lines = [
        "//! The ops, each a builder of its arguments, which are the fields of `quern_OP_args` in quern.h.",
        "//! Made of quern.h, where they are documented, by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "use crate::op::{Op, Tensor, TensorMut};",
        "use std::marker::PhantomData;",
        "use quern_sys as sys;",
    ]
    for op, written in outputs.items():
        args, name = f"quern_{op}_args", camel(op)
        lines += [
            "",
            f"/// `quern_{op}`.",
            "#[must_use]",
            f"pub struct {name}<'a> {{",
            f"    args: sys::{args},",
            "    borrowed: PhantomData<&'a mut ()>,",
            "}",
            "",
            f"impl<'a> {name}<'a> {{",
            "    #[allow(clippy::new_without_default)]",
            "    pub fn new() -> Self {",
            f"        Self {{ args: sys::{args}::default(), borrowed: PhantomData }}",
            "    }",
        ]
        for member, kind in structs[args].fields:
            setter = identifier(member)
            if member in ("size", "reserved", "workspace", "workspace_size"):
                continue
            if kind == "POINTER(DLTensor)":
                exclusive = member in written or member in IN_PLACE.get(op, ())
                given = "&'a mut TensorMut<'_>" if exclusive else "&'a Tensor<'_>"
                lines += [f"    pub fn {setter}(mut self, tensor: {given}) -> Self {{"]
                lines += [f"        self.args.{setter} = tensor.raw();", "        self", "    }"]
                continue
            unsafe = ""
            if kind.startswith("POINTER(") or kind == "c_void_p":
                unsafe = "unsafe "
                lines += ["    /// # Safety", "    /// What it points to is as quern.h says, until the call is over."]
            lines += [f"    pub {unsafe}fn {setter}(mut self, value: {_prefixed(type_of(kind))}) -> Self {{"]
            lines += [f"        self.args.{setter} = value;", "        self", "    }"]
        lines += [
            "}",
            "",
            "// SAFETY: these are the op's own functions, and every field was set through a setter.",
            f"unsafe impl Op for {name}<'_> {{",
            f"    type Args = sys::{args};",
            f"    const RUN: crate::op::Run<Self::Args> = sys::quern_{op};",
            f"    const PREPARE: crate::op::Run<Self::Args> = sys::quern_{op}_prepare;",
            f"    const WORKSPACE: crate::op::WorkspaceSize<Self::Args> = sys::quern_{op}_workspace;",
            "    fn args(&self) -> Self::Args {",
            "        self.args",
            "    }",
            "    fn place(args: &mut Self::Args, memory: *mut std::ffi::c_void, bytes: u64) {",
            "        args.workspace = memory;",
            "        args.workspace_size = bytes;",
            "    }",
            "}",
        ]
    return "\n".join([*lines, ""])


def _prefixed(kind: str) -> str:
    """With names of quern-sys in full."""
    kind = re.sub(r"\b(quern_\w+|DL\w+)", r"sys::\1", kind)
    return kind.replace("c_void", "std::ffi::c_void")
