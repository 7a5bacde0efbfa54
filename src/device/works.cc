// What a call on the GPU is made of: the kernel's description of it, how peers reach its buffers, and copies in its place.
#include <cstring>
#include <optional>

#include "base/numbers/datatype.h"
#include "src/device/device_side.h"
#include "src/plan/call_buffers.h"

namespace tutti::device {

void DeviceSide::Copy(void* to, cuda_transport::CuStream writer, const void* from, cuda_transport::CuStream reader,
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

bool DeviceSide::DoneByCopy(const plan::Operation& operation, cuda_transport::CuStream stream) const {
  if (nranks_ > 1 || operation.point_to_point() || operation.scaled || !operation.plain()) return false;
  if (operation.collective != schedule::Collective::barrier) {
    Copy(operation.output, stream, operation.input, stream, operation.count * SizeOf(operation.type));
  }
  return true;
}

// How peers may reach a buffer of the GPU instead of receiving copies.
host::RemoteAccess DeviceSide::RemoteAccessOf(const void* buffer, std::size_t bytes) const {
  if (!fabric_->all_reach()) return {};
  if (fabric_->one_process() && (fabric_->one_device() || memory::PeersMayReach(*device_, buffer))) {
    return {ring::SlotKind::pointer, 0, reinterpret_cast<std::uint64_t>(buffer)};
  }
  if (const auto reach = windows_->Find(buffer, bytes)) return *reach;
  return registered_->Find(buffer, bytes).value_or(host::RemoteAccess{});
}

cuda_kernels::DeviceWork DeviceSide::WorkOf(const plan::Operation& operation, const DevicePlanEntry& plan) const {
  cuda_kernels::DeviceWork work{};
  work.plan = plan.program.plan();
  const auto buffers = plan::BuffersOf(operation, {barrier_.data(), barrier_.data() + kBarrierPart});
  work.input = buffers.input;
  work.output = buffers.output;
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
  if (!zero_copy_) return work;
  const auto reach = [this](const void* buffer, std::size_t bytes) { return RemoteAccessOf(buffer, bytes); };
  if (const auto access = plan::AccessTo(buffers, plan.used, operation, plan.program, reach)) {
    work.input_kind = static_cast<std::uint8_t>(access->input.kind);
    work.input_window = access->input.window;
    work.input_base = access->input.base;
    work.output_kind = static_cast<std::uint8_t>(access->output.kind);
    work.output_window = access->output.window;
    work.output_base = access->output.base;
  }
  return work;
}

}  // namespace tutti::device
