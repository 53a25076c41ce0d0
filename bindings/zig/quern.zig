//! quern from Zig: contexts, tensors over slices, ops by the structs of their arguments, errors of Zig's own with the
//! library's text beside them. What is mechanical is in c.zig, which is made of quern.h.
// SPDX-License-Identifier: Apache-2.0
const std = @import("std");
pub const c = @import("c.zig");

pub const Error = c.Error;
pub const Options = c.quern_context_options;
pub const Epilogue = c.quern_epilogue;
pub const RopeOptions = c.quern_rope_options;
pub const Attention = c.Attention;
pub const Gemm = c.Gemm;

/// What the last call of this thread that failed was told.
pub threadlocal var failure: c.quern_error = .{};

/// Its text: the argument, what was given, what is allowed.
pub fn message() []const u8 {
    return std.mem.sliceTo(&failure.text, 0);
}

/// Zig's error for what a call of quern.h returned, which was given `&failure`.
pub fn check(status: i32) Error!void {
    if (status != c.QUERN_OK) return c.errorOf(status);
}

fn told() *c.quern_error {
    failure = .{};
    return &failure;
}

/// The bits of a bfloat16.
pub const Bf16 = packed struct {
    bits: u16,

    /// The nearest, ties to even.
    pub fn of(value: f32) Bf16 {
        const bits: u32 = @bitCast(value);
        if (value != value) return .{ .bits = 0x7fc0 };
        return .{ .bits = @truncate((bits +% 0x7fff +% (bits >> 16 & 1)) >> 16) };
    }
    pub fn float(self: Bf16) f32 {
        return @bitCast(@as(u32, self.bits) << 16);
    }
};

/// DLPack's name for an element type.
pub fn dtype(comptime Element: type) c.DLDataType {
    const code = switch (Element) {
        f16, f32, f64 => c.kDLFloat,
        Bf16 => c.kDLBfloat,
        i8, i16, i32, i64 => c.kDLInt,
        u8, u16, u32, u64 => c.kDLUInt,
        bool => c.kDLBool,
        else => @compileError("no element type of quern's: " ++ @typeName(Element)),
    };
    return .{ .code = code, .bits = 8 * @sizeOf(Element), .lanes = 1 };
}

pub const host: c.DLDevice = .{ .device_type = c.kDLCPU };

/// A tensor, which has its extents in it: `dl` gives what an op's arguments take, good for as long as it is not moved.
pub fn Tensor(comptime rank: usize) type {
    return struct {
        const Self = @This();
        data: ?*anyopaque,
        dtype: c.DLDataType,
        shape: [rank]i64,
        strides: ?[rank]i64 = null, // in elements; null: compact
        device: c.DLDevice = host,
        made: c.DLTensor = .{},

        /// Over a slice of the host's, which must hold all of it.
        pub fn over(comptime Element: type, memory: []Element, shape: [rank]i64) Self {
            var count: usize = 1;
            for (shape) |extent| count *= @intCast(extent);
            if (count > memory.len) @panic("quern: a tensor reaches beyond its slice");
            return .{ .data = @ptrCast(memory.ptr), .dtype = dtype(Element), .shape = shape };
        }
        /// Without memory, for `prepare` and `workspace`.
        pub fn none(comptime Element: type, shape: [rank]i64) Self {
            return .{ .data = null, .dtype = dtype(Element), .shape = shape };
        }
        pub fn dl(self: *Self) *const c.DLTensor {
            self.made = .{
                .data = self.data,
                .device = self.device,
                .ndim = rank,
                .dtype = self.dtype,
                .shape = &self.shape,
                .strides = if (self.strides != null) &self.strides.? else null,
            };
            return &self.made;
        }
    };
}

/// What an administration call gave, each a struct of quern.h. Strings live until `deinit`.
pub fn List(comptime Item: type) type {
    return struct {
        const Self = @This();
        handle: ?*c.quern_list = null,

        pub fn len(self: Self) u64 {
            return if (self.handle == null) 0 else c.quern_list_count(self.handle);
        }
        pub fn at(self: Self, index: u64) Item {
            const getter = switch (Item) {
                c.quern_warm_result => c.quern_list_warm_result,
                c.quern_tune_result => c.quern_list_tune_result,
                c.quern_verify_result => c.quern_list_verify_result,
                c.quern_entry => c.quern_list_entry,
                c.quern_finding => c.quern_list_finding,
                c.quern_fault => c.quern_list_fault,
                else => @compileError("no list has a " ++ @typeName(Item)),
            };
            var item: Item = .{};
            if (getter(self.handle, index, &item) != c.QUERN_OK) @panic("quern: a place beyond the list");
            return item;
        }
        pub fn deinit(self: *Self) void {
            c.quern_list_free(self.handle);
            self.handle = null;
        }
    };
}

