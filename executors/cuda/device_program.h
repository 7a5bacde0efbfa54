// A schedule bound to a GPU: its plan in device memory, as the interpreter reads it (device_plan.h), and what the host
// needs to launch it.
//
// Thread-safety: immutable after construction.
#pragma once

#include <set>
#include <vector>

#include "algorithms/schedule/binding.h"
#include "algorithms/schedule/protocol_config.h"
#include "executors/cuda/kernels/device_plan.h"
#include "transports/cuda/arena.h"

namespace tutti::cuda {

// Identifies a plan's calls, for code that compares them.
struct CallIdentity {
  std::uint64_t signature;
  std::uint64_t call;  // PackCall
  std::uint64_t count;
};

// Layouts of strided tensors; null: dense, as in all calls without tensors.
struct StridedSides {
  const schedule::Strided* input = nullptr;
  const schedule::Strided* output = nullptr;
};

class DeviceProgram {
 public:
  // Uses channels first_channel, first_channel + 1, ... of `fabric`, one for each connection of each channel. Copies
  // the plan to the device, which takes some ten us. Throws tuttiUnhandledCudaError;
  // tuttiInternalError if a chunk does not fit a slot.
  DeviceProgram(schedule::Schedule schedule, schedule::Extents extents, schedule::ProtocolConfig config,
                tuttiDataType_t type, tuttiRedOp_t op, const StridedSides& strided, const CallIdentity& identity,
                const cuda_transport::DeviceFabric& fabric, cuda_transport::DeviceArena& arena, int first_channel);
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  const schedule::Schedule& schedule() const { return schedule_; }
  const schedule::ProtocolConfig& config() const { return config_; }
  const schedule::Extents& extents() const { return extents_; }
  const cuda_kernels::DevicePlan* plan() const { return reinterpret_cast<const cuda_kernels::DevicePlan*>(memory_); }
  std::uint32_t lanes() const { return lanes_; }
  // Thread blocks that run it.
  std::uint32_t blocks() const { return lanes_ * blocks_of_a_lane_; }
  // DeviceWork::lane_vectors.
  std::uint32_t lane_vectors() const { return lane_vectors_; }
  // Threads that a block needs for the data of a chunk.
  std::uint32_t threads() const { return threads_; }
  // Payload that one operation moves between this rank and others.
  struct Traffic {
    std::size_t sent = 0, received = 0;
  };
  const Traffic& on_host() const { return on_host_; }
  const Traffic& by_network() const { return by_network_; }
  // Its rings to and from ranks of other hosts.
  const std::set<cuda_transport::RingPair>& network_rings() const { return network_rings_; }

 private:
  struct BoundLane;
  struct Image;

  void AddChannel(Image& image, int channel, const cuda_transport::DeviceFabric& fabric, int first_channel);
  // The step's reads, those of a sum one by one.
  std::vector<schedule::Operand> EachRead(const schedule::Step& step) const;
  void CheckTeam(const cuda_transport::DeviceFabric& fabric, const StridedSides& strided) const;
  cuda_kernels::DeviceStep AddStep(BoundLane& lane, const schedule::Step& step, int channel,
                                   const cuda_transport::DeviceFabric& fabric, int fabric_channel);
  cuda_kernels::DeviceOperand Bind(const schedule::Operand& operand, bool written, int channel,
                                   const cuda_transport::DeviceFabric& fabric, int fabric_channel) const;
  Traffic& TrafficWith(const schedule::Operand& slot, const cuda_transport::DeviceFabric& fabric, int fabric_channel);

  std::uint32_t blocks_of_a_lane_;
  schedule::Schedule schedule_;
  schedule::Extents extents_;
  schedule::ProtocolConfig config_;
  schedule::Binding binding_;
  std::byte* memory_ = nullptr;  // of the arena
  std::uint32_t lanes_ = 0;
  std::uint32_t threads_ = 0;
  std::uint32_t lane_vectors_ = 0;
  Traffic on_host_, by_network_;
  std::set<cuda_transport::RingPair> network_rings_;
};

}  // namespace tutti::cuda
