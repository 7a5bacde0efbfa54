// What a call on the GPU is made of: the kernel's description of it, how peers reach its buffers, and copies in its place.
#include <cstring>
#include <optional>

#include "base/numbers/datatype.h"
#include "src/device/context.h"

namespace tutti::device {

void DeviceContext::Copy(void* to, cuda_transport::CuStream writer, const void* from, cuda_transport::CuStream reader,
                         std::size_t bytes) const {
  const auto& driver = device_->driver();
  const cuda_transport::CurrentDevice current(driver, device_->context());
  std::optional<cuda_transport::CudaEvent> between;
  if (writer != reader) {
    between.emplace(driver, device_->context());
    between->Record(reader);
    between->Block(writer);
  }
  if (bytes > 0 && to != from) {
    cuda_transport::EnqueueCopy(driver, to, from, bytes, writer);
  }
  if (between) {
    between->Record(writer);
    between->Block(reader);
  }
}

bool DeviceContext::DoneByCopy(const plan::Operation& operation, cuda_transport::CuStream stream) const {
  if (nranks_ > 1 || operation.point_to_point() || operation.scaled || !operation.plain()) return false;
  if (operation.collective != schedule::Collective::barrier) {
    Copy(operation.output, stream, operation.input, stream, operation.count * SizeOf(operation.type));
  }
  return true;
}

// How peers may reach a buffer of the GPU instead of receiving copies.
host::RemoteAccess DeviceContext::RemoteAccessOf(const void* buffer, std::size_t bytes) const {
  if (!zero_copy_ || !fabric_->all_reach()) return {};
  if (fabric_->one_process() && (fabric_->one_device() || memory::PeersMayReach(*device_, buffer))) {
    return {ring::SlotKind::pointer, 0, reinterpret_cast<std::uint64_t>(buffer)};
  }
  if (const auto reach = windows_->Find(buffer, bytes)) return *reach;
  return registered_->Find(buffer, bytes).value_or(host::RemoteAccess{});
}

cuda_kernels::DeviceWork DeviceContext::WorkOf(const plan::Operation& operation, const DevicePlanEntry& plan) const {
  cuda_kernels::DeviceWork work{};
  work.plan = plan.program.plan();
  work.input = static_cast<const std::byte*>(operation.input);
  work.output = static_cast<std::byte*>(operation.output);
  if (operation.collective == schedule::Collective::barrier) {
    work.input = barrier_.data();
    work.output = barrier_.data() + kBarrierPart;
  }
  work.scaled = operation.scaled;
  work.one_launch = plan.program.schedule().one_launch;
  work.lane_vectors = plan.program.lane_vectors();
  const void* const source = operation.scalar_source;
  host_kernels::Scalar scalar = operation.scalar;
  if (source != nullptr && memory::DeviceReads(*device_, source)) {
    work.scalar_source = source;
  } else if (source != nullptr) {
    scalar = host_kernels::Scalar::From(source, SizeOf(operation.type));
  }
  std::memcpy(&work.scalar, scalar.bytes.data(), sizeof work.scalar);
  const auto* const tensors = operation.tensors.get();
  const bool dense_input = tensors == nullptr || tensors->input.dense();
  const bool dense_output = tensors == nullptr || tensors->output.dense();
  const auto& schedule = plan.program.schedule();
  const bool may_refer = operation.in_place ? schedule.reference_safe_in_place : schedule.reference_safe;
  if (plan.program.config().protocol == ring::Protocol::bulk && may_refer) {
    // Peers read contiguous buffers in place.
    const host::RemoteAccess input = dense_input ? RemoteAccessOf(work.input, plan.used.input) : host::RemoteAccess{};
    const host::RemoteAccess output =
        dense_output ? RemoteAccessOf(work.output, plan.used.output) : host::RemoteAccess{};
    work.input_kind = static_cast<std::uint8_t>(input.kind);
    work.input_window = input.window;
    work.input_base = input.base;
    work.output_kind = static_cast<std::uint8_t>(output.kind);
    work.output_window = output.window;
    work.output_base = output.base;
  }
  return work;
}

}  // namespace tutti::device
