// Warming, the record of what was specialised, the cache, and what is installed: the calls of quern.h that are no ops'.
// SPDX-License-Identifier: Apache-2.0

package quern

// #include "callbacks.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Short names: these stand in every call.
type (
	cContext = C.quern_context
	cError   = C.quern_error
	cList    = C.quern_list
)

// A call that takes a quern_error, and a place for what it tells.
type telling[Told any] func(context *cContext, held *holder, told *Told, failure *cError) C.int32_t

// asked makes a call whose struct is filled; its size is the first field.
func asked[Told any](c *Context, ask telling[Told]) (told Told, err error) {
	*(*uint32)(unsafe.Pointer(&told)) = uint32(unsafe.Sizeof(told))
	err = c.call(nil, func(held *holder, failure *cError) C.int32_t {
		return ask(c.handle, held, &told, failure)
	})
	return told, err
}

func counted(c *Context, ask telling[C.uint64_t]) (uint64, error) {
	var count C.uint64_t
	err := c.call(nil, func(held *holder, failure *cError) C.int32_t {
		return ask(c.handle, held, &count, failure)
	})
	return uint64(count), err
}

// listed makes a call that gives a list and reads that; where an error comes with results, both are returned.
func listed[Raw, Item any](c *Context, ask telling[*cList],
	item func(list *cList, index C.uint64_t, raw *Raw) C.int32_t, read func(*Raw) Item) ([]Item, error) {
	var list *cList
	err := c.call(nil, func(held *holder, failure *cError) C.int32_t {
		return ask(c.handle, held, &list, failure)
	})
	if list == nil {
		return nil, err
	}
	defer C.quern_list_free(list)
	items := make([]Item, 0, uint64(C.quern_list_count(list)))
	for i := 0; i < cap(items); i++ {
		var raw Raw
		*(*uint32)(unsafe.Pointer(&raw)) = uint32(unsafe.Sizeof(raw))
		if status := item(list, C.uint64_t(i), &raw); status != C.QUERN_OK {
			return items, &Error{Status: int(status), Text: fmt.Sprintf("item %d of a list cannot be read", i)}
		}
		items = append(items, read(&raw))
	}
	return items, err
}

func bytesOf(start unsafe.Pointer, size C.uint64_t) []byte {
	if start == nil {
		return nil // asked for by key alone
	}
	return append([]byte(nil), unsafe.Slice((*byte)(start), uint64(size))...)
}

// DeviceInfo says what the device is.
func (c *Context) DeviceInfo() (DeviceInfo, error) {
	told, err := asked(c, func(context *cContext, _ *holder, told *C.quern_device_info, failure *cError) C.int32_t {
		return C.quern_device(context, told, failure)
	})
	return newDeviceInfo(&told), err
}

// Stats counts kernels, hits, misses and compilations.
func (c *Context) Stats() (Stats, error) {
	told, err := asked(c, func(context *cContext, _ *holder, told *C.quern_stats, failure *cError) C.int32_t {
		return C.quern_get_stats(context, told, failure)
	})
	return newStats(&told), err
}

// CacheStats says where the cache is, what is in it and whether it serves.
func (c *Context) CacheStats() (CacheStats, error) {
	told, err := asked(c, func(context *cContext, _ *holder, told *C.quern_cache_stats, failure *cError) C.int32_t {
		return C.quern_cache_get_stats(context, told, failure)
	})
	return newCacheStats(&told), err
}

// Warm compiles and stores what of the manifest and the model is not in the cache or a bundle, without touching a
// device. Where some failed, or Progress cancelled, the error is Partial and the results there are come with it.
func (c *Context) Warm(options *WarmOptions) ([]WarmResult, error) {
	return listed(c, func(context *cContext, held *holder, list **cList, failure *cError) C.int32_t {
		given := options.raw(held)
		return C.quern_warm(context, given, list, failure)
	}, warmItem, newWarmResult)
}

// Load makes what Warm makes of the context's own target, as its miss policy has it, and loads it on the device, so
// that no call has to.
func (c *Context) Load(options *WarmOptions) ([]WarmResult, error) {
	return listed(c, func(context *cContext, held *holder, list **cList, failure *cError) C.int32_t {
		given := options.raw(held)
		return C.quern_load(context, given, list, failure)
	}, warmItem, newWarmResult)
}

