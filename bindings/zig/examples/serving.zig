// How a fleet serves, on `host`: one machine warms a cache and makes a signed bundle of it; the others take kernels
// from that bundle alone and never compile. What they lack is a miss, told at once. And a kernel of one's own.
//   zig build-exe --dep quern -Mroot=serving.zig -Mquern=../quern.zig -lc -L LIB -lquern -rpath LIB
//   ./serving FOLDER      an empty folder, which it fills
// SPDX-License-Identifier: Apache-2.0
const std = @import("std");
const quern = @import("quern");
const c = quern.c;

extern fn printf(format: [*:0]const u8, ...) c_int;
extern fn snprintf(to: [*]u8, room: usize, format: [*:0]const u8, ...) c_int;

var names: [3][4096]u8 = undefined;

// A path in the folder, in a place of its own.
fn path(place: usize, folder: [*:0]const u8, name: [*:0]const u8) [:0]const u8 {
    const length = snprintf(&names[place], names[place].len, "%s/%s", folder, name);
    return names[place][0..@intCast(length) :0];
}

fn must(good: bool, what: []const u8) !void {
    if (good) return;
    std.debug.print("{s}: {s}\n", .{ what, quern.message() });
    return error.Wrong;
}

fn prepare(context: quern.Context, comptime Element: type) quern.Error!void {
    var a = quern.Tensor(2).none(Element, .{ 4, 64 });
    var b = quern.Tensor(2).none(Element, .{ 8, 64 });
    var out = quern.Tensor(2).none(Element, .{ 4, 8 });
    try context.prepare(quern.Gemm{ .a = a.dl(), .b = b.dl(), .out = out.dl() });
}

// What the callbacks saw.
const Seen = struct {
    compiled: std.atomic.Value(u32) = .init(0),
    lines: std.atomic.Value(u32) = .init(0),
    results: u64 = 0,
    cancel_at: u64 = 0,

    fn event(user: ?*anyopaque, told: [*c]const c.quern_event) callconv(.c) void {
        const self: *Seen = @ptrCast(@alignCast(user.?));
        if (told.*.kind == c.QUERN_EVENT_COMPILED) _ = self.compiled.fetchAdd(1, .monotonic);
    }
    fn log(user: ?*anyopaque, _: i32, _: ?[*:0]const u8) callconv(.c) void {
        const self: *Seen = @ptrCast(@alignCast(user.?));
        _ = self.lines.fetchAdd(1, .monotonic);
    }
    fn progress(user: ?*anyopaque, done: u64, _: u64, _: [*c]const c.quern_warm_result) callconv(.c) i32 {
        const self: *Seen = @ptrCast(@alignCast(user.?));
        self.results += 1;
        return @intFromBool(done == self.cancel_at);
    }
};

