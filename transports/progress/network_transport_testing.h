// For tests of network transports.
#pragma once

#include <array>
#include <barrier>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/all_gather.h"
#include "base/clocks/deadline.h"
#include "transports/progress/network_transport.h"

namespace tutti::progress {

// Records a transport's events. Each slot lands in its own memory, so that tests can inspect it.
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

inline constexpr Deadline::Milliseconds kAmple{10'000};

// One transport for each rank, each made in a thread of its own by make(rank, peers, all_gather, events). The test's
// thread drives them then.
template <typename Transport, std::size_t kRanks>
class TransportsInThreads {
 public:
  template <typename Make>
  explicit TransportsInThreads(const Make& make) {
    std::barrier meeting(kRanks);
    std::array<std::vector<std::byte>, kRanks> said;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const AllGather all_gather = [&, rank](std::span<const std::byte> mine) {
          said[rank].assign(mine.begin(), mine.end());
          meeting.arrive_and_wait();
          std::vector<std::vector<std::byte>> all(said.begin(), said.end());
          meeting.arrive_and_wait();
          return all;
        };
        std::vector<int> peers;
        for (std::size_t peer = 0; peer < kRanks; ++peer) {
          if (peer != rank) peers.push_back(static_cast<int>(peer));
        }
        transports[rank] = make(static_cast<int>(rank), peers, all_gather, heard[rank]);
      });
    }
    for (auto& thread : threads) thread.join();
  }

  // Drives all transports, or those that are left.
  bool Until(const std::function<bool()>& done) {
    const auto give_up = Deadline::After(kAmple);
    while (!done() && !give_up.Passed()) {
      for (const auto& transport : transports) {
        if (transport) transport->Advance();
      }
    }
    return done();
  }
  void Say(std::size_t from, int to, std::string_view text) {
    transports[from]->SendControl(to, std::as_bytes(std::span(text)));
    transports[from]->Flush(to);
  }

  std::array<HeardEvents, kRanks> heard;
  std::array<std::unique_ptr<Transport>, kRanks> transports;
};

}  // namespace tutti::progress
