#include "interop/torch/csrc/backend.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/without_pythons_lock.h"

namespace tutti::pytorch {
namespace {

// When the store's host is gone, the store throws PyTorch's exception, whose text contains a stack trace.
class StoreBoard : public Board {
 public:
  explicit StoreBoard(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void Write(const std::string& key, const std::string& value) override {
    Ask([&] {
      store_->set(key, Bytes(value.begin(), value.end()));
      return true;
    });
  }
  std::string Claim(const std::string& key, const std::string& value) override {
    return Ask([&] {
      const auto claimed = store_->compareSet(key, Bytes(), Bytes(value.begin(), value.end()));
      return std::string(claimed.begin(), claimed.end());
    });
  }
  bool Has(const std::string& key) override {
    return Ask([&] { return store_->check({key}); });
  }
  std::string Read(const std::string& key) override {
    return Ask([&] {
      const auto value = store_->get(key);
      return std::string(value.begin(), value.end());
    });
  }

 private:
  using Bytes = std::vector<std::uint8_t>;

  template <typename Question>
  auto Ask(const Question& question) -> decltype(question()) {
    try {
      return question();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      throw Failure(tuttiRemoteError, std::string("tutti: ") + tuttiGetErrorString(tuttiRemoteError) +
                                          ": the store through which the ranks meet does not answer; the process that "
                                          "keeps it, usually rank 0 or torchrun, has ended or cannot be reached (" +
                                          text.substr(0, text.find('\n')) + ")");
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
};

// Uses PyTorch 2.x's `device` if it is set, else `device_ids`, which are CUDA devices.
Optional<c10::Device> DeviceOfBarrier(const c10d::BarrierOptions& options) {
  auto type = options.device_ids.empty() ? c10::kCPU : c10::kCUDA;
  Optional<c10::DeviceIndex> index;
#if TUTTI_TORCH_2
  if (options.device) {
    if (!options.device->is_cpu()) type = options.device->type();
    if (options.device->has_index()) index = options.device->index();
  }
#endif
  if (type == c10::kCPU || NativeStreamOf(type) == nullptr) return {};
  if (!options.device_ids.empty()) index = static_cast<c10::DeviceIndex>(options.device_ids[0]);
  return c10::Device(type, index ? *index : c10::impl::VirtualGuardImpl(type).getDevice().index());
}

}  // namespace

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, GroupIdentity identity, bool deferred)
    : BackendBase(identity.rank, identity.ranks),
      store_(store),
      options_(c10::make_intrusive<BackendBase::Options>("tutti", identity.timeout)),
      board_(std::make_shared<StoreBoard>(store)),
      founding_(std::move(identity)) {
  if (!deferred) TakeMembers(std::make_shared<TaskQueues>(founding_, board_));
}

Backend::~Backend() {
  const WithoutPythonsLock unlocked;
  if (queues_ != nullptr) Close(*queues_, *any_source_);
}

void Backend::TakeMembers(std::shared_ptr<TaskQueues> queues) {
  const std::lock_guard lock(members_mutex_);
  joining_ = nullptr;
  queues_ = std::move(queues);
  collectives_ = queues_->Collectives();
  any_source_ = std::make_shared<AnySource>(queues_);
}

void Backend::Close(TaskQueues& queues, AnySource& any_source) {
  any_source.Close();
  queues.Close();
}

const std::shared_ptr<TaskQueues>& Backend::Members() const {
  if (queues_ == nullptr) {
    Refuse(founding_.name,
           ": the group has no members yet, because it was made with enable_reconfigure; call "
           "torch.distributed._reconfigure first");
  }
  return queues_;
}

void Backend::abort() {
  const std::lock_guard lock(members_mutex_);
  for (const auto& queues : {queues_, joining_}) {
    if (queues != nullptr) queues->Stop();
  }
}

Backend::WorkPtr Backend::Issue(c10::intrusive_ptr<OperationWork> work) {
  if (timed_) work->Time();
  work->Issue();
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

Backend::WorkPtr Backend::Issue(std::shared_ptr<TaskQueue> queue, Call call, Operation::Body body) {
  return Issue(c10::make_intrusive<OperationWork>(std::move(queue), queues_, rank_, std::move(call), std::move(body)));
}

Backend::WorkPtr Backend::IssueOnDevice(DeviceTaskQueue queue, Call call, Operation::Body body, Waits waits) {
  return Issue(
      c10::make_intrusive<DeviceWork>(std::move(queue), queues_, rank_, std::move(call), std::move(body), waits));
}

Backend::WorkPtr Backend::IssueCollective(Call call, Operation::Body body) {
  const auto& members = Members();
  ++issued_;
  const auto& tensors = call.inputs.empty() ? call.results : call.inputs;
  if (!tensors.empty() && !tensors[0].device().is_cpu()) {
    auto queue = members->Collectives(tensors[0].device());
    return IssueOnDevice(std::move(queue), std::move(call), std::move(body));
  }
  return Issue(collectives_, std::move(call), std::move(body));
}

const Scratches& Backend::ScratchesFor(const at::Tensor& tensor) {
  // The task stream lives as long as the group.
  return tensor.device().is_cpu() ? host_scratches_ : Members()->Collectives(tensor.device()).task_stream->scratches();
}

// Runs on the host unless the caller names a device.
Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  Call call{c10d::OpType::BARRIER, "tutti:barrier", {}, {}};
  auto body = [](const On& on) { Check(tuttiBarrier(on.comm, on.stream), on.comm); };
  if (const auto device = DeviceOfBarrier(options)) {
    ++issued_;
    return IssueOnDevice(Members()->Collectives(*device), std::move(call), std::move(body), Waits::host);
  }
  return IssueCollective(std::move(call), std::move(body));
}

// All ranks count from zero, so there is nothing to agree on.
void Backend::setSequenceNumberForGroup() {}

std::uint64_t Backend::getSequenceNumberForGroup() { return issued_; }

#if TUTTI_TORCH_2
// Operations issued in between start as usual; the caller only gets one Work for all of them.
void Backend::startCoalescing() {
  coalescing_ = true;
  coalesced_.clear();
}

Backend::WorkPtr Backend::endCoalescing() {
  coalescing_ = false;
  return c10::make_intrusive<JointWork>(rank_, std::exchange(coalesced_, {}));
}
#endif

}  // namespace tutti::pytorch