// Warms a cache, and makes a signed bundle of it. Gives what is in there, as a manifest.
fn build(cache: [:0]const u8, bundle: [:0]const u8, keys: *const quern.Keys, buffer: []u8) ![:0]const u8 {
    var seen: Seen = .{};
    const context = try quern.Context.open(.{
        .device_type = c.kDLCPU,
        .cache_path = cache,
        .log_level = c.QUERN_LOG_DEBUG,
        .log = Seen.log,
        .log_user = &seen,
        .event = Seen.event,
        .event_user = &seen,
    });
    defer context.close();
    try prepare(context, f32);
    const manifest = (try context.manifest(buffer)).?;
    try must(std.mem.startsWith(u8, manifest, "gemm host "), manifest);
    try must(seen.compiled.raw > 0 and seen.lines.raw > 0, "no event or log told of a compilation");

    // Warming again finds all of it. A model is warmed in the same way; what progress returns can cancel.
    var results: quern.List(c.quern_warm_result) = .{};
    try context.warm(.{
        .manifest = manifest,
        .manifest_length = manifest.len,
        .progress = Seen.progress,
        .progress_user = &seen,
    }, &results);
    const kernels = results.len();
    try must(kernels > 0 and seen.results == kernels, "not all was told");
    for (0..kernels) |i| try must(results.at(i).outcome == c.QUERN_WARM_HIT, "warming again compiled");
    results.deinit();
    const model: c.quern_model = .{
        .hidden_size = 512,
        .intermediate_size = 1024,
        .layers = 2,
        .heads = 8,
        .kv_heads = 2,
        .head_dim = 64,
        .vocab_size = 1000,
    };
    const targets = [_][*:0]const u8{"sm_90a"};
    var listing: c.quern_warm_options = .{
        .model = &model,
        .targets = &targets,
        .target_count = targets.len,
        .flags = c.QUERN_WARM_LIST_ONLY | c.QUERN_WARM_ALLOW_UNSERVED,
    };
    try context.warm(listing, &results);
    const needed = results.len();
    results.deinit();
    seen.cancel_at = 2;
    listing.progress = Seen.progress;
    listing.progress_user = &seen;
    if (context.warm(listing, &results)) return error.Wrong else |status| {
        try must(status == error.Partial, "progress did not cancel");
    }
    try must(results.len() >= 2 and results.len() < needed, "as many results as without cancelling");
    results.deinit();

    var findings: quern.List(c.quern_finding) = .{};
    try context.cacheVerify(&findings);
    try must(findings.len() > 0, "nothing was verified");
    findings.deinit();
    var entries = try context.cacheList("gemm");
    defer entries.deinit();
    try must(entries.len() == kernels, "another number of entries");
    var entry = try context.cacheInspect(entries.at(0).key.?);
    defer entry.deinit();
    try must(entry.at(0).image != null and entry.at(0).image_size > 0, "an entry without its image");
    try must((try context.cacheStats()).state == c.QUERN_CACHE_READY, "the cache is not ready");
    try must(try context.cacheExport(bundle, null) >= kernels, "too few were exported");
    try keys.sign(bundle);
    return manifest;
}

fn from(bundle: [:0]const u8, trusted: [*:0]const u8) quern.Error!quern.Context {
    const bundles = [_][*:0]const u8{bundle};
    const keys = [_][*:0]const u8{trusted};
    return quern.Context.open(.{
        .device_type = c.kDLCPU,
        .flags = c.QUERN_CONTEXT_NO_CACHE,
        .miss_policy = c.QUERN_MISS_CACHED_ONLY,
        .bundles = &bundles,
        .bundle_count = bundles.len,
        .trusted_keys = &keys,
        .trusted_key_count = keys.len,
    });
}

// Takes kernels from a signed bundle alone.
fn serve(bundle: [:0]const u8, trusted: [*:0]const u8, manifest: [:0]const u8) !void {
    const context = try from(bundle, trusted);
    defer context.close();
    var results: quern.List(c.quern_warm_result) = .{};
    try context.load(.{ .manifest = manifest, .manifest_length = manifest.len }, &results);
    const loaded = results.len();
    results.deinit();
    const stats = try context.stats();
    try must(stats.cache_hits == loaded and stats.compiled == 0, "not all came from the bundle");
    try prepare(context, f32);
    try missed(prepare(context, quern.Bf16));
    try must(try context.wait(0) and try context.cancel() == 0, "something is compiled in the background");
    try must(try context.unload("gemm") == loaded, "not all were unloaded");
}

fn missed(outcome: quern.Error!void) !void {
    if (outcome) return error.Wrong else |status| try must(status == error.Miss, "no miss");
}

// A kernel of the caller's own.
fn scale(cache: [:0]const u8) !void {
    const context = try quern.Context.open(.{ .device_type = c.kDLCPU, .cache_path = cache });
    defer context.close();
    const source: c.quern_source = .{ .name = "scale.cu", .text =
        \\#include "quern/kernel.cuh"
        \\QUERN_KERNEL(scale, 256, 1, float *x, int n) {
        \\  const int i = q::block_index(0) * 256 + q::thread_index();
        \\  if (i < n) x[i] *= BY;
        \\}
        \\
    };
    const by: c.quern_constant = .{ .name = "BY", .value = "3.0f" };
    const desc: c.quern_kernel_desc = .{ .entry = "scale", .source = &source, .constants = &by, .constant_count = 1 };
    const kernel = (try context.kernel(desc)).?;
    var x: [1000]f32 = undefined;
    for (&x, 0..) |*one, i| one.* = @floatFromInt(i);
    try must(std.mem.sliceTo(&(try kernel.info()).key, 0).len == 32, "a kernel without a key");
    const data: [*]f32 = &x;
    const count: i32 = x.len;
    try kernel.launch(.{ .grid_x = 4, .block_x = 256 }, .{ data, count });
    try must(x[1] == 3 and x[999] == 2997, "not scaled");
}

