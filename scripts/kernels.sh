#!/usr/bin/env bash
# What the compiler made of the kernels: a row for every architecture of a build, as docs/gpu.md has them.
#
#   scripts/kernels.sh [BUILD_DIR]           default: build/release
#
# Registers and stack are what the cubins say. The rest is counted in a disassembly: 128-bit loads and stores of global
# memory in the reductions (but for packets, which are loaded and stored as atomics), and, in the innermost loops around
# them, loads and stores of local memory, which is where spilled registers go. Functions that have such are listed below
# the table.
#
#   NVDISASM   the disassembler, default: nvdisasm in PATH, or beside nvcc
#   PTXAS=1    also compiles each architecture anew with -Xptxas -v and prints what that says (a minute each)
# Exit status 1: a reduction has no 128-bit loads and stores in a loop, so something is no longer vectorised.
set -euo pipefail

[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//'; exit 0; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/release}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
disassembler=${NVDISASM:-$(command -v nvdisasm || echo "$(dirname "$nvcc")/nvdisasm")}
[[ -x $disassembler ]] || { echo "$0: no nvdisasm (it is part of the CUDA toolkit): put it into PATH or NVDISASM" >&2; exit 2; }
shopt -s nullglob
cubins=("$build"/kernels/kernels_sm_*.cubin)
[[ ${#cubins[@]} -gt 0 ]] || { echo "$0: $build/kernels has no cubin: build Tutti there, with nvcc" >&2; exit 2; }
mapfile -t cubins < <(printf '%s\n' "${cubins[@]}" | sort -V)

# Reads a disassembly, writes "registers stack reductions loads stores local_in_loops bare", then a line for each
# reduction with local memory in its loops.
read -r -d '' count <<'AWK' || true
function attribute(line) { sub(/.*\.word[ \t]+/, "", line); return line }
# Of the loops around instruction i, the smallest; 0: none.
function innermost(i,   l, best) {
  best = 0
  for (l = 1; l <= loops; ++l)
    if (from[l] <= i && i <= to[l] && (!best || to[l] - from[l] < to[best] - from[best])) best = l
  return best
}
function finish(   i, l, hot, local, in_loop) {
  if (name ~ /Reduction/ && name ~ /3Run/) {
    ++reductions
    in_loop = 0
    for (i = 1; i <= n; ++i) {
      if (op[i] ~ /STRONG/) continue  # packets: polled, and not what a reduction streams
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
  delete at
}
/nvinfo : EIATTR_/ { kind = $NF; subject = "" }
kind != "" && /index@/ { subject = $0; sub(/.*index@\(/, "", subject); sub(/\).*/, "", subject); next }
subject == "tutti_interpret" && /\.word/ {
  if (kind == "EIATTR_REGCOUNT") registers = attribute($0)
  if (kind == "EIATTR_FRAME_SIZE") stack = attribute($0)
  subject = ""
}
/\.type.*@function/ { finish(); name = $2; sub(/,@function/, "", name); kind = "" }
/^\.L_x_[0-9]+:/ { label = $1; sub(/:/, "", label); at[label] = n + 1 }
/^[ \t]*\/\*[0-9a-f]+\*\/[ \t]+[@A-Z]/ {
  op[++n] = $0
  if ($0 ~ /BRA/ && match($0, /\.L_x_[0-9]+/) && (target = substr($0, RSTART, RLENGTH)) in at) {
    from[++loops] = at[target]
    to[loops] = n
  }
}
END {
  finish()
  print registers, stack, reductions + 0, loads + 0, stores + 0, total + 0, bare + 0
  for (i = 1; i <= listed; ++i) print worst[i]
}
AWK

echo "| architecture | registers | stack (B) | reductions | 128-bit loads | 128-bit stores | local memory in their loops | cubin (KB) |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|"
status=0
notes=
for cubin in "${cubins[@]}"; do
  architecture=sm_${cubin##*sm_}
  mapfile -t found < <("$disassembler" "$cubin" | awk "$count")
  read -r registers stack reductions loads stores local bare <<<"${found[0]}"
  echo "| ${architecture%.cubin} | $((registers)) | $((stack)) | $reductions | $loads | $stores | $local | $(($(stat -c %s "$cubin") / 1000)) |"
  for line in "${found[@]:1}"; do
    notes+="${architecture%.cubin}: ${line%% *} in $(sed -E 's/.*\$(_Z)/\1/' <<<"${line#* }" | c++filt 2>/dev/null || echo "${line#* }")"$'\n'
  done
  if ((reductions == 0 || bare > 0)); then
    notes+="${architecture%.cubin}: $bare of $reductions reductions have no 128-bit loads or stores in a loop"$'\n'
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
      -cubin -o /dev/null "$root/executors/cuda/kernels.cu" 2>&1 | grep -A2 "for 'sm_" || true
  done
fi
exit "$status"
