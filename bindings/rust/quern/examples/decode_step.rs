//! One step of decoding on `host`: paged attention of two sequences, then a product with a weight and a bias. Keys of
//! zeros weigh all values alike and the values of key j are j, so that the right answer is known.
// SPDX-License-Identifier: Apache-2.0
use quern::ops::{Attention, Epilogue, Gemm};
use quern::{sys, Bf16, Context, Device, Op, Status, Tensor, TensorMut, Workspace};

const BATCH: usize = 2;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 64;
const PAGE_SIZE: usize = 4;
const PAGES: usize = 8;
const MAX_PAGES: usize = 3;
const COLUMNS: usize = 8;
const WIDTH: usize = HEADS * DIM;
const ROW: usize = KV_HEADS * DIM;

fn main() -> quern::Result<()> {
    let context = Context::open(Device::Host)?;
    let mut workspace = Workspace::host();
    let (lengths, pages) = ([5, 9], [6, 1, 0, 3, 7, 2]);
    let q = vec![Bf16::from_f32(1.0); BATCH * WIDTH];
    let k = vec![Bf16::default(); PAGES * PAGE_SIZE * ROW];
    let mut v = vec![Bf16::from_f32(f32::NAN); k.len()];
    for (b, &length) in lengths.iter().enumerate() {
        for j in 0..length as usize {
            let slot = pages[b * MAX_PAGES + j / PAGE_SIZE] as usize * PAGE_SIZE + j % PAGE_SIZE;
            for i in 0..ROW {
                v[slot * ROW + i] = Bf16::from_f32((j + 10 * (i / DIM)) as f32);
            }
        }
    }
    let weight: Vec<Bf16> =
        (0..COLUMNS * WIDTH).map(|i| Bf16::from_f32((i / WIDTH + 1) as f32 / WIDTH as f32)).collect();
    let mut attended = vec![Bf16::default(); BATCH * WIDTH];
    let mut out = vec![0f32; BATCH * COLUMNS];

    let cache = [PAGES as i64, PAGE_SIZE as i64, KV_HEADS as i64, DIM as i64];
    let heads = [BATCH as i64, HEADS as i64, DIM as i64];
    Attention::new()
        .flags(sys::QUERN_ATTENTION_CAUSAL)
        .q(&Tensor::new(&q, &heads))
        .k(&Tensor::new(&k, &cache))
        .v(&Tensor::new(&v, &cache))
        .out(&mut TensorMut::new(&mut attended, &heads))
        .lengths(&Tensor::new(&lengths, &[BATCH as i64]))
        .page_table(&Tensor::new(&pages, &[BATCH as i64, MAX_PAGES as i64]))
        .max_kv_len((MAX_PAGES * PAGE_SIZE) as i32)
        .run(&context, &mut workspace)?;

    let rows = Tensor::new(&attended, &[BATCH as i64, WIDTH as i64]);
    let bias: Vec<f32> = (0..COLUMNS).map(|n| n as f32).collect();
    Gemm::new()
        .a(&rows)
        .b(&Tensor::new(&weight, &[COLUMNS as i64, WIDTH as i64]))
        .epilogue(&Epilogue::new().bias(&Tensor::new(&bias, &[COLUMNS as i64])))
        .out(&mut TensorMut::new(&mut out, &[BATCH as i64, COLUMNS as i64]))
        .run(&context, &mut workspace)?;
    for (b, &length) in lengths.iter().enumerate() {
        for n in 0..COLUMNS {
            let wanted = ((length - 1) as f32 / 2.0 + 5.0) * (n + 1) as f32 + n as f32;
            let got = out[b * COLUMNS + n];
            assert!((got - wanted).abs() <= 1e-3 * wanted, "out[{b}][{n}] is {got}, it should be {wanted}");
        }
    }

    // A formula of one's own, over columns and a number: the same sums, twice.
    let twice = context.expression("(acc + col0) * scalar0")?;
    let mut doubled = vec![0f32; BATCH * COLUMNS];
    let columns = Tensor::new(&bias, &[COLUMNS as i64]);
    Gemm::new()
        .a(&rows)
        .b(&Tensor::new(&weight, &[COLUMNS as i64, WIDTH as i64]))
        .epilogue(&Epilogue::new().expression(twice).operands(&[&columns]).scalars(&[2.0]))
        .out(&mut TensorMut::new(&mut doubled, &[BATCH as i64, COLUMNS as i64]))
        .run(&context, &mut workspace)?;
    assert!(doubled.iter().zip(&out).all(|(two, one)| (two - 2.0 * one).abs() <= 1e-3 * two.abs()));

    // The error path: what is wrong comes back as a value, with its text; nothing has run.
    let refused = Gemm::new()
        .a(&rows)
        .b(&Tensor::new(&weight, &[COLUMNS as i64, 32]))
        .out(&mut TensorMut::new(&mut [0f32; BATCH * COLUMNS], &[BATCH as i64, COLUMNS as i64]))
        .run(&context, &mut workspace)
        .expect_err("a product of two widths was not refused");
    assert_eq!(refused.status, Status::Invalid);
    assert!(refused.text.contains("b.shape[1] is 32"), "{refused}");
    println!("decode step: {:.1} and {:.1}, as they should be", out[0], out[COLUMNS]);
    Ok(())
}