func warmItem(list *cList, index C.uint64_t, raw *C.quern_warm_result) C.int32_t {
	return C.quern_list_warm_result(list, index, raw)
}

// Unload unloads the kernels of an op, or those whose key begins with prefix; "": all. None of them may be running, or
// be in a captured graph that is launched again. It returns how many they were.
func (c *Context) Unload(prefix string) (uint64, error) {
	return counted(c, func(context *cContext, held *holder, count *C.uint64_t, failure *cError) C.int32_t {
		text := held.text("prefix", prefix)
		return C.quern_unload(context, text, count, failure)
	})
}

// Wait waits until nothing is being compiled in the background, for at most so many milliseconds; false where something
// still is.
func (c *Context) Wait(milliseconds uint64) (bool, error) {
	err := c.call(nil, func(_ *holder, failure *cError) C.int32_t {
		return C.quern_wait(c.handle, C.uint64_t(milliseconds), failure)
	})
	var refused *Error
	if errors.As(err, &refused) && refused.Status == Pending {
		return false, nil
	}
	return err == nil, err
}

// Cancel drops the compilations in the background that have not begun, and says how many they were.
func (c *Context) Cancel() (uint64, error) {
	return counted(c, func(context *cContext, _ *holder, count *C.uint64_t, failure *cError) C.int32_t {
		return C.quern_cancel(context, count, failure)
	})
}

// Manifest is everything this context has specialised, as Warm and `quern warm` read it.
func (c *Context) Manifest() (string, error) {
	for room := C.uint64_t(1); ; {
		var text string
		length := room
		err := c.call(nil, func(held *holder, failure *cError) C.int32_t {
			buffer := (*C.char)(held.allocate(C.size_t(room)))
			status := C.quern_manifest(c.handle, buffer, &length, failure)
			text = C.GoString(buffer)
			return status
		})
		if err != nil || length < room {
			return text, err
		}
		room = length + 1
	}
}

// Tune measures on the context's device which kernels do matrix products fastest, and keeps them in the cache.
func (c *Context) Tune(options *TuneOptions) ([]TuneResult, error) {
	return listed(c, func(context *cContext, held *holder, list **cList, failure *cError) C.int32_t {
		given := options.raw(held)
		return C.quern_tune(context, given, list, failure)
	}, func(list *cList, index C.uint64_t, raw *C.quern_tune_result) C.int32_t {
		return C.quern_list_tune_result(list, index, raw)
	}, newTuneResult)
}

// Verify runs every cached kernel on the context's device and holds it against the `host` target's execution. Where one
// differs or failed the error is Damaged, and the results come with it.
func (c *Context) Verify(options *VerifyOptions) ([]VerifyResult, error) {
	return listed(c, func(context *cContext, held *holder, list **cList, failure *cError) C.int32_t {
		given := options.raw(held)
		return C.quern_verify(context, given, list, failure)
	}, func(list *cList, index C.uint64_t, raw *C.quern_verify_result) C.int32_t {
		return C.quern_list_verify_result(list, index, raw)
	}, newVerifyResult)
}

// CacheList is every entry whose key begins with prefix, or whose op or target equals it; "": all.
func (c *Context) CacheList(prefix string) ([]Entry, error) {
	return listed(c, func(context *cContext, held *holder, list **cList, failure *cError) C.int32_t {
		text := held.text("prefix", prefix)
		return C.quern_cache_list(context, text, list, failure)
	}, entryItem, newEntry)
}

// CacheInspect is the one entry whose key begins with key (at least 4 digits), image and all.
func (c *Context) CacheInspect(key string) (Entry, error) {
	entries, err := listed(c, func(context *cContext, held *holder, list **cList, failure *cError) C.int32_t {
		text := held.text("key", key)
		return C.quern_cache_inspect(context, text, list, failure)
	}, entryItem, newEntry)
	if err != nil {
		return Entry{}, err
	}
	return entries[0], nil
}

func entryItem(list *cList, index C.uint64_t, raw *C.quern_entry) C.int32_t {
	return C.quern_list_entry(list, index, raw)
}

// CacheVerify reads and checks every row and bundle. Where one does not verify the error is Damaged, and the findings
// come with it.
func (c *Context) CacheVerify() ([]Finding, error) {
	return findings(c, func(context *cContext, list **cList, failure *cError) C.int32_t {
		return C.quern_cache_verify(context, list, failure)
	})
}

