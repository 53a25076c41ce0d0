//! Warming, the record of what was specialised, the cache, what is installed, keys.
// SPDX-License-Identifier: Apache-2.0
use crate::error::checked;
use crate::held::{c_text, listed, told, Held, Listed, Partial};
use crate::records::{
    CacheStats, DeviceInfo, Entry, Fault, Finding, Stats, TrimOptions, TrimResult, TuneOptions, TuneResult,
    VerifyOptions, VerifyResult, WarmOptions, WarmResult,
};
use crate::{Context, Error, Result, Status};
use quern_sys as sys;
use std::ffi::CStr;
use std::os::raw::c_char;

// Every call below: the context is open, and what it is given lives until the call is over.
impl Context {
    /// What the device is.
    pub fn device(&self) -> Result<DeviceInfo> {
        // SAFETY: as above.
        told(|made, error| unsafe { sys::quern_device(self.raw(), made, error) })
    }
    /// Counts of kernels, hits, misses and compilations.
    pub fn stats(&self) -> Result<Stats> {
        // SAFETY: as above.
        told(|made, error| unsafe { sys::quern_get_stats(self.raw(), made, error) })
    }
    /// Where the cache is, what is in it and whether it serves.
    pub fn cache_stats(&self) -> Result<CacheStats> {
        // SAFETY: as above.
        told(|made, error| unsafe { sys::quern_cache_get_stats(self.raw(), made, error) })
    }

