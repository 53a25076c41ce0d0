#!/usr/bin/env bash
# Installs what `./dev package` made into bare Debian roots and uses it there: the Debian packages in Debian 11 (glibc
# 2.31), the wheel in Debian 12 with its Python. There is no compiler in either: kernels come from a bundle, made here.
#   bindings/packages/try_packages.sh FOLDER [KEEP]   as root; FOLDER has the packages. The roots are made in KEEP and stay
#                                                    there, or in a temporary folder that goes away
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
packages="$(realpath "${1:?the folder with the packages}")"
work="${2:-}"
if [[ -z "$work" ]]; then
  work="$(mktemp -d)"
  trap 'rm -rf "$work"' EXIT
fi
command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap >/dev/null

root() { # root SUITE [PACKAGES]: a bare one
  [[ -e "$work/$1/bin/sh" ]] || debootstrap --variant=minbase ${2:+"--include=$2"} "$1" "$work/$1" >"$work/$1.log"
}
within() { # within SUITE COMMAND...: with nothing of this machine's environment, and /proc, as every container has it
  # shellcheck disable=SC2016 # the inner shell's
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 unshare --mount sh -c \
    'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"' "$work/$1" "${@:2}"
}
say() { printf -- '-- %s\n' "$*"; }

# The kernels, by the packaged command itself, outside: a C++ compiler is here.
mkdir -p "$work/unpacked" "$work/cache"
for deb in "$packages"/*.deb; do dpkg-deb --extract "$deb" "$work/unpacked"; done
export LD_LIBRARY_PATH="$work/unpacked/usr/lib/x86_64-linux-gnu"
quern=("$work/unpacked/usr/bin/quern" --cache "$work/cache")
"${quern[@]}" bench rmsnorm rows=4 n=128 --device host --milliseconds 1 >/dev/null
"${quern[@]}" bench gemm m=4 n=64 k=64 --device host --milliseconds 1 >/dev/null
"${quern[@]}" export "$work/kernels.quern" >/dev/null
unset LD_LIBRARY_PATH

say "Debian packages in Debian 11"
root bullseye
mkdir -p "$work/bullseye/packages"
cp "$packages"/*.deb "$work/kernels.quern" "$work/bullseye/packages"
within bullseye sh -c 'dpkg --install /packages/*.deb >/dev/null'
within bullseye quern --version
within bullseye quern doctor | grep -E '^ok +(host driver|helper|cache)'
within bullseye quern bench rmsnorm rows=4 n=128 --device host --milliseconds 1 --bundle /packages/kernels.quern | grep '^ran: rmsnorm host'
within bullseye quern bench gemm m=4 n=64 k=64 --device host --milliseconds 1 --bundle /packages/kernels.quern | grep '^ran: gemm host'
within bullseye sh -c 'test -f /usr/include/quern.h && ldconfig -p | grep -q libquern.so.1 && test -s /usr/share/doc/quern/THIRD_PARTY_NOTICES.md'
within bullseye sh -c 'dpkg --remove quern libquern-dev libquern1 >/dev/null && ! test -e /usr/bin/quern'

say "the wheel in Debian 12"
root bookworm python3,python3-venv
mkdir -p "$work/bookworm/packages"
cp "$packages"/*.whl "$work/kernels.quern" "$work/bookworm/packages"
within bookworm sh -c 'python3 -m venv --clear /venv && /venv/bin/pip install --quiet --no-index /packages/*.whl'
within bookworm /venv/bin/quern --version
within bookworm /venv/bin/python -c '
import ctypes, quern
from quern.library import library
rows = (ctypes.c_float * 8)(*range(8))
with quern.Context("host", miss="cached_only", no_cache=True, bundles=["/packages/kernels.quern"]) as context:
    print(quern.__version__, library()._name, context.device.target)
    try:
        context.kernel("extern \"C\" __global__ void k() {}", "k")
    except quern.MissError as miss:
        print("a miss, as it was asked for:", str(miss)[:60])
'
within bookworm /venv/bin/quern bench rmsnorm rows=4 n=128 --device host --milliseconds 1 --bundle /packages/kernels.quern | grep '^ran: rmsnorm host'
say "all of it works"