// Doctor says what is here: drivers, devices, compilers, the helper, the cache.
func (c *Context) Doctor() ([]Finding, error) {
	return findings(c, func(context *cContext, list **cList, failure *cError) C.int32_t {
		return C.quern_doctor(context, list, failure)
	})
}

// Failures is every kernel that a compiler has refused in this context and not made since, with the compiler's log.
func (c *Context) Failures() ([]Finding, error) {
	return findings(c, func(context *cContext, list **cList, failure *cError) C.int32_t {
		return C.quern_failures(context, list, failure)
	})
}

func findings(c *Context, ask func(*cContext, **cList, *cError) C.int32_t) ([]Finding, error) {
	return listed(c, func(context *cContext, _ *holder, list **cList, failure *cError) C.int32_t {
		return ask(context, list, failure)
	}, func(list *cList, index C.uint64_t, raw *C.quern_finding) C.int32_t {
		return C.quern_list_finding(list, index, raw)
	}, newFinding)
}

// Faults is what calls of a checked context (ContextChecked) found wrong in their index tensors since this was asked
// last, the first of them, and how many there were in all.
func (c *Context) Faults() ([]IndexFault, uint64, error) {
	var total C.uint64_t
	faults, err := listed(c, func(context *cContext, _ *holder, list **cList, failure *cError) C.int32_t {
		return C.quern_faults(context, list, &total, failure)
	}, func(list *cList, index C.uint64_t, raw *C.quern_fault) C.int32_t {
		return C.quern_list_fault(list, index, raw)
	}, newIndexFault)
	return faults, uint64(total), err
}

// CacheTrim removes entries, least recently used first.
func (c *Context) CacheTrim(options TrimOptions) (TrimResult, error) {
	told, err := asked(c, func(context *cContext, held *holder, told *C.quern_trim_result, failure *cError) C.int32_t {
		return C.quern_cache_trim(context, options.raw(held), told, failure)
	})
	return newTrimResult(&told), err
}

// CacheExport writes the cache, or what prefix selects as in CacheList, as a bundle; path is absolute. It returns the
// number of entries.
func (c *Context) CacheExport(path, prefix string) (uint64, error) {
	return counted(c, func(context *cContext, held *holder, count *C.uint64_t, failure *cError) C.int32_t {
		file, selected := held.text("path", path), held.text("prefix", prefix)
		return C.quern_cache_export(context, file, selected, count, failure)
	})
}

// CacheImport adds a bundle's entries to the cache, all verified before the first is written, and says how many were
// not there.
func (c *Context) CacheImport(path string) (uint64, error) {
	return counted(c, func(context *cContext, held *holder, count *C.uint64_t, failure *cError) C.int32_t {
		file := held.text("path", path)
		return C.quern_cache_import(context, file, count, failure)
	})
}

const keyBytes = 65 // 64 digits and a NUL

// MakeKeys makes a secret key, for SignBundle, and its public one, for Options.TrustedKeys.
func MakeKeys() (secret, public string, err error) {
	var made [2][keyBytes]C.char
	failure := newError()
	err = checked(C.quern_keys_make(&made[0][0], &made[1][0], failure), failure)
	return C.GoString(&made[0][0]), C.GoString(&made[1][0]), err
}

// PublicKey is the public key of a secret one.
func PublicKey(secret string) (string, error) {
	var made [keyBytes]C.char
	err := withoutContext(func(held *holder, failure *cError) C.int32_t {
		return C.quern_keys_public(held.text("secret", secret), &made[0], failure)
	})
	return C.GoString(&made[0]), err
}

// SignBundle verifies a bundle and puts a signature over all of it behind those that it has.
func SignBundle(path, secret string) error {
	return withoutContext(func(held *holder, failure *cError) C.int32_t {
		return C.quern_bundle_sign(held.text("path", path), held.text("secret", secret), failure)
	})
}

// withoutContext makes a call that needs no context.
func withoutContext(run func(held *holder, failure *cError) C.int32_t) (err error) {
	var held holder
	defer held.free()
	defer told(&err)
	failure := newError()
	return checked(run(&held, failure), failure)
}
