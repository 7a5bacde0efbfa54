#include "transports/plugin/plugin.h"

#include <fmt/format.h>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/plain_text.h"
#include "transports/plugin/library.h"
#include "transports/plugin/transport.h"

namespace tutti::plugin {

std::string WhyNoPlugin(const Settings& settings) {
  try {
    LoadPlugin(settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string DescribePlugin(const Settings& settings) {
  const auto library = LoadPlugin(settings);
  std::string text = library->Name();
  for (const auto& device : library->devices())
    text += fmt::format(", {} at {} Mbit/s", Printable(device.name), device.speed);
  return text;
}

std::unique_ptr<progress::NetworkTransport> MakePluginTransport(int rank, const std::vector<int>& peers,
                                                                const auth::SecretKey& key, const Settings& settings,
                                                                const AllGather& all_gather,
                                                                progress::NetworkTransportEvents& events) {
  return std::make_unique<PluginTransport>(rank, peers, key, settings, all_gather, events);
}

}  // namespace tutti::plugin
