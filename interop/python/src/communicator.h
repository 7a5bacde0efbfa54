// tutti._core.Communicator: the base of Python's class Communicator.
//
// Thread-safety: functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "group.h"
#include "handle.h"
#include "stream.h"
#include "task.h"

namespace tutti_python {

// The fields of tuttiConfig_t that Python sets. An empty one takes the environment's setting or the default.
struct Config {
  std::optional<std::string> name, algorithm;
  std::optional<int> channels, threads, device, init_timeout_ms, timeout_ms;
  std::optional<bool> deterministic;
};

class Communicator {
 public:
  Communicator() : handle_(std::make_shared<Handle>()) {}
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Each makes the communicator that this object stands for. REQUIRES: called once.
  void JoinEnvironment(const Config& config);
  void Join(int size, nanobind::bytes id, int rank, const Config& config);
  // False: this rank takes part with no color.
  bool SplitFrom(Communicator& parent, int color, int key, const Config& config);
  void ShrinkFrom(Communicator& parent, const std::vector<int>& exclude, bool abort, const Config& config);
  // `id` on one rank of the parent, none on the others.
  void GrowFrom(Communicator& parent, int size, const std::optional<nanobind::bytes>& id, const Config& config);

  Handle& handle() { return *handle_; }
  const std::shared_ptr<Handle>& shared_handle() const { return handle_; }

  std::vector<int> Hosts() const;
  int Device() const;
  std::string DescribeLastOperation() const;
  nanobind::dict Counters() const;
  void Dump(const std::string& path) const;

 private:
  std::shared_ptr<Handle> handle_;
};

// Where a call runs. A CUDA stream runs the call at once; the library queues it.
struct Destination {
  Stream* stream = nullptr;
  tuttiStream_t cuda = nullptr;
};
// Of the argument `stream`: None, a Stream, or a CUDA stream as an int or an object of PyTorch or CuPy.
Destination DestinationOf(nanobind::handle stream);

// What a call has prepared: `run` makes the call of the C API on a CUDA stream or null, and `result` is what Python gets.
template <typename RunOn>
struct Prepared {
  nanobind::object result;
  RunOn run;
};
template <typename RunOn>
Prepared(nanobind::object, RunOn) -> Prepared<RunOn>;

void RequireSide(const Arrays& arrays, const Destination& destination);

// Runs a call: at once, or queues it on the stream and returns a Work, or adds it to the open group. `prepare(arrays)`
// takes the memory and returns a Prepared, whose `run` holds no Python object.
template <typename Prepare>
nanobind::object Perform(Communicator& communicator, nanobind::handle stream, const Prepare& prepare) {
  auto& handle = communicator.handle();
  handle.RequireOpen();
  if (stream.is_none() && Group::Open() == nullptr) [[likely]] {
    Arrays arrays;
    auto prepared = prepare(arrays);
    Turns turns;
    turns.TakeIfBusy(communicator.shared_handle());
    turns.Await();
    handle.Run([&] { return prepared.run(nullptr); });
    return std::move(prepared.result);
  }
  const auto destination = DestinationOf(stream);
  auto arrays = std::make_unique<Arrays>();
  auto prepared = prepare(*arrays);
  RequireSide(*arrays, destination);
  Call call{communicator.shared_handle(),
            [run = std::move(prepared.run), cuda = destination.cuda] { return run(cuda); }};
  if (auto* const group = Group::Open()) {
    if (destination.stream != nullptr) {
      Fail(tuttiInvalidUsage, "a call in a group takes no stream of its own: pass it to tutti.group(stream=...)");
    }
    group->Add(std::move(call), std::move(arrays));
    return std::move(prepared.result);
  }
  if (destination.stream == nullptr) {
    handle.Run(call.run);
    return std::move(prepared.result);
  }
  KeptPointer kept(new Kept);
  kept->arrays.push_back(std::move(arrays));
  kept->result = std::move(prepared.result);
  return nanobind::cast(destination.stream->Enqueue({std::move(call)}, std::move(kept)));
}

}  // namespace tutti_python
