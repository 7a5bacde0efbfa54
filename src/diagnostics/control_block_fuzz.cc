// libFuzzer target. Another process writes arbitrary bytes into its control block or the reading rank's. The watch
// looks at that block and explains faults with it, and the flight recorder prints it.
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/all_gather.h"
#include "base/files/json.h"
#include "src/diagnostics/dump.h"
#include "src/diagnostics/failure_detector.h"
#include "src/diagnostics/recorder.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::diagnostics {
namespace {

constexpr int kRanks = 3;

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

// The fabric of rank 0. Its peers were threads that have ended.
struct Stage {
  std::vector<std::unique_ptr<shm::Fabric>> fabrics{kRanks};
  std::unique_ptr<FailureDetector> failure_detector;
  // This detector's rank has failed, so the detector explains a fault without waiting for peers to name theirs.
  std::unique_ptr<FailureDetector> failed;

  Stage() {
    const std::vector<int> together(kRanks, 0);
    shm::RunThreadRanks(kRanks, [&](int rank, const AllGather& all_gather) {
      fabrics[static_cast<std::size_t>(rank)] = std::make_unique<shm::Fabric>(
          rank, shm::Hosts{together, together}, 1, Settings{}, all_gather, Deadline::Never());
    });
    for (auto* const each : {&failure_detector, &failed}) {
      *each = std::make_unique<FailureDetector>(*fabrics[0], nullptr, std::vector<bootstrap::Process>(kRanks), "",
                                                std::chrono::milliseconds(1));
    }
    failed->Fail({tuttiInternalError, "has failed"});
  }
};

// The numbers first, then records, then the failure's text, then sites.
void Forge(ring::ControlBlock& control, std::span<const std::uint8_t> input) {
  new (&control) ring::ControlBlock{};
  const auto take = [&](void* to, std::size_t most) {
    const auto bytes = std::min(most, input.size());
    if (bytes > 0) std::memcpy(to, input.data(), bytes);
    input = input.subspan(bytes);
  };
  std::uint8_t records = 0;
  take(static_cast<void*>(&control.newest), sizeof control.newest);
  take(static_cast<void*>(&control.started), sizeof control.started);
  take(static_cast<void*>(&control.completed), sizeof control.completed);
  take(static_cast<void*>(&control.state), sizeof control.state);
  take(static_cast<void*>(&control.fault_code), sizeof control.fault_code);
  take(&records, sizeof records);
  const auto newest = control.newest.load();
  for (std::uint64_t i = 0; i < records % ring::kRecords; ++i) {
    auto& record = control.records[(newest - i) % ring::kRecords];
    take(static_cast<void*>(&record), sizeof record);
    if (i % 2 == 0) record.index.store(newest - i);  // a complete one
  }
  take(control.fault_text.data(), control.fault_text.size());
  for (std::uint32_t i = 0; i < ring::kCallSites && !input.empty(); ++i) {
    auto& site = control.sites[i];
    take(static_cast<void*>(&site), sizeof site);
    if (i % 2 == 0) site.number.store(i + ring::kCallSites);
  }
}

void LookAt(Stage& stage) {
  const auto& control = stage.fabrics[0]->control(1);
  if (control.state.load() == ring::RankState::failed) {
    const auto code = ring::ReadFailure(control).code();
    Require(code > tuttiSuccess && code < tuttiNumResults && code != tuttiInProgress);
  }
  Require(ReadRecords(control).size() <= ring::kRecords);
  for (const auto& record : ReadRecords(control)) Require(!record.Describe().empty());
  plan::Operation operation;
  operation.count = 10;
  for (const auto collective :
       {schedule::Collective::all_reduce, schedule::Collective::send, schedule::Collective::receive}) {
    operation.collective = collective;
    operation.root = 1;
    const InFlight in_flight{&operation, 5, 17};
    for (const auto waited : {std::chrono::hours(0), std::chrono::hours(1)}) {
      const bool confirmed = operation.collective != schedule::Collective::all_reduce;
      const auto seen = stage.failure_detector->Look(in_flight, {{1}, confirmed}, waited);
      Require(seen ? seen->code() > tuttiSuccess && seen->code() < tuttiNumResults : waited == std::chrono::hours(0));
    }
    const auto why = stage.failed->Explain(in_flight, {host::Fault::Kind::foreign, 1, 0, 0}).code();
    Require(why > tuttiSuccess && why < tuttiNumResults);
  }
}

void Dump(Stage& stage) {
  const auto& control = stage.fabrics[0]->control(1);
  DumpedRank dumped{};
  dumped.scale = {1, 0, 1};
  Require(JsonDocument(DumpOf(dumped, control), "dump").root().IsObject());
}

}  // namespace
}  // namespace tutti::diagnostics

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tutti::diagnostics::Stage stage;
  if (size == 0) return 0;
  const std::span input(data + 1, size - 1);
  tutti::diagnostics::Forge(stage.fabrics[0]->control(data[0] % 4 == 0 ? 0 : 1), input);
  if (data[0] % 4 < 3) {
    tutti::diagnostics::LookAt(stage);
  } else {
    tutti::diagnostics::Dump(stage);
  }
  return 0;
}
