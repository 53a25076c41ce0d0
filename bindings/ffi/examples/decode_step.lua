-- A step of decoding on `host` through LuaJIT's FFI: paged attention of two sequences, then a product with a weight.
-- Keys of zeros weigh all values alike and the values of key j are j, so that the right answer is known.
--   luajit decode_step.lua      QUERN_LIBRARY: libquern's path; QUERN_CHECKOUT: where bindings/ffi/quern.ffi.h is
-- SPDX-License-Identifier: Apache-2.0
local ffi = require("ffi")
local bit = require("bit")

local BATCH, HEADS, KV_HEADS, DIM, PAGE_SIZE, PAGES, MAX_PAGES, COLUMNS = 2, 4, 2, 64, 4, 8, 3, 8
local WIDTH, ROW = HEADS * DIM, KV_HEADS * DIM

local folder = (os.getenv("QUERN_CHECKOUT") or ".") .. "/bindings/ffi/"
ffi.cdef(assert(io.open(folder .. "quern.ffi.h")):read("*a"))
local quern = ffi.load(os.getenv("QUERN_LIBRARY") or "libquern.so.1")

local alive = {} -- what structs point to: LuaJIT's pointers own nothing

local function new(kind, fields)
  local made = ffi.new(kind)
  made.size = ffi.sizeof(kind)
  for name, value in pairs(fields or {}) do
    made[name] = value
    alive[#alive + 1] = value
  end
  return made
end

local function call(run, ...)
  local failure = new("quern_error")
  local arguments = { ... }
  arguments[#arguments + 1] = failure
  if run(unpack(arguments)) ~= quern.QUERN_OK then
    error({ status = failure.status, text = ffi.string(failure.text) })
  end
end

-- Zeroed memory, aligned as ops and workspaces want it.
local function memory(element, count, values)
  local raw = ffi.new("char[?]", count * ffi.sizeof(element) + 256)
  local made = ffi.cast(element .. " *", bit.band(ffi.cast("uintptr_t", raw) + 255, -256LL))
  for i = 1, #(values or {}) do made[i - 1] = values[i] end
  alive[#alive + 1] = raw
  return made
end

local function tensor(data, code, bits, ...)
  local shape = ffi.new("int64_t[?]", select("#", ...), { ... })
  local made = ffi.new("DLTensor")
  made.data, made.shape, made.ndim = data, shape, select("#", ...)
  made.device.device_type = quern.kDLCPU
  made.dtype.code, made.dtype.bits, made.dtype.lanes = code, bits, 1
  alive[#alive + 1] = shape
  return made
end

local word = ffi.new("union { float value; uint32_t bits; }")
local function bf16(value)
  word.value = value
  return bit.rshift(word.bits, 16)
end

local function filled(count, value)
  local made = memory("uint16_t", count)
  for i = 0, count - 1 do made[i] = value end
  return made
end

-- An op with a workspace as large as it asks for.
local function run(op, context, fields)
  local args, size = new(op .. "_args", fields), ffi.new("uint64_t[1]")
  call(quern[op .. "_workspace"], context, args, size)
  args.workspace = memory("char", tonumber(size[0]))
  args.workspace_size = size[0]
  call(quern[op], context, args)
end

local function decode(context)
  local q, k = filled(BATCH * WIDTH, bf16(1)), filled(PAGES * PAGE_SIZE * ROW, 0)
  local v = filled(PAGES * PAGE_SIZE * ROW, bf16(0 / 0))
  local lengths, pages = { 5, 9 }, { 6, 1, 0, 3, 7, 2 }
  for b = 0, BATCH - 1 do
    for j = 0, lengths[b + 1] - 1 do
      local slot = pages[b * MAX_PAGES + math.floor(j / PAGE_SIZE) + 1] * PAGE_SIZE + j % PAGE_SIZE
      for i = 0, ROW - 1 do v[slot * ROW + i] = bf16(j + 10 * math.floor(i / DIM)) end
    end
  end
  local weight = memory("uint16_t", COLUMNS * WIDTH)
  for n = 0, COLUMNS - 1 do
    for i = 0, WIDTH - 1 do weight[n * WIDTH + i] = bf16((n + 1) / WIDTH) end
  end
  local attended, out = memory("uint16_t", BATCH * WIDTH), memory("float", BATCH * COLUMNS)

  local bfloat, int, float = quern.kDLBfloat, quern.kDLInt, quern.kDLFloat
  run("quern_attention", context, {
    flags = quern.QUERN_ATTENTION_CAUSAL,
    q = tensor(q, bfloat, 16, BATCH, HEADS, DIM),
    k = tensor(k, bfloat, 16, PAGES, PAGE_SIZE, KV_HEADS, DIM),
    v = tensor(v, bfloat, 16, PAGES, PAGE_SIZE, KV_HEADS, DIM),
    out = tensor(attended, bfloat, 16, BATCH, HEADS, DIM),
    lengths = tensor(memory("int32_t", BATCH, lengths), int, 32, BATCH),
    page_table = tensor(memory("int32_t", #pages, pages), int, 32, BATCH, MAX_PAGES),
    max_kv_len = MAX_PAGES * PAGE_SIZE,
  })
  local rows = tensor(attended, bfloat, 16, BATCH, WIDTH)
  local sums = tensor(out, float, 32, BATCH, COLUMNS)
  run("quern_gemm", context, { a = rows, b = tensor(weight, bfloat, 16, COLUMNS, WIDTH), out = sums })
  for b = 0, BATCH - 1 do
    for n = 0, COLUMNS - 1 do
      local wanted = ((lengths[b + 1] - 1) / 2 + 5) * (n + 1)
      local got = out[b * COLUMNS + n]
      assert(math.abs(got - wanted) <= 1e-3 * wanted, ("out[%d][%d] is %f, it should be %f"):format(b, n, got, wanted))
    end
  end

  -- The error path: what is wrong comes as an error that says it.
  local done, failure = pcall(run, "quern_gemm", context, {
    a = rows, b = tensor(weight, bfloat, 16, COLUMNS, 32), out = sums,
  })
  assert(not done and failure.status == quern.QUERN_INVALID and failure.text:find("b.shape[1] is 32", 1, true), "no error")
  print(("decode step: %.1f and %.1f, as they should be"):format(out[0], out[COLUMNS]))
end

local made = ffi.new("quern_context *[1]")
call(quern.quern_context_create, new("quern_context_options", { device_type = quern.kDLCPU }), made)
local done, failure = pcall(decode, made[0])
quern.quern_context_destroy(made[0])
if not done then
  io.stderr:write(type(failure) == "table" and failure.text or failure, "\n")
  os.exit(1)
end
