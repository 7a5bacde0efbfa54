// A group, as in PyTorch and Megatron: some ranks of a job that do something together, and a communicator that is made
// when it is first needed.
//
// Thread-safety: one thread at a time, as for a communicator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/parallel/tensor.h"

namespace tutti::parallel {

class TUTTI_API ProcessGroup {
 public:
  // All ranks of `world`, which stays the caller's and outlives this.
  explicit ProcessGroup(tuttiComm_t world);
  // A group of `ranks` (of the world, ascending), this rank among them. `config`: how its communicator is made, from
  // TUTTI_CONFIG_INITIALIZER. Communicates with no rank yet. `world` outlives this.
  ProcessGroup(ProcessGroup& world, std::string name, std::vector<int> ranks, const tuttiConfig_t& config);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<int>& ranks() const { return ranks_; }  // of the world
  int rank() const { return rank_; }                        // in this group
  int size() const { return static_cast<int>(ranks_.size()); }

  // Makes it at the first call, which is collective over the group: ranks that share several groups make new ones in
  // the same order. Throws Error; tuttiInvalidUsage naming both groups where the order differs.
  tuttiComm_t comm();
  // Frees its communicator and makes no other: later calls that need one throw Error (tuttiInvalidUsage). The destructor
  // does so, too. Local, as tuttiCommDestroy. The world's communicator stays the caller's.
  void close();
  // Ends everything under way, here and on the others, for good (tuttiCommRevoke): this rank has left something midway.
  // Does nothing if there are no others, or no communicator yet, or if it has failed: then every rank gets the reason,
  // or has it.
  void revoke() noexcept;
  // Payload that this rank has sent by this group since its communicator was made, as the library counts it.
  std::uint64_t bytes_sent() const;

  // As the functions of tutti.h, where they are described; each throws Error. In place where `input` and `output` are
  // the same memory. Counts and types must match, and are checked; shapes need not.
  void all_reduce(const Tensor& input, const Tensor& output, tuttiRedOp_t op, tuttiStream_t stream = nullptr);
  void all_gather(const Tensor& input, const Tensor& output, tuttiStream_t stream = nullptr);
  void reduce_scatter(const Tensor& input, const Tensor& output, tuttiRedOp_t op, tuttiStream_t stream = nullptr);
  // Rank r has counts[r] elements; counts are the same on all ranks; nothing is padded.
  void all_gather_v(const Tensor& input, const std::vector<std::size_t>& counts, const Tensor& output,
                    tuttiStream_t stream = nullptr);
  void reduce_scatter_v(const Tensor& input, const std::vector<std::size_t>& counts, const Tensor& output,
                        tuttiRedOp_t op, tuttiStream_t stream = nullptr);
  void broadcast(const Tensor& tensor, int root, tuttiStream_t stream = nullptr);
  void all_to_all(const Tensor& input, const std::vector<std::size_t>& send_counts, const Tensor& output,
                  const std::vector<std::size_t>& receive_counts, tuttiStream_t stream = nullptr);
  // Along dimensions of row-major tensors, without packing (docs/tensors.md): shapes matter.
  void all_gather_tensor(const Tensor& input, const Tensor& output, std::size_t dim, tuttiStream_t stream = nullptr);
  void all_to_all_tensor(const Tensor& input, std::size_t input_dim, const Tensor& output, std::size_t output_dim,
                         tuttiStream_t stream = nullptr);
  void barrier();

 private:
  struct Invitation;

  Invitation Exchange();
  bool alone_in_place(const Tensor& input, const Tensor& output) const {
    return size() == 1 && input.data == output.data;
  }

  ProcessGroup* world_;  // null: this is the world
  std::string name_;
  std::vector<int> ranks_;
  int rank_ = 0;
  tuttiConfig_t config_;
  tuttiComm_t comm_ = nullptr;
  bool closed_ = false;
};

}  // namespace tutti::parallel
