# A step of decoding on `host` from Ruby, through Fiddle: paged attention of two sequences, then a product with a weight.
# Keys of zeros weigh all values alike and the values of key j are j, so that the right answer is known.
#   ruby decode_step.rb      QUERN_LIBRARY: libquern's path; QUERN_CHECKOUT: where bindings/ffi/quern.ffi.h is
# SPDX-License-Identifier: Apache-2.0
require "fiddle"
require "fiddle/import"

# The library: its constants, structs and functions as quern.ffi.h declares them.
module Quern
  extend Fiddle::Importer
  dlload(ENV["QUERN_LIBRARY"] || "libquern.so.1")

  # Structs that stand by value in others, field by field.
  INLINE = {
    "DLDevice device" => ["int32_t device_type", "int32_t device_id"],
    "DLDataType dtype" => ["uint8_t dtype_code", "uint8_t dtype_bits", "uint16_t dtype_lanes"],
  }.freeze
  STRUCTS = {}

  class Error < StandardError
    attr_reader :status

    def initialize(status, text)
      super(text)
      @status = status
    end
  end

  text = File.read(File.join(ENV["QUERN_CHECKOUT"] || ".", "bindings/ffi/quern.ffi.h"))
  text.scan(/^  ((?:QUERN|kDL)\w+) = (\d+)/) { |name, value| const_set(name[0].upcase + name[1..], value.to_i) }
  text.scan(/^typedef struct(?: \w+)? \{(.*?)^\} (\w+);/m) do |body, name|
    fields = body.split(";").map { |field| field.strip.squeeze(" ") }.reject(&:empty?)
    STRUCTS[name] = fields.flat_map do |field|
      INLINE[field] || (field.match?(/\*|_callback /) ? "void *#{field[/\w+\z/]}" : field)
    end
  end

  @alive = [] # what structs point to: an address in a struct owns nothing

  class << self
    # A zeroed struct that knows its size.
    def struct_of(name, **fields)
      @kinds ||= {}
      kind = @kinds[name] ||= struct(STRUCTS.fetch(name))
      made = kind.malloc(Fiddle::RUBY_FREE)
      made.to_ptr[0, kind.size] = "\0" * kind.size
      made.size = kind.size if STRUCTS[name].first == "uint32_t size"
      fields.each { |field, value| made.send("#{field}=", value.respond_to?(:to_ptr) ? value.to_ptr : value) }
      @alive << [made, fields]
      made
    end

    def call(name, *arguments)
      @functions ||= {}
      function = @functions[name] ||= Fiddle::Function.new(
        handler[name], [Fiddle::TYPE_VOIDP] * (arguments.size + 1), Fiddle::TYPE_INT32_T
      )
      error = struct_of("quern_error")
      status = function.call(*arguments.map { |one| one.respond_to?(:to_ptr) ? one.to_ptr : one }, error.to_ptr)
      raise Error.new(status, error.text.pack("c*").unpack1("Z*")) if status != QUERN_OK
    end

    # Memory with these bytes, aligned as ops and workspaces want it.
    def memory(bytes)
      raw = Fiddle::Pointer.malloc(bytes.bytesize + 256, Fiddle::RUBY_FREE)
      @alive << raw
      made = raw + (-raw.to_i % 256)
      made[0, bytes.bytesize] = bytes unless bytes.empty?
      made
    end

    def tensor(data, code, bits, *shape)
      struct_of("DLTensor", data: data, device_type: KDLCPU, ndim: shape.size, dtype_code: code, dtype_bits: bits,
                            dtype_lanes: 1, shape: memory(shape.pack("q*")))
    end

    # An op with a workspace as large as it asks for.
    def run(op, context, **fields)
      args = struct_of("quern_#{op}_args", **fields)
      size = memory("\0" * 8)
      call("quern_#{op}_workspace", context, args, size)
      args.workspace_size = size[0, 8].unpack1("Q")
      args.workspace = memory("\0" * args.workspace_size)
      call("quern_#{op}", context, args)
    end

    def handler
      @handler ||= Fiddle.dlopen(ENV["QUERN_LIBRARY"] || "libquern.so.1")
    end
  end
