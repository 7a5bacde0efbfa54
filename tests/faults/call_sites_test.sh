#!/usr/bin/env bash
# A message about two C programs names lines, functions or places in the program, by what the program's file tells.
#   call_sites_test.sh TUTTI WITH_DEBUG_INFORMATION WITHOUT STRIP
set -uo pipefail
tutti=$1 debug=$2 plain=$3 strip=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

# expect PROGRAM WORDS...: both ranks' messages contain them, as extended regular expressions.
expect() {
  local program=$1 words
  shift
  "$tutti" run -n 2 "$program" >"$folder/out" 2>&1 || { echo "$program failed:" && cat "$folder/out" && failures=1 && return; }
  for words in "$@"; do
    [ "$(grep -caE "$words" "$folder/out")" = 2 ] && continue
    echo "$program: two messages should say \"$words\":"
    cat "$folder/out"
    failures=1
  done
}

libraries=$(PATH=$PATH:/sbin ldconfig -p)
[[ $libraries == *libdw.so.1* ]] || { echo "skipped: libdw.so.1, which reads lines, is not here" && exit 77; }
expect "$debug" 'called all_reduce\(.*\)( as operation 1)? at call_sites\.c:10 in step' \
  'called all_gather\(.*\)( as operation 1)? at call_sites\.c:12 in step'
expect "$plain" "all_reduce\(.*\)( as operation 1)? at ${plain##*/}\+0x[0-9a-f]+ in step"
cp "$plain" "$folder/stripped"
"$strip" "$folder/stripped"
expect "$folder/stripped" 'all_reduce\(.*\)( as operation 1)? at stripped\+0x[0-9a-f]+(,|$)'
exit "$failures"
