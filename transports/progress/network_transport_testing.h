// For tests: records a transport's events. Each slot lands in its own memory, so that tests can inspect it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transports/progress/network_transport.h"

namespace tutti::progress {

class HeardEvents final : public NetworkTransportEvents {
 public:
  void Connected(int) override { ++connections; }
  std::byte* Landing(int, const SlotMessage& message) override {
    if (message.connection > 100) return nullptr;
    auto& memory = landed_[message.number];
    memory.resize(message.bytes + 1);
    return memory.data();
  }
  void Landed(int, const SlotMessage& message) override { order.push_back(message.number); }
  void Sent(int, std::uint32_t, std::uint32_t number) override { sent.push_back(number); }
  bool Control(int, std::span<const std::byte> message) override {
    texts.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
    return texts.back() != "nonsense";
  }
  void Broken(int, const std::string& why) override { broken = why; }

  std::string TextOf(std::uint32_t number) const {
    const auto& memory = landed_.at(number);
    return {reinterpret_cast<const char*>(memory.data()), memory.size() - 1};
  }

  std::vector<std::uint32_t> order, sent;
  std::vector<std::string> texts;
  std::string broken;   // why; empty: not broken
  int connections = 0;  // that were made

 private:
  std::map<std::uint32_t, std::vector<std::byte>> landed_;
};

}  // namespace tutti::progress
