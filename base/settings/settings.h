// The values of the environment variables that Tutti reads. The table in settings.cc gives the name, range and meaning of
// each; `tutti settings` and docs/settings.md are made from it. The defaults stand here. A
// setting is read once, at the first use of the library; a communicator copies the object when it is made, so nothing
// changes under a running operation. Where other software has a setting of the same meaning and format, its name is
// read if ours is not set.
//
// Thread-safety: GlobalSettings() is immutable after its first call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clocks/deadline.h"

namespace tutti {

struct Settings {
  // Ways to meet, and transports.
  std::string comm_id;
  std::string socket_ifname;
  std::string socket_family;
  int sockets = 0;
  std::string net;
  std::string net_plugin;
  int socket_speed = 0;
  std::string ib_hca;
  int ib_gid_index = -1;
  // 4.096 us * 2^18 is a second, and eight tries take some eight seconds (devices may take up to four times as long). A
  // switch may come back in that time; a dead host is dead after TUTTI_SILENCE_MS, which is of the same order. TCP
  // reports at once whether the peer's process lives.
  int ib_timeout = 18;
  int ib_retry = 7;
  int ib_sl = 0;
  int ib_tc = 0;
  std::string secret;
  std::string data_protection = "authenticate";
  bool allow_other_users = false;
  int init_timeout_ms = 120'000;
  int operation_timeout_ms = 600'000;
  int silence_ms = 30'000;

  // Plans. The ranks compare these at init (src/init/agreement.h).
  std::string algorithm;
  int channels = 0;
  int min_channels = 0;
  int max_channels = 0;
  long long chunk_bytes = 0;
  std::string protocol;
  bool check = false;
  bool deterministic = false;
  int virtual_nodes = 1;
  int virtual_hosts = 1;
  std::string measure = "1";
  bool measures() const { return measure != "0"; }
  // Rank 0's values apply.
  std::string calibration;
  std::string table;
  std::string program;

  // Local matters: most may differ between ranks.
  std::string topo_file;
  std::string topo_dump;
  int threads = 0;
  std::string cma;
  bool zero_copy = true;
  bool gpu = true;
  bool gpu_p2p = true;
  std::string gpudirect = "LOC";
  int pin_mib = 256;  // all rings of 16 ranks on two hosts, and those of seven channels of 64 ranks on eight
  bool hold = false;
  bool nvls = true;
  bool copy_engine = false;
  long long count_from = 0;
  long long stream_bytes = 0;
  long long slot_span = 0;
  std::string wait;
  int slice_us = 100;
  std::string debug;
  std::string trace;
  std::string dump;
  bool recorder = false;
  std::string nccl_version;

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
// All variables, in the order of the table.
std::vector<SettingDoc> SettingDocs();
// The value of SettingDocs()[index] as the text that would set it; of a secret, only whether there is one.
// REQUIRES: there is such an index.
std::string SettingText(const Settings& settings, std::size_t index);

}  // namespace tutti
