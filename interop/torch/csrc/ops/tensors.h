// Checks a call's tensors before anything is sent, and provides memory for lists of them.
//
// Errors name the call, the tensor, the quantity and both values (InvalidArgument). The library detects what only
// the ranks together can know, such as differing counts, types or operators, and names both ranks.
//
// Thread-safety: functions may be called from any thread; a Block belongs to one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "interop/torch/csrc/invalid_argument.h"
#include "interop/torch/csrc/ops/elements.h"

namespace tutti::pytorch {

using Tensors = std::vector<at::Tensor>;

// Requires a dense, contiguous tensor in host memory or on an accepted device (devices.h). `what` names it: "output",
// "input_list[2]".
void CheckTensor(const char* call, const std::string& what, const at::Tensor& tensor);
// The same for a tensor of any strides, which the call packs.
void CheckPackedTensor(const char* call, const std::string& what, const at::Tensor& tensor);
// CheckTensor for each, and CheckAlike with `like`.
void CheckTensors(const char* call, const std::string& what, const Tensors& tensors, const at::Tensor& like);
// The same for tensors that the call packs if needed.
void CheckPackedTensors(const char* call, const std::string& what, const Tensors& tensors, const at::Tensor& like);
// c10d's calls take lists of tensors, of which one process uses only the first.
const at::Tensor& CheckSingle(const char* call, const std::string& what, const Tensors& tensors);
const at::Tensor& CheckSinglePacked(const char* call, const std::string& what, const Tensors& tensors);
// Requires one type and one device.
void CheckAlike(const char* call, const std::string& a_name, const at::Tensor& a, const std::string& b_name,
                const at::Tensor& b);
void CheckSameDevice(const char* call, const std::string& a_name, const at::Tensor& a, const std::string& b_name,
                     const at::Tensor& b);
// For calls that take lists of tensors.
void CheckOneDevice(const char* call, const Tensors& tensors);
// For lists of calls with one tensor on each side: both lists are equally long, and not empty.
void CheckCalls(const char* call, const Tensors& outputs, const Tensors& inputs);
// For calls that support host memory only; `why` is part of the error for other tensors.
void CheckOnHost(const char* call, const at::Tensor& tensor, const char* why);
void CheckCount(const char* call, const std::string& quantity, std::int64_t is, const std::string& must_be_name,
                std::int64_t must_be);
void CheckRank(const char* call, const std::string& what, std::int64_t rank, int ranks);

bool AllOfOneSize(const Tensors& tensors);
// In the library's elements.
std::size_t Count(const at::Tensor& tensor);

// Memory that is kept from one operation to the next, because allocating it takes longer than filling it. All
// operations of a queue share one, since they run one at a time; a device's scratch is for one stream, the user's
// current one.
class Scratch {
 public:
  explicit Scratch(c10::Device device) : device_(device) {}

  void* AtLeast(std::size_t bytes);

 private:
  const c10::Device device_;
  at::Tensor memory_;
};

struct Scratches {
  std::shared_ptr<Scratch> input;
  std::shared_ptr<Scratch> output;
};

// The tensors of a list as the library wants them: in place (a start and displacements), or consecutive - in place if
// they already are, else in scratch. REQUIRES: CheckTensors; and no other user of the scratch for the duration.
class Pieces {
 public:
  explicit Pieces(Tensors tensors);

  // Whether they can be read and written in place: they do not overlap, and their distances are whole elements.
  bool IsOrderly() const;
  // Make them one piece: Pack in place if they already are one, else in scratch; Copy always in scratch.
  void Pack(Scratch& scratch) { Pack(scratch, false); }
  void Copy(Scratch& scratch) { Pack(scratch, true); }
  bool Overlap(const Pieces& other) const;

  void* data() const { return begin_; }
  std::size_t bytes() const { return bytes_; }                        // from data() to the end of the last
  const std::vector<std::size_t>& counts() const { return counts_; }  // in the library's elements
  const std::vector<std::size_t>& places() const { return places_; }  // the same

  // On a device these are enqueued on its current stream.
  void Load() const;   // tensors to scratch, if they are packed there
  void Store() const;  // scratch to tensors, if they are packed there

 private:
  void Pack(Scratch& scratch, bool always);

  const Tensors tensors_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> places_;
  std::byte* begin_ = nullptr;
  bool whole_elements_ = true;
  std::size_t bytes_ = 0;  // from the start of the first in memory to the end of the last
  bool copied_ = false;
};

}  // namespace tutti::pytorch
