# The steps of the kit, those of the most value first, in case the time runs out. Sourced by run.sh.
#
# A rehearsal takes the same steps with tiny sizes and few tests. A context takes a GPU up to a second, so tests with
# ranks in processes are few.

if [ -n "$rehearsal" ]; then
  counts="1 2" large=() sizes=(-b 8 -e 4K -f 512) copies=(-b 4K -e 64K -f 16) reduced=(-b 4K -e 4K) of_processes=(-b 8 -e 4K -f 512)
  graphed=(-b 8 -e 8) compared=(-b 8 -e 4K -f 512) finely=(-b 8 -e 4K -f 512) pace=(--cell-ms 1 --no-pin) repeats=1
else
  counts="2 8 4 1" large=(-b 256M -e 1G -f 4 -c 0) sizes=(-b 8 -e 32M -f 8) copies=(-b 1M -e 1G -f 4) reduced=(-b 1M -e 256M -f 256)
  of_processes=(-b 8 -e 64M -f 512) graphed=(-b 8 -e 1M -f 32) compared=(-b 8 -e 256M -f 32) finely=(-b 8 -e 256M -f 8)
  pace=(--cell-ms 30) repeats=3
fi

# A filter that matches nothing, or tests that find no GPU, are not a success.
gtest() { # FILTER
  "$tests" --gtest_filter="$1" --gtest_output="json:$result" || return
  grep -q '"result": "COMPLETED"' "$result" || { echo "no test ran: is there a GPU?" && return 1; }
}

# Runs a command with CUDA's multi-process service, which lets kernels of several processes run at the same time.
under_mps() { # COMMAND...
  command -v nvidia-cuda-mps-control >/dev/null || { echo "MPS is not installed"; return 77; }
  export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
  mkdir -p "$work/mps"
  nvidia-cuda-mps-control -d || { echo "MPS does not start here"; return 77; }
  # Also when the step's time is over: a daemon that stays would serve the steps behind this one.
  trap 'echo "quit -t 5" | nvidia-cuda-mps-control || true' EXIT
  "$@"
}

# Runs a command with the older library that the kit carries.
with_older() { # COMMAND...
  [ -d "$kit/older" ] || { echo "the kit has no older library"; return 77; }
  LD_LIBRARY_PATH=$kit/older:$LD_LIBRARY_PATH "$@"
}

# Runs a command when NCCL has been unpacked.
with_nccl() { # COMMAND...
  if [ ! -f "$nccl" ]; then
    gzip -dc "$kit/gpu_kit/libnccl.so.2.gz" >"$nccl.new" && mv "$nccl.new" "$nccl" || return
  fi
  "$@"
}

sanitizer() { # TOOL
  local program
  program=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { echo "compute-sanitizer is not installed"; return 77; }
  "$program" --tool "$1" --target-processes all --error-exitcode 1 \
    "$bench" all_reduce --memory device --ranks 2 -t 2 -b 8 -e 64K -f 8192 -n 2 -w 1 -T 100
}

probe() { # NAME
  [ -z "$rehearsal" ] || { echo "the fake GPU runs no kernel but Tutti's"; return 77; }
  "$kit/bin/gpu_$1"
}

