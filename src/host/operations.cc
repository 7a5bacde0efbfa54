#include "src/host/operations.h"

#include <cstring>
#include <utility>

#include "base/clocks/clock.h"
#include "base/numbers/datatype.h"
#include "src/plan/call_buffers.h"
#include "src/plan/external_tuner.h"

namespace tutti::host_side {
namespace {

// Bytes of a piece. A shorter one costs its reader more in the system call, and its writer more in waiting until it is
// read, than a second copy does: a call and a look at the peer's process take 0.75 us (HostCosts), as long as 16 KiB
// take through a slot.
constexpr std::size_t kWorthFetching = 16 * 1024;

}  // namespace

Operations::Operations(const Parts& parts, const plan::PlanContext& context)
    : parts_(parts),
      control_(parts.fabric.control(parts.fabric.rank())),
      plans_(context),
      recorder_(control_),
      sites_(control_),
      signals_(parts.fabric),
      reports_(plan::WantsPlans()),
      keeps_calls_(parts.trace == nullptr && parts.programs.empty() && !parts.settings.check && !reports_ &&
                   !parts.observed) {
  if (context.selector->tries()) {
    trials_.emplace(parts.fabric.rank(), parts.settings.measure == "all",
                    [selector = context.selector](const cost_model::Kind& kind, std::size_t bytes) {
                      return selector->Alternatives(kind, bytes);
                    });
  }
  sent_.resize(static_cast<std::size_t>(parts.fabric.nranks()));
  received_.resize(static_cast<std::size_t>(parts.fabric.nranks()));
  signalled_.resize(static_cast<std::size_t>(parts.fabric.nranks()));
  awaited_.resize(static_cast<std::size_t>(parts.fabric.nranks()));
}

Active Operations::Begin(const plan::Operation& operation) {
  const auto packed = plan::PackCall(operation);
  auto* const trial = trials_ ? trials_->Of(operation, packed) : nullptr;
  Active active{&operation, &plans_.Find(operation, packed, trial)};
  active.origin = OriginOf(operation.site, operation.site_text, active.plan->choice.candidate.algorithm);
  if (reports_) [[unlikely]] {
    plan::ReportPlan(parts_.fabric.rank(), parts_.fabric.nranks(), operation, active.plan->choice,
                     active.plan->plan.channels().size());
  }
  if (operation.observed != nullptr) [[unlikely]]
    operation.observed->Begin(active.plan->choice, active.plan->plan.channels().size());
  if (operation.point_to_point()) {
    auto& orders = operation.collective == schedule::Collective::send ? sent_ : received_;
    auto& order = orders[static_cast<std::size_t>(operation.root)];
    active.sequence = order.Next(active.plan->signature);
    active.tag = ring::OperationTag(order.digest);
    Record(active, packed);
  } else {
    NumberCollective(active);
    PublishCollective(active, packed);
    const bool barrier = operation.collective == schedule::Collective::barrier;
    const bool changes = operation.own || (trial != nullptr && !trial->Keeps(active.plan->tried));
    if (keeps_calls_ && active.plan->plan.one_pass() && operation.plain() && !operation.scaled && !barrier &&
        !changes) {
      repeated_.Keep(operation, *active.plan, packed);
    }
  }
  active.plan->run.Start([&](host::Launch& launch) { BindBuffers(active, launch); });
  return active;
}

std::uint32_t Operations::SiteNumber(std::uint64_t site, const std::shared_ptr<const std::string>& text) {
  const auto found = sites_.NumberOf(site, text);
  if (found.is_new) repeated_.ForgetSites();
  return found.number;
}

std::uint64_t Operations::OriginOf(std::uint64_t site, const std::shared_ptr<const std::string>& text,
                                   tuttiAlgorithm_t algorithm) {
  return ring::PackOrigin(static_cast<std::uint32_t>(algorithm), SiteNumber(site, text));
}

void Operations::FindSite(RepeatedCall& repeated, const plan::PlainCall& call) noexcept {
  const auto origin = OriginOf(call.site, nullptr, repeated.plan().choice.candidate.algorithm);
  repeated.CalledAt(call.site, origin);
}

Active Operations::BeginOneSided(const plan::Operation& operation) {
  Active active{&operation};
  auto& order = operation.collective == schedule::Collective::wait_signal ? awaited_ : signalled_;
  active.sequence = ++order[static_cast<std::size_t>(operation.root)];
  active.started = Ticks();
  active.origin = OriginOf(operation.site, operation.site_text, tuttiAlgorithmNone);
  active.record =
      recorder_.Begin({active.sequence, 0, plan::PackCall(operation), operation.count, active.started, active.origin});
  return active;
}

void Operations::Send(const plan::Operation& operation) const {
  if (operation.count > 0) std::memmove(operation.output, operation.input, operation.count * SizeOf(operation.type));
  signals_.Send(operation.root, operation.signal);
}

void Operations::EndOneSided(const Active& active) {
  recorder_.End(active.record, Ticks());
  if (parts_.trace != nullptr) AddToTrace(active, tuttiAlgorithmNone);
}

void Operations::AddToTrace(const Active& active, tuttiAlgorithm_t algorithm) {
  parts_.trace->Add(plan::PackCall(*active.operation), active.operation->count, active.sequence, algorithm,
                    active.started, Ticks());
}

void Operations::NoteTime(const Active& active, std::int64_t now) {
  if (active.operation->own) {
    trials_->Exchanged();
    repeated_.Forget();  // other plans serve, perhaps
  } else if (active.plan->trial != nullptr) {
    active.plan->trial->Add(trials_->Microseconds(now - active.started));
  }
}

void Operations::ForgetPlans() {
  repeated_.Forget();
  plans_.Forget();
}

void Operations::NoteEnqueued(const plan::Operation& operation, tuttiAlgorithm_t algorithm) {
  last_call_ = plan::PackCall(operation);
  last_count_ = operation.count;
  last_on_device_ = true;
  last_algorithm_.store(algorithm, std::memory_order_relaxed);
}

Operations::Last Operations::last() const { return {last_call_, last_count_, last_on_device_, plans_.last()}; }

host::RemoteAccess Operations::RemoteAccessOf(const void* buffer, std::size_t bytes, bool cma) const {
  const auto address = reinterpret_cast<std::uint64_t>(buffer);
  if (parts_.fabric.all_same_process()) return {ring::SlotKind::pointer, 0, address};
  if (const auto access = parts_.windows.Find(buffer, bytes)) return *access;
  if (cma) return {ring::SlotKind::cma, 0, address, parts_.fabric.cma_forced() ? 0 : kWorthFetching};
  return {};
}

void Operations::BindBuffers(const Active& active, host::Launch& launch) {
  const auto& operation = *active.operation;
  const auto& plan = *active.plan;
  const auto buffers = plan::BuffersOf(operation, {&barrier_.input, &barrier_.output});
  launch.input = buffers.input;
  launch.output = buffers.output;
  launch.tag = active.tag;
  launch.scaled = operation.scaled;
  launch.scalar = operation.scalar_source == nullptr
                      ? operation.scalar
                      : host_kernels::Scalar::From(operation.scalar_source, SizeOf(operation.type));
  launch.stream_output = plan.StreamsOutput(operation);
  if (const auto* tensors = operation.tensors.get()) {
    if (!tensors->input.dense()) launch.input_strided = &tensors->input;
    if (!tensors->output.dense()) launch.output_strided = &tensors->output;
  }
  if (!parts_.settings.zero_copy) return;
  launch.receive_in_place = true;
  // Data fetched from other processes needs a dense destination.
  const bool cma = plan.plan.config().cma && operation.tensors == nullptr;
  const auto reach = [&](const void* buffer, std::size_t bytes) { return RemoteAccessOf(buffer, bytes, cma); };
  const auto access = plan::AccessTo(buffers, plan.used, operation, plan.plan, reach);
  if (!access) return;
  launch.input_access = access->input;
  launch.output_access = access->output;
  launch.send_in_place = true;
}

}  // namespace tutti::host_side
