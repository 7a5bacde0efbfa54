// A job's ranks as a grid with named axes, and the groups along them: arithmetic alone.
//
// Thread-safety: values; const functions from any thread.
#pragma once

#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::parallel {

struct TUTTI_API MeshAxis {
  std::string name;
  int size = 1;
};

class TUTTI_API MeshLayout {
 public:
  // Axes from the one that varies slowest with the rank to the fastest, as in PyTorch's init_device_mesh: in {"dp", 2},
  // {"tp", 4} rank 5 is dp 1, tp 1. Throws Error for a size below 1, or a name that is empty or there twice.
  explicit MeshLayout(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int size() const { return size_; }
  // Throws Error for a name that is no axis's, naming the axes.
  int size(const std::string& axis) const { return axes_[place(axis)].size; }
  // The place of `rank` on that axis. REQUIRES: 0 <= rank < size().
  int coordinate(int rank, const std::string& axis) const;
  // The ranks, `rank` among them, that differ from it on these axes only; ascending.
  std::vector<int> group_of(int rank, const std::vector<std::string>& axes) const;
  // All groups along these axes, ordered by their lowest rank.
  std::vector<std::vector<int>> groups(const std::vector<std::string>& axes) const;

 private:
  std::size_t place(const std::string& axis) const;

  std::vector<MeshAxis> axes_;
  std::vector<int> strides_;
  int size_ = 1;
};

}  // namespace tutti::parallel
