// How a fleet serves, on `host`: one machine warms a cache and makes a signed bundle of it; the others take kernels
// from that bundle alone and never compile. What they lack is a miss, told at once. And a kernel of one's own.
// SPDX-License-Identifier: Apache-2.0
use quern::ops::Gemm;
use quern::records::{Model, TrimOptions, TuneOptions, VerifyOptions, WarmOptions};
use quern::sys;
use quern::{Context, Device, Element, KernelDesc, Launch, Miss, Op, Status, Tensor, TensorMut};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

fn prepare<T: Element + Default>(context: &Context) -> quern::Result<()> {
    let (a, b, mut out) = (vec![T::default(); 4 * 64], vec![T::default(); 8 * 64], vec![T::default(); 4 * 8]);
    Gemm::new()
        .a(&Tensor::new(&a, &[4, 64]))
        .b(&Tensor::new(&b, &[8, 64]))
        .out(&mut TensorMut::new(&mut out, &[4, 8]))
        .prepare(context)
}

/// Warms a cache, and makes a signed bundle of it. Gives what is in there, as a manifest.
fn build(folder: &Path, bundle: &str, secret: &str) -> quern::Result<String> {
    let (compiled, lines) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (events, logged) = (compiled.clone(), lines.clone());
    let context = Context::builder(Device::Host)
        .cache_path(folder.join("cache"))
        .log_level(sys::QUERN_LOG_DEBUG)
        .log(move |_, text| {
            logged.fetch_add(text.len(), Ordering::Relaxed);
        })
        .event(move |event| {
            if event.kind == sys::QUERN_EVENT_COMPILED && event.op == "gemm" {
                events.fetch_add(1, Ordering::Relaxed);
            }
        })
        .open()?;
    prepare::<f32>(&context)?;
    let manifest = context.manifest()?;
    assert!(manifest.starts_with("gemm host "), "{manifest}");
    assert!(compiled.load(Ordering::Relaxed) > 0 && lines.load(Ordering::Relaxed) > 0, "nothing was told");

    // Warming again finds all of it. A model is warmed in the same way; what `progress` gives back can cancel.
    let mut seen = Vec::new();
    let mut note = |_, _, result: &quern::records::WarmResult| {
        seen.push(result.key.clone());
        false
    };
    let options = WarmOptions { manifest: Some(&manifest), progress: Some(&mut note), ..Default::default() };
    let results = context.warm(options)?;
    assert!(!results.is_empty() && seen.len() == results.len());
    assert!(results.iter().all(|one| one.outcome == sys::QUERN_WARM_HIT && one.op == "gemm"), "{results:?}");
    let model = Model {
        hidden_size: 512,
        intermediate_size: 1024,
        layers: 2,
        heads: 8,
        kv_heads: 2,
        head_dim: 64,
        vocab_size: 1000,
        ..Default::default()
    };
    let listing = || WarmOptions {
        model: Some(&model),
        targets: &["sm_90a"],
        flags: sys::QUERN_WARM_LIST_ONLY | sys::QUERN_WARM_ALLOW_UNSERVED,
        ..Default::default()
    };
    let needed = context.warm(listing())?.len();
    let cancelled = context.warm(WarmOptions { progress: Some(&mut |done, _, _| done == 2), ..listing() });
    let cancelled = cancelled.expect_err("progress did not cancel");
    assert_eq!(cancelled.error.status, Status::Partial);
    let there = cancelled.results.len();
    assert!(there >= 2 && there < needed, "{there} of {needed}");

    // When it panics that cancels as well, and the panic goes on behind the call.
    let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        context.warm(WarmOptions { progress: Some(&mut |_, _, _| std::panic::resume_unwind(Box::new(7))), ..listing() })
    }));
    assert!(matches!(thrown, Err(payload) if payload.downcast_ref::<i32>() == Some(&7)));

    assert!(!context.cache_verify()?.is_empty(), "nothing was verified");
    let entries = context.cache_list(Some("gemm"))?;
    assert_eq!(entries.len(), seen.len());
    let entry = context.cache_inspect(&entries[0].key)?;
    let image = entry.image.expect("an inspected entry has its image");
    assert!(!image.is_empty() && image.len() as u64 == entry.image_size);
    let stats = context.cache_stats()?;
    assert!(stats.state == sys::QUERN_CACHE_READY && Path::new(&stats.path).starts_with(folder), "{stats:?}");
    assert!(context.cache_export(bundle, None)? >= seen.len() as u64);
    quern::sign_bundle(bundle, secret)?;
    Ok(manifest)
}

fn from(bundle: &str, trusted: &str) -> quern::Result<Context> {
    let builder = Context::builder(Device::Host).flags(sys::QUERN_CONTEXT_NO_CACHE).miss(Miss::CachedOnly);
    builder.bundle(bundle).trusted_key(trusted).open()
}