/// A secret key, which signs bundles, and its public one, for `Options.trusted_keys`: 64 digits each.
pub const Keys = struct {
    secret: [64:0]u8 = @splat(0),
    public: [64:0]u8 = @splat(0),

    pub fn make() Error!Keys {
        var keys: Keys = .{};
        try check(c.quern_keys_make(&keys.secret, &keys.public, told()));
        return keys;
    }
    /// The pair of a secret key.
    pub fn of(secret: [64:0]u8) Error!Keys {
        var keys: Keys = .{ .secret = secret };
        try check(c.quern_keys_public(&keys.secret, &keys.public, told()));
        return keys;
    }
    /// Verifies a bundle and puts a signature over all of it behind those that it has.
    pub fn sign(self: *const Keys, path: [:0]const u8) Error!void {
        try check(c.quern_bundle_sign(path, &self.secret, told()));
    }
};

/// A kernel of the caller's own that is ready to launch. It lives as long as its context.
pub const Kernel = struct {
    handle: *c.quern_kernel,
    context: Context,

    pub fn info(self: Kernel) Error!c.quern_kernel_info {
        var made: c.quern_kernel_info = .{};
        try check(c.quern_kernel_get_info(self.handle, &made, told()));
        return made;
    }
    /// `arguments`: a tuple of the values of the kernel's parameters, which are not checked against them.
    pub fn launch(self: Kernel, how: c.quern_launch, arguments: anytype) Error!void {
        const count = arguments.len;
        var values: [count][16]u8 align(16) = undefined;
        var places: [count]?*anyopaque = undefined;
        inline for (0..count) |i| {
            const Value = @TypeOf(arguments[i]);
            if (@sizeOf(Value) == 0 or @sizeOf(Value) > 16) {
                @compileError("an argument of a kernel has a type of 1 to 16 bytes, not " ++ @typeName(Value));
            }
            @as(*Value, @ptrCast(@alignCast(&values[i]))).* = arguments[i];
            places[i] = &values[i];
        }
        var given = how;
        given.args = &places;
        given.arg_count = count;
        try check(c.quern_kernel_launch(self.context.handle, self.handle, &given, told()));
    }
};

