#include "base/settings/settings.h"

#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <variant>

#include "base/error.h"
#include "base/extension.h"
#include "base/list_items.h"
#include "base/log.h"
#include "base/plain_text.h"
#include "base/settings/nearest_name.h"
#include "base/settings/told_once.h"
#include "base/settings/unknown_settings.h"
#include "base/threads/made_once.h"

extern char** environ;

namespace tutti {
namespace {

using Field = std::variant<std::string Settings::*, int Settings::*, long long Settings::*, bool Settings::*>;

struct Variable {
  std::string_view name;
  Field field;
  std::string_view meaning;
  std::vector<std::string_view> words = {};  // those allowed; empty: any text
  bool several = false;                      // of these words, separated by commas
  long long low = 0;                         // inclusive; numbers only
  long long high = 0;
};

// The kinds of rows of the table below.
Variable Text(std::string_view name, std::string Settings::*field, std::string_view meaning) {
  return {.name = name, .field = field, .meaning = meaning};
}
Variable Word(std::string_view name, std::string Settings::*field, std::vector<std::string_view> words,
              std::string_view meaning) {
  return {.name = name, .field = field, .meaning = meaning, .words = std::move(words)};
}
Variable Words(std::string_view name, std::string Settings::*field, std::vector<std::string_view> words,
               std::string_view meaning) {
  return {.name = name, .field = field, .meaning = meaning, .words = std::move(words), .several = true};
}
template <typename Integer>
Variable Number(std::string_view name, Integer Settings::*field, long long low, long long high,
                std::string_view meaning) {
  return {.name = name, .field = field, .meaning = meaning, .low = low, .high = high};
}
Variable Flag(std::string_view name, bool Settings::*field, std::string_view meaning) {
  return Number(name, field, 0, 1, meaning);
}

std::vector<std::string_view> LoggedSubjects() {
  std::vector<std::string_view> names(kSubjectNames.begin(), kSubjectNames.end());
  names.push_back(kAllSubjects);
  return names;
}

constexpr long long kDayMs = 24LL * 3600 * 1000;

// Every variable: its name, its field, what it takes and what it means. Its default is the field's.
const std::vector<Variable>& Variables() {
  static constinit MadeOnce<const std::vector<Variable>> table;
  return table.Get([] {
    return std::make_unique<const std::vector<Variable>>(std::initializer_list<Variable>{
        Text("TUTTI_COMM_ID", &Settings::comm_id, "host:port of a fixed rendezvous for tuttiGetUniqueId"),
        Text("TUTTI_SOCKET_IFNAME", &Settings::socket_ifname,
             "network interfaces to use: name prefixes; a leading '=' means exact names, '^' means all but these"),
        Word("TUTTI_SOCKET_FAMILY", &Settings::socket_family, {"", "inet", "inet6"},
             "address family of the rendezvous"),
        Word("TUTTI_NET", &Settings::net, {"", "tcp", "verbs", "ucx", "plugin"},
             "transport between hosts; empty: the net plug-in if one is named, verbs if every rank can use it, else "
             "tcp; same on all ranks"),
        Text("TUTTI_NET_PLUGIN", &Settings::net_plugin,
             "net plug-in of NCCL that moves data between hosts: its file, or NAME of libnccl-net-NAME.so; same on all "
             "ranks"),
        Number("TUTTI_SOCKETS", &Settings::sockets, 0, 16,
               "TCP connections to each rank of another host; 0: one per interface"),
        Number("TUTTI_SOCKET_SPEED", &Settings::socket_speed, 0, 1'000'000,
               "bandwidth between hosts in Mbit/s per interface; 0: as the system reports; rank 0's value is used"),
        Text("TUTTI_IB_HCA", &Settings::ib_hca,
             "RDMA devices that may be used: prefixes of mlx5_0 or mlx5_0:1; Tutti takes the fastest and nearest; a "
             "leading "
             "'=' means exact names, used in their order, '^' means all but these; empty: any"),
        Number("TUTTI_IB_GID_INDEX", &Settings::ib_gid_index, -1, 255,
               "index of the RDMA port's address (GID); -1: RoCE v2 over IPv4 if there is one"),
        Number("TUTTI_IB_TIMEOUT", &Settings::ib_timeout, 1, 31,
               "exponent n of the RDMA acknowledgement timeout, 4.096 us * 2^n"),
        Number("TUTTI_IB_RETRY", &Settings::ib_retry, 0, 7,
               "number of times that an RDMA device resends unacknowledged data"),
        Number("TUTTI_IB_SL", &Settings::ib_sl, 0, 15, "service level of RDMA traffic"),
        Number("TUTTI_IB_TC", &Settings::ib_tc, 0, 255, "traffic class of RDMA traffic"),
        Text("TUTTI_SECRET", &Settings::secret,
             "shared secret of a job whose ranks meet at an address; required unless that address is loopback"),
        Word("TUTTI_DATA_PROTECTION", &Settings::data_protection, {"none", "authenticate", "encrypt"},
             "protection of data sent between hosts over TCP; same on all ranks"),
        Flag("TUTTI_ALLOW_OTHER_USERS", &Settings::allow_other_users,
             "1: ranks on one machine may belong to different users"),
        Number("TUTTI_INIT_TIMEOUT_MS", &Settings::init_timeout_ms, 0, kDayMs,
               "time that init waits for all ranks; 0: for ever"),
        Number("TUTTI_TIMEOUT_MS", &Settings::operation_timeout_ms, 0, kDayMs,
               "time without progress after which an operation fails; 0: never"),
        Number("TUTTI_SILENCE_MS", &Settings::silence_ms, 1000, kDayMs,
               "time without any answer after which a host counts as dead"),
        Text("TUTTI_ALGO", &Settings::algorithm,
             "algorithms to force: ring or all_reduce:ring,...; or to choose among: ring+direct; or to leave out: "
             "^ring; same on all ranks"),
        Number("TUTTI_CHANNELS", &Settings::channels, 0, 32,
               "number of channels of a collective, or of a message between GPUs; 0: chosen automatically; same on all "
               "ranks"),
        Number("TUTTI_MIN_CHANNELS", &Settings::min_channels, 0, 32,
               "the least number of channels where it is chosen automatically; 0: any; same on all ranks"),
        Number("TUTTI_MAX_CHANNELS", &Settings::max_channels, 0, 1024,
               "the greatest number of channels where it is chosen automatically; 0: any; same on all ranks"),
        Number("TUTTI_CHUNK", &Settings::chunk_bytes, 0, 1LL << 30,
               "bytes of a block that are moved at a time; 0: chosen automatically; same on all ranks"),
        Word("TUTTI_PROTO", &Settings::protocol, {"", "line", "inline", "bulk", "^line", "^inline", "^bulk"},
             "protocol to force, or with '^' to leave out; same on all ranks"),
        Number("TUTTI_VIRTUAL_NODES", &Settings::virtual_nodes, 1, 1024,
               "choose algorithms as if the ranks were on this many nodes; same on all ranks"),
        Number("TUTTI_VIRTUAL_HOSTS", &Settings::virtual_hosts, 1, 1024,
               "connect the ranks as if they were on this many hosts; same on all ranks"),
        Word("TUTTI_MEASURE", &Settings::measure, {"1", "0", "all"},
             "between hosts. 1: measure what messages cost when ranks meet, and try plans of repeated calls whose "
             "results do not depend on them; all: of all calls; 0: measure nothing; same on all ranks"),
        Text("TUTTI_CALIBRATION", &Settings::calibration,
             "file written by `tutti calibrate`; none: built-in defaults; empty: the default location; rank 0's value "
             "is used"),
        Text("TUTTI_TABLE", &Settings::table, "file with a selection table; rank 0's value is used"),
        Text("TUTTI_PROGRAM", &Settings::program,
             "MSCCL XML files with programs to run, at most one per collective, separated by commas; rank 0's value is "
             "used"),
        Flag("TUTTI_CHECK", &Settings::check,
             "1: rooted calls, and others that may otherwise return early, return only when all ranks have made the "
             "same call; same on all ranks"),
        Flag("TUTTI_DETERMINISTIC", &Settings::deterministic,
             "1: results do not depend on size and algorithm; same on all ranks"),
        Text("TUTTI_TOPO_FILE", &Settings::topo_file, "topology XML of this host; replaces or completes detection"),
        Text("TUTTI_TOPO_DUMP_FILE", &Settings::topo_dump, "file to which the topology XML of this host is written"),
        Number(
            "TUTTI_THREADS", &Settings::threads, 0, 16,
            "host threads per rank that move data; 0: chosen automatically, from the cores that ranks leave idle and "
            "OMP_NUM_THREADS"),
        Word("TUTTI_CMA", &Settings::cma, {"", "on", "off", "1", "0"},
             "whether ranks read each other's ordinary memory with process_vm_readv; empty: where the cost model finds "
             "it faster; 1 and 0: on and off"),
        Flag("TUTTI_ZERO_COPY", &Settings::zero_copy,
             "0: never read a peer's buffers directly, nor receive from another host into the caller's"),
        Flag("TUTTI_GPU", &Settings::gpu,
             "0: host memory only, even if a thread has a CUDA context; same on all ranks"),
        Flag("TUTTI_GPU_P2P", &Settings::gpu_p2p,
             "0: GPUs exchange all data through host memory, even ranks that share one"),
        Word("TUTTI_GPUDIRECT", &Settings::gpudirect, {"LOC", "PIX", "PXB", "PHB", "SYS"},
             "how far a GPU's NICs may be (words of `nvidia-smi topo -m`) that read and write its memory themselves "
             "(GPUDirect RDMA, which has never run on a real GPU or NIC); LOC: never; SYS: at any distance, also an "
             "unknown one"),
        Number(
            "TUTTI_PIN_MIB", &Settings::pin_mib, 0, 1 << 20,
            "MiB of the slots between hosts that a communicator of GPUs pins when it is made (with GPUDirect, takes of "
            "the GPU's memory); a call that needs more does that then, and may wait for running kernels"),
        Flag("TUTTI_HOLD", &Settings::hold,
             "1: a failed call on a GPU holds its stream until the communicator is revoked, aborted or destroyed"),
        Flag("TUTTI_NVLS", &Settings::nvls,
             "0: a switch between GPUs neither adds nor multiplies their data (NVLink SHARP)"),
        Flag("TUTTI_COPY_ENGINE", &Settings::copy_engine,
             "1: the GPUs' copy engines carry all-gathers and all-to-alls of 128 KiB and more for each rank of one "
             "host, if the input lies in a window of TUTTI_WIN_SYMMETRIC; same on all ranks"),
        Number("TUTTI_COUNT_FROM", &Settings::count_from, 0, 1LL << 40,
               "number at which GPUs begin to count slots and operations, to test what happens when counters wrap; "
               "same on all ranks"),
        Number("TUTTI_STREAM_BYTES", &Settings::stream_bytes, 0, 1LL << 40,
               "bytes touched by all ranks of a host above which results bypass the caches; 0: the last-level cache, "
               "at most 12 MiB for each core"),
        Number("TUTTI_SLOT_SPAN", &Settings::slot_span, 0, 1LL << 30,
               "bytes of slots over which a rank spreads its successive data, so that it fills a line again only when "
               "no core's cache holds it; 0: twice a core's own cache where each rank has a core, as far as the "
               "last-level cache has room; 1: none; same on all ranks"),
        Word("TUTTI_WAIT", &Settings::wait, {"", "spin", "yield", "sleep"}, "how a rank waits; empty: adaptive"),
        Number("TUTTI_SLICE_US", &Settings::slice_us, 0, 100'000,
               "time slice in us that a rank's thread asks Linux (6.12 or later) for where ranks outnumber cores; 0: "
               "none"),
        Words("TUTTI_DEBUG", &Settings::debug, LoggedSubjects(), "subjects to log"),
        Text("TUTTI_TRACE", &Settings::trace, "file for a timeline; %r stands for the rank, %p for the process id"),
        Text("TUTTI_DUMP", &Settings::dump,
             "file for the flight recorder on failure, for `tutti diagnose`; %r, %p as above"),
        Flag("TUTTI_RECORDER", &Settings::recorder, "1: dump the flight recorder to stderr on failure"),
        Text("TUTTI_NCCL_VERSION", &Settings::nccl_version,
             "version of NCCL that our libnccl.so.2 claims to be: 2.27.7 or 22707"),
    });
  });
}

// Other names that are read if a setting's own name is not set: those of other libraries, and a setting's former name.
struct Alias {
  std::string_view other;
  std::string_view ours;
  bool former = false;  // read for one version after the renaming
};
constexpr std::array<Alias, 5> kAliases = {{
    {"MSCCL_XML_FILES", "TUTTI_PROGRAM"},
    {"NCCL_SOCKET_IFNAME", "TUTTI_SOCKET_IFNAME"},
    {"NCCL_TOPO_FILE", "TUTTI_TOPO_FILE"},
    {"NCCL_TOPO_DUMP_FILE", "TUTTI_TOPO_DUMP_FILE"},
    {"TUTTI_WIRE", "TUTTI_PROTO", true},
}};

std::optional<Sourced> LookUp(const Lookup& lookup, const OtherLookup& other, std::string_view name) {
  if (auto text = lookup(name)) return Sourced{std::move(*text), name};
  if (other) {
    if (auto sourced = other(name)) return sourced;
  }
  for (const auto& alias : kAliases) {
    if (alias.ours != name) continue;
    if (auto text = lookup(alias.other)) return Sourced{std::move(*text), alias.former ? name : alias.other};
  }
  return std::nullopt;
}

std::string Allowed(const Variable& variable) {
  if (!variable.words.empty()) {
    const auto words = fmt::format("\"{}\"", fmt::join(variable.words, "\", \""));
    return variable.several ? fmt::format("some of {}, separated by commas", words) : "one of " + words;
  }
  if (std::holds_alternative<std::string Settings::*>(variable.field)) return "any text";
  return fmt::format("a whole number from {} to {}", variable.low, variable.high);
}

// `word`: what is wrong in the text; empty: all of it.
[[noreturn]] void Refuse(const Variable& variable, const Sourced& sourced, std::string_view word = {}) {
  if (word.empty()) word = sourced.text;
  const auto meant = DidYouMean(word, variable.words);
  const auto takes =
      fmt::format("{} takes {} ({})", meant.empty() ? ": it" : meant + " It", Allowed(variable), variable.meaning);
  const auto in_it = word == sourced.text ? "" : fmt::format(" because of {}", Quoted(word));
  if (sourced.source == variable.name) {
    Throw(tuttiInvalidArgument, "{}={} is not allowed{}{}", variable.name, Quoted(sourced.text), in_it, takes);
  }
  Throw(tuttiInvalidArgument, "{} stands for {}={}, which is not allowed{}{}", sourced.source, variable.name,
        Quoted(sourced.text), in_it, takes);
}

long long ParseNumber(const Variable& variable, const Sourced& sourced) {
  const std::string_view text = sourced.text;
  long long value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < variable.low || value > variable.high) {
    Refuse(variable, sourced);
  }
  return value;
}

void RequireWords(const Variable& variable, const Sourced& sourced) {
  if (variable.words.empty()) return;
  const auto allowed = [&](std::string_view word) {
    return std::ranges::find(variable.words, word) != variable.words.end();
  };
  if (!variable.several) {
    if (!allowed(sourced.text)) Refuse(variable, sourced);
    return;
  }
  for (std::string_view rest = sourced.text; !rest.empty();) {
    const auto word = TakeItem(rest);
    if (!word.empty() && !allowed(word)) Refuse(variable, sourced, word);
  }
}

// More than any list of files or interfaces needs. A longer value is a mistake, or an attempt to use up memory.
constexpr std::size_t kMaxText = 64 * 1024;

void Assign(Settings& settings, const Variable& variable, const Sourced& sourced) {
  const auto& text = sourced.text;
  if (text.size() > kMaxText) {
    Throw(tuttiInvalidArgument, "{} has {} characters; the limit is {}", sourced.source, text.size(), kMaxText);
  }
  if (const auto* word = std::get_if<std::string Settings::*>(&variable.field)) {
    RequireWords(variable, sourced);
    settings.*(*word) = text;
    return;
  }
  const long long value = ParseNumber(variable, sourced);
  if (const auto* number = std::get_if<int Settings::*>(&variable.field)) settings.*(*number) = static_cast<int>(value);
  if (const auto* number = std::get_if<long long Settings::*>(&variable.field)) settings.*(*number) = value;
  if (const auto* flag = std::get_if<bool Settings::*>(&variable.field)) settings.*(*flag) = value != 0;
}

}  // namespace

