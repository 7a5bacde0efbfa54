#!/usr/bin/env bash
# Checks what programs that load libnccl.so.2 rely on: it has the right name and exactly NCCL's symbols, only programs
# that name its directory find it, and it finds libtutti by itself.
#   library_test.sh libnccl.so.2 SOURCE_DIR BUILD_DIR
set -euo pipefail
library=$1
source_dir=$2
build=$3
functions=$source_dir/interop/nccl/functions.tsv
header=$source_dir/interop/nccl/nccl.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cut -f1 "$functions" | LC_ALL=C sort >"$work/functions"
expected=$work/functions
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

has_soname() { readelf -dW "$library" | grep 'SONAME.*\[libnccl\.so\.2\]'; }

# Exports every name as a function, the same name with a p in front for profilers, and nothing else.
exports_nccl() {
  sed 'p;s/^/p/' "$expected" | LC_ALL=C sort >"$work/wanted"
  readelf --dyn-syms -W "$library" | awk '$7 != "UND" && $5 == "GLOBAL" && $4 == "FUNC" {print $8}' |
    LC_ALL=C sort >"$work/exported"
  nm -D --defined-only "$library" | wc -l | grep -qx "$(wc -l <"$work/wanted")" || { echo "something else is exported"; nm -D --defined-only "$library"; return 1; }
  diff "$work/wanted" "$work/exported"
}

aliases_are_the_same() {
  [ "$(nm -D "$library" | awk '$3 == "ncclAllReduce" {print $1}')" = \
    "$(nm -D "$library" | awk '$3 == "pncclAllReduce" {print $1}')" ]
}

# Three functions have types without names in NVIDIA's header, beside which nccl.h must compile.
declares_what_it_exports() {
  cat "$header" "$source_dir/interop/nccl/one_sided/device_api_types.h" | tr '\n' ' ' | grep -oE 'TUTTI_NCCL_FUNCTION\([^,]*, nccl[A-Za-z0-9]+' | sed 's/.*, //' | LC_ALL=C sort >"$work/declared"
  diff "$expected" "$work/declared"
}

# docs/nccl.md has the table as it is made from functions.tsv.
is_documented() {
  "$source_dir/scripts/docs/nccl_functions.py" table >"$work/table"
  sed -n '/^<!-- made: nccl functions -->$/,/^<!-- end: nccl functions -->$/{/^<!-- /!p}' "$source_dir/docs/nccl.md" |
    diff "$work/table" -
}

# Compiles with the CUDA toolkit, if the compiler finds one by itself, and without it.
compiles_alone() {
  local cc=${CC:-cc} cxx=${CXX:-c++} warnings="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"
  local bare="-nostdinc -isystem $("$cc" -print-file-name=include) -isystem /usr/include"
  bare+=" -isystem /usr/include/$("$cc" -print-multiarch)"
  # shellcheck disable=SC2086  # both variables are several words
  for more in "" "$bare"; do
    "$cc" -x c -std=c99 $warnings $more "$header"
    "$cxx" -x c++ -std=c++11 $warnings $more "$header"
  done
}

# Installs the library, moves it, and loads it by name with only its directory in the search path.
is_found_where_it_is_installed() {
  cmake --install "$build" --prefix "$work/first" --component tutti
  cmake --install "$build" --prefix "$work/first" --component tutti_nccl
  mv "$work/first" "$work/prefix"
  local place
  place=$(find "$work/prefix" -path '*/tutti/nccl/libnccl.so.2')
  [ -n "$place" ] && [ -e "${place%.2}" ] && [ -f "$work/prefix/include/tutti/nccl/nccl.h" ]
  [ "$(find "$work/prefix" -name 'libnccl*' -not -path '*/tutti/nccl/*' | wc -l)" -eq 0 ]
  cat >"$work/client.c" <<'END'
#include <nccl.h>
int main(void) {
  int version = 0;
  return ncclGetVersion(&version) != ncclSuccess || version < NCCL_VERSION_CODE;
}
END
  "${CC:-cc}" -I"$work/prefix/include/tutti/nccl" "$work/client.c" -o "$work/client" -L"${place%/*}" -lnccl \
    -Wl,-rpath-link,"${place%/tutti/nccl/*}"
  LD_LIBRARY_PATH=${place%/*} "$work/client"
}

check "its soname is libnccl.so.2" has_soname
check "it exports NCCL's functions, their aliases, and nothing else" exports_nccl
check "an alias is the function itself" aliases_are_the_same
check "nccl.h declares what it exports" declares_what_it_exports
check "docs/nccl.md says what each function does" is_documented
check "nccl.h compiles alone as C99 and C++11" compiles_alone
check "installed, it is found by LD_LIBRARY_PATH alone, and finds libtutti" is_found_where_it_is_installed
exit $((failures > 0))
