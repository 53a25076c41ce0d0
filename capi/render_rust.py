# What of bindings/rust is made of quern.h: quern-sys whole; of the safe crate the builders of the ops, a context's
# options, and what calls that are no ops' tell and are given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from header import Function, Header, Struct
from render_cpp import camel

if TYPE_CHECKING:
    from records import Field

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


def type_of(kind: str, result: bool = False) -> str:
    """A type of ctypes' in Rust. result: a pointer to a pointer is one to write to, `const T **`."""
    read_only = getattr(kind, "read_only", False)
    if kind.startswith("POINTER("):
        pointed = type_of(kind[len("POINTER(") : -1])
        inner = kind[len("POINTER(") : -1]
        if read_only and inner.startswith("POINTER("):
            pointed = pointed.replace("*mut", "*const")  # const DLTensor *const *
            if result:
                return f"*mut {pointed}"
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
        parameters = ", ".join(f"a{i}: {type_of(of, True)}" for i, of in enumerate(function.parameters))
        result = "" if function.result == "None" else f" -> {type_of(function.result)}"
        lines.append(f"    pub fn {name}({parameters}){result};")
    lines += ["}", ""]
    return "\n".join(lines)


def ops_module(header: Header, outputs: dict[str, list[str]]) -> str:
    """bindings/rust/quern/src/ops.rs: a builder an op, and one of each struct that the args point to."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    parts = pointed_to(header, outputs)
    lines = [
        "//! The ops, each a builder of its arguments, which are the fields of `quern_OP_args` in quern.h.",
        "//! Made of quern.h, where they are documented, by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "use crate::op::{Expression, Kept, Op, Tensor, TensorMut};",
        "use quern_sys as sys;",
        "use std::marker::PhantomData;",
    ]
    for part in parts:
        written = {"out_scale"} if part == "quern_epilogue" else set()
        lines += _builder(camel(part.removeprefix("quern_")), f"`{part}`.", part, structs[part], written, parts)
        lines += ["    fn raw(&self) -> *const sys::" + part + " {", "        &self.args", "    }", "}"]
    for op, written in outputs.items():
        args, name = f"quern_{op}_args", camel(op)
        exclusive = {*written, *IN_PLACE.get(op, ())}
        lines += _builder(name, f"`quern_{op}`.", args, structs[args], exclusive, parts)
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


def records_module(read: list[tuple[str, list[Field]]], filled: list[tuple[str, list[Field]]]) -> str:
    """bindings/rust/quern/src/records.rs. `filled` has the options of a context first."""
    lines = [
        "//! What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there.",
        "//! Made of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "// SAFETY, of every read: the caller's promise that what the struct points to is there.",
        "use crate::held::{bytes, inline, text, Held, Record};",
        "use crate::Builder;",
        "use quern_sys as sys;",
        "use std::ffi::OsStr;",
    ]
    for name, members in read:
        title = camel(name.removeprefix("quern_"))
        lines += ["", f"/// `{name}`.", "#[derive(Clone, Debug, PartialEq)]", "#[non_exhaustive]"]
        lines += [f"pub struct {title} {{", *(f"    pub {each.name}: {_owned(each)}," for each in members), "}"]
        lines += [
            "",
            f"// SAFETY: it begins with its size.\nunsafe impl Record for {title} {{",
            f"    type Raw = sys::{name};",
        ]
        lines += ["    unsafe fn read(from: &Self::Raw) -> Self {", "        Self {"]
        lines += [f"            {each.name}{_reads(each)}," for each in members]
        lines += ["        }", "    }", "}"]
    lines += ["", "/// The fields of `quern_context_options`.", "impl Builder {"]
    for each in filled[0][1]:
        if each.name not in ("flags", "device_type", "device_id", "miss_policy", "log", "event"):
            lines += _option(each)
    lines += ["}"]
    for name, members in filled[1:]:
        lines += _given(name, members)
    return "\n".join([*lines, ""])


def _owned(each: Field) -> str:
    return {"text": "String", "bytes": "Option<Vec<u8>>"}.get(each.kind) or SCALARS[each.kind]


def _reads(each: Field) -> str:
    """How a field of a record is taken out of the C struct `from`."""
    place = f"from.{each.name}"
    if each.kind == "text":
        call = f"inline(&{place})" if each.length else f"text({place})"
    elif each.kind == "bytes":
        call = f"bytes({place}, from.{each.count})"
    else:
        return f": {place}"
    return f": unsafe {{ {call} }}"


def _option(each: Field) -> list[str]:
    """A method of Builder."""
    if each.kind == "texts":
        one = each.name[:-1]
        return [f"    /// One more of `{each.name}`.",
                f"    pub fn {one}(mut self, value: impl AsRef<OsStr>) -> Self {{",
                f'        let made = self.text("{one}", value.as_ref());', f"        self.{each.name}.extend(made);",
                "        self", "    }"]  # fmt: skip
    if each.kind == "text":
        return [f"    pub fn {each.name}(mut self, value: impl AsRef<OsStr>) -> Self {{",
                f'        let made = self.text("{each.name}", value.as_ref());',
                f"        self.options.{each.name} = self.keep(made);", "        self", "    }"]  # fmt: skip
    return [f"    pub fn {each.name}(mut self, value: {SCALARS[each.kind]}) -> Self {{",
            f"        self.options.{each.name} = value;", "        self", "    }"]  # fmt: skip


def _given(name: str, members: list[Field]) -> list[str]:
    """A struct whose fields all have defaults, and how it becomes C's."""
    title, plain = camel(name.removeprefix("quern_")), all(each.kind in (*SCALARS, "dtype") for each in members)
    life = "" if plain else "<'a>"
    derived = "Clone, Copy, Default" if plain else "Default"
    lines = ["", f"/// `{name}`.", f"#[derive({derived})]", f"pub struct {title}{life} {{"]
    lines += [f"    pub {each.name}: {_given_type(each)}," for each in members]
    lines += ["}", "", f"impl{life} {title}{life} {{"]
    held = "&self, _held: &mut Held<'_>" if plain else "self, held: &mut Held<'a>"
    lines += [f"    pub(crate) fn raw({held}) -> crate::Result<sys::{name}> {{"]
    lines += [f"        let mut made = sys::{name}::default();"]
    for each in members:
        place = f"made.{each.name}"
        if each.kind == "text":
            lines.append(f'        {place} = held.text("{each.name}", self.{each.name})?;')
            if each.length:
                lines.append(f"        made.{each.length} = self.{each.name}.map_or(0, |text| text.len() as u64);")
        elif each.kind == "texts":
            lines.append(f'        {place} = held.texts("{each.name}", self.{each.name})?;')
            lines.append(f"        made.{each.count} = self.{each.name}.len() as u64;")
        elif each.kind == "numbers":
            lines.append(f"        {place} = self.{each.name}.as_ptr();")
            lines.append(f"        made.{each.count} = self.{each.name}.len() as u64;")
        elif each.kind == "part":
            lines += [f"        if let Some(part) = self.{each.name} {{", "            let part = part.raw(held)?;",
                      f"            {place} = held.keep(part);", "        }"]  # fmt: skip
        elif each.kind == "progress":
            told = camel(each.type.removeprefix("quern_"))
            lines += [f"        if let Some(told) = self.{each.name} {{",
                      f"            {place} = Some(crate::held::tell::<{told}>);",
                      f"            made.{each.user} = held.progress(told);", "        }"]  # fmt: skip
        else:
            lines.append(f"        {place} = self.{each.name};")
    return [*lines, "        Ok(made)", "    }", "}"]