Settings ReadSettings(const Lookup& lookup, const OtherLookup& other) {
  Settings settings;
  for (const auto& variable : Variables()) {
    if (const auto sourced = LookUp(lookup, other, variable.name)) Assign(settings, variable, *sourced);
  }
  return settings;
}

std::string FormerNamesIn(const Lookup& lookup) {
  std::string told;
  for (const auto& alias : kAliases) {
    if (!alias.former || !lookup(alias.other)) continue;
    told += fmt::format("tutti: {} is now {}; the next version will not read the former name{}\n", alias.other,
                        alias.ours, lookup(alias.ours) ? ", and this one does not because both are set" : "");
  }
  return told;
}

namespace {

std::string UnknownInThisProcess() {
  std::vector<std::string_view> entries, names, former_names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  for (const auto& variable : Variables()) names.push_back(variable.name);
  for (const auto& alias : kAliases) {
    if (alias.former) former_names.push_back(alias.other);
  }
  return UnknownSettingsIn(entries, names, former_names);
}

std::string IgnoredInThisProcess() {
  if (getauxval(AT_SECURE) == 0) return "";
  std::string ignored;
  for (const auto& variable : Variables()) {
    if (std::getenv(std::string(variable.name).c_str()) == nullptr) continue;
    ignored += fmt::format(
        "tutti: {} is ignored: this program has more rights than its caller (set-user-ID, set-group-ID or file "
        "capabilities)\n",
        variable.name);
  }
  return ignored;
}

}  // namespace

