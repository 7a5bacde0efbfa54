// A job's ranks as a grid with named axes, and who is in which group: arithmetic alone.
//
// Thread-safety: values; const functions from any thread.
#pragma once

#include <string>
#include <vector>

namespace tutti::parallel {

struct MeshAxis {
  std::string name;
  int size = 1;
};

class MeshLayout {
 public:
  // From the axis that varies slowest with the rank to the fastest, as in PyTorch's init_device_mesh: of {"dp", 2},
  // {"tp", 4} rank 5 is dp 1, tp 1. Throws Error for a size below 1, a name twice or an empty one.
  explicit MeshLayout(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int size() const { return size_; }
  // Throws Error for a name that is no axis's, naming those there are.
  int size(const std::string& axis) const { return axes_[place(axis)].size; }
  // Where `rank` is on that axis. REQUIRES: 0 <= rank < size().
  int coordinate(int rank, const std::string& axis) const;
  // The ranks that differ from `rank` on these axes only, with itself, ascending.
  std::vector<int> group_of(int rank, const std::vector<std::string>& axes) const;
  // All groups of that kind, by their lowest rank.
  std::vector<std::vector<int>> groups(const std::vector<std::string>& axes) const;

 private:
  std::size_t place(const std::string& axis) const;

  std::vector<MeshAxis> axes_;
  std::vector<int> strides_;
  int size_ = 1;
};

}  // namespace tutti::parallel
