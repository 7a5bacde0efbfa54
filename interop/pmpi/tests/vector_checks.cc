// Collectives whose blocks have a length each, some of them none, and lie in another order than the ranks'.
#include <algorithm>

#include "interop/pmpi/tests/checks.h"

namespace tutti::pmpi_test {
namespace {

struct VectorRound {
  MPI_Comm comm;
  int rank, ranks;
  Shape sent, received;
  int scale;
  bool even;

  // Elements that `from` sends to `to`.
  int Elements(int from, int to) const { return even ? scale : (from * 2 + to) % 4 * scale; }
};

// Blocks of these lengths, the last rank's first, with an element between them.
struct Layout {
  std::vector<int> lengths, places;
  int total = 0;
};
Layout Reversed(const std::vector<int>& lengths) {
  Layout layout{lengths, std::vector<int>(lengths.size()), 0};
  for (auto rank = lengths.size(); rank-- > 0;) {
    layout.places[rank] = layout.total;
    layout.total += lengths[rank] + 1;
  }
  return layout;
}

template <typename Length>
Layout LayoutOf(int ranks, Length&& length) {
  std::vector<int> lengths;
  for (int rank = 0; rank < ranks; ++rank) lengths.push_back(length(rank));
  return Reversed(lengths);
}

using Parts = std::vector<std::pair<int, std::vector<int>>>;

void Allgatherv(const VectorRound& round, bool in_place) {
  const auto layout = LayoutOf(round.ranks, [&](int rank) { return round.Elements(rank, 0); });
  const int own = layout.lengths[static_cast<std::size_t>(round.rank)];
  Memory from(round.sent, own), to(round.received, layout.total);
  const auto values = Values(round.rank, 0, own * kIntegers);
  from.Put(0, values);
  if (in_place) to.Put(layout.places[static_cast<std::size_t>(round.rank)], values);
  MPI_Allgatherv(in_place ? MPI_IN_PLACE : from.data(), own, from.type(), to.data(), layout.lengths.data(),
                 layout.places.data(), to.type(), round.comm);
  Parts parts;
  for (int r = 0; r < round.ranks; ++r) {
    const auto index = static_cast<std::size_t>(r);
    parts.emplace_back(layout.places[index], Values(r, 0, layout.lengths[index] * kIntegers));
  }
  to.Expect(parts, in_place ? "MPI_Allgatherv in place" : "MPI_Allgatherv");
}

void Gatherv(const VectorRound& round, int root, bool in_place) {
  const bool is_root = round.rank == root;
  const auto layout = LayoutOf(round.ranks, [&](int rank) { return round.Elements(rank, root); });
  const int own = layout.lengths[static_cast<std::size_t>(round.rank)];
  Memory from(round.sent, own), to(round.received, is_root ? layout.total : 0);
  const auto values = Values(round.rank, root, own * kIntegers);
  from.Put(0, values);
  if (is_root && in_place) to.Put(layout.places[static_cast<std::size_t>(root)], values);
  MPI_Gatherv(is_root && in_place ? MPI_IN_PLACE : from.data(), own, from.type(), is_root ? to.data() : nullptr,
              is_root ? layout.lengths.data() : nullptr, is_root ? layout.places.data() : nullptr, to.type(), root,
              round.comm);
  if (!is_root) return;
  Parts parts;
  for (int r = 0; r < round.ranks; ++r) {
    const auto index = static_cast<std::size_t>(r);
    parts.emplace_back(layout.places[index], Values(r, root, layout.lengths[index] * kIntegers));
  }
  to.Expect(parts, in_place ? "MPI_Gatherv in place" : "MPI_Gatherv");
}

void Scatterv(const VectorRound& round, int root, bool in_place) {
  const bool is_root = round.rank == root;
  const auto layout = LayoutOf(round.ranks, [&](int rank) { return round.Elements(root, rank); });
  const int own = layout.lengths[static_cast<std::size_t>(round.rank)];
  Memory from(round.sent, is_root ? layout.total : 0), to(round.received, own);
  for (int r = 0; r < round.ranks && is_root; ++r) {
    const auto index = static_cast<std::size_t>(r);
    from.Put(layout.places[index], Values(root, r, layout.lengths[index] * kIntegers));
  }
  MPI_Scatterv(is_root ? from.data() : nullptr, is_root ? layout.lengths.data() : nullptr,
               is_root ? layout.places.data() : nullptr, from.type(), is_root && in_place ? MPI_IN_PLACE : to.data(),
               own, to.type(), root, round.comm);
  if (is_root && in_place) return;
  to.Expect({{0, Values(root, round.rank, own * kIntegers)}}, "MPI_Scatterv");
}

void Alltoallv(const VectorRound& round) {
  const auto out = LayoutOf(round.ranks, [&](int rank) { return round.Elements(round.rank, rank); });
  const auto in = LayoutOf(round.ranks, [&](int rank) { return round.Elements(rank, round.rank); });
  Memory from(round.sent, out.total), to(round.received, in.total);
  Parts parts;
  for (int r = 0; r < round.ranks; ++r) {
    const auto index = static_cast<std::size_t>(r);
    from.Put(out.places[index], Values(round.rank, r, out.lengths[index] * kIntegers));
    parts.emplace_back(in.places[index], Values(r, round.rank, in.lengths[index] * kIntegers));
  }
  MPI_Alltoallv(from.data(), out.lengths.data(), out.places.data(), from.type(), to.data(), in.lengths.data(),
                in.places.data(), to.type(), round.comm);
  to.Expect(parts, "MPI_Alltoallv");
}

// In place, two ranks exchange blocks of one length.
void AlltoallvInPlace(const VectorRound& round) {
  const auto layout = LayoutOf(round.ranks, [&](int rank) { return (rank + round.rank) % 3 * round.scale; });
  Memory memory(round.received, layout.total);
  Parts parts;
  for (int r = 0; r < round.ranks; ++r) {
    const auto index = static_cast<std::size_t>(r);
    memory.Put(layout.places[index], Values(round.rank, r, layout.lengths[index] * kIntegers));
    parts.emplace_back(layout.places[index], Values(r, round.rank, layout.lengths[index] * kIntegers));
  }
  MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, memory.data(), layout.lengths.data(),
                layout.places.data(), memory.type(), round.comm);
  memory.Expect(parts, "MPI_Alltoallv in place");
}

// What is sent and what is received alternate in one array.
void Alternating(const VectorRound& round) {
  std::vector<int> memory(static_cast<std::size_t>(2 * round.ranks)), lengths, places;
  for (int r = 0; r < round.ranks; ++r) {
    lengths.push_back(1);
    places.push_back(2 * r);
    memory[static_cast<std::size_t>(2 * r)] = Sent(round.rank, r, 0);
  }
  MPI_Alltoallv(memory.data(), lengths.data(), places.data(), MPI_INT, memory.data() + 1, lengths.data(), places.data(),
                MPI_INT, round.comm);
  for (int r = 0; r < round.ranks; ++r) {
    Require(memory[static_cast<std::size_t>(2 * r + 1)] == Sent(r, round.rank, 0), "MPI_Alltoallv in alternate places");
  }
}

// What a rank contributes lies in a gap between the blocks that it receives, beside its own or another's.
void FromAGap(const VectorRound& round) {
  const int rows = round.scale;
  const auto length = [&](int rank) { return (round.even ? 1 : rank % 2 + 1) * rows; };
  std::vector<int> memory(static_cast<std::size_t>(4 * rows * round.ranks), -1), lengths, places;
  for (int r = 0; r < round.ranks; ++r) {
    lengths.push_back(length(r));
    places.push_back(4 * rows * r);
  }
  for (int gap = 0; gap < round.ranks; ++gap) {
    int* const own = memory.data() + 4 * rows * gap + 2 * rows;
    const auto values = Values(round.rank, gap, length(round.rank));
    std::copy(values.begin(), values.end(), own);
    MPI_Allgatherv(own, length(round.rank), MPI_INT, memory.data(), lengths.data(), places.data(), MPI_INT, round.comm);
    for (int r = 0; r < round.ranks; ++r) {
      const auto right = Values(r, gap, length(r));
      Require(std::equal(right.begin(), right.end(), memory.data() + 4 * rows * r), "MPI_Allgatherv from a gap");
    }
  }
}

}  // namespace

void CheckVectors(MPI_Comm comm) {
  const int rank = RankOf(comm), ranks = RanksOf(comm);
  auto shapes = MakeShapes();
  const auto kinds = shapes.size();
  for (const int scale : {1, 200}) {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      const VectorRound round{comm,
                              rank,
                              ranks,
                              shapes[(kind + static_cast<std::size_t>(rank)) % kinds],
                              shapes[(kind + 2 * static_cast<std::size_t>(rank) + 1) % kinds],
                              scale,
                              kind % 2 == 0};
      const int root = static_cast<int>(kind) % ranks;
      for (const bool in_place : {false, true}) {
        Allgatherv(round, in_place);
        Gatherv(round, root, in_place);
        Scatterv(round, root, in_place);
      }
      Alltoallv(round);
      AlltoallvInPlace(round);
      Alternating(round);
      FromAGap(round);
    }
  }
  for (auto& shape : shapes) MPI_Type_free(&shape.type);
}

}  // namespace tutti::pmpi_test