const Settings& GlobalSettings() {
  static constinit MadeOnce<const Settings> settings;
  return settings.Get([] {
    const auto environment = [](std::string_view name) -> std::optional<std::string> {
      // Settings load libraries and write files, with the rights of this program. Its caller may have fewer.
      const char* text = secure_getenv(std::string(name).c_str());
      return text ? std::optional<std::string>(text) : std::nullopt;
    };
    static const auto told = TellOnce(FormerNamesIn(environment) + UnknownInThisProcess() + IgnoredInThisProcess());
    const auto by_extension = [](std::string_view name) -> std::optional<Sourced> {
      auto* const setting = TheExtension().setting;
      const char* source = nullptr;
      const char* const text = setting == nullptr ? nullptr : setting(std::string(name).c_str(), &source);
      return text == nullptr ? std::nullopt : std::optional(Sourced{text, source == nullptr ? name : source});
    };
    return std::make_unique<Settings>(ReadSettings(environment, by_extension));
  });
}

std::string SettingText(const Settings& settings, std::size_t index) {
  const auto& field = Variables().at(index).field;
  if (const auto* word = std::get_if<std::string Settings::*>(&field)) {
    const auto& text = settings.*(*word);
    return &text == &settings.secret && !text.empty() ? "(set)" : text;
  }
  if (const auto* number = std::get_if<int Settings::*>(&field)) return std::to_string(settings.*(*number));
  if (const auto* number = std::get_if<long long Settings::*>(&field)) return std::to_string(settings.*(*number));
  return settings.*std::get<bool Settings::*>(field) ? "1" : "0";
}

std::vector<SettingDoc> SettingDocs() {
  std::vector<SettingDoc> docs;
  for (const auto& variable : Variables()) docs.push_back({variable.name, Allowed(variable), variable.meaning});
  return docs;
}

}  // namespace tutti
