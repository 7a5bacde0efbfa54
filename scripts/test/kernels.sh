#!/usr/bin/env bash
# Inspects the compiled kernels and prints a table, with a row for every architecture of a build, as in
# docs/notebook/gpu/compiler.md.
#
#   scripts/test/kernels.sh [--fetch] [BUILD_DIR]     default: build/release
#     --fetch      where there is no disassembler, installs NVIDIA's from PyPI into the build
#
# Registers and stack come from the cubins. The other figures are counts in a disassembly: 128-bit loads and stores of
# global memory in the reductions (except packets and lines of 128 bytes, which are loaded and stored as atomics), and, in
# the innermost loops around them, loads and stores of local memory, where spilled registers go. Functions with spills in
# these loops are listed below the table.
#
# "Loads at once" counts the loads that each thread has in flight: the longest sequence of 128-bit loads in a loop
# before an instruction needs one of their results. If a function has several innermost loops, the lowest count applies.
# "40x8, 14x4" means 40 reductions with eight and 14 with four.
#
#   NVDISASM   the disassembler, default: nvdisasm in PATH, or next to nvcc
#   PTXAS=1    also compiles for each architecture with -Xptxas -v and prints the output (a minute each)
# Exit status 1: a limit below is not kept; or a reduction has no 128-bit loads and stores in a loop, so it is no longer
# vectorised; or it has local memory in its loops; or it or the copy has fewer loads at once than FEWEST_AT_ONCE. (Scaled
# or divided sums and fp8 may have fewer, because they compute more.) 2: there is no disassembler, or no cubin.
set -euo pipefail

