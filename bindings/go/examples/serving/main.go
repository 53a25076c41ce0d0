// How a fleet serves, on `host`: one machine warms a cache and makes a signed bundle of it; the others take kernels
// from that bundle alone and never compile. What they lack is a miss, told at once. And a kernel of one's own.
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"quern.dev/quern"
)

var host = quern.Device{Type: quern.DeviceHost}

func product(columns int64, dtype quern.DType) *quern.Gemm {
	tensor := func(rows, width int64) *quern.Tensor {
		return quern.Wrap(nil, dtype, []int64{rows, width}, nil, host)
	}
	return &quern.Gemm{A: tensor(4, 64), B: tensor(columns, 64), Out: tensor(4, columns)}
}

func must(good bool, format string, given ...any) {
	if !good {
		log.Fatalf(format, given...)
	}
}

func status(err error) int {
	var failure *quern.Error
	if errors.As(err, &failure) {
		return failure.Status
	}
	return quern.Ok
}

// build warms a cache, and makes a signed bundle of it. It returns what is in there, as a manifest.
func build(folder, bundle, secret string) (string, error) {
	var compiled, lines atomic.Int32
	context, err := quern.Open(quern.Options{
		Device: host, CachePath: filepath.Join(folder, "cache"), LogLevel: quern.LogDebug,
		Log: func(int32, string) { lines.Add(1) },
		Event: func(event quern.Event) {
			if event.Kind == quern.EventCompiled && event.Op == "gemm" {
				compiled.Add(1)
			}
		},
	})
	if err != nil {
		return "", err
	}
	defer context.Close()
	if err := context.Prepare(product(8, quern.DTypeOf[float32]())); err != nil {
		return "", err
	}
	manifest, err := context.Manifest()
	if err != nil {
		return "", err
	}
	must(strings.HasPrefix(manifest, "gemm host "), "the manifest is %q", manifest)
	must(compiled.Load() > 0, "no event told of a compilation")

	// Warming again finds all of it. A model is warmed in the same way; what progress returns can cancel.
	var seen []string
	results, err := context.Warm(&quern.WarmOptions{
		Manifest: manifest, Progress: func(done, total uint64, result quern.WarmResult) bool {
			seen = append(seen, result.Key)
			return false
		},
	})
	if err != nil {
		return "", err
	}
	must(len(results) > 0 && len(seen) == len(results), "%d results, %d told", len(results), len(seen))
	for _, result := range results {
		must(result.Outcome == quern.WarmHit && result.Op == "gemm", "warming again gave %+v", result)
	}
	model := quern.Model{
		HiddenSize: 512, IntermediateSize: 1024, Layers: 2, Heads: 8, KvHeads: 2, HeadDim: 64, VocabSize: 1000,
	}
	var needed uint64
	results, err = context.Warm(&quern.WarmOptions{
		Model: &model, Flags: quern.WarmListOnly | quern.WarmAllowUnserved, Targets: []string{"sm_90a"},
		Progress: func(done, total uint64, result quern.WarmResult) bool { needed = total; return done == 2 },
	})
	must(status(err) == quern.Partial && len(results) >= 2 && uint64(len(results)) < needed,
		"cancelled after 2: %v, %d results of %d", err, len(results), needed)
	// When it panics that cancels as well, and the panic goes on behind the call.
	func() {
		defer func() { must(recover() == "enough", "a panic was lost") }()
		context.Warm(&quern.WarmOptions{
			Manifest: manifest, Progress: func(uint64, uint64, quern.WarmResult) bool { panic("enough") },
		})
	}()

	verified, err := context.CacheVerify()
	must(err == nil && len(verified) > 0, "the cache does not verify: %v, %v", err, verified)
	entries, err := context.CacheList("gemm")
	must(err == nil && len(entries) == len(seen), "the cache has %d kernels, not %d: %v", len(entries), len(seen), err)
	entry, err := context.CacheInspect(entries[0].Key)
	whole := len(entry.Image) > 0 && uint64(len(entry.Image)) == entry.ImageSize
	must(err == nil && whole, "an image of %d bytes: %v", len(entry.Image), err)
	stats, err := context.CacheStats()
	must(err == nil && stats.State == quern.CacheReady && strings.HasPrefix(stats.Path, folder), "%+v: %v", stats, err)
	count, err := context.CacheExport(bundle, "")
	if err != nil {
		return "", err
	}
	must(count >= uint64(len(seen)), "%d kernels exported", count)
	must(lines.Load() > 0, "nothing was logged")
	return manifest, quern.SignBundle(bundle, secret)
}

// serve takes kernels from a signed bundle alone.
func serve(folder, bundle, trusted, manifest string) error {
	context, err := quern.Open(quern.Options{
		Device: host, MissPolicy: quern.MissCachedOnly, Flags: quern.ContextNoCache,
		Bundles: []string{bundle}, TrustedKeys: []string{trusted},
	})
	if err != nil {
		return err
	}
	defer context.Close()
	results, err := context.Load(&quern.WarmOptions{Manifest: manifest})
	if err != nil {
		return err
	}
	stats, err := context.Stats()
	if err != nil {
		return err
	}
	must(stats.CacheHits == uint64(len(results)) && stats.Compiled == 0, "loaded: %+v", stats)
	if err := context.Prepare(product(8, quern.DTypeOf[float32]())); err != nil {
		return err
	}
	err = context.Prepare(product(8, quern.DTypeOf[quern.BF16]()))
	must(status(err) == quern.Miss, "what the bundle lacks is a miss: %v", err)
	still, err := context.Wait(0)
	must(err == nil && still, "nothing is compiled in the background: %v, %v", still, err)
	dropped, err := context.Cancel()
	must(err == nil && dropped == 0, "%d dropped: %v", dropped, err)
	unloaded, err := context.Unload("gemm")
	must(err == nil && unloaded == uint64(len(results)), "%d unloaded: %v", unloaded, err)
	return nil
}