# nvidia_libraries NAME: prints folders that have the library, of the system or of Python packages.
nvidia_libraries() {
  local file
  for file in /usr/lib/*/"$1"* /usr/local/cuda/lib64/"$1"* $(find / -xdev -path '*/nvidia/*' -name "$1*" 2>/dev/null || true); do
    [ ! -e "$file" ] || dirname "$file"
  done | sort -u
}

# Trains the language model on the device, with one rank and with several splits, beside one rank on the host.
train() {
  local programs=$kit/bin out
  [ -x "$programs/train_lm_cuda" ] || { echo "the kit has no train_lm_cuda"; return 77; }
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(nvidia_libraries libcublas.so | paste -sd:):$(nvidia_libraries libcudart.so | paste -sd:)
  export LD_LIBRARY_PATH
  "$programs/train_lm_cuda" --help >/dev/null 2>&1 || { echo "cuBLAS is not installed"; return 77; }
  out=$(mktemp -d)
  "$programs/train_lm_cuda" --steps 50 --losses "$out/one" &&
    "$programs/run.sh" 2 "$programs/train_lm_cuda" --steps 50 --tensor 2 --sequence-parallel --losses "$out/tp" &&
    "$programs/run.sh" 2 "$programs/train_lm_cuda" --steps 50 --losses "$out/dp" &&
    "$programs/run.sh" 2 "$programs/train_lm_cuda" --steps 50 --pipeline 2 --losses "$out/pp" &&
    "$programs/compare_losses.sh" "$kit/gpu_kit/host_losses" "$out"/{one,tp,dp,pp}
}
export -f gtest under_mps with_older with_nccl sanitizer probe nvidia_libraries train

# tested NAME LIMIT FILTER REHEARSED: tests, with a result for each. REHEARSED: the filter of a rehearsal.
tested() {
  local filter=$3
  [ -z "$rehearsal" ] || filter=$4
  step "$1" "$2" "$tests_sources" "${through[@]}" gtest "$filter"
}
measured() { # NAME LIMIT TUTTI-BENCH-ARGS
  local name=$1 limit=$2
  shift 2
  step "$name" "$limit" "$bench_sources" "${through[@]}" "$bench" "$@" --json "$result"
}
on_device() { # NAME LIMIT TUTTI-BENCH-ARGS
  measured "$@" --memory device --place out -T 60 --repeat "$repeats" "${pace[@]}"
}
through=() # a function that runs the commands

all_steps() {
  begin_with
  ((gpu_count == 1)) || on_several_gpus
  probes
  correct
  calibrate
  multi_process_service
  threads_on_one_gpu
  other_ways
  sanitize
  compare
  measure
}

# Does anything work at all?
begin_with() {
  group correct 300
  measured device 60 device "${copies[@]}" --cell-ms 20
  tested litmus 60 'DeviceLitmus.*' 'DeviceLitmus.*'
  tested smoke 60 "Device.GraphsReplay:*/DeviceCollectives.OfThreads/2_ranks_direct" Device.GraphsReplay
}

# These steps need several GPUs.
on_several_gpus() {
  local channels
  group several 120
  tested several 60 '*DeviceSeveral.*' '*DeviceSeveral.CommunicatorsOfAGroup*/0'
  tested nvls 60 'DeviceNvls.*:DeviceLines.OnTwoDevices' DeviceLines.OnTwoDevices
  for channels in 12 16; do
    [ -z "$rehearsal" ] || continue
    TUTTI_CHANNELS=$channels on_device "all_reduce_${gpu_count}_channels_$channels" 30 all_reduce --ranks "$gpu_count" -t "$gpu_count" -b 1G -e 1G -c 0
  done
}

# The hardware and its driver, without Tutti.
probes() {
  local name sources
  group probes 60
  for name in scheduling fences abilities limits; do
    sources=${name}_sources
    step "$name" 30 "${!sources}" probe "$name"
  done
}

correct() {
  local threads='*/DeviceCollectives.OfThreads' processes='*/DeviceCollectives.OfProcesses'
  local one_sided='Device.AWaitForASignal*:Device.AnAbortEndsAWait*:Device.OneSidedCalls*'
  group correct 300
  tested threads 120 "$threads/2_*:$threads/3_*chosen:$threads/4_*:$threads/1_*chosen" "$threads/2_ranks_direct"
  tested calls 90 'Device.EveryTypeAndOperator:Device.PeerMemory*:Device.AllToAll*:Device.RanksThat*:Device.Chunks*:Device.One*:Device.Messages*:Device.Windows:Device.Registered*' Device.OneThreadForAllRanks
  tested graphs 90 'Device.Graphs*:Device.LongGroups*' Device.LongGroupsAreCaptured
  TUTTI_TIMEOUT_MS=600000 tested faults 120 'Device.Refuses*:Device.Calls*:Device.Captured*:Device.Roots*:Device.ADead*:Device.ARank*:Device.Abort*:Device.References*:Device.RegisteredMemory*' Device.AbortEndsTheKernels
  tested processes 120 "$processes/2_*:$processes/3_*chosen:$processes/4_*two_shot" "$processes/2_ranks_direct"
  TUTTI_GPU_P2P=0 tested no_peer_access 90 "$threads/2_*:$threads/4_*chosen:$processes/2_*chosen" "$threads/2_ranks_direct"
  TUTTI_VIRTUAL_HOSTS=2 tested virtual_hosts 90 "$threads/2_*:$threads/4_*chosen:$processes/2_*chosen" "$threads/2_ranks_direct"
  tested protocols 120 'Device.Forced*:Device.Without*:DeviceLines.*:DeviceNvls.IsNotUsed*' Device.WithoutPeerAccess
  tested counters 120 'Device.CountsWrap' 'Device.NewShapesDoNotWait'
  tested tensors 90 '*/DeviceTensors.OfThreads/2*:Device.Tensor*' '*/DeviceTensors.OfThreads/2_ranks_direct'
  tested mapped 90 '*/DeviceMapped.*' '*/DeviceMapped.*/Processes1'
  tested one_sided 90 "*/DeviceOneSided.*:$one_sided" '*/DeviceOneSided.SignalsAreCounted/0'
  tested suspend 120 '*/DeviceSuspend.*:Device.ARankThatDiesSuspended*:Device.SuspendDoesNot*:Device.ResumeMay*' '*/DeviceSuspend.TheMemoryIsFree*/Processes1'
  tested many 120 '*/DeviceMany.*:Device.RanksWhoseTuners*:Device.ATuner*' '*/DeviceMany.WindowsComeAndGo/0'
  tested eight 120 "$threads/8_*chosen:$threads/8_*ring:$threads/8_*double*:$processes/8_*chosen" "$threads/2_ranks_ring"
}

