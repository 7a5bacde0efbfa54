// Every environment variable that Tutti reads, in one place. A setting is read once, at the first use of the library; a
// communicator copies the object when it is made, so nothing changes under a running operation. Where other software
// has a setting of the same meaning and format, its name is read if ours is not set.
//
// Thread-safety: GlobalSettings() is immutable after its first call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"

namespace tutti {

struct Settings {
  // Ways to meet.
  std::string comm_id;        // TUTTI_COMM_ID=host:port       fixed rendezvous address for tuttiGetUniqueId
  std::string socket_ifname;  // TUTTI_SOCKET_IFNAME           interfaces by prefix, "=" exact, "^" excluded; else
                              // NCCL_SOCKET_IFNAME's
  std::string socket_family;  // TUTTI_SOCKET_FAMILY           "inet", "inet6" or "" (any)
  int sockets = 0;  // TUTTI_SOCKETS                 TCP connections to each rank of another host; 0: one an interface
  std::string net;       // TUTTI_NET                     "tcp", "verbs", "ucx", "plugin" or "" (a named plug-in, else verbs where every rank can)
  std::string net_plugin;  // TUTTI_NET_PLUGIN            a net plug-in of NCCL: a path, or NAME of libnccl-net-NAME.so
  int socket_speed = 0;  // TUTTI_SOCKET_SPEED            Mbit/s of an interface; 0: what the system says
  std::string ib_hca;      // TUTTI_IB_HCA                  devices, as TUTTI_SOCKET_IFNAME: "mlx5", "=mlx5_0:1", "^..."
  int ib_gid_index = -1;   // TUTTI_IB_GID_INDEX            which address of the device's port; -1: chosen
  // 4.096 us * 2^18 is a second, and eight tries take some eight seconds (devices may take up to four times as long). A
  // switch may come back in that time; a dead host is dead after TUTTI_SILENCE_MS, which is of the same order. TCP
  // reports at once whether the peer's process lives.
  int ib_timeout = 18;     // TUTTI_IB_TIMEOUT              a device waits 4.096 us * 2^n for an acknowledgement
  int ib_retry = 7;        // TUTTI_IB_RETRY                and then retries this many times
  int ib_sl = 0;           // TUTTI_IB_SL                   service level, 0..15
  int ib_tc = 0;           // TUTTI_IB_TC                   traffic class, 0..255
  // TUTTI_SECRET: keys the handshake of jobs that meet by an address; required off loopback
  std::string secret;
  // TUTTI_DATA_PROTECTION of data between hosts over TCP: "none", "authenticate" or "encrypt" (also authenticates)
  std::string data_protection = "authenticate";
  bool allow_other_users = false;  // TUTTI_ALLOW_OTHER_USERS=1     ranks of one machine may belong to several users
  int init_timeout_ms = 120'000;  // TUTTI_INIT_TIMEOUT_MS       wait for all ranks to come; 0: for ever
  int operation_timeout_ms = 600'000;  // TUTTI_TIMEOUT_MS            an operation may stand still this long; 0: for ever

  int silence_ms = 30'000;  // TUTTI_SILENCE_MS            a host that does not answer for this long is dead

  // Plans. Compared at init: all ranks must agree.
  std::string algorithm;       // TUTTI_ALGO                    force: "ring", "all_reduce:ring,broadcast:direct"; or
                               // allow: "ring+direct", "^ring"
  int channels = 0;            // TUTTI_CHANNELS                parallel shares, 1..16; 0: chosen
  int min_channels = 0;        // TUTTI_MIN_CHANNELS            where they are chosen: at least this many; 0: any number
  int max_channels = 0;        // TUTTI_MAX_CHANNELS            and at most this many
  long long chunk_bytes = 0;   // TUTTI_CHUNK                   bytes of a block moved at a time; 0: chosen
  std::string protocol;        // TUTTI_PROTO                   "line", "inline", "bulk", "^line", ...; "": chosen
  bool check = false;          // TUTTI_CHECK=1                 a barrier behind calls that could miss a disagreement
  bool deterministic = false;  // TUTTI_DETERMINISTIC=1         results independent of size, channels and algorithm
  int virtual_nodes = 1;       // TUTTI_VIRTUAL_NODES           pretend that the ranks are on this many nodes
  int virtual_hosts = 1;       // TUTTI_VIRTUAL_HOSTS           connect the ranks as if they were on this many hosts
  // Rank 0's values apply.
  std::string
      calibration;    // TUTTI_CALIBRATION=path     what `tutti calibrate` wrote; "none": defaults; "": its default path
  std::string table;  // TUTTI_TABLE=path           which plan for which size, as `tutti explain --ranks N` prints
  std::string program;  // TUTTI_PROGRAM=path,path    algorithms from MSCCL XML files; else MSCCL_XML_FILES'

