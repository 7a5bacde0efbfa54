// What a call's tensors must be, checked before anything is sent; and memory for lists of them.
//
// Refusals name the call, the tensor, the quantity and both values (ValueError in Python). What only the ranks together
// can know - that their counts, types or operators differ - the library finds, and names both ranks.
//
// Thread-safety: functions may be called from any thread; a Block belongs to one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "interop/torch/csrc/ops/elements.h"

namespace tutti::pytorch {

using Tensors = std::vector<at::Tensor>;

// Dense, contiguous, in host memory or on a device that is taken (devices.h). `what` names it: "output",
// "input_list[2]".
void CheckTensor(const char* call, const std::string& what, const at::Tensor& tensor);
// The same for a tensor that the call only reads, and packs if it has other strides.
void CheckReadTensor(const char* call, const std::string& what, const at::Tensor& tensor);
// That, of each, and alike with `like`.
void CheckTensors(const char* call, const std::string& what, const Tensors& tensors, const at::Tensor& like);
// c10d's calls take lists of tensors, of which only the first means anything to one process.
const at::Tensor& CheckSingle(const char* call, const std::string& what, const Tensors& tensors);
const at::Tensor& CheckSingleRead(const char* call, const std::string& what, const Tensors& tensors);
// Of one type, on one device.
void CheckAlike(const char* call, const std::string& a_name, const at::Tensor& a, const std::string& b_name,
                const at::Tensor& b);
void CheckSameDevice(const char* call, const std::string& a_name, const at::Tensor& a, const std::string& b_name,
                     const at::Tensor& b);
// In calls that take lists of calls.
void CheckOneDevice(const char* call, const Tensors& tensors);
// For lists of calls with one tensor on each side: both lists are equally long, and not empty.
void CheckCalls(const char* call, const Tensors& outputs, const Tensors& inputs);
// For calls that know host memory only; `why` is said of the others.
void CheckOnHost(const char* call, const at::Tensor& tensor, const char* why);
void CheckCount(const char* call, const std::string& quantity, std::int64_t is, const std::string& must_be_name,
                std::int64_t must_be);
void CheckRank(const char* call, const std::string& what, std::int64_t rank, int ranks);

bool AllOfOneSize(const Tensors& tensors);
// In the library's elements.
std::size_t Count(const at::Tensor& tensor);

// Memory that is kept from one operation to the next, because to get as much anew takes longer than to fill it. One for
// all operations of a channel, which come one at a time; that of a device is for one stream, the current one of whoever
// uses it.
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

// The tensors of a list as the library wants them: where they lie (a start and displacements), or one behind the other
// - where they lie if they lie so, else in scratch. REQUIRES: CheckTensors; and that the scratch is nobody else's
// meanwhile.
class Pieces {
 public:
  explicit Pieces(Tensors tensors);

  // Whether they can be read and written where they lie: they do not overlap, and are whole elements apart.
  bool IsOrderly() const;
  // Makes them one piece: Pack in place if they are one already, else in scratch; Copy always in scratch.
  void Pack(Scratch& scratch) { Pack(scratch, false); }
  void Copy(Scratch& scratch) { Pack(scratch, true); }
  bool Overlap(const Pieces& other) const;

  void* data() const { return begin_; }
  std::size_t bytes() const { return bytes_; }                        // from there to the end of the last
  const std::vector<std::size_t>& counts() const { return counts_; }  // in the library's elements
  const std::vector<std::size_t>& places() const { return places_; }  // the same

  // On a device these are enqueued on its current stream.
  void Load() const;   // tensors to scratch, if that is where they are packed
  void Store() const;  // scratch to tensors, if so

 private:
  void Pack(Scratch& scratch, bool always);

  const Tensors tensors_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> places_;
  std::byte* begin_ = nullptr;
  bool whole_elements_ = true;
  std::size_t bytes_ = 0;  // from the begin of the first in memory to the end of the last
  bool copied_ = false;
};

}  // namespace tutti::pytorch