[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//'; exit 0; }
root=$(cd "$(dirname "$0")/../.." && pwd)
fetch=
[[ ${1:-} != --fetch ]] || { fetch=yes && shift; }
build=${1:-$root/build/release}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
disassembler=${NVDISASM:-$(command -v nvdisasm || echo "$(dirname "$nvcc")/nvdisasm")}
if [[ ! -x $disassembler && -n $fetch ]]; then
  place=$build/nvdisasm
  [[ -d $place ]] || { python3 -m venv "$place" && "$place/bin/pip" install --quiet --disable-pip-version-check nvidia-cuda-nvdisasm; } >&2 || rm -rf "$place"
  disassembler=$(find "$place" -name nvdisasm -type f 2>/dev/null | head -n 1)
  [[ -z $disassembler ]] || chmod +x "$disassembler"
fi
[[ -x $disassembler ]] || { echo "$0: no nvdisasm (it is part of the CUDA toolkit): put it into PATH or NVDISASM" >&2; exit 2; }
shopt -s nullglob
cubins=("$build"/kernels/kernels_sm_*.cubin)
[[ ${#cubins[@]} -gt 0 ]] || { echo "$0: $build/kernels has no cubin: build Tutti there, with nvcc" >&2; exit 2; }
readonly FEWEST_AT_ONCE=4     # of 16 bytes by 512 threads: 32 KB in flight on a multiprocessor
readonly MOST_REGISTERS=128  # so that two blocks of 256 threads share a multiprocessor
readonly MOST_STACK=64       # bytes of a thread, of the interpreter alone
readonly MOST_KB=2800        # of one architecture's code, with 62 reductions
mapfile -t cubins < <(printf '%s\n' "${cubins[@]}" | sort -V)

# Reads a disassembly, writes "registers stack reductions loads stores local_in_loops bare few copy_at_once at_once",
# then a line for each reduction with local memory in its loops.
read -r -d '' count <<'AWK' || true
function attribute(line) { sub(/.*\.word[ \t]+/, "", line); return line }
# The smallest loop around instruction i, or 0 if there is none.
function innermost(i,   l, best) {
  best = 0
  for (l = 1; l <= loops; ++l)
    if (from[l] <= i && i <= to[l] && (!best || to[l] - from[l] < to[best] - from[best])) best = l
  return best
}
# Whether instruction i reads the result of a load in flight. (Its first operand is its destination.)
function needs(i,   text) {
  text = op[i]
  sub(/^[^,]*,/, "", text)
  while (match(text, /[^U]R[0-9]+/)) {
    if (substr(text, RSTART + 2, RLENGTH - 2) in coming) return 1
    text = substr(text, RSTART + RLENGTH)
  }
  return 0
}
# The longest run of 128-bit loads in each innermost loop that has any; returns the lowest of these.
function loads_at_once(   i, l, m, r, run, most, least, around) {
  for (i = 1; i <= n; ++i) {
    l = innermost(i)
    if (i in target_of || op[i] ~ /BRA|CALL|RET/ || needs(i)) { run = 0; split("", coming) }
    if (op[i] !~ /LDG\.E\.128/ || op[i] ~ /STRONG/ || !l) continue  # as below
    match(op[i], / R[0-9]+/)
    for (r = 0; r < 4; ++r) coming[substr(op[i], RSTART + 2, RLENGTH - 2) + r] = 1
    if (++run > most[l]) most[l] = run
  }
  split("", coming)
  least = 0
  for (l in most) {
    around = 0
    for (m in most) if (m != l && from[l] <= from[m] && to[m] <= to[l]) around = 1
    if (around) continue
    if (!least || most[l] < least) least = most[l]
  }
  return least
}
function finish(   i, l, hot, local, in_loop, once) {
  if (name ~ /4CopyI.*5DenseE/ && (copy_at_once = loads_at_once()) < fewest) ++few
  if (name ~ /Reduction/ && name ~ /3Run/) {
    ++reductions
    ++of_at_once[once = loads_at_once()]
    if (once < fewest && name !~ /Float8|Lb1EE3Run/) ++few
    in_loop = 0
    for (i = 1; i <= n; ++i) {
      if (op[i] ~ /STRONG/) continue  # packets: polled, not streamed
      if (op[i] ~ /LDG\.E\.128/) ++loads; else if (op[i] ~ /STG\.E\.128/) ++stores; else continue
      if (l = innermost(i)) { hot[l] = 1; ++in_loop }
    }
    local = 0
    for (i = 1; i <= n; ++i) if (op[i] ~ /(^|[ \t])(LDL|STL)/ && (innermost(i) in hot)) ++local
    if (local) worst[++listed] = local " " name
    if (!in_loop) ++bare
    total += local
  }
  n = loops = 0
  split("", at)
  split("", target_of)
}
/nvinfo : EIATTR_/ { kind = $NF; subject = "" }
kind != "" && /index@/ { subject = $0; sub(/.*index@\(/, "", subject); sub(/\).*/, "", subject); next }
subject == "tutti_interpret" && /\.word/ {
  if (kind == "EIATTR_REGCOUNT") registers = attribute($0)
  if (kind == "EIATTR_FRAME_SIZE") stack = attribute($0)
  subject = ""
}
/\.type.*@function/ { finish(); name = $2; sub(/,@function/, "", name); kind = "" }
/^\.L_x_[0-9]+:/ { label = $1; sub(/:/, "", label); at[label] = n + 1; target_of[n + 1] = 1 }
/^[ \t]*\/\*[0-9a-f]+\*\/[ \t]+[@A-Z]/ {
  op[++n] = $0
  if ($0 ~ /BRA/ && match($0, /\.L_x_[0-9]+/) && (target = substr($0, RSTART, RLENGTH)) in at) {
    from[++loops] = at[target]
    to[loops] = n
  }
}
END {
  finish()
  for (l = 256; l >= 0; --l) if (l in of_at_once) list = list (list == "" ? "" : ", ") of_at_once[l] "x" l
  print registers, stack, reductions + 0, loads + 0, stores + 0, total + 0, bare + 0, few + 0, copy_at_once + 0, list
  for (i = 1; i <= listed; ++i) print worst[i]
}
AWK

echo "| architecture | registers | stack (B) | reductions | 128-bit loads | 128-bit stores | loads at once | copy's | local memory in their loops | cubin (KB) |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
status=0
notes=
for cubin in "${cubins[@]}"; do
  architecture=sm_${cubin##*sm_}
  mapfile -t found < <("$disassembler" "$cubin" | awk -v fewest="$FEWEST_AT_ONCE" "$count")
  read -r registers stack reductions loads stores local bare few copy at_once <<<"${found[0]}"
  echo "| ${architecture%.cubin} | $((registers)) | $((stack)) | $reductions | $loads | $stores | $at_once | $copy | $local | $(($(stat -c %s "$cubin") / 1000)) |"
  for line in "${found[@]:1}"; do
    notes+="${architecture%.cubin}: ${line%% *} in $(sed -E 's/.*\$(_Z)/\1/' <<<"${line#* }" | c++filt 2>/dev/null || echo "${line#* }")"$'\n'
  done
  if ((reductions == 0 || bare > 0)); then
    notes+="${architecture%.cubin}: $bare of $reductions reductions have no 128-bit loads or stores in a loop"$'\n'
    status=1
  fi
  for limit in "registers registers $MOST_REGISTERS" "bytes_of_stack stack $MOST_STACK" "KB size $MOST_KB" "accesses_of_local_memory_in_loops local 0"; do
    read -r what which most <<<"$limit"
    case $which in
      registers) is=$((registers)) ;;
      stack) is=$((stack)) ;;
      size) is=$(($(stat -c %s "$cubin") / 1000)) ;;
      local) is=$local ;;
    esac
    ((is > most)) || continue
    notes+="${architecture%.cubin}: $is ${what//_/ }, but at most $most are allowed"$'\n'
    status=1
  done
  if ((few > 0)); then
    notes+="${architecture%.cubin}: $few loops have fewer than $FEWEST_AT_ONCE loads at once"$'\n'
    status=1
  fi
done
image=$build/kernels/kernels.fatbin
if [[ -f $image ]]; then
  echo
  echo "All of them and PTX, compressed, as the library carries them: $(($(stat -c %s "$image") / 1000)) KB."
fi
[[ -z $notes ]] || printf '\n```\n%s```\n' "$notes"

if [[ ${PTXAS:-0} == 1 ]]; then
  for cubin in "${cubins[@]}"; do
    architecture=sm_${cubin##*sm_}
    echo
    echo "${architecture%.cubin}: nvcc -Xptxas -v"
    "$nvcc" -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -I"$root" -I"$root/include" -Xptxas -v -arch="${architecture%.cubin}" \
      -cubin -o /dev/null "$root/executors/cuda/kernels/kernels.cu" 2>&1 | grep -A2 "for 'sm_" || true
  done
fi
exit "$status"
