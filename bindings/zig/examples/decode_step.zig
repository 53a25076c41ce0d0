// One step of decoding on `host` from Zig: paged attention of two sequences, then a product with a weight. Keys of
// zeros weigh all values alike and the values of key j are j, so that the right answer is known.
//   zig run --dep quern -Mroot=decode_step.zig -Mquern=../quern.zig -lc -L LIB -lquern -rpath LIB
// SPDX-License-Identifier: Apache-2.0
const std = @import("std");
const quern = @import("quern");
const Bf16 = quern.Bf16;

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

var workspace: [1 << 20]u8 align(256) = @splat(0);
var q: [batch * width]Bf16 align(64) = undefined;
var k: [pages * page_size * row]Bf16 align(64) = undefined;
var v: [pages * page_size * row]Bf16 align(64) = undefined;
var weight: [columns * width]Bf16 align(64) = undefined;
var attended: [batch * width]Bf16 align(64) = undefined;
var out: [batch * columns]f32 align(64) = undefined;
var lengths = [batch]i32{ 5, 9 };
var table = [batch * max_pages]i32{ 6, 1, 0, 3, 7, 2 };

fn decode(context: quern.Context) !void {
    @memset(&q, Bf16.of(1));
    @memset(&k, Bf16.of(0));
    @memset(&v, Bf16.of(std.math.nan(f32)));
    for (lengths, 0..) |length, b| {
        for (0..@intCast(length)) |j| {
            const page: usize = @intCast(table[b * max_pages + j / page_size]);
            const slot = page * page_size + j % page_size;
            for (0..row) |i| v[slot * row + i] = Bf16.of(@floatFromInt(j + 10 * (i / dim)));
        }
    }
    for (0..columns * width) |i| weight[i] = Bf16.of(@as(f32, @floatFromInt(i / width + 1)) / width);

    var queries = quern.Tensor(3).over(Bf16, &q, .{ batch, heads, dim });
    var result = quern.Tensor(3).over(Bf16, &attended, .{ batch, heads, dim });
    var keys = quern.Tensor(4).over(Bf16, &k, .{ pages, page_size, kv_heads, dim });
    var values = quern.Tensor(4).over(Bf16, &v, .{ pages, page_size, kv_heads, dim });
    var counts = quern.Tensor(1).over(i32, &lengths, .{batch});
    var places = quern.Tensor(2).over(i32, &table, .{ batch, max_pages });
    try context.run(quern.Attention{
        .flags = quern.c.QUERN_ATTENTION_CAUSAL,
        .q = queries.dl(),
        .k = keys.dl(),
        .v = values.dl(),
        .out = result.dl(),
        .lengths = counts.dl(),
        .page_table = places.dl(),
        .max_kv_len = max_pages * page_size,
    }, &workspace);

    var rows = quern.Tensor(2).over(Bf16, &attended, .{ batch, width });
    var matrix = quern.Tensor(2).over(Bf16, &weight, .{ columns, width });
    var sums = quern.Tensor(2).over(f32, &out, .{ batch, columns });
    try context.run(quern.Gemm{ .a = rows.dl(), .b = matrix.dl(), .out = sums.dl() }, &workspace);
    for (lengths, 0..) |length, b| {
        for (0..columns) |n| {
            const wanted = (@as(f32, @floatFromInt(length - 1)) / 2 + 5) * @as(f32, @floatFromInt(n + 1));
            const got = out[b * columns + n];
            if (!(@abs(got - wanted) <= 1e-3 * wanted)) {
                std.debug.print("out[{d}][{d}] is {d}, it should be {d}\n", .{ b, n, got, wanted });
                return error.Wrong;
            }
        }
    }

    // The error path: Zig's error, and the library's text beside it; nothing has run.
    var narrow = quern.Tensor(2).over(Bf16, &weight, .{ columns, 32 });
    if (context.run(quern.Gemm{ .a = rows.dl(), .b = narrow.dl(), .out = sums.dl() }, &workspace)) {
        return error.Wrong;
    } else |refused| {
        const told_width = std.mem.indexOf(u8, quern.message(), "b.shape[1] is 32") != null;
        if (refused != error.Invalid or !told_width) return refused;
    }
    _ = printf("decode step: %.1f and %.1f, as they should be\n", @as(f64, out[0]), @as(f64, out[columns]));
}

pub fn main() u8 {
    const context = quern.Context.open(.{ .device_type = quern.c.kDLCPU }) catch return told();
    defer context.close();
    decode(context) catch return told();
    return 0;
}

fn told() u8 {
    std.debug.print("{s}\n", .{quern.message()});
    return 1;
}
