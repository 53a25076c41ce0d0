<?php
// A step of decoding on `host` through PHP's FFI: paged attention of two sequences, then a product with a weight. Keys of
// zeros weigh all values alike and the values of key j are j, so that the right answer is known.
//   php -d ffi.enable=1 decode_step.php   QUERN_LIBRARY: libquern's path; QUERN_CHECKOUT: where bindings/ffi/quern.ffi.h is
// SPDX-License-Identifier: Apache-2.0
declare(strict_types=1);

const BATCH = 2, HEADS = 4, KV_HEADS = 2, DIM = 64, PAGE_SIZE = 4, PAGES = 8, MAX_PAGES = 3, COLUMNS = 8;
const WIDTH = HEADS * DIM, ROW = KV_HEADS * DIM;

class QuernError extends Exception {}

// The library's functions and the structs they take. It holds what structs point to: PHP's pointers own nothing.
class Quern
{
    public FFI $ffi;
    private array $alive = [];

    public function __construct()
    {
        $folder = (getenv('QUERN_CHECKOUT') ?: '.') . '/bindings/ffi/';
        $this->ffi = FFI::cdef(file_get_contents($folder . 'quern.ffi.h'), getenv('QUERN_LIBRARY') ?: 'libquern.so.1');
    }

    // A struct that knows its size.
    public function struct(string $kind, array $fields = []): FFI\CData
    {
        $made = $this->ffi->new($kind);
        $made->size = FFI::sizeof($made);
        foreach ($fields as $name => $value) {
            $made->$name = $value instanceof FFI\CData ? FFI::addr($value) : $value;
        }
        $this->alive[] = [$made, $fields];
        return $made;
    }

    public function call(string $function, mixed ...$arguments): void
    {
        $error = $this->struct('quern_error');
        $arguments[] = FFI::addr($error);
        if ($this->ffi->$function(...$arguments) !== $this->ffi->QUERN_OK) {
            throw new QuernError(FFI::string($error->text), $error->status);
        }
    }

    // Zeroed memory, aligned as ops and workspaces want it.
    public function memory(string $element, int $count): FFI\CData
    {
        $bytes = $count * FFI::sizeof($this->ffi->new($element));
        $raw = $this->alive[] = $this->ffi->new('char[' . ($bytes + 256) . ']');
        $address = $this->ffi->cast('uintptr_t', FFI::addr($raw))->cdata;
        return $this->ffi->cast("{$element} *", FFI::addr($raw[(256 - $address % 256) % 256]));
    }

    public function tensor(FFI\CData $memory, int $code, int $bits, int ...$shape): FFI\CData
    {
        $extents = $this->memory('int64_t', count($shape));
        foreach ($shape as $i => $extent) {
            $extents[$i] = $extent;
        }
        $made = $this->alive[] = $this->ffi->new('DLTensor');
        $made->data = FFI::addr($memory[0]);
        $made->device->device_type = $this->ffi->kDLCPU;
        $made->ndim = count($shape);
        $made->dtype->code = $code;
        $made->dtype->bits = $bits;
        $made->dtype->lanes = 1;
        $made->shape = FFI::addr($extents[0]);
        return $made;
    }

    // An op with a workspace as large as it asks for.
    public function run(string $op, FFI\CData $context, array $fields): void
    {
        $args = $this->struct("quern_{$op}_args", $fields);
        $size = $this->memory('uint64_t', 1);
        $this->call("quern_{$op}_workspace", $context, FFI::addr($args), FFI::addr($size[0]));
        $args->workspace = FFI::addr($this->memory('char', $size[0])[0]);
        $args->workspace_size = $size[0];
        $this->call("quern_{$op}", $context, FFI::addr($args));
    }
}

function bf16(float $value): int
{
    return unpack('V', pack('g', $value))[1] >> 16;
}

function fill(FFI\CData $memory, array $values): FFI\CData
{
    foreach ($values as $i => $value) {
        $memory[$i] = $value;
    }
    return $memory;
}

