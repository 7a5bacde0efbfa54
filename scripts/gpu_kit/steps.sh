# The steps of the kit's calls, the most important first, in case the time runs out. Sourced by run.sh.
#
# A rehearsal takes the same steps with tiny sizes and few tests. A context takes a GPU up to a second, so tests with
# ranks in processes are few.

if [ -n "$rehearsal" ]; then
  counts="1 2" large=() sizes=(-b 8 -e 4K -f 512) copies=(-b 4K -e 64K -f 16) reduced=(-b 4K -e 4K) of_processes=(-b 8 -e 4K -f 512)
  graphed=(-b 8 -e 8) compared=(-b 8 -e 4K -f 512) pace=(--cell-ms 1 --no-pin) repeats=1
else
  counts="2 4 8 1" large=(-b 256M -e 1G -f 4 -c 0) sizes=(-b 8 -e 32M -f 8) copies=(-b 1M -e 1G -f 4) reduced=(-b 1M -e 256M -f 256)
  of_processes=(-b 8 -e 64M -f 512) graphed=(-b 8 -e 1M -f 32) compared=(-b 8 -e 256M -f 32) pace=(--cell-ms 30) repeats=3
fi

# A filter that matches nothing, or tests that find no GPU, are not a success.
gtest() { # FILTER
  "$tests" --gtest_filter="$1" --gtest_output="json:$result" || return
  grep -q '"result": "COMPLETED"' "$result" || { echo "no test ran: is there a GPU?" && return 1; }
}
export -f gtest

# tested NAME LIMIT FILTER REHEARSED [VARIABLE=VALUE...]: tests, with a result for each. REHEARSED: the filter of a
# rehearsal.
tested() {
  local name=$1 limit=$2 filter=$3
  [ -z "$rehearsal" ] || filter=$4
  shift 4
  step "$name" "$limit" env "$@" bash -c 'gtest "$0"' "$filter"
}
measured() { # NAME LIMIT TUTTI-BENCH-ARGS
  local name=$1 limit=$2
  shift 2
  step "$name" "$limit" "$bench" "$@" --json "$result"
}
on_device() { # NAME LIMIT TUTTI-BENCH-ARGS
  measured "$@" --memory device --place out -T 60 --repeat "$repeats" "${pace[@]}"
}

steps_of_correct() {
  local threads='*/DeviceCollectives.OfThreads' processes='*/DeviceCollectives.OfProcesses'
  measured device 60 device "${copies[@]}" --cell-ms 20
  tested litmus 60 'DeviceLitmus.*' 'DeviceLitmus.*'
  tested smoke 60 "Device.GraphsReplay:$threads/2_ranks_direct" Device.GraphsReplay
  tested threads 120 "$threads/2_*:$threads/3_*chosen:$threads/4_*:$threads/1_*chosen" "$threads/2_ranks_direct"
  tested calls 90 'Device.EveryTypeAndOperator:Device.PeerMemory*:Device.AllToAll*:Device.RanksThat*:Device.Chunks*:Device.One*:Device.Messages*:Device.Windows:Device.Registered*' Device.OneThreadForAllRanks
  tested graphs 90 'Device.Graphs*:Device.LongGroups*' Device.LongGroupsAreCaptured
  tested faults 120 'Device.Refuses*:Device.Calls*:Device.Captured*:Device.Roots*:Device.ADead*:Device.ARank*:Device.Abort*:Device.References*:Device.RegisteredMemory*' Device.AbortEndsTheKernels TUTTI_TIMEOUT_MS=600000
  tested processes 120 "$processes/2_*:$processes/3_*chosen:$processes/4_*two_shot" "$processes/2_ranks_direct"
  tested no_peer_access 90 "$threads/2_*:$threads/4_*chosen:$processes/2_*chosen" "$threads/2_ranks_direct" TUTTI_GPU_P2P=0
  tested virtual_hosts 90 "$threads/2_*:$threads/4_*chosen:$processes/2_*chosen" "$threads/2_ranks_direct" TUTTI_VIRTUAL_HOSTS=2
  tested protocols 120 'Device.Forced*:Device.Without*:DeviceLines.*:DeviceNvls.*' Device.WithoutPeerAccess
  tested counters 120 'Device.CountsWrap' 'Device.NewShapesDoNotWait'
  tested tensors 90 '*/DeviceTensors.OfThreads/2*:Device.Tensor*' '*/DeviceTensors.OfThreads/2_ranks_direct'
  local one_sided='Device.AWaitForASignal*:Device.AnAbortEndsAWait*:Device.OneSidedCalls*'
  tested mapped 90 '*/DeviceMapped.*' '*/DeviceMapped.*/Processes1'
  tested one_sided 90 "*/DeviceOneSided.*:$one_sided" '*/DeviceOneSided.SignalsAreCounted/0'
  tested suspend 120 '*/DeviceSuspend.*:Device.ARankThatDiesSuspended*:Device.SuspendDoesNot*:Device.ResumeMay*' '*/DeviceSuspend.TheMemoryIsFree*/Processes1'
  tested many 120 '*/DeviceMany.*:Device.RanksWhoseTuners*:Device.ATuner*' '*/DeviceMany.WindowsComeAndGo/0'
  tested eight 120 "$threads/8_*chosen:$threads/8_*ring:$threads/8_*double*:$processes/8_*chosen" "$threads/2_ranks_ring"
}

sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { echo "compute-sanitizer is not installed"; return 77; }
  "$tool" --target-processes all --error-exitcode 1 "$bench" all_reduce --memory device --ranks 2 -t 2 -b 8 -e 64K -f 8192 -n 2 -w 1 -T 100
}
export -f sanitizer

limits() {
  [ -z "$rehearsal" ] || { echo "the fake GPU runs no kernel but Tutti's"; return 77; }
  [ -x "$kit/bin/gpu_limits" ] || { echo "the kit has no gpu_limits"; return 77; }
  "$kit/bin/gpu_limits"
}
export -f limits

steps_of_measure() {
  local n collective
  measured device 90 device "${copies[@]}" --cell-ms 100
  step limits 60 bash -c limits
  on_device one_rank_copy 40 all_reduce --ranks 1 "${copies[@]}"
  for n in $counts; do
    [ "$n" != 1 ] && [ "$n" != 4 ] || continue
    TUTTI_ALGO=direct on_device "reduce_direct_$n" 30 reduce --ranks "$n" -t "$n" "${reduced[@]}"
    TUTTI_ALGO=direct on_device "reduce_scatter_direct_$n" 30 reduce_scatter --ranks "$n" -t "$n" "${reduced[@]}"
  done
  for n in $counts; do on_device "graph_all_reduce_$n" 30 all_reduce --ranks "$n" -t "$n" "${graphed[@]}" --graph; done
  for collective in all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv gather scatter; do
    for n in $counts; do
      [ "$n" != 1 ] || [ "$collective" = all_reduce ] || continue  # one rank only copies
      on_device "${collective}_$n" 30 "$collective" --ranks "$n" -t "$n" "${sizes[@]}"
      [ ${#large[@]} -eq 0 ] || repeats=1 on_device "${collective}_${n}_large" 30 "$collective" --ranks "$n" -t "$n" "${large[@]}"
    done
  done
  # More ranks than a node has GPUs: what a call costs, and that their kernels are resident together.
  for n in 16 32 64; do
    [ -z "$rehearsal" ] || continue
    on_device "all_reduce_$n" 60 all_reduce --ranks "$n" -t "$n" -b 8 -e 8M -f 128
  done
  for n in 2 8; do
    [ -z "$rehearsal" ] || [ "$n" = 2 ] || continue
    on_device "all_reduce_${n}_processes" 40 all_reduce --ranks "$n" "${of_processes[@]}"
  done
  step compute_sanitizer 90 bash -c sanitizer
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
export -f train nvidia_libraries

# One of NCCL's blocks occupies a multiprocessor, and the blocks of all ranks wait for each other: with NCCL's default
# number, 8 ranks of one H100 never end from 2 MiB on (NCCL 2.32.3). It has 132 multiprocessors.
beside_nccl() { # RANKS NAME LIMIT TUTTI-BENCH-ARGS
  local ranks=$1
  shift
  NCCL_MAX_CTAS=$((128 / ranks)) on_device "$@"
}

steps_of_compare() {
  local n collective nccl beside
  nccl=${NCCL:-$(nvidia_libraries libnccl.so.2 | sed q)/libnccl.so.2}
  # Tutti's own libnccl replaces NCCL in a rehearsal, to check that the comparison is made and recorded.
  [ -z "$rehearsal" ] || export TUTTI_BENCH_OWN_NCCL=1 TUTTI_NCCL_VERSION=2.30.0
  if [ -f "$nccl" ]; then
    beside=(--vs nccl --nccl "$nccl")
    for n in $counts; do
      [ "$n" = 1 ] || beside_nccl "$n" "graph_all_reduce_$n" 30 all_reduce --ranks "$n" -t "$n" "${graphed[@]}" --graph "${beside[@]}"
    done
    for collective in all_reduce all_gather reduce_scatter all_to_all; do
      for n in $counts; do
        [ "$n" = 1 ] || beside_nccl "$n" "${collective}_$n" 30 "$collective" --ranks "$n" -t "$n" "${compared[@]}" "${beside[@]}"
      done
    done
    on_device all_reduce_2_processes 60 all_reduce --ranks 2 "${of_processes[@]}" "${beside[@]}"
  else
    step nccl 5 bash -c 'echo "there is no libnccl.so.2; NCCL=FILE names one"; exit 77'
  fi
  step train_lm 120 bash -c train
}