/// One device, its kernels and its cache. Safe to use from several threads.
pub const Context = struct {
    handle: *c.quern_context,

    /// With the fields of quern_context_options, each with its default.
    pub fn open(options: Options) Error!Context {
        var made: ?*c.quern_context = null;
        try check(c.quern_context_create(&options, &made, told()));
        return .{ .handle = made.? };
    }
    /// No call may be in flight.
    pub fn close(self: Context) void {
        c.quern_context_destroy(self.handle);
    }

    /// Launches an op, which is the struct of its arguments: `context.run(quern.Gemm{ .a = a.dl(), ... }, &memory)`.
    /// The workspace is of the device, 256-byte aligned, zeroed once, and one call's at a time.
    pub fn run(self: Context, op: anytype, workspace_memory: []align(256) u8) Error!void {
        var args = op;
        args.workspace = workspace_memory.ptr;
        args.workspace_size = workspace_memory.len;
        try check(c.calls(@TypeOf(op)).run(self.handle, &args, told()));
    }
    /// Readies every kernel that calls with the same dtypes, head counts and flags and no larger maxima can reach.
    pub fn prepare(self: Context, op: anytype) Error!void {
        try check(c.calls(@TypeOf(op)).prepare(self.handle, &op, told()));
    }
    /// The bytes of workspace that an op needs.
    pub fn workspace(self: Context, op: anytype) Error!u64 {
        var bytes: u64 = 0;
        try check(c.calls(@TypeOf(op)).workspace(self.handle, &op, &bytes, told()));
        return bytes;
    }
    /// A formula for `expression` of an epilogue; it lives as long as the context.
    pub fn expression(self: Context, text: [:0]const u8) Error!*const c.quern_expression {
        var made: ?*const c.quern_expression = null;
        try check(c.quern_expression_create(self.handle, text, &made, told()));
        return made.?;
    }
    /// null for a target that is not the device's, for which it is compiled and stored.
    pub fn kernel(self: Context, desc: c.quern_kernel_desc) Error!?Kernel {
        var made: ?*c.quern_kernel = null;
        try check(c.quern_kernel_prepare(self.handle, &desc, &made, told()));
        return if (made) |ready| .{ .handle = ready, .context = self } else null;
    }

    pub fn device(self: Context) Error!c.quern_device_info {
        var made: c.quern_device_info = .{};
        try check(c.quern_device(self.handle, &made, told()));
        return made;
    }
    pub fn stats(self: Context) Error!c.quern_stats {
        var made: c.quern_stats = .{};
        try check(c.quern_get_stats(self.handle, &made, told()));
        return made;
    }
    pub fn cacheStats(self: Context) Error!c.quern_cache_stats {
        var made: c.quern_cache_stats = .{};
        try check(c.quern_cache_get_stats(self.handle, &made, told()));
        return made;
    }

    /// Compiles and stores what of the manifest and the model is not in the cache or a bundle, without touching a
    /// device. With error.Partial the list has the results there are: it is to be freed in that case, too.
    pub fn warm(self: Context, options: c.quern_warm_options, results: *List(c.quern_warm_result)) Error!void {
        try check(c.quern_warm(self.handle, &options, &results.handle, told()));
    }
    /// Makes what `warm` makes of the context's own target, as its miss policy has it, and loads it on the device.
    pub fn load(self: Context, options: c.quern_warm_options, results: *List(c.quern_warm_result)) Error!void {
        try check(c.quern_load(self.handle, &options, &results.handle, told()));
    }
    /// Unloads the kernels of an op, or those whose key begins with `prefix`; null: all. None of them may be running,
    /// or be in a captured graph that is launched again. Returns how many they were.
    pub fn unload(self: Context, prefix: ?[:0]const u8) Error!u64 {
        var count: u64 = 0;
        try check(c.quern_unload(self.handle, pointer(prefix), &count, told()));
        return count;
    }
    /// Waits until nothing is being compiled in the background, for at most so long; false where something still is.
    pub fn wait(self: Context, milliseconds: u64) Error!bool {
        check(c.quern_wait(self.handle, milliseconds, told())) catch |status| {
            return if (status == error.Pending) false else status;
        };
        return true;
    }
    /// Drops the compilations in the background that have not begun. Returns how many they were.
    pub fn cancel(self: Context) Error!u64 {
        var count: u64 = 0;
        try check(c.quern_cancel(self.handle, &count, told()));
        return count;
    }
    /// Everything this context has specialised, as `warm` reads it, in the buffer; null where that is too small.
    pub fn manifest(self: Context, buffer: []u8) Error!?[:0]const u8 {
        var length: u64 = buffer.len;
        try check(c.quern_manifest(self.handle, buffer.ptr, &length, told()));
        return if (length < buffer.len) buffer[0..length :0] else null;
    }
    /// Measures on the context's device which kernels do matrix products fastest, and keeps them in the cache.
    pub fn tune(self: Context, options: c.quern_tune_options, results: *List(c.quern_tune_result)) Error!void {
        try check(c.quern_tune(self.handle, &options, &results.handle, told()));
    }
    /// Runs every cached kernel on the context's device and holds it against the `host` target's execution. With
    /// error.Damaged the list has the results, too.
    pub fn verify(self: Context, options: c.quern_verify_options, results: *List(c.quern_verify_result)) Error!void {
        try check(c.quern_verify(self.handle, &options, &results.handle, told()));
    }
    /// Every entry whose key begins with `prefix`, or whose op or target equals it; null: all.
    pub fn cacheList(self: Context, prefix: ?[:0]const u8) Error!List(c.quern_entry) {
        var entries: List(c.quern_entry) = .{};
        try check(c.quern_cache_list(self.handle, pointer(prefix), &entries.handle, told()));
        return entries;
    }
    /// A list of the one entry whose key begins with `key` (at least 4 digits), image and all.
    pub fn cacheInspect(self: Context, key: [*:0]const u8) Error!List(c.quern_entry) {
        var entries: List(c.quern_entry) = .{};
        try check(c.quern_cache_inspect(self.handle, key, &entries.handle, told()));
        return entries;
    }
    /// Reads and checks every row and bundle. With error.Damaged the list has the findings, too.
    pub fn cacheVerify(self: Context, findings: *List(c.quern_finding)) Error!void {
        try check(c.quern_cache_verify(self.handle, &findings.handle, told()));
    }
    /// What is here: drivers, devices, compilers, the helper, the cache.
    pub fn doctor(self: Context) Error!List(c.quern_finding) {
        var findings: List(c.quern_finding) = .{};
        try check(c.quern_doctor(self.handle, &findings.handle, told()));
        return findings;
    }
    /// Every kernel that a compiler has refused in this context and not made since, with the compiler's log.
    pub fn failures(self: Context) Error!List(c.quern_finding) {
        var findings: List(c.quern_finding) = .{};
        try check(c.quern_failures(self.handle, &findings.handle, told()));
        return findings;
    }
    /// What calls of a checked context found wrong in their index tensors since this was asked last.
    pub fn faults(self: Context) Error!List(c.quern_fault) {
        var found: List(c.quern_fault) = .{};
        try check(c.quern_faults(self.handle, &found.handle, null, told()));
        return found;
    }
    /// Removes entries, least recently used first.
    pub fn cacheTrim(self: Context, options: c.quern_trim_options) Error!c.quern_trim_result {
        var made: c.quern_trim_result = .{};
        try check(c.quern_cache_trim(self.handle, &options, &made, told()));
        return made;
    }
    /// Writes the cache, or what `prefix` selects as in `cacheList`, as a bundle; the path is absolute. Returns the
    /// number of entries.
    pub fn cacheExport(self: Context, path: [:0]const u8, prefix: ?[:0]const u8) Error!u64 {
        var count: u64 = 0;
        try check(c.quern_cache_export(self.handle, path, pointer(prefix), &count, told()));
        return count;
    }
    /// Adds a bundle's entries to the cache, all verified before the first is written. Returns how many were not there.
    pub fn cacheImport(self: Context, path: [:0]const u8) Error!u64 {
        var count: u64 = 0;
        try check(c.quern_cache_import(self.handle, path, &count, told()));
        return count;
    }
};

fn pointer(text: ?[:0]const u8) ?[*:0]const u8 {
    return if (text) |given| given.ptr else null;
}
