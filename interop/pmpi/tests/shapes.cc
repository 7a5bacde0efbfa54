#include "interop/pmpi/tests/checks.h"

namespace tutti::pmpi_test {
namespace {

Shape Committed(const char* name, MPI_Datatype type) {
  MPI_Type_commit(&type);
  return {name, type, kIntegers};
}

}  // namespace

// The same signature each: kIntegers times MPI_INT.
std::vector<Shape> MakeShapes() {
  std::vector<Shape> shapes;
  MPI_Datatype made{}, part{};
  MPI_Type_contiguous(kIntegers, MPI_INT, &made);
  shapes.push_back(Committed("contiguous", made));
  MPI_Type_vector(kIntegers / 2, 2, 3, MPI_INT, &made);
  shapes.push_back(Committed("a vector with holes", made));
  MPI_Type_create_resized(made, 0, 100, &made);
  shapes.push_back(Committed("a resized vector", made));
  const int lengths[] = {4, 8}, places[] = {8, 0};
  MPI_Type_indexed(2, lengths, places, MPI_INT, &made);
  shapes.push_back(Committed("blocks in reverse order", made));
  MPI_Type_create_indexed_block(3, 4, std::vector<int>{0, 4, 8}.data(), MPI_INT, &made);
  shapes.push_back(Committed("adjacent blocks", made));
  MPI_Type_contiguous(4, MPI_INT, &part);
  MPI_Type_contiguous(3, part, &made);
  MPI_Type_free(&part);
  shapes.push_back(Committed("nested", made));
  const int halves[] = {6, 6};
  const MPI_Aint offsets[] = {0, 8 * sizeof(int)};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  MPI_Type_create_struct(2, halves, offsets, types, &made);
  shapes.push_back(Committed("a struct with a hole", made));
  return shapes;
}

}  // namespace tutti::pmpi_test