function decode(Quern $quern, FFI\CData $context): void
{
    $ffi = $quern->ffi;
    $slots = PAGES * PAGE_SIZE;
    $q = fill($quern->memory('uint16_t', BATCH * WIDTH), array_fill(0, BATCH * WIDTH, bf16(1)));
    $k = $quern->memory('uint16_t', $slots * ROW);
    $v = fill($quern->memory('uint16_t', $slots * ROW), array_fill(0, $slots * ROW, bf16(NAN)));
    [$lengths, $pages] = [[5, 9], [6, 1, 0, 3, 7, 2]];
    foreach ($lengths as $b => $length) {
        for ($j = 0; $j < $length; ++$j) {
            $slot = $pages[$b * MAX_PAGES + intdiv($j, PAGE_SIZE)] * PAGE_SIZE + $j % PAGE_SIZE;
            for ($i = 0; $i < ROW; ++$i) {
                $v[$slot * ROW + $i] = bf16($j + 10 * intdiv($i, DIM));
            }
        }
    }
    $weight = $quern->memory('uint16_t', COLUMNS * WIDTH);
    for ($n = 0; $n < COLUMNS * WIDTH; ++$n) {
        $weight[$n] = bf16((intdiv($n, WIDTH) + 1) / WIDTH);
    }
    $attended = $quern->memory('uint16_t', BATCH * WIDTH);
    $out = $quern->memory('float', BATCH * COLUMNS);

    $quern->run('attention', $context, [
        'flags' => $ffi->QUERN_ATTENTION_CAUSAL,
        'q' => $quern->tensor($q, $ffi->kDLBfloat, 16, BATCH, HEADS, DIM),
        'k' => $quern->tensor($k, $ffi->kDLBfloat, 16, PAGES, PAGE_SIZE, KV_HEADS, DIM),
        'v' => $quern->tensor($v, $ffi->kDLBfloat, 16, PAGES, PAGE_SIZE, KV_HEADS, DIM),
        'out' => $quern->tensor($attended, $ffi->kDLBfloat, 16, BATCH, HEADS, DIM),
        'lengths' => $quern->tensor(fill($quern->memory('int32_t', BATCH), $lengths), $ffi->kDLInt, 32, BATCH),
        'page_table' => $quern->tensor(
            fill($quern->memory('int32_t', count($pages)), $pages), $ffi->kDLInt, 32, BATCH, MAX_PAGES),
        'max_kv_len' => MAX_PAGES * PAGE_SIZE,
    ]);
    $rows = $quern->tensor($attended, $ffi->kDLBfloat, 16, BATCH, WIDTH);
    $sums = $quern->tensor($out, $ffi->kDLFloat, 32, BATCH, COLUMNS);
    $matrix = $quern->tensor($weight, $ffi->kDLBfloat, 16, COLUMNS, WIDTH);
    $quern->run('gemm', $context, ['a' => $rows, 'b' => $matrix, 'out' => $sums]);
    foreach ($lengths as $b => $length) {
        for ($n = 0; $n < COLUMNS; ++$n) {
            $wanted = (($length - 1) / 2 + 5) * ($n + 1);
            $got = $out[$b * COLUMNS + $n];
            if (!(abs($got - $wanted) <= 1e-3 * $wanted)) {
                throw new Exception("out[$b][$n] is $got, it should be $wanted");
            }
        }
    }

    // The error path: an exception that says what is wrong.
    try {
        $narrow = $quern->tensor($weight, $ffi->kDLBfloat, 16, COLUMNS, 32);
        $quern->run('gemm', $context, ['a' => $rows, 'b' => $narrow, 'out' => $sums]);
        throw new Exception('a product of two widths was not refused');
    } catch (QuernError $error) {
        if ($error->getCode() !== $ffi->QUERN_INVALID || !str_contains($error->getMessage(), 'b.shape[1] is 32')) {
            throw $error;
        }
    }
    printf("decode step: %.1f and %.1f, as they should be\n", $out[0], $out[COLUMNS]);
}

$quern = new Quern();
$made = $quern->ffi->new('quern_context *');
$options = $quern->struct('quern_context_options', ['device_type' => $quern->ffi->kDLCPU]);
$quern->call('quern_context_create', FFI::addr($options), FFI::addr($made));
try {
    decode($quern, $made);
} finally {
    $quern->ffi->quern_context_destroy($made);
}
