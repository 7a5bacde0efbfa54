#include "tutti/parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "parallel/compute/joining.h"
#include "parallel/data/parameter_agreement.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {

DistributedDataParallel::DistributedDataParallel(ProcessGroup& group, Compute& compute,
                                                 std::vector<Parameter> parameters,
                                                 const DistributedDataParallelConfig& config)
    : group_(group),
      compute_(compute),
      parameters_(std::move(parameters)),
      config_(config),
      slots_(parameters_.size()),
      used_(parameters_.size()) {
  const auto problem = problem_of(parameters_);
  if (!problem.empty()) throw Error(tuttiInvalidArgument, problem);
  MakeBuckets();
  zero_grad();
}

DistributedDataParallel::~DistributedDataParallel() { await_communication(compute_); }

// In reverse order, which is about the order in which a backward pass computes gradients.
void DistributedDataParallel::MakeBuckets() {
  std::vector<std::size_t> parameters;
  std::size_t bytes = 0;
  const auto close = [&] {
    if (parameters.empty()) return;
    std::size_t count = 0;
    for (const auto i : parameters) count += parameters_[i].data.count();
    const auto dtype = parameters_[parameters.front()].data.dtype;
    Bucket bucket{std::exchange(parameters, {}), Buffer(compute_, {count}, dtype)};
    auto* place = static_cast<std::byte*>(bucket.gradients.tensor().data);
    for (const auto i : bucket.parameters) {
      slots_[i] = {.grad = parameters_[i].data, .bucket = buckets_.size()};
      slots_[i].grad.data = place;
      place += slots_[i].grad.bytes();
    }
    buckets_.push_back(std::move(bucket));
    bytes = 0;
  };
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const auto& data = parameters_[i].data;
    const std::size_t limit = buckets_.empty() ? config_.first_bucket_bytes : config_.bucket_bytes;
    const bool other_type = !parameters.empty() && parameters_[parameters.front()].data.dtype != data.dtype;
    if (other_type || (bytes > 0 && bytes + data.bytes() > limit)) close();
    parameters.push_back(i);
    bytes += data.bytes();
  }
  close();
}

void DistributedDataParallel::broadcast_parameters() {
  std::vector<std::string> descriptions(parameters_.size());
  std::ranges::transform(parameters_, descriptions.begin(), description_of);
  require_equal_parameters(group_, descriptions);
  for (const auto& parameter : parameters_) group_.broadcast(parameter.data, 0, compute_.stream());
}

void DistributedDataParallel::zero_grad() {
  for (const auto& bucket : buckets_) compute_.zero(bucket.gradients);
  std::ranges::fill(used_, 0);
  BeginPass();
}

float DistributedDataParallel::Share() const {
  return config_.gradient_divisor == 0
             ? 1.0F
             : static_cast<float>(group_.size()) / static_cast<float>(config_.gradient_divisor);
}

void DistributedDataParallel::keep_gradients() {
  if (!finished_) return;
  // The sum will be divided again.
  for (const auto& bucket : buckets_) {
    if (Share() != 1.0F) compute_.scale(bucket.gradients, 1 / Share());
  }
  BeginPass();
}

void DistributedDataParallel::BeginPass() {
  finished_ = false;
  next_ = 0;
  missing_.clear();
  for (const auto& bucket : buckets_) missing_.push_back(bucket.parameters.size());
  for (auto& slot : slots_) slot.ready = false;
}

void DistributedDataParallel::mark_ready(std::size_t parameter) {
  used_[parameter] = 1;
  if (accumulating_ > 0) return;
  auto& slot = slots_[parameter];
  if (slot.ready) {
    throw Error(
        tuttiInvalidUsage,
        fmt::format("the gradient of \"{}\" is marked ready twice in one pass; a parameter that is used several "
                    "times is ready after the last, and micro-batches before the last one need no_sync()",
                    parameters_[parameter].name));
  }
  slot.ready = true;
  --missing_[slot.bucket];
  while (next_ < buckets_.size() && missing_[next_] == 0) SendNext();
}

void DistributedDataParallel::SendNext() {
  const Tensor& gradients = buckets_[next_++].gradients;
  if (Share() != 1.0F) compute_.scale(gradients, Share());
  compute_.fork_communication();
  group_.all_reduce(gradients, gradients, tuttiAvg, compute_.communication_stream());
}

void DistributedDataParallel::finish_gradients() {
  if (accumulating_ > 0) {
    throw Error(tuttiInvalidUsage,
                "finish_gradients() was called while a no_sync() is alive, so no gradient would be averaged");
  }
  while (next_ < buckets_.size()) SendNext();
  join_communication(compute_, {&group_});
  finished_ = true;
  if (config_.find_unused_parameters) {
    const Tensor used(used_.data(), {used_.size()}, tuttiInt32);
    group_.all_reduce(used, used, tuttiMax);
  }
}

}  // namespace tutti::parallel