/// Takes kernels from a signed bundle alone.
fn serve(bundle: &str, trusted: &str, manifest: &str) -> quern::Result<()> {
    let context = from(bundle, trusted)?;
    let loaded = context.load(WarmOptions { manifest: Some(manifest), ..Default::default() })?.len() as u64;
    let stats = context.stats()?;
    assert!(stats.cache_hits == loaded && stats.compiled == 0, "{stats:?}");
    prepare::<f32>(&context)?;
    let missed = prepare::<quern::Bf16>(&context).expect_err("what the bundle lacks was there");
    assert_eq!(missed.status, Status::Miss, "{missed}");
    assert!(context.wait(0)? && context.cancel()? == 0, "something is compiled in the background");
    // SAFETY: nothing runs.
    assert_eq!(unsafe { context.unload(Some("gemm")) }?, loaded);
    Ok(())
}

/// A kernel of the caller's own.
fn scale(folder: &Path) -> quern::Result<()> {
    let context = Context::builder(Device::Host).cache_path(folder.join("cache")).open()?;
    let text = r#"
#include "quern/kernel.cuh"
QUERN_KERNEL(scale, 256, 1, float *x, int n) {
  const int i = q::block_index(0) * 256 + q::thread_index();
  if (i < n) x[i] *= BY;
}
"#;
    let desc =
        KernelDesc { entry: "scale", source: ("scale.cu", text), constants: &[("BY", "3.0f")], ..Default::default() };
    let kernel = context.kernel(&desc)?.expect("a kernel of the device's own target");
    assert_eq!(kernel.info()?.key.len(), 32);
    let mut x: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let launch = Launch { grid: [4, 1, 1], block: [256, 1, 1], ..Default::default() };
    // SAFETY: an address and a number, as the kernel takes them; on `host` it is done when this returns.
    unsafe { kernel.launch(&launch, &[&x.as_mut_ptr(), &1000i32]) }?;
    assert_eq!((x[1], x[999]), (3.0, 2997.0));
    Ok(())
}

/// What a fleet's cache is looked after with.
fn look_after(folder: &Path) -> quern::Result<()> {
    let context = Context::builder(Device::Host).cache_path(folder.join("cache")).open()?;
    assert_eq!(context.device()?.target, "host");
    assert!(!context.doctor()?.is_empty() && context.failures()?.is_empty());
    // Every kernel is run, and held against double precision.
    let verified = context.verify(VerifyOptions { prefix: Some("gemm"), seed: 7, ..Default::default() })?;
    assert!(!verified.is_empty() && verified[0].outcome == sys::QUERN_VERIFY_AGREES, "{verified:?}");
    let listing = TuneOptions {
        manifest: Some("gemm * dtype=f32 n=8 k=64"),
        rows: &[16],
        flags: sys::QUERN_TUNE_LIST_ONLY,
        ..Default::default()
    };
    let tuned = context.tune(listing)?;
    assert!(tuned[0].outcome == sys::QUERN_TUNE_ABSENT && tuned[0].rows == 16, "{tuned:?}");
    let all = TrimOptions { flags: sys::QUERN_TRIM_ALL, ..Default::default() };
    assert_eq!(context.cache_trim(&all)?.kept, 0);
    assert_eq!(context.faults().expect_err("the context is not checked").status, Status::Invalid);
    let flags = sys::QUERN_CONTEXT_CHECKED | sys::QUERN_CONTEXT_NO_CACHE;
    assert_eq!(Context::builder(Device::Host).flags(flags).open()?.faults()?, (Vec::new(), 0));
    Ok(())
}

fn main() -> quern::Result<()> {
    let folder = std::env::temp_dir().join(format!("quern-serving-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let bundle = folder.join("kernels.bundle").to_str().expect("a path in UTF-8").to_owned();
    let (secret, public) = quern::make_keys()?;
    assert_eq!(quern::public_key(&secret)?, public);
    let manifest = build(&folder, &bundle, &secret)?;
    serve(&bundle, &public, &manifest)?;
    // A bundle that none of the trusted keys has signed serves nothing.
    let missed = prepare::<f32>(&from(&bundle, &quern::make_keys()?.1)?).expect_err("another's bundle was used");
    assert_eq!(missed.status, Status::Miss, "{missed}");
    // The same bundle in another cache.
    let other = Context::builder(Device::None).cache_path(folder.join("other")).trusted_key(&public).open()?;
    assert!(other.cache_import(&bundle)? > 0);
    drop(other);
    scale(&folder)?;
    look_after(&folder)?;
    let refused = Context::builder(Device::Host).target("sm_90\0a").open().err().expect("a NUL was not refused");
    assert!(refused.text.starts_with("target: a NUL given at byte 5"), "{refused}");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    println!("serving: a signed bundle served, what it lacks was a miss");
    Ok(())
}
