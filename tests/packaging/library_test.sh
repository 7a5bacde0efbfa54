#!/usr/bin/env bash
# Checks what users of a built libtutti.so rely on: a small size, its name, the public header's functions and no other
# symbols, few required libraries, no path of the build machine.
#   library_test.sh libtutti.so SOURCE_DIR
set -euo pipefail
library=$1
source_dir=$2
header=$source_dir/include/tutti/tutti.h
most_bytes=$((15 * 256 * 1024))          # stripped, without the kernels
most_kernel_bytes=$((20 * 1024 * 1024))  # for GPUs, in a separate section
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

check() {  # check WHAT COMMAND...
  local what=$1
  shift
  if "$@" >"$work/said" 2>&1; then
    echo "ok: $what"
  else
    echo "FAILED: $what"
    sed 's/^/    /' "$work/said"
    failures=$((failures + 1))
  fi
}

is_small() {
  strip -o "$work/stripped.so" "$library"
  local bytes kernels
  kernels=$((16#0$(readelf -SW "$library" | sed 's/^ *\[ *[0-9]*\]//' | awk '$1 == "tutti_kernels" {print $5}')))
  bytes=$(($(stat -c %s "$work/stripped.so") - kernels))
  echo "$bytes bytes stripped, at most $most_bytes; and $kernels of kernels, at most $most_kernel_bytes"
  [ "$bytes" -le "$most_bytes" ] && [ "$kernels" -le "$most_kernel_bytes" ]
}

exports_what_is_declared() {
  # A function's declaration begins with TUTTI_API, and its name is the first word before a parenthesis.
  cat "$header" "${header%/*}/extension.h" | tr '\n' ' ' | grep -oE 'TUTTI_API [^;(]*\(' | grep -oE 'tutti[A-Za-z]+\($' | tr -d '(' | sort >"$work/declared"
  nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@@.*//' | sort >"$work/exported"
  [ -s "$work/declared" ] || { echo "no declarations found in $header"; return 1; }
  echo "< declared in the headers, > exported by the library:"
  diff "$work/declared" "$work/exported"
}

versions_every_symbol() {
  nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /@@TUTTI_[0-9]+$/ {print; bad = 1} END {exit bad}'
}

has_soname() {
  local major
  major=$(sed -n 's/^#define TUTTI_MAJOR //p' "$header")
  objdump -p "$library" >"$work/headers"
  grep SONAME "$work/headers"
  grep -q "SONAME *libtutti.so.$major\$" "$work/headers"
}

needs_few_libraries() {
  # The library does not link MPI, UCX, verbs, CUDA or NVML, which are loaded at run time.
  objdump -p "$library" | awk '/NEEDED/ {print $2}' |
    grep -vE '^(libfmt|libsodium|libcrypto|libhwy|libhwloc|libpugixml|libstdc\+\+|libgcc_s|libm|libc|libpthread|libdl|librt|ld-linux[-a-z0-9_]*)\.so' >"$work/more" || true
  echo "also needs: $(tr '\n' ' ' <"$work/more")"
  [ ! -s "$work/more" ]
}

tells_no_paths() {
  ! grep -aF -m1 -o "$source_dir/" "$library"
}

has_no_executable_stack() {
  readelf -lW "$library" | grep GNU_STACK >"$work/stack"
  cat "$work/stack"
  ! grep -q RWE "$work/stack"
}

check "it is under 3.75 MB stripped, its kernels for GPUs under 20" is_small
check "it exports what the headers declare, and nothing else" exports_what_is_declared
check "every symbol has a version" versions_every_symbol
check "its soname has the major version" has_soname
check "it needs no optional library" needs_few_libraries
check "it holds no path of the source tree" tells_no_paths
check "its stack is not executable" has_no_executable_stack
exit $((failures > 0))
