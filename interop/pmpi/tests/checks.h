// For a program of MPI that checks results: what it expects, and how it says that it got something else.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace tutti::pmpi_test {

inline int RankOf(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
inline int RanksOf(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  return ranks;
}

// Ends the job with a sentence if `holds` is false.
inline void Require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "FAILED on rank %d: %s\n", RankOf(MPI_COMM_WORLD), what.c_str());
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

// How a rank describes data that are integers: a datatype of `integers` of them.
struct Shape {
  const char* name;
  MPI_Datatype type;
  int integers;
};

// The number that rank `from` sends to rank `to` at place i.
inline int Sent(int from, int to, int i) { return 1'000'000 * (from + 1) + 10'000 * (to + 1) + i; }

// Memory that a shape describes, between two margins. What the shape leaves out must stay as it was.
class Memory {
 public:
  Memory(const Shape& shape, int elements) : shape_(shape), elements_(elements) {
    MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    MPI_Type_get_extent(shape.type, &lower, &extent);
    MPI_Type_get_true_extent(shape.type, &true_lower, &true_extent);
    extent_ = extent;
    bytes_.assign(static_cast<std::size_t>(kMargin * 2 + extent * elements + true_lower + true_extent), kUntouched);
  }
  char* data() { return bytes_.data() + kMargin; }
  int elements() const { return elements_; }
  int integers() const { return elements_ * shape_.integers; }
  MPI_Datatype type() const { return shape_.type; }
  MPI_Aint extent() const { return extent_; }

  // Writes integers from element `at` on.
  void Put(int at, const std::vector<int>& values) { Put(bytes_, at, values); }
  // Whether this memory is what it was when made, but for these values at these elements.
  void Expect(const std::vector<std::pair<int, std::vector<int>>>& parts, const std::string& what) {
    std::vector<char> expected(bytes_.size(), kUntouched);
    for (const auto& [at, values] : parts) Put(expected, at, values);
    Require(expected == bytes_, what + " as " + shape_.name);
  }

 private:
  static constexpr std::size_t kMargin = 64;
  static constexpr char kUntouched = 0x6b;

  void Put(std::vector<char>& bytes, int at, const std::vector<int>& values) const {
    if (values.empty()) return;
    int position = 0;
    const int length = static_cast<int>(values.size() * sizeof(int));
    MPI_Unpack(values.data(), length, &position, bytes.data() + kMargin + at * extent_,
               static_cast<int>(values.size()) / shape_.integers, shape_.type, MPI_COMM_SELF);
  }

  Shape shape_;
  int elements_;
  MPI_Aint extent_ = 0;
  std::vector<char> bytes_;
};

inline std::vector<int> Values(int from, int to, int count) {
  std::vector<int> values;
  for (int i = 0; i < count; ++i) values.push_back(Sent(from, to, i));
  return values;
}

inline std::vector<int> Joined(std::vector<int> first, const std::vector<int>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void CheckMovement(MPI_Comm comm);    // movement_checks.cc
void CheckVectors(MPI_Comm comm);     // vector_checks.cc
void CheckReductions(MPI_Comm comm);  // reduction_checks.cc
void CheckEmptyTypes(MPI_Comm comm);  // type_checks.cc
// On two ranks, once the layer has taken the communicator over. Not all MPIs make no copy, so only with the layer.
void CheckLongTypes(MPI_Comm comm);
void CheckOtherTypes(MPI_Comm comm);
// On buffers that are not aligned to their type. MPI does not promise this, and MPICH 4.0 crashes.
void CheckUnaligned(MPI_Comm comm);
std::vector<Shape> MakeShapes();  // shapes.cc; elements of kIntegers integers each
constexpr int kIntegers = 12;

}  // namespace tutti::pmpi_test