// What a fleet's cache is looked after with.
fn lookAfter(cache: [:0]const u8) !void {
    const context = try quern.Context.open(.{ .device_type = c.kDLCPU, .cache_path = cache });
    defer context.close();
    try must(std.mem.startsWith(u8, &(try context.device()).target, "host\x00"), "another target");
    var here = try context.doctor();
    defer here.deinit();
    var failed = try context.failures();
    defer failed.deinit();
    try must(here.len() > 0 and failed.len() == 0, "nothing is here, or something failed");
    // Every kernel is run, and held against double precision.
    var verified: quern.List(c.quern_verify_result) = .{};
    defer verified.deinit();
    try context.verify(.{ .prefix = "gemm", .seed = 7 }, &verified);
    try must(verified.len() > 0 and verified.at(0).outcome == c.QUERN_VERIFY_AGREES, "a kernel differs");
    const products = "gemm * dtype=f32 n=8 k=64";
    const rows = [_]i64{16};
    var tuned: quern.List(c.quern_tune_result) = .{};
    defer tuned.deinit();
    try context.tune(.{
        .manifest = products,
        .manifest_length = products.len,
        .rows = &rows,
        .row_count = rows.len,
        .flags = c.QUERN_TUNE_LIST_ONLY,
    }, &tuned);
    try must(tuned.at(0).outcome == c.QUERN_TUNE_ABSENT and tuned.at(0).rows == 16, "tuned already");
    try must((try context.cacheTrim(.{ .flags = c.QUERN_TRIM_ALL })).kept == 0, "not all is gone");
    if (context.faults()) |_| return error.Wrong else |status| try must(status == error.Invalid, "not as unchecked");
    const flags = c.QUERN_CONTEXT_CHECKED | c.QUERN_CONTEXT_NO_CACHE;
    const checked = try quern.Context.open(.{ .device_type = c.kDLCPU, .flags = flags });
    defer checked.close();
    var faults = try checked.faults();
    defer faults.deinit();
    try must(faults.len() == 0, "faults without a call");
}

fn fleet(folder: [*:0]const u8) !void {
    const cache = path(0, folder, "cache");
    const bundle = path(1, folder, "kernels.bundle");
    const keys = try quern.Keys.make();
    try must(std.mem.eql(u8, &(try quern.Keys.of(keys.secret)).public, &keys.public), "another public key");
    var buffer: [1 << 16]u8 = undefined;
    const manifest = try build(cache, bundle, &keys, &buffer);
    try serve(bundle, &keys.public, manifest);
    // A bundle that none of the trusted keys has signed serves nothing.
    const stranger = try from(bundle, &(try quern.Keys.make()).public);
    defer stranger.close();
    try missed(prepare(stranger, f32));
    // The same bundle in another cache.
    const trusted = [_][*:0]const u8{&keys.public};
    const other = try quern.Context.open(.{
        .cache_path = path(2, folder, "other"),
        .trusted_keys = &trusted,
        .trusted_key_count = trusted.len,
    });
    defer other.close();
    try must(try other.cacheImport(bundle) > 0, "nothing was imported");
    try scale(cache);
    try lookAfter(cache);
}

pub export fn main(count: c_int, arguments: [*][*:0]const u8) c_int {
    if (count != 2) return 2;
    fleet(arguments[1]) catch |wrong| {
        std.debug.print("{s}: {s}\n", .{ @errorName(wrong), quern.message() });
        return 1;
    };
    _ = printf("serving: a signed bundle served, what it lacks was a miss\n");
    return 0;
}
