// Data parallelism, as in PyTorch's and Megatron's DistributedDataParallel: every rank has the whole model, or a whole
// part of it, and computes the gradients of its own samples; the gradients are averaged in buckets, in the reverse
// order of the parameters, while the backward pass still computes the others.
//
// Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
//
//   DistributedDataParallel ddp(group, compute, parameters);
//   ddp.broadcast_parameters();
//   ... for each step: zero_grad(); forward; backward, which adds to grad(i) and calls mark_ready(i);
//   finish_gradients();
//   ... update the parameters;
//
// Gradients live in the buckets, so that nothing is copied. All ranks send buckets in the same order, whatever the
// order in which their parameters become ready.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

struct TUTTI_API Parameter {
  std::string name;
  Tensor data;
};

struct TUTTI_API DistributedDataParallelConfig {
  // Bytes of gradients. The first bucket to be ready is smaller, so that sending begins early. PyTorch's values.
  std::size_t bucket_bytes = 25 << 20;
  std::size_t first_bucket_bytes = 1 << 20;
  // The sum is divided by this; 0: by the group's size. An expert's gradients come from the tokens of all data-parallel
  // ranks, though fewer hold the same experts: for experts it is the number of all those ranks.
  int gradient_divisor = 0;
  // Ranks may leave parameters unused: finish_gradients() finds those that no rank used (one more small all-reduce).
  bool find_unused_parameters = false;
};

class TUTTI_API DistributedDataParallel {
 public:
  // Throws Error for a parameter without elements, or two of one name. Everything given outlives this.
  DistributedDataParallel(ProcessGroup& group, Compute& compute, std::vector<Parameter> parameters,
                          const DistributedDataParallelConfig& config = {});
  // Waits for buckets that are under way.
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // In the parameter's shape and type.
  const Tensor& grad(std::size_t parameter) const { return slots_[parameter].grad; }
  // Every rank gets rank 0's parameters. Throws Error (tuttiInvalidUsage) on every rank, naming both, where the ranks'
  // parameters differ in number, name, type or shape, before any of them is sent.
  void broadcast_parameters();

  void zero_grad();
  // Instead of zero_grad(), and before anything is added: the next pass adds to the averages of the last one.
  void keep_gradients();
  // The gradient is complete for this backward pass; a bucket's last one sends the bucket. REQUIRES: once a pass.
  void mark_ready(std::size_t parameter);
  // While one of these lives, gradients are added up and not sent: for all micro-batches but the last.
  class NoSync {
   public:
    explicit NoSync(DistributedDataParallel& ddp) : ddp_(ddp) { ++ddp_.accumulating_; }
    ~NoSync() { --ddp_.accumulating_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DistributedDataParallel& ddp_;
  };
  NoSync no_sync() { return NoSync(*this); }
  // Ends the pass: sends what was not ready as it is (zeros, if it was never used), and waits until every gradient is
  // the average. Later computation sees it.
  void finish_gradients();
  // Buckets of this pass, so far: before finish_gradients(), those that the backward pass can hide.
  std::size_t buckets_sent() const { return next_; }
  // Whether no rank used it since zero_grad(), as of the last finish_gradients(). REQUIRES: find_unused_parameters.
  bool unused(std::size_t parameter) const { return used_[parameter] == 0; }

  struct Bucket {
    std::vector<std::size_t> parameters;  // in the order in which they lie there
    Buffer gradients;
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  struct Slot {
    Tensor grad;
    std::size_t bucket = 0;
    bool ready = false;
  };

  void MakeBuckets();
  void BeginPass();
  // This rank's gradients count as this many of the group's in the average.
  float Share() const;
  void SendNext();

  ProcessGroup& group_;
  Compute& compute_;
  std::vector<Parameter> parameters_;
  DistributedDataParallelConfig config_;
  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> missing_;  // by bucket: parameters that are not ready
  std::size_t next_ = 0;              // bucket to send
  bool finished_ = false;             // the pass, by finish_gradients()
  int accumulating_ = 0;
  std::vector<std::int32_t> used_;  // by parameter
};

}  // namespace tutti::parallel
