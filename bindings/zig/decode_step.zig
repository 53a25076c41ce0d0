// One step of decoding on `host` from Zig, which translates quern.h itself: paged attention of two sequences, then a product
// with a weight. Keys of zeros weigh all values alike and the values of key j are j, so that the right answer is known.
//   zig translate-c -lc ../../capi/quern.h > quern_h.zig
//   zig run --dep quern_h -Mroot=decode_step.zig -Mquern_h=quern_h.zig -lc -L LIB -lquern -rpath LIB
// SPDX-License-Identifier: Apache-2.0
const std = @import("std");
const c = @import("quern_h");

extern fn printf(format: [*:0]const u8, ...) c_int;

const batch = 2;
const heads = 4;
const kv_heads = 2;
const dim = 64;
const page_size = 4;
const pages = 8;
const max_pages = 3;
const columns = 8;
const width = heads * dim;
const row = kv_heads * dim;

const Bf16 = packed struct { bits: u16 };

fn bf16(value: f32) Bf16 {
    return .{ .bits = @truncate(@as(u32, @bitCast(value)) >> 16) };
}

// A struct of quern.h's, zeroed, that knows its size.
fn sized(comptime Struct: type) Struct {
    var made = std.mem.zeroes(Struct);
    made.size = @sizeOf(Struct);
    return made;
}

// What went wrong, kept beside Zig's error for its text.
var failure: c.quern_error = undefined;

const Error = error{ Invalid, Other };

fn checked(status: i32) Error!void {
    if (status == c.QUERN_OK) return;
    return if (status == c.QUERN_INVALID) error.Invalid else error.Other;
}

fn dtype(comptime Element: type) c.DLDataType {
    const code = switch (Element) {
        f32 => c.kDLFloat,
        Bf16 => c.kDLBfloat,
        i32 => c.kDLInt,
        else => @compileError("an element type that this example has no name for"),
    };
    return .{ .code = @intCast(code), .bits = @bitSizeOf(Element), .lanes = 1 };
}

// A tensor over an array, with its extents in place.
fn Tensor(comptime Element: type, comptime shape: []const i64) type {
    return struct {
        const Self = @This();
        extents: [shape.len]i64 = shape[0..shape.len].*,
        tensor: c.DLTensor = undefined,

        fn over(self: *Self, memory: [*]Element) *const c.DLTensor {
            self.* = .{};
            self.tensor = std.mem.zeroes(c.DLTensor);
            self.tensor.data = memory;
            self.tensor.device.device_type = c.kDLCPU;
            self.tensor.ndim = shape.len;
            self.tensor.dtype = dtype(Element);
            self.tensor.shape = &self.extents;
            return &self.tensor;
        }
    };
}

var workspace: [1 << 20]u8 align(256) = std.mem.zeroes([1 << 20]u8);

// An op with a workspace as large as it asks for.
fn run(context: ?*c.quern_context, comptime op: []const u8, given: anytype) Error!void {
    var args = given;
    var bytes: u64 = 0;
    failure = sized(c.quern_error);
    try checked(@field(c, "quern_" ++ op ++ "_workspace")(context, &args, &bytes, &failure));
    std.debug.assert(bytes <= workspace.len);
    args.workspace = &workspace;
    args.workspace_size = bytes;
    failure = sized(c.quern_error);
    try checked(@field(c, "quern_" ++ op)(context, &args, &failure));
}

var q: [batch * width]Bf16 align(64) = undefined;
var k: [pages * page_size * row]Bf16 align(64) = undefined;
var v: [pages * page_size * row]Bf16 align(64) = undefined;
var weight: [columns * width]Bf16 align(64) = undefined;
var attended: [batch * width]Bf16 align(64) = undefined;
var out: [batch * columns]f32 align(64) = undefined;
var lengths = [batch]i32{ 5, 9 };
var table = [batch * max_pages]i32{ 6, 1, 0, 3, 7, 2 };

fn decode(context: ?*c.quern_context) !void {
    @memset(&q, bf16(1));
    @memset(&k, bf16(0));
    @memset(&v, bf16(std.math.nan(f32)));
    for (lengths, 0..) |length, b| {
        for (0..@intCast(length)) |j| {
            const page: usize = @intCast(table[b * max_pages + j / page_size]);
            const slot = page * page_size + j % page_size;
            for (0..row) |i| v[slot * row + i] = bf16(@floatFromInt(j + 10 * (i / dim)));
        }
    }
    for (0..columns * width) |i| weight[i] = bf16(@as(f32, @floatFromInt(i / width + 1)) / width);

    const Heads = Tensor(Bf16, &.{ batch, heads, dim });
    const Cache = Tensor(Bf16, &.{ pages, page_size, kv_heads, dim });
    var queries: Heads = undefined;
    var result: Heads = undefined;
    var keys: Cache = undefined;
    var values: Cache = undefined;
    var counts: Tensor(i32, &.{batch}) = undefined;
    var places: Tensor(i32, &.{ batch, max_pages }) = undefined;
    var attention = sized(c.quern_attention_args);
    attention.flags = c.QUERN_ATTENTION_CAUSAL;
    attention.q = queries.over(&q);
    attention.k = keys.over(&k);
    attention.v = values.over(&v);
    attention.out = result.over(&attended);
    attention.lengths = counts.over(&lengths);
    attention.page_table = places.over(&table);
    attention.max_kv_len = max_pages * page_size;
    try run(context, "attention", attention);

    var rows: Tensor(Bf16, &.{ batch, width }) = undefined;
    var matrix: Tensor(Bf16, &.{ columns, width }) = undefined;
    var sums: Tensor(f32, &.{ batch, columns }) = undefined;
    var gemm = sized(c.quern_gemm_args);
    gemm.a = rows.over(&attended);
    gemm.b = matrix.over(&weight);
    gemm.out = sums.over(&out);
    try run(context, "gemm", gemm);
    for (lengths, 0..) |length, b| {
        for (0..columns) |n| {
            const wanted = (@as(f32, @floatFromInt(length - 1)) / 2 + 5) * @as(f32, @floatFromInt(n + 1));
            const got = out[b * columns + n];
            if (!(@abs(got - wanted) <= 1e-3 * wanted)) {
                std.debug.print("out[{d}][{d}] is {d}, it should be {d}\n", .{ b, n, got, wanted });
                return error.Other;
            }
        }
    }

    // The error path: Zig's error, and the library's text beside it; nothing has run.
    var narrow: Tensor(Bf16, &.{ columns, 32 }) = undefined;
    gemm.b = narrow.over(&weight);
    if (run(context, "gemm", gemm)) return error.Other else |refused| {
        const text = std.mem.sliceTo(&failure.text, 0);
        if (refused != error.Invalid or std.mem.indexOf(u8, text, "b.shape[1] is 32") == null) return refused;
    }
    _ = printf("decode step: %.1f and %.1f, as they should be\n", @as(f64, out[0]), @as(f64, out[columns]));
}

pub fn main() u8 {
    var options = sized(c.quern_context_options);
    options.device_type = c.kDLCPU;
    var context: ?*c.quern_context = null;
    failure = sized(c.quern_error);
    checked(c.quern_context_create(&options, &context, &failure)) catch return told();
    defer c.quern_context_destroy(context);
    decode(context) catch return told();
    return 0;
}

fn told() u8 {
    std.debug.print("{s}\n", .{std.mem.sliceTo(&failure.text, 0)});
    return 1;
}
