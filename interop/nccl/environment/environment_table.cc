#include "interop/nccl/environment/environment_table.h"

#include <fmt/format.h>

#include <vector>

namespace tutti::nccl {
namespace {

constexpr Variable AsItIs(std::string_view name, std::string_view setting, std::string_view text = "as it is") {
  return {name, setting, text, false, true};
}

constexpr Variable kWithMeaning[] = {
    {"NCCL_DEBUG", "", "VERSION, WARN, INFO or TRACE, which says no more than INFO; any other word logs nothing"},
    {"NCCL_DEBUG_SUBSYS", "", "the subsystems that INFO logs; `^` in front: all but these"},
    {"NCCL_DEBUG_FILE", "", "the log goes there, not to stdout; `%h` is the host, `%p` the process"},
    {"NCCL_CONF_FILE", "", "read in the place of `~/.nccl.conf`; then `/etc/nccl.conf`"},
    {"NCCL_TUNER_PLUGIN", "", "a library that chooses among Tutti's plans"},
    {"NCCL_PROFILER_PLUGIN", "", "a library that gets the events of groups, collectives and messages"},
    {"NCCL_PROFILE_EVENT_MASK", "", "read by NCCL's plug-ins: the kinds of events"},
    AsItIs("NCCL_COMM_ID", "TUTTI_COMM_ID", "as it is; off loopback, `TUTTI_SECRET` must be set, too"),
    AsItIs("NCCL_SOCKET_IFNAME", "TUTTI_SOCKET_IFNAME"),
    {"NCCL_SOCKET_FAMILY", "TUTTI_SOCKET_FAMILY", "AF_INET: `inet`, AF_INET6: `inet6`"},
    {"NCCL_SOCKET_NTHREADS", "TUTTI_SOCKETS", "multiplied by NCCL_NSOCKS_PERTHREAD; at most 16"},
    {"NCCL_NSOCKS_PERTHREAD", "TUTTI_SOCKETS", "multiplied by NCCL_SOCKET_NTHREADS; at most 16"},
    {"NCCL_NET", "TUTTI_NET",
     "Socket: `tcp`, IB: `verbs`, UCX: `ucx`; others: `plugin`, but refused without NCCL_NET_PLUGIN"},
    {"NCCL_NET_PLUGIN", "TUTTI_NET_PLUGIN", "a library that moves data between hosts; none: nothing"},
    {"NCCL_IB_DISABLE", "TUTTI_NET", "1: `tcp`, unless NCCL_NET or NCCL_NET_PLUGIN is set"},
    AsItIs("NCCL_IB_HCA", "TUTTI_IB_HCA"),
    AsItIs("NCCL_IB_GID_INDEX", "TUTTI_IB_GID_INDEX"),
    AsItIs("NCCL_IB_TIMEOUT", "TUTTI_IB_TIMEOUT"),
    AsItIs("NCCL_IB_RETRY_CNT", "TUTTI_IB_RETRY"),
    AsItIs("NCCL_IB_SL", "TUTTI_IB_SL"),
    AsItIs("NCCL_IB_TC", "TUTTI_IB_TC"),
    {"NCCL_ALGO", "TUTTI_ALGO",
     "Ring: `ring`, Tree: `double_binary_tree` and `two_level_tree`, NVLS and NVLSTree: `nvls`, PAT: `recursive`, "
     "`recursive_doubling` and `bruck`; what has none of these forms is not restricted. Unknown words are refused, and "
     "so are CollnetDirect and CollnetChain alone"},
    {"NCCL_PROTO", "TUTTI_PROTO",
     "LL: `line`, LL128: `inline`, Simple: `bulk`; different ones for different functions are refused"},
    {"NCCL_MIN_NCHANNELS", "TUTTI_MIN_CHANNELS", "at most 32"},
    {"NCCL_MIN_CTAS", "TUTTI_MIN_CHANNELS", "the same, if NCCL_MIN_NCHANNELS is not set"},
    {"NCCL_MIN_NRINGS", "TUTTI_MIN_CHANNELS", "the same, if neither is set"},
    {"NCCL_MAX_NCHANNELS", "TUTTI_MAX_CHANNELS", "at most 1024"},
    {"NCCL_MAX_CTAS", "TUTTI_MAX_CHANNELS", "the same, if NCCL_MAX_NCHANNELS is not set"},
    {"NCCL_MAX_NRINGS", "TUTTI_MAX_CHANNELS", "the same, if neither is set"},
    {"NCCL_P2P_DISABLE", "TUTTI_GPU_P2P", "1: `0`"},
    {"NCCL_P2P_LEVEL", "TUTTI_GPU_P2P", "LOC or 0: `0`; other levels change nothing"},
    {"NCCL_NET_GDR_LEVEL", "TUTTI_GPUDIRECT",
     "LOC, PIX, PXB, PHB, SYS: the same; 0 to 4: these in turn, more: SYS; other levels change nothing. Where it is "
     "not set, NICs keep to host memory, unlike NCCL's"},
    {"NCCL_DMABUF_ENABLE", "TUTTI_GPUDIRECT", "0: `LOC`, whatever NCCL_NET_GDR_LEVEL is"},
    {"NCCL_P2P_DIRECT_DISABLE", "TUTTI_ZERO_COPY", "1: `0`"},
    {"NCCL_NVLS_ENABLE", "TUTTI_NVLS", "0: `0`"},
    {"NCCL_CTA_POLICY", "TUTTI_COPY_ENGINE", "2 (ZERO) and 3: `1`; 1 (EFFICIENCY) changes nothing"},
    AsItIs("NCCL_TOPO_FILE", "TUTTI_TOPO_FILE"),
    AsItIs("NCCL_TOPO_DUMP_FILE", "TUTTI_TOPO_DUMP_FILE"),
};

struct Ignored {
  std::string_view why;
  std::vector<std::string_view> names;
};

const std::vector<Ignored>& AllIgnored() {
  static const std::vector<Ignored> all = {
      {"ranks of a host always share memory, which takes no space in /dev/shm (TUTTI_VIRTUAL_HOSTS sends their data "
       "over the network)",
       {"NCCL_SHM_DISABLE", "NCCL_SHM_LOCALITY", "NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SHM_MEMCPY_MODE"}},
      {"Tutti finds its own rings and trees; TUTTI_PROGRAM names an algorithm's file",
       {"NCCL_GRAPH_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE_RANK", "NCCL_CROSS_NIC", "NCCL_NETDEVS_POLICY",
        "NCCL_RINGS", "NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL", "NCCL_PXN_C2C", "NCCL_NVB_DISABLE",
        "NCCL_NVB_PRECONNECT", "NCCL_PAT_ENABLE", "NCCL_TOPO_DUMP_FILE_RANK"}},
      {"the sizes of slots and chunks follow from the plan (TUTTI_CHUNK)",
       {"NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE", "NCCL_CHUNK_SIZE", "NCCL_P2P_NET_CHUNKSIZE",
        "NCCL_P2P_PCI_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_NVLS_CHUNKSIZE", "NCCL_NVLSTREE_MAX_CHUNKSIZE",
        "NCCL_P2P_LL_THRESHOLD", "NCCL_THREAD_THRESHOLDS"}},
      {"the number of threads and blocks follows from the plan",
       {"NCCL_NTHREADS", "NCCL_LL128_NTHREADS", "NCCL_CGA_CLUSTER_SIZE", "NCCL_NVLS_NCHANNELS",
        "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_NCHANNELS_PER_NET_PEER",
        "NCCL_UNPACK_DOUBLE_NCHANNELS", "NCCL_P2P_SCHEDULE_GROUP_SIZE", "NCCL_P2P_MAX_PEERS"}},
      {"there is no in-network reduction by CollNet", {"NCCL_COLLNET_ENABLE", "NCCL_COLLNET_NODE_THRESHOLD"}},
      {"these plug-ins are not loaded",
       {"NCCL_NET_PLUGIN_REF_COUNT", "NCCL_GIN_PLUGIN", "NCCL_RMA_PLUGIN", "NCCL_ENV_PLUGIN"}},
      {"the driver says whether NICs reach a GPU's memory, and whether that takes a flush",
       {"NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C", "NCCL_GDRCOPY_ENABLE", "NCCL_GDRCOPY_SYNC_ENABLE",
        "NCCL_GDRCOPY_FLUSH_ENABLE", "NCCL_GDRCOPY_FIFO_ENABLE", "NCCL_GDR_FLUSH_DISABLE", "NCCL_NET_FORCE_FLUSH",
        "NCCL_NET_DISABLE_INTRA"}},
      {"the network engine sets its queues up by itself",
       {"NCCL_IB_QPS_PER_CONNECTION",
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        "NCCL_IB_ADAPTIVE_ROUTING",
        "NCCL_IB_AR_THRESHOLD",
        "NCCL_IB_PCI_RELAXED_ORDERING",
        "NCCL_IB_MERGE_NICS",
        "NCCL_IB_MERGE_VFS",
        "NCCL_IB_ECE_ENABLE",
        "NCCL_IB_FIFO_TC",
        "NCCL_IB_PKEY",
        "NCCL_IB_USE_INLINE",
        "NCCL_IB_ROCE_VERSION_NUM",
        "NCCL_IB_ADDR_FAMILY",
        "NCCL_IB_ADDR_RANGE",
        "NCCL_IB_RETURN_ASYNC_EVENTS",
        "NCCL_IB_DATA_DIRECT",
        "NCCL_IB_CUDA_SUPPORT",
        "NCCL_IBVERBS_LIB",
        "NCCL_NET_OVERHEAD",
        "NCCL_NET_SHARED_BUFFERS",
        "NCCL_NET_SHARED_COMMS",
        "NCCL_NET_MERGE_LEVEL",
        "NCCL_NET_FORCE_MERGE",
        "NCCL_SOCKET_INLINE",
        "NCCL_SOCKET_MIN_TASKSIZE",
        "NCCL_SOCKET_RCVBUF",
        "NCCL_SOCKET_SNDBUF"}},
      {"ranks meet on the interfaces of NCCL_SOCKET_IFNAME, and TUTTI_INIT_TIMEOUT_MS bounds their wait",
       {"NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME", "NCCL_SOCKET_RETRY_CNT", "NCCL_SOCKET_RETRY_SLEEP_MSEC",
        "NCCL_SOCKET_POLL_TIMEOUT_MSEC", "NCCL_UID_STAGGER_RATE", "NCCL_UID_STAGGER_THRESHOLD",
        "NCCL_CONNECT_ROUND_MAX_PEERS", "NCCL_REPORT_CONNECT_PROGRESS", "NCCL_RUNTIME_CONNECT"}},
      {"Tutti finds out by itself which ranks share a host", {"NCCL_HOSTID"}},
      {"NVLink domains of several hosts are not used",
       {"NCCL_MNNVL_ENABLE", "NCCL_MNNVL_UUID", "NCCL_MNNVL_CLIQUE_ID", "NCCL_LSA_TEAM_SIZE"}},
      {"memory is registered and mapped by the calls that ask for it",
       {"NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE", "NCCL_LOCAL_REGISTER", "NCCL_GRAPH_REGISTER",
        "NCCL_LEGACY_CUDA_REGISTER", "NCCL_SINGLE_PROC_MEM_REG_ENABLE", "NCCL_WIN_ENABLE", "NCCL_WIN_STRIDE",
        "NCCL_P2P_READ_ENABLE", "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_SYM_CTAS", "NCCL_SYM_KERNEL"}},
      {"each call decides by its communicator's config",
       {"NCCL_COMM_BLOCKING", "NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_COMM_SHRINK_SHARE_RESOURCES"}},
      {"kernels are launched and captured in one way only",
       {"NCCL_LAUNCH_MODE", "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_LAUNCH_RACE_FATAL", "NCCL_GRAPH_MIXING_SUPPORT",
        "NCCL_GRAPH_HELPER_DISABLE", "NCCL_GRAPH_STREAM_ORDERING", "NCCL_GROUP_CUDA_STREAM", "NCCL_MEM_SYNC_DOMAIN",
        "NCCL_SET_STACK_SIZE", "NCCL_SET_CPU_STACK_SIZE", "NCCL_WORK_FIFO_BYTES", "NCCL_WORK_ARGS_BYTES",
        "NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE"}},
      {"arguments and the ranks' calls are always checked",
       {"NCCL_CHECK_POINTERS", "NCCL_CHECKS_DISABLE", "NCCL_CHECK_MODE", "NCCL_IGNORE_DISABLED_P2P",
        "NCCL_IGNORE_NET_MISMATCH", "NCCL_IGNORE_COLLNET_MISMATCH", "NCCL_ENABLE_VERSION_CHECK"}},
      {"Tutti's threads and their processors are its own (TUTTI_THREADS)",
       {"NCCL_IGNORE_CPU_AFFINITY", "NCCL_SET_THREAD_NAME", "NCCL_PROXY_CPUSET", "NCCL_PROGRESS_APPENDOP_FREQ",
        "NCCL_PROXY_APPEND_BATCH_SIZE", "NCCL_PROXY_DUMP_SIGNAL"}},
      {"log lines have no time stamp, and the level does not change",
       {"NCCL_DEBUG_TIMESTAMP_FORMAT", "NCCL_DEBUG_TIMESTAMP_LEVELS", "NCCL_WARN_ENABLE_DEBUG_INFO"}},
      {"faults are reported by the failure detector (TUTTI_DUMP)",
       {"NCCL_RAS_ENABLE", "NCCL_RAS_ADDR", "NCCL_RAS_TIMEOUT_FACTOR"}},
      {"there are no ranges for NVTX", {"NCCL_NVTX_DISABLE"}},
      {"several ranks may always share a GPU", {"NCCL_MULTI_RANK_GPU_ENABLE"}},
      {"one-sided operations are not done by the network",
       {"NCCL_GIN_ENABLE", "NCCL_GIN_TYPE", "NCCL_GIN_NCONNECTIONS", "NCCL_NUM_RMA_CTX", "NCCL_RMA_DISABLE"}},
      {"parameters are the settings of Tutti", {"NCCL_NO_CACHE", "NCCL_PARAM_DUMP_ALL"}},
  };
  return all;
}

}  // namespace

std::span<const Variable> KnownVariables() {
  static const auto all = [] {
    std::vector<Variable> variables(std::begin(kWithMeaning), std::end(kWithMeaning));
    for (const auto& [why, names] : AllIgnored()) {
      for (const auto name : names) variables.push_back({name, "", why, true});
    }
    return variables;
  }();
  return all;
}

std::string EnvironmentAsMarkdown() {
  std::string text = "| variable | setting | how |\n|---|---|---|\n";
  for (const auto& variable : kWithMeaning) {
    text += fmt::format("| `{}` | {} | {} |\n", variable.name,
                        variable.setting.empty() ? "" : fmt::format("`{}`", variable.setting), variable.text);
  }
  return text;
}

}  // namespace tutti::nccl