end

BATCH, HEADS, KV_HEADS, DIM, PAGE_SIZE, PAGES, MAX_PAGES, COLUMNS = 2, 4, 2, 64, 4, 8, 3, 8
WIDTH = HEADS * DIM
ROW = KV_HEADS * DIM

def bf16(value)
  [value].pack("e").unpack1("V") >> 16
end

def decode(context)
  v = [bf16(Float::NAN)] * (PAGES * PAGE_SIZE * ROW)
  lengths, pages = [5, 9], [6, 1, 0, 3, 7, 2]
  lengths.each_with_index do |length, b|
    length.times do |j|
      slot = pages[b * MAX_PAGES + j / PAGE_SIZE] * PAGE_SIZE + j % PAGE_SIZE
      ROW.times { |i| v[slot * ROW + i] = bf16((j + 10 * (i / DIM)).to_f) }
    end
  end
  weight = Array.new(COLUMNS * WIDTH) { |i| bf16((i / WIDTH + 1).to_f / WIDTH) }
  q = Quern.memory(([bf16(1.0)] * (BATCH * WIDTH)).pack("S*"))
  k, v = Quern.memory("\0" * (v.size * 2)), Quern.memory(v.pack("S*"))
  attended, out = Quern.memory("\0" * (BATCH * WIDTH * 2)), Quern.memory("\0" * (BATCH * COLUMNS * 4))
  weight = Quern.memory(weight.pack("S*"))

  bfloat, int, float = Quern::KDLBfloat, Quern::KDLInt, Quern::KDLFloat
  Quern.run("attention", context,
            flags: Quern::QUERN_ATTENTION_CAUSAL,
            q: Quern.tensor(q, bfloat, 16, BATCH, HEADS, DIM),
            k: Quern.tensor(k, bfloat, 16, PAGES, PAGE_SIZE, KV_HEADS, DIM),
            v: Quern.tensor(v, bfloat, 16, PAGES, PAGE_SIZE, KV_HEADS, DIM),
            out: Quern.tensor(attended, bfloat, 16, BATCH, HEADS, DIM),
            lengths: Quern.tensor(Quern.memory(lengths.pack("l*")), int, 32, BATCH),
            page_table: Quern.tensor(Quern.memory(pages.pack("l*")), int, 32, BATCH, MAX_PAGES),
            max_kv_len: MAX_PAGES * PAGE_SIZE)
  rows = Quern.tensor(attended, bfloat, 16, BATCH, WIDTH)
  sums = Quern.tensor(out, float, 32, BATCH, COLUMNS)
  Quern.run("gemm", context, a: rows, b: Quern.tensor(weight, bfloat, 16, COLUMNS, WIDTH), out: sums)
  numbers = out[0, BATCH * COLUMNS * 4].unpack("e*")
  lengths.each_with_index do |length, b|
    COLUMNS.times do |n|
      wanted, got = ((length - 1) / 2.0 + 5) * (n + 1), numbers[b * COLUMNS + n]
      raise "out[#{b}][#{n}] is #{got}, it should be #{wanted}" unless (got - wanted).abs <= 1e-3 * wanted
    end
  end

  # The error path: an exception that says what is wrong.
  begin
    Quern.run("gemm", context, a: rows, b: Quern.tensor(weight, bfloat, 16, COLUMNS, 32), out: sums)
    raise "a product of two widths was not refused"
  rescue Quern::Error => e
    raise unless e.status == Quern::QUERN_INVALID && e.message.include?("b.shape[1] is 32")
  end
  puts format("decode step: %.1f and %.1f, as they should be", numbers[0], numbers[COLUMNS])
end

made = Quern.memory("\0" * 8)
Quern.call("quern_context_create", Quern.struct_of("quern_context_options", device_type: Quern::KDLCPU), made)
context = Fiddle::Pointer.new(made[0, 8].unpack1("J"))
begin
  decode(context)
ensure
  Fiddle::Function.new(Quern.handler["quern_context_destroy"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID).call(context)
end