// scale is a kernel of the caller's own.
func scale(folder string) error {
	context, err := quern.Open(quern.Options{Device: host, CachePath: filepath.Join(folder, "cache")})
	if err != nil {
		return err
	}
	defer context.Close()
	kernel, err := context.Kernel(&quern.KernelDesc{
		Entry: "scale", Constants: map[string]string{"BY": "3.0f", "NOTHING": ""},
		Source: quern.Source{Name: "scale.cu", Text: `#include "quern/kernel.cuh"
QUERN_KERNEL(scale, 256, 1, float *x, int n) {
  const int i = q::block_index(0) * 256 + q::thread_index();
  if (i < n) x[i] *= BY NOTHING;
}
`},
	})
	if err != nil {
		return err
	}
	x, numbers := quern.New[float32](1000)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	info, err := kernel.Info()
	must(err == nil && len(info.Key) == 32, "%+v: %v", info, err)
	launch := quern.Launch{Grid: [3]uint32{4}, Block: [3]uint32{256}}
	if err := kernel.Launch(launch, x, int32(len(numbers))); err != nil {
		return err
	}
	must(numbers[1] == 3 && numbers[999] == 2997, "scaled to %v and %v", numbers[1], numbers[999])
	err = kernel.Launch(launch, x, "1000")
	must(status(err) == quern.Invalid && strings.Contains(err.Error(), "args[1]: a string given"), "%v", err)
	return nil
}

// lookAfter is what a fleet's cache is looked after with.
func lookAfter(folder string) error {
	context, err := quern.Open(quern.Options{Device: host, CachePath: filepath.Join(folder, "cache")})
	if err != nil {
		return err
	}
	defer context.Close()
	device, err := context.DeviceInfo()
	must(err == nil && device.Target == "host", "%+v: %v", device, err)
	here, err := context.Doctor()
	must(err == nil && len(here) > 0, "nothing is here: %v", err)
	failed, err := context.Failures()
	must(err == nil && len(failed) == 0, "%+v: %v", failed, err)
	// Every kernel is run, and held against double precision.
	verified, err := context.Verify(&quern.VerifyOptions{Prefix: "gemm", Seed: 7})
	must(err == nil && len(verified) > 0 && verified[0].Outcome == quern.VerifyAgrees, "%+v: %v", verified, err)
	tuned, err := context.Tune(&quern.TuneOptions{
		Manifest: "gemm * dtype=f32 n=8 k=64", Rows: []int64{16}, Flags: quern.TuneListOnly,
	})
	must(err == nil && tuned[0].Outcome == quern.TuneAbsent && tuned[0].Rows == 16, "%+v: %v", tuned, err)
	trimmed, err := context.CacheTrim(quern.TrimOptions{Flags: quern.TrimAll})
	must(err == nil && trimmed.Kept == 0, "%+v: %v", trimmed, err)
	_, _, err = context.Faults()
	must(status(err) == quern.Invalid, "faults of a context that is not checked: %v", err)
	checked, err := quern.Open(quern.Options{Device: host, Flags: quern.ContextChecked | quern.ContextNoCache})
	if err != nil {
		return err
	}
	defer checked.Close()
	faults, total, err := checked.Faults()
	must(err == nil && len(faults) == 0 && total == 0, "%+v: %v", faults, err)
	return nil
}

func main() {
	folder, err := os.MkdirTemp("", "quern-serving-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	bundle := filepath.Join(folder, "kernels.bundle")
	secret, public, err := quern.MakeKeys()
	if err != nil {
		log.Fatal(err)
	}
	again, err := quern.PublicKey(secret)
	must(err == nil && again == public, "the public key of the secret one is %q, not %q: %v", again, public, err)
	manifest, err := build(folder, bundle, secret)
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(folder, bundle, public, manifest); err != nil {
		log.Fatal(err)
	}

	// A bundle that none of the trusted keys has signed serves nothing.
	_, stranger, err := quern.MakeKeys()
	if err != nil {
		log.Fatal(err)
	}
	context, err := quern.Open(quern.Options{
		Device: host, MissPolicy: quern.MissCachedOnly, Flags: quern.ContextNoCache,
		Bundles: []string{bundle}, TrustedKeys: []string{stranger},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = context.Prepare(product(8, quern.DTypeOf[float32]()))
	context.Close()
	must(status(err) == quern.Miss, "a bundle of another key's was used: %v", err)

	// The same bundle in another cache.
	taking, err := quern.Open(quern.Options{CachePath: filepath.Join(folder, "other"), TrustedKeys: []string{public}})
	if err != nil {
		log.Fatal(err)
	}
	added, err := taking.CacheImport(bundle)
	taking.Close()
	must(err == nil && added > 0, "%d imported: %v", added, err)

	if err := scale(folder); err != nil {
		log.Fatal(err)
	}
	if err := lookAfter(folder); err != nil {
		log.Fatal(err)
	}
	_, err = quern.Open(quern.Options{Target: "sm_90\x00a"})
	must(status(err) == quern.Invalid && strings.Contains(err.Error(), "target: a NUL given at byte 5"), "%v", err)
	fmt.Println("serving: a signed bundle served, what it lacks was a miss")
}