    /// Compiles and stores what of the manifest and the model is not in the cache or a bundle, without touching a
    /// device. Where some failed, or `progress` cancelled by true, the results there are come with the error.
    pub fn warm(&self, options: WarmOptions<'_>) -> Listed<WarmResult> {
        let mut held = Held::default();
        let options = options.raw(&mut held)?;
        // SAFETY: as above.
        let outcome = listed(sys::quern_list_warm_result, |list, error| unsafe {
            sys::quern_warm(self.raw(), &options, list, error)
        });
        held.rethrow();
        outcome
    }
    /// Makes what `warm` makes of the context's own target, as its miss policy has it, and loads it on the device.
    pub fn load(&self, options: WarmOptions<'_>) -> Listed<WarmResult> {
        let mut held = Held::default();
        let options = options.raw(&mut held)?;
        // SAFETY: as above.
        let outcome = listed(sys::quern_list_warm_result, |list, error| unsafe {
            sys::quern_load(self.raw(), &options, list, error)
        });
        held.rethrow();
        outcome
    }
    /// Unloads the kernels of an op, or those whose key begins with `prefix`; None: all. Says how many they were.
    ///
    /// # Safety
    /// No call that launches one of them is in flight, on the device neither, and no captured graph that holds one is
    /// launched again.
    pub unsafe fn unload(&self, prefix: Option<&str>) -> Result<u64> {
        let mut held = Held::default();
        let (prefix, mut count) = (held.text("prefix", prefix)?, 0);
        // SAFETY: as above.
        checked(|error| unsafe { sys::quern_unload(self.raw(), prefix, &mut count, error) })?;
        Ok(count)
    }
    /// Waits until nothing is being compiled in the background, for at most so many milliseconds; false where something
    /// still is.
    pub fn wait(&self, milliseconds: u64) -> Result<bool> {
        // SAFETY: as above.
        match checked(|error| unsafe { sys::quern_wait(self.raw(), milliseconds, error) }) {
            Err(Error { status: Status::Pending, .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }
    /// Drops the compilations in the background that have not begun. Says how many they were.
    pub fn cancel(&self) -> Result<u64> {
        let mut count = 0;
        // SAFETY: as above.
        checked(|error| unsafe { sys::quern_cancel(self.raw(), &mut count, error) })?;
        Ok(count)
    }
    /// Everything this context has specialised, as `warm` and `quern warm` read it.
    pub fn manifest(&self) -> Result<String> {
        let mut room = vec![0u8; 1];
        loop {
            let mut length = room.len() as u64;
            // SAFETY: as above; the buffer is as long as it says.
            checked(|error| unsafe { sys::quern_manifest(self.raw(), room.as_mut_ptr().cast(), &mut length, error) })?;
            if length < room.len() as u64 {
                room.truncate(length as usize);
                return Ok(String::from_utf8_lossy(&room).into_owned());
            }
            room = vec![0; length as usize + 1];
        }
    }
    /// Measures on the context's device which kernels do matrix products fastest, and keeps them in the cache.
    pub fn tune(&self, options: TuneOptions<'_>) -> Listed<TuneResult> {
        let mut held = Held::default();
        let options = options.raw(&mut held)?;
        // SAFETY: as above.
        let outcome = listed(sys::quern_list_tune_result, |list, error| unsafe {
            sys::quern_tune(self.raw(), &options, list, error)
        });
        held.rethrow();
        outcome
    }
    /// Runs every cached kernel on the context's device and holds it against the `host` target's execution. Where one
    /// differs or failed, the results come with the error.
    pub fn verify(&self, options: VerifyOptions<'_>) -> Listed<VerifyResult> {
        let mut held = Held::default();
        let options = options.raw(&mut held)?;
        // SAFETY: as above.
        let outcome = listed(sys::quern_list_verify_result, |list, error| unsafe {
            sys::quern_verify(self.raw(), &options, list, error)
        });
        held.rethrow();
        outcome
    }
    /// Every entry whose key begins with `prefix`, or whose op or target equals it; None: all.
    pub fn cache_list(&self, prefix: Option<&str>) -> Result<Vec<Entry>> {
        let mut held = Held::default();
        let prefix = held.text("prefix", prefix)?;
        // SAFETY: as above.
        Ok(listed(sys::quern_list_entry, |list, error| unsafe {
            sys::quern_cache_list(self.raw(), prefix, list, error)
        })?)
    }
    /// The one entry whose key begins with `key` (at least 4 digits), image and all.
    pub fn cache_inspect(&self, key: &str) -> Result<Entry> {
        let mut held = Held::default();
        let key = held.text("key", Some(key))?;
        // SAFETY: as above.
        let mut entries: Vec<Entry> = listed(sys::quern_list_entry, |list, error| unsafe {
            sys::quern_cache_inspect(self.raw(), key, list, error)
        })?;
        Ok(entries.remove(0))
    }
    /// Reads and checks every row and bundle. Where one does not verify, the findings come with the error.
    pub fn cache_verify(&self) -> Listed<Finding> {
        // SAFETY: as above.
        listed(sys::quern_list_finding, |list, error| unsafe { sys::quern_cache_verify(self.raw(), list, error) })
    }
    /// What is here: drivers, devices, compilers, the helper, the cache.
    pub fn doctor(&self) -> Result<Vec<Finding>> {
        // SAFETY: as above.
        Ok(listed(sys::quern_list_finding, |list, error| unsafe { sys::quern_doctor(self.raw(), list, error) })?)
    }
    /// Every kernel that a compiler has refused in this context and not made since, with the compiler's log.
    pub fn failures(&self) -> Result<Vec<Finding>> {
        // SAFETY: as above.
        Ok(listed(sys::quern_list_finding, |list, error| unsafe { sys::quern_failures(self.raw(), list, error) })?)
    }
    /// What calls of a checked context found wrong in their index tensors since this was asked last, the first of them,
    /// and how many there were in all.
    pub fn faults(&self) -> Result<(Vec<Fault>, u64)> {
        let mut total = 0;
        // SAFETY: as above.
        let faults = listed(sys::quern_list_fault, |list, error| unsafe {
            sys::quern_faults(self.raw(), list, &mut total, error)
        });
        Ok((faults.map_err(|partial: Partial<Fault>| partial.error)?, total))
    }
    /// Removes entries, least recently used first.
    pub fn cache_trim(&self, options: &TrimOptions) -> Result<TrimResult> {
        let options = options.raw(&mut Held::default())?;
        // SAFETY: as above.
        told(|made, error| unsafe { sys::quern_cache_trim(self.raw(), &options, made, error) })
    }
    /// Writes the cache, or what `prefix` selects as in `cache_list`, as a bundle; the path is absolute. Says how many
    /// entries there are.
    pub fn cache_export(&self, path: &str, prefix: Option<&str>) -> Result<u64> {
        let mut held = Held::default();
        let (path, prefix, mut count) = (held.text("path", Some(path))?, held.text("prefix", prefix)?, 0);
        // SAFETY: as above.
        checked(|error| unsafe { sys::quern_cache_export(self.raw(), path, prefix, &mut count, error) })?;
        Ok(count)
    }
    /// Adds a bundle's entries to the cache, all verified before the first is written. Says how many were not there.
    pub fn cache_import(&self, path: &str) -> Result<u64> {
        let mut held = Held::default();
        let (path, mut count) = (held.text("path", Some(path))?, 0);
        // SAFETY: as above.
        checked(|error| unsafe { sys::quern_cache_import(self.raw(), path, &mut count, error) })?;
        Ok(count)
    }
}

const KEY_BYTES: usize = 65; // 64 digits and a NUL

fn key(from: &[c_char; KEY_BYTES]) -> String {
    // SAFETY: the library ends a key with a NUL.
    unsafe { CStr::from_ptr(from.as_ptr()) }.to_string_lossy().into_owned()
}

/// A secret key, for [`sign_bundle`], and its public one, for [`crate::Builder::trusted_key`].
pub fn make_keys() -> Result<(String, String)> {
    let (mut secret, mut public) = ([0; KEY_BYTES], [0; KEY_BYTES]);
    // SAFETY: both have room for a key.
    checked(|error| unsafe { sys::quern_keys_make(secret.as_mut_ptr(), public.as_mut_ptr(), error) })?;
    Ok((key(&secret), key(&public)))
}

/// The public key of a secret one.
pub fn public_key(secret: &str) -> Result<String> {
    let (secret, mut public) = (c_text("secret", secret)?, [0; KEY_BYTES]);
    // SAFETY: it has room for a key.
    checked(|error| unsafe { sys::quern_keys_public(secret.as_ptr(), public.as_mut_ptr(), error) })?;
    Ok(key(&public))
}

/// Verifies a bundle and puts a signature over all of it behind those that it has.
pub fn sign_bundle(path: &str, secret: &str) -> Result<()> {
    let (path, secret) = (c_text("path", path)?, c_text("secret", secret)?);
    // SAFETY: both are ended by a NUL.
    checked(|error| unsafe { sys::quern_bundle_sign(path.as_ptr(), secret.as_ptr(), error) })
}