def _given_type(each: Field) -> str:
    if each.kind == "part":
        return f"Option<&'a {camel(each.type.removeprefix('quern_'))}>"
    if each.kind == "progress":
        told = camel(each.type.removeprefix("quern_"))
        return f"Option<&'a mut dyn FnMut(u64, u64, &{told}) -> bool>"
    named = {"text": "Option<&'a str>", "texts": "&'a [&'a str]", "numbers": "&'a [i64]", "dtype": "sys::DLDataType"}
    return named.get(each.kind) or SCALARS[each.kind]


def pointed_to(header: Header, ops: Iterable[str]) -> list[str]:
    """The structs that args structs point to and callers fill."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    found = [kind[len("POINTER(") : -1] for op in ops for _, kind in structs[f"quern_{op}_args"].fields if "(" in kind]
    return [name for name in dict.fromkeys(found) if name.startswith("quern_") and structs[name].fields]


def is_count(name: str, struct: Struct) -> bool:
    return name.endswith("_count") and name.removesuffix("_count") + "s" in dict(struct.fields)


def _builder(name: str, text: str, raw: str, struct: Struct, written: set[str], parts: list[str]) -> list[str]:
    """A struct with its setters; its impl is left open."""
    keeps = any(kind in ("POINTER(POINTER(DLTensor))", "POINTER(c_float)") for _, kind in struct.fields)
    kept = "kept: Kept::default(), " if keeps else ""
    lines = [
        "",
        f"/// {text}",
        "#[must_use]",
        f"pub struct {name}<'a> {{",
        f"    args: sys::{raw},",
        *(["    kept: Kept,"] if keeps else []),
        "    borrowed: PhantomData<&'a mut ()>,",
        "}",
        "",
        f"impl<'a> {name}<'a> {{",
        "    #[allow(clippy::new_without_default)]",
        "    pub fn new() -> Self {",
        f"        Self {{ args: Default::default(), {kept}borrowed: PhantomData }}",
        "    }",
    ]
    for member, kind in struct.fields:
        if member in ("size", "reserved", "workspace", "workspace_size") or is_count(member, struct):
            continue
        setter, count, unsafe = identifier(member), f"{member[:-1]}_count", ""
        value, sets = _prefixed(type_of(kind)), [f"self.args.{setter} = value;"]
        if kind == "POINTER(DLTensor)":
            value = "&'a mut TensorMut<'_>" if member in written else "&'a Tensor<'_>"
            sets = [f"self.args.{setter} = value.raw();"]
        elif kind == "POINTER(POINTER(DLTensor))":
            value = "&'a mut [TensorMut<'_>]" if member in written else "&[&'a Tensor<'_>]"
            raw_of = "value.iter_mut()" if member in written else "value.iter()"
            sets = [
                f"self.args.{count} = value.len() as u32;",
                f"self.args.{setter} = self.kept.tensors({raw_of}.map(|one| one.raw()));",
            ]
        elif kind == "POINTER(c_float)":
            value = "&[f32]"
            sets = [f"self.args.{count} = value.len() as u32;", f"self.args.{setter} = self.kept.floats(value);"]
        elif kind == "POINTER(quern_expression)":
            value, sets = "Expression<'a>", [f"self.args.{setter} = value.raw();"]
        elif kind.startswith("POINTER(") and kind[len("POINTER(") : -1] in parts:
            value = f"&'a {camel(kind[len('POINTER(quern_') : -1])}<'_>"
            sets = [f"self.args.{setter} = value.raw();"]
        elif kind.startswith("POINTER(") or kind == "c_void_p":
            unsafe = "unsafe "
            lines += ["    /// # Safety", "    /// What it points to is as quern.h says, until the call is over."]
        lines += [f"    pub {unsafe}fn {setter}(mut self, value: {value}) -> Self {{"]
        lines += [*(f"        {one}" for one in sets), "        self", "    }"]
    return lines


def _prefixed(kind: str) -> str:
    """With names of quern-sys in full."""
    kind = re.sub(r"\b(quern_\w+|DL\w+)", r"sys::\1", kind)
    return kind.replace("c_void", "std::ffi::c_void")