  // Local matters: may differ between ranks.
  std::string topo_file;  // TUTTI_TOPO_FILE=path          read this host's topology; else NCCL_TOPO_FILE's
  std::string topo_dump;  // TUTTI_TOPO_DUMP_FILE=path     write what is known; else NCCL_TOPO_DUMP_FILE's
  int threads = 1;        // TUTTI_THREADS                 host threads per rank that move data, 1..16
  std::string cma;        // TUTTI_CMA                     "on", "off" or "" (by price): read peers' plain memory where it lies
  bool zero_copy = true;  // TUTTI_ZERO_COPY=0             never read a peer's buffers in place
  bool gpu = true;        // TUTTI_GPU=0                   host memory only, whatever CUDA context a thread has
  bool gpu_p2p = true;    // TUTTI_GPU_P2P=0               GPUs exchange data through host memory only
  bool hold = false;      // TUTTI_HOLD=1                  a failed call on a GPU holds its stream until abort or destroy
  bool nvls = true;       // TUTTI_NVLS=0                  switches between GPUs neither add nor multiply data
  long long count_from = 0;  // TUTTI_COUNT_FROM           what GPUs' counts of slots and operations begin at
  long long stream_bytes = 0;  // TUTTI_STREAM_BYTES       larger results bypass the caches; 0: this machine's share of the last one
  long long slot_span = 0;  // TUTTI_SLOT_SPAN             bytes of slots over which a rank's data wander; 0: by the caches
  std::string wait;       // TUTTI_WAIT                    "spin", "yield", "sleep" or "" (adapts)
  int slice_us = 100;     // TUTTI_SLICE_US                slices to ask for where ranks outnumber cores; 0: none
  std::string debug;      // TUTTI_DEBUG                   subjects to log: init,select,transport,faults,all
  std::string trace;      // TUTTI_TRACE=path              write a timeline (%r: rank, %p: process) for a trace viewer
  std::string dump;       // TUTTI_DUMP=path               flight recorder goes here on failure (default: stderr)
  int recorder = 0;       // TUTTI_RECORDER=1              dump the flight recorder to stderr on failure
  std::string nccl_version;  // TUTTI_NCCL_VERSION=2.27.7     the version that interop/nccl reports

  Deadline::Milliseconds init_timeout() const { return LimitOf(init_timeout_ms); }
  Deadline::Milliseconds operation_timeout() const { return LimitOf(operation_timeout_ms); }

 private:
  static Deadline::Milliseconds LimitOf(int ms) { return ms == 0 ? Deadline::kLongest : Deadline::Milliseconds(ms); }
};

using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

// A setting's text, and the variable that it comes from.
struct Sourced {
  std::string text;
  std::string_view source;
};
using OtherLookup = std::function<std::optional<Sourced>(std::string_view name)>;

// Reads settings through `lookup`, and through `other` those that it lacks. Throws tuttiInvalidArgument naming the
// variable, its value and what is allowed.
Settings ReadSettings(const Lookup& lookup, const OtherLookup& other = {});

// A line for each former name of a setting that is set, for the user; empty if there is none.
std::string FormerNamesIn(const Lookup& lookup);

// The process's settings, from its environment. Throws as ReadSettings, at the first call and every later one. The
// first call prints FormerNamesIn() to stderr.
const Settings& GlobalSettings();

struct SettingDoc {
  std::string_view name;
  std::string allowed;
  std::string_view meaning;
};
// For `tutti settings`-style listings and docs.
std::vector<SettingDoc> SettingDocs();
// The value of SettingDocs()[index] as the text that would set it; of a secret, only whether there is one.
// REQUIRES: there is such an index.
std::string SettingText(const Settings& settings, std::size_t index);

}  // namespace tutti
