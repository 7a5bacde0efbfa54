#include "tests/transports/conformance/traffic.h"

#include <algorithm>
#include <array>

namespace tutti::testing {
namespace {

constexpr std::array<ring::Protocol, 3> kAllProtocols = {ring::Protocol::line, ring::Protocol::inlined,
                                                         ring::Protocol::bulk};

std::byte Pattern(int rank, int channel, ring::Protocol protocol, std::uint32_t slot, std::size_t at) {
  return static_cast<std::byte>(rank * 101 + channel * 53 + static_cast<int>(protocol) * 29 +
                                static_cast<int>(slot) * 13 + static_cast<int>(at * 7 + (at >> 8)));
}

// Covers all sizes that a slot may have, including empty and full.
std::uint32_t SizeOf(std::uint32_t slot, std::uint32_t capacity) {
  switch (slot % 5) {
    case 0: return 0;
    case 1: return capacity;
    case 2: return 1;
    case 3: return capacity / 2 + slot % 7;
    default: return static_cast<std::uint32_t>(slot * 2654435761U) % (capacity + 1);
  }
}

}  // namespace

void Traffic::Step() {
  auto& to = rank.fabric.To(channel, protocol, peer);
  while (filled < slots && to.HasRoom()) {
    const std::uint32_t bytes = SizeOf(filled, to.shape().capacity);
    auto& header = to.Header();
    std::byte* const data = elsewhere ? elsewhere(filled) : to.Data();
    for (std::size_t i = 0; i < bytes; ++i) data[i] = Pattern(rank.rank, channel, protocol, filled, i);
    header.bytes = bytes;
    header.kind = elsewhere ? ring::SlotKind::pointer : ring::SlotKind::value;
    if (elsewhere) header.address = reinterpret_cast<std::uint64_t>(data);
    to.Publish(kTagOfTraffic + filled++);
  }
  auto& from = rank.fabric.From(channel, protocol, peer);
  while (emptied < slots && from.Look(kTagOfTraffic + emptied) == ring::EmptyEnd::State::ready) {
    const std::uint32_t bytes = SizeOf(emptied, from.shape().capacity);
    const auto content = from.Content();
    EXPECT_EQ(content.bytes, bytes) << "slot " << emptied;
    const auto* const data = content.kind == ring::SlotKind::pointer
                                 ? reinterpret_cast<const std::byte*>(from.Reference().address)
                                 : from.Data();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bytes; ++i) wrong += data[i] != Pattern(peer, channel, protocol, emptied, i);
    EXPECT_EQ(wrong, 0U) << "slot " << emptied << " of " << bytes << " bytes on " << ring::NameOf(protocol);
    from.Release();
    ++emptied;
  }
}

void Finish(Rank& rank, std::vector<Traffic>& all) {
  EXPECT_TRUE(rank.Until([&] {
    for (auto& each : all) each.Step();
    return std::ranges::all_of(all, &Traffic::Done);
  }));
  for (const int peer : rank.Others()) EXPECT_EQ(rank.Lost(peer), "");
}

void MoveAll(Rank& rank, int channels) {
  std::vector<Traffic> all;
  for (const int peer : rank.Others()) {
    rank.engine.Need(peer);
    for (int channel = 0; channel < channels; ++channel) {
      for (const ring::Protocol protocol : kAllProtocols)
        all.emplace_back(rank, peer, channel, protocol, protocol == ring::Protocol::bulk ? 40 : 150);
    }
  }
  Finish(rank, all);
}

void ExpectWords(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << '"' << word << "\" not in: " << text;
}

}  // namespace tutti::testing