# What a step through slots costs, for the constants of the cost model. Graphs leave the host's part out.
calibrate() {
  local ranks channels algorithm protocol slots shape
  group calibrate 120
  # Ranks and channels. All blocks of a launch must fit on the GPU.
  for shape in "2 1" "2 4" "2 16" "8 1" "8 4" "2 8" "2 2"; do
    read -r ranks channels <<<"$shape"
    for protocol in line inline bulk; do
      case $protocol in
        line) slots=(-b 8 -e 32K -f 64) ;;
        inline) slots=(-b 4K -e 1M -f 16) ;;
        bulk) slots=(-b 64K -e 64M -f 32) ;;
      esac
      [ -z "$rehearsal" ] || slots=("${graphed[@]}")
      for algorithm in ring direct two_shot; do
        [ -z "$rehearsal" ] || [ "$shape" = "2 1" ] || continue
        TUTTI_ZERO_COPY=0 TUTTI_ALGO=$algorithm TUTTI_PROTO=$protocol TUTTI_CHANNELS=$channels \
          on_device "slots_${algorithm}_${protocol}_${ranks}_channels_$channels" 20 all_reduce --ranks "$ranks" -t "$ranks" "${slots[@]}" --graph -c 0
      done
    done
  done
}

# Ranks in processes whose kernels run at the same time: the nearest to several GPUs.
multi_process_service() {
  local n through=(under_mps)
  group mps 120
  for n in 2 8; do
    [ -z "$rehearsal" ] || [ "$n" = 2 ] || continue
    tested "tests_$n" 60 "*/DeviceCollectives.OfProcesses/${n}_*chosen" '*/DeviceCollectives.OfProcesses/2_ranks_direct'
    on_device "all_reduce_${n}_processes" 40 all_reduce --ranks "$n" "${of_processes[@]}"
    on_device "all_to_all_${n}_processes" 40 all_to_all --ranks "$n" "${of_processes[@]}"
  done
}

# What a call of many threads costs, and that the kernels of so many ranks are resident together.
threads_on_one_gpu() {
  local n
  with_older_library() {
    local bench_sources="$bench_sources $older_sources" through=(with_older)
    on_device "$@"
  }
  group threads 90
  for n in 8 16 32 64; do
    [ -z "$rehearsal" ] || [ "$n" = 8 ] || continue
    on_device "all_reduce_$n" 30 all_reduce --ranks "$n" -t "$n" "${graphed[@]}"
    with_older_library "all_reduce_${n}_older" 30 all_reduce --ranks "$n" -t "$n" "${graphed[@]}"
  done
}

# How fast are GPUs that do not reach each other, and GPUs of several hosts?
other_ways() {
  local n collective
  group ways 90
  for collective in all_reduce all_to_all; do
    for n in 2 8; do
      [ -z "$rehearsal" ] || [ "$n" = 2 ] || continue
      TUTTI_GPU_P2P=0 on_device "no_peer_access_${collective}_$n" 30 "$collective" --ranks "$n" -t "$n" "${of_processes[@]}"
      TUTTI_VIRTUAL_HOSTS=2 on_device "virtual_hosts_${collective}_$n" 30 "$collective" --ranks "$n" -t "$n" "${of_processes[@]}"
    done
  done
}

