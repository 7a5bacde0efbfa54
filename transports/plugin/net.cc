#include "transports/plugin/net.h"

#include <fmt/format.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace tutti::plugin {
namespace {

// What a plug-in logs appears among the transports' own lines. Its informative lines are many, so they cost nothing
// unless they are asked for.
void LogOfPlugin(abi::LogLevel level, unsigned long /*subsystems*/, const char* file, int line, const char* format,
                 ...) {
  if (!LogEnabled(Subject::transport) || level == abi::LogLevel::trace || format == nullptr) return;
  std::array<char, 1024> text{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  Log(Subject::transport, "net plug-in{}: {} ({}:{})", level == abi::LogLevel::warning ? ", warning" : "", text.data(),
      file == nullptr ? "?" : file, line);
}

// Nobody listens to a plug-in's events. A plug-in may call this without asking whether it is null.
Result IgnoreEvent(void** /*event*/, int /*type*/, void* /*parent*/, std::int64_t /*plugin*/, void* /*data*/) {
  return Result::success;
}

template <typename V>
class NetOf final : public Net {
 public:
  explicit NetOf(const abi::Table<V>* table) : table_(*table) {}

  int version() const override { return V::kVersion; }
  std::string name() const override { return table_.name == nullptr ? "" : table_.name; }
  std::string missing() const override {
    const std::array<std::pair<bool, const char*>, 14> has = {{
        {table_.init != nullptr, "init"},
        {table_.devices != nullptr, "devices"},
        {table_.get_properties != nullptr, "getProperties"},
        {table_.listen != nullptr, "listen"},
        {table_.connect != nullptr, "connect"},
        {table_.accept != nullptr, "accept"},
        {table_.register_memory != nullptr, "regMr"},
        {table_.deregister_memory != nullptr, "deregMr"},
        {table_.send != nullptr, "isend"},
        {table_.receive != nullptr, "irecv"},
        {table_.test != nullptr, "test"},
        {table_.close_sending != nullptr, "closeSend"},
        {table_.close_receiving != nullptr, "closeRecv"},
        {table_.close_listening != nullptr, "closeListen"},
    }};
    for (const auto& [there, function] : has) {
      if (!there) return function;
    }
    return "";
  }

  Result Init(void** context, [[maybe_unused]] std::uint64_t communicator) const override {
    *context = nullptr;
    if constexpr (V::kVersion >= 11) {
      abi::ConnectionConfig config{abi::kNoTrafficClass};
      return table_.init(context, communicator, &config, &LogOfPlugin, &IgnoreEvent);
    } else if constexpr (V::kVersion == 10) {
      return table_.init(&LogOfPlugin, &IgnoreEvent);
    } else {
      return table_.init(&LogOfPlugin);
    }
  }
  Result Finalize([[maybe_unused]] void* context) const override {
    if constexpr (V::kVersion >= 11) {
      if (table_.finalize != nullptr) return table_.finalize(context);
    }
    return Result::success;
  }
  Result Devices(int* count) const override { return table_.devices(count); }

  Result GetProperties(int index, Device* device) const override {
    typename V::Properties properties{};
    const auto result = table_.get_properties(index, &properties);
    if (result != Result::success) return result;
    const auto fill = [&](const auto& from) {
      device->index = index;
      device->name = from.name == nullptr ? "" : from.name;
      device->host_memory = (from.pointers & abi::kHostMemory) != 0;
      device->offloaded = from.device_type != abi::kHostDevice;
      device->speed = from.speed;
      device->latency = static_cast<double>(from.latency);
      device->most_connections = from.most_connections;
    };
    if constexpr (V::kVersion >= 11) {
      fill(properties.common);
      device->most_bytes = properties.common.most_bytes;
    } else {
      fill(properties);
      if constexpr (V::kVersion >= 9) device->most_bytes = properties.most_bytes;
    }
    return result;
  }

  Result Listen([[maybe_unused]] void* context, int device, void* handle, void** listening) const override {
    *listening = nullptr;
    if constexpr (V::kVersion >= 11) {
      return table_.listen(context, device, handle, listening);
    } else {
      return table_.listen(device, handle, listening);
    }
  }
  Result Connect([[maybe_unused]] void* context, int device, void* handle, void** sending) const override {
    *sending = nullptr;
    void* offload = nullptr;
    if constexpr (V::kVersion >= 11) {
      return table_.connect(context, device, handle, sending, &offload);
    } else if constexpr (V::kVersion == 10) {
      abi::ConnectionConfig config{abi::kNoTrafficClass};
      return table_.connect(device, &config, handle, sending, &offload);
    } else {
      return table_.connect(device, handle, sending, &offload);
    }
  }
  Result Accept(void* listening, void** receiving) const override {
    *receiving = nullptr;
    void* offload = nullptr;
    return table_.accept(listening, receiving, &offload);
  }
  Result Register(void* connection, void* data, std::size_t bytes, void** memory) const override {
    *memory = nullptr;
    return table_.register_memory(connection, data, bytes, abi::kHostMemory, memory);
  }
  Result Deregister(void* connection, void* memory) const override {
    return table_.deregister_memory(connection, memory);
  }

  Result Send(void* sending, void* data, std::size_t bytes, void* memory, void** request) const override {
    constexpr int kTag = 0;  // tells apart the receives of a group, of which there is one
    *request = nullptr;
    if constexpr (V::kVersion >= 10) {
      return table_.send(sending, data, bytes, kTag, memory, nullptr, request);
    } else if constexpr (V::kVersion == 9) {
      return table_.send(sending, data, bytes, kTag, memory, request);
    } else {
      return table_.send(sending, data, static_cast<int>(bytes), kTag, memory, request);
    }
  }
  Result Receive(void* receiving, void* data, std::size_t bytes, void* memory, void** request) const override {
    int tag = 0;
    *request = nullptr;
    if constexpr (V::kVersion >= 10) {
      void* event = nullptr;
      return table_.receive(receiving, 1, &data, &bytes, &tag, &memory, &event, request);
    } else if constexpr (V::kVersion == 9) {
      return table_.receive(receiving, 1, &data, &bytes, &tag, &memory, request);
    } else {
      int short_bytes = static_cast<int>(bytes);
      return table_.receive(receiving, 1, &data, &short_bytes, &tag, &memory, request);
    }
  }
  Result Test(void* request, bool* done, std::size_t* bytes) const override {
    int is_done = 0;
    std::array<int, abi::kMostSizes> sizes{};
    const auto result = table_.test(request, &is_done, sizes.data());
    *done = result == Result::success && is_done != 0;
    // A negative size becomes one that nothing expects.
    *bytes = static_cast<std::size_t>(sizes.front());
    return result;
  }
  Result CloseSending(void* sending) const override { return table_.close_sending(sending); }
  Result CloseReceiving(void* receiving) const override { return table_.close_receiving(receiving); }
  Result CloseListening(void* listening) const override { return table_.close_listening(listening); }

 private:
  const abi::Table<V>& table_;  // in the plug-in, which stays loaded
};

template <typename V>
std::unique_ptr<const Net> Bind(const void* table) {
  return std::make_unique<const NetOf<V>>(static_cast<const abi::Table<V>*>(table));
}

struct Version {
  const char* symbol;
  std::unique_ptr<const Net> (*bind)(const void* table);
};
// The newest first.
constexpr std::array<Version, 4> kVersions = {{
    {"ncclNetPlugin_v11", &Bind<abi::V11>},
    {"ncclNetPlugin_v10", &Bind<abi::V10>},
    {"ncclNetPlugin_v9", &Bind<abi::V9>},
    {"ncclNetPlugin_v8", &Bind<abi::V8>},
}};
constexpr std::array<const char*, 8> kOtherTables = {"ncclNetPlugin_v13", "ncclNetPlugin_v12", "ncclNetPlugin_v7",
                                                     "ncclNetPlugin_v6",  "ncclNetPlugin_v5",  "ncclNetPlugin_v4",
                                                     "ncclNetPlugin_v3",  "ncclNetPlugin_v2"};

}  // namespace

std::unique_ptr<const Net> FindNet(SharedLibrary& library) {
  for (const auto& version : kVersions) {
    const void* table = nullptr;
    library.Find(table, version.symbol);
    if (table != nullptr) return version.bind(table);
  }
  return nullptr;
}

std::string TablesLookedFor() {
  std::string names;
  for (const auto& version : kVersions) names += fmt::format("{}{}", names.empty() ? "" : ", ", version.symbol);
  return names;
}

std::string OtherTables(SharedLibrary& library) {
  std::string names;
  for (const char* const symbol : kOtherTables) {
    const void* table = nullptr;
    library.Find(table, symbol);
    if (table != nullptr) names += fmt::format("{}{}", names.empty() ? "" : ", ", symbol);
  }
  return names;
}

std::string Describe(Result result) {
  constexpr std::array<std::string_view, 8> kPhrases = {"success",        "CUDA error",       "system error",
                                                        "internal error", "invalid argument", "invalid usage",
                                                        "remote error",   "in progress"};
  const auto code = static_cast<int>(result);
  const bool known = code >= 0 && code < static_cast<int>(kPhrases.size());
  return fmt::format("{} ({})", code, known ? kPhrases[static_cast<std::size_t>(code)] : "not a result of NCCL's");
}

}  // namespace tutti::plugin
