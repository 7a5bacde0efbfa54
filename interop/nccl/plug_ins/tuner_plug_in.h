// A tuner plug-in of NCCL, which chooses among Tutti's plans. It sees the plans that NCCL has a name for as NCCL's table
// of costs; its choice and its number of channels are followed where Tutti has such a plan.
//
// Thread-safety: the functions from any thread; a TunerOfCommunicator is used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "interop/nccl/plug_ins/tuner_abi.h"
#include "tutti/extension.h"

namespace tutti::nccl {

using CostTable = std::array<std::array<float, kProtocols>, kAlgorithms>;

// A plug-in's answer for a call.
struct TunerAnswer {
  ncclResult_t result = ncclSuccess;
  // Whether it chose: an algorithm and a protocol (version 2), or by changing the table.
  std::optional<std::pair<int, int>> chosen;
  int channels = 0;  // 0: any
};

// A loaded plug-in, of whatever version.
struct TunerPlugIn {
  std::string name;  // with its version: "Example (v5)"
  std::function<ncclResult_t(const tuttiCommFacts_t& facts, void** context)> init;
  std::function<TunerAnswer(void* context, int function, std::size_t bytes, CostTable& costs)> choose;
  std::function<ncclResult_t(void* context)> close;
};

// The newest version that the library of NCCL_TUNER_PLUGIN has. Null if there is none: the log says why.
const TunerPlugIn* TheTunerPlugIn();

// The plans of `offers` in NCCL's terms: the cheapest of each algorithm and protocol.
struct OfferTable {
  CostTable costs;
  std::array<std::array<int, kProtocols>, kAlgorithms> cheapest;  // indices of offers; -1: there is none
};
OfferTable TableOf(std::span<const tuttiOffer_t> offers);

class TunerOfCommunicator {
 public:
  explicit TunerOfCommunicator(const TunerPlugIn& plug_in) : plug_in_(plug_in) {}
  ~TunerOfCommunicator();
  TunerOfCommunicator(const TunerOfCommunicator&) = delete;
  TunerOfCommunicator& operator=(const TunerOfCommunicator&) = delete;

  // Throws Refusal with what the plug-in returns.
  void Open(const tuttiCommFacts_t& facts);
  // As tuttiExtension_t::choose.
  int Choose(const tuttiTunedCall_t& call, std::span<const tuttiOffer_t> offers, int usual);

 private:
  // Logs a sentence the first time.
  void SayOnce(const std::string& text);

  const TunerPlugIn& plug_in_;
  void* context_ = nullptr;  // the plug-in's
  bool open_ = false;
  std::set<std::string> said_;
};

}  // namespace tutti::nccl