sanitize() {
  local tool
  group sanitize 60
  for tool in racecheck synccheck memcheck; do TUTTI_ZERO_COPY=0 step "slots_$tool" 60 "$bench_sources" sanitizer "$tool"; done
  step memcheck 60 "$bench_sources" sanitizer memcheck
}

# Ranks that share a GPU are measured with fewer of NCCL's blocks than an H100 has multiprocessors (132): with NCCL's
# default, 8 ranks did not end (docs/notebook/gpu/tests.md).
beside_nccl() { # RANKS NAME LIMIT TUTTI-BENCH-ARGS
  local ranks_of_a_gpu=$((($1 + gpu_count - 1) / gpu_count))
  shift
  ((ranks_of_a_gpu == 1)) || local -x NCCL_MAX_CTAS=$((128 / ranks_of_a_gpu))
  on_device "$@" --vs nccl --nccl "$nccl"
}

compare() {
  local n collective bench_sources=$bench_sources through=(with_nccl)
  group compare 60
  local -x nccl=${NCCL:-$work/libnccl.so.2}
  # Tutti's own libnccl replaces NCCL in a rehearsal, to check that the comparison is made and recorded.
  [ -z "$rehearsal" ] || local -x TUTTI_BENCH_OWN_NCCL=1 TUTTI_NCCL_VERSION=2.30.0
  if [ -f "${NCCL:-$kit/gpu_kit/libnccl.so.2.gz}" ]; then
    [ -z "${NCCL:-}" ] || nccl_sources=$(sha256sum <"$NCCL" | cut -c1-16)
    bench_sources="$bench_sources $nccl_sources"
    beside_nccl 2 send_recv_2 30 send_recv --ranks 2 -t 2 "${compared[@]}"
    # More sizes than of the others: docs/gpu.md shows them.
    for n in $counts; do [ "$n" = 1 ] || beside_nccl "$n" "all_reduce_$n" 30 all_reduce --ranks "$n" -t "$n" "${finely[@]}"; done
    for n in 2 4 8; do
      [ -z "$rehearsal" ] || [ "$n" = 2 ] || continue
      ((n < 8 || gpu_count > 1)) || continue # nor did 8 ranks in a graph
      beside_nccl "$n" "graph_all_reduce_$n" 30 all_reduce --ranks "$n" -t "$n" "${graphed[@]}" --graph
    done
    for collective in all_gather reduce_scatter all_to_all; do
      for n in $counts; do
        [ "$n" = 1 ] || beside_nccl "$n" "${collective}_$n" 30 "$collective" --ranks "$n" -t "$n" "${compared[@]}"
      done
    done
    beside_nccl 2 all_reduce_2_processes 60 all_reduce --ranks 2 "${of_processes[@]}"
  else
    step nccl 5 "" bash -c 'echo "the kit has no NCCL, and NCCL=FILE names none"; exit 77'
  fi
  through=()
  step train_lm 120 "$models_sources" train
}

measure() {
  local n collective
  group measure 60
  measured device 90 device "${copies[@]}" --cell-ms 100
  on_device one_rank_copy 40 all_reduce --ranks 1 "${copies[@]}"
  for n in $counts; do
    [ "$n" != 1 ] && [ "$n" != 4 ] || continue
    TUTTI_ALGO=direct on_device "reduce_direct_$n" 30 reduce --ranks "$n" -t "$n" "${reduced[@]}"
    TUTTI_ALGO=direct on_device "reduce_scatter_direct_$n" 30 reduce_scatter --ranks "$n" -t "$n" "${reduced[@]}"
  done
  for n in $counts; do on_device "graph_all_reduce_$n" 30 all_reduce --ranks "$n" -t "$n" "${graphed[@]}" --graph; done
  for collective in all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv gather scatter; do
    for n in $counts; do
      [ "$n" != 1 ] || [ "$collective" = all_reduce ] || continue # one rank only copies
      on_device "${collective}_$n" 30 "$collective" --ranks "$n" -t "$n" "${sizes[@]}"
      [ ${#large[@]} -eq 0 ] || repeats=1 on_device "${collective}_${n}_large" 30 "$collective" --ranks "$n" -t "$n" "${large[@]}"
    done
  done
  # Without MPS these take turns.
  for n in 2 8; do
    [ -z "$rehearsal" ] || [ "$n" = 2 ] || continue
    on_device "all_reduce_${n}_processes" 40 all_reduce --ranks "$n" "${of_processes[@]}"
  done
}
