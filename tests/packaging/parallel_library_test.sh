#!/usr/bin/env bash
# Checks that a built libtutti_parallel.so exports what its public headers declare, and no other symbols.
#   parallel_library_test.sh libtutti_parallel.so SOURCE_DIR
set -euo pipefail
library=$1
headers=("$2"/parallel/include/tutti/parallel/*.h)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

none() {  # none WHAT: fails if there are lines of input, and shows them
  sed 's/^/    /' >"$work/lines"
  if [ -s "$work/lines" ]; then
    echo "FAILED: $1:"
    cat "$work/lines"
    failures=$((failures + 1))
  else
    echo "ok: no $1"
  fi
}

# A mangled name of tutti::parallel goes on with the length and the name of a class or a function.
mangled='_Z(NK?|T[ISV]N)5tutti8parallel'
nm -D --defined-only "$library" | awk '{print $3}' >"$work/exported"
sed -nE "s/^$mangled([0-9]+)(.*)/\\2 \\3/p" "$work/exported" | awk '{print substr($2, 1, $1)}' | sort -u >"$work/names"
# In a declaration TUTTI_API precedes the name of a class, or the type of a function, whose name precedes a parenthesis.
sed 's,//.*,,' "${headers[@]}" | tr '\n' ' ' >"$work/code"
grep -oE '(class|struct) TUTTI_API [A-Za-z0-9_]+' "$work/code" | awk '{print $3}' >"$work/classes"
grep -oE 'TUTTI_API [^;({]*\(' "$work/code" | grep -oE '[A-Za-z0-9_]+\($' | tr -d '(' | sort -u >"$work/functions"
sort -u "$work/classes" "$work/functions" >"$work/declared"

none "export outside of tutti::parallel" < <(grep -vE "^${mangled}[0-9]" "$work/exported" | c++filt)
none "export that no public header declares" < <(comm -13 "$work/declared" "$work/names")
none "declared function that is not exported" < <(comm -23 "$work/functions" "$work/names")
exit $((failures > 0))
