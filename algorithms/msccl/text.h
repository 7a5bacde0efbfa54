// A program's file (program.h) as plain data, with every number in its bounds.
//
// Thread-safety: value types; they refer to the XmlDocument they were read from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "topology/xml/xml_element.h"

namespace tutti::msccl {

// The most ranks that can be checked in reasonable time and memory: connections grow with their square.
inline constexpr int kMaxProgramRanks = 256;
inline constexpr int kMaxProgramConnections = 32;  // MSCCL's own bound of channels
// Schedules number blocks and steps with 16 bits.
inline constexpr int kMaxProgramBlocks = 16'384;
inline constexpr int kMaxProgramLaneSteps = 32'767;
// An all-to-all between 256 GPUs that sends each block by itself has 130,816 steps; a step takes some 300 bytes.
inline constexpr int kMaxProgramSteps = 1 << 17;
// Chunks of all GPUs together. The same all-to-all through scratch has 196,608 chunks; a chunk takes some 200 bytes
// during a proof.
inline constexpr int kMaxProgramChunks = 1 << 18;
// Thread blocks of all GPUs: 16 on each of 256. A proof keeps a clock for each, with an entry for every other one.
inline constexpr int kMaxProgramThreadBlocks = 4096;
// Ordered pairs of GPUs, times channels: 256 GPUs may have 4 channels, 90 GPUs all 32.
inline constexpr int kMaxProgramWays = 1 << 18;

enum class Buffer { input, output, scratch };

struct Instruction {
  struct Operation {
    std::string_view name;
    bool receives, reads, writes, sends;
  };
  struct Range {
    Buffer buffer = Buffer::scratch;
    int first = 0;
  };

  const Operation* operation;
  Range source, destination;  // where the operation reads and writes
  int count = 1;              // chunks
  int awaited_block = -1;     // thread block and step that must be done; -1: none
  int awaited_step = -1;
  bool is_awaited = false;  // by some other thread block
  xml::XmlElement element;

  bool is_nop() const { return !operation->receives && !operation->reads; }
};

struct ThreadBlock {
  int send = -1;
  int receive = -1;
  int connection = 0;
  std::vector<Instruction> steps;
};

struct ProgramRank {
  int scratch = 0;
  std::vector<ThreadBlock> thread_blocks;
};

struct ProgramText {
  std::string name;
  schedule::Collective collective;
  int root = 0;
  int blocks = 1;
  int connections = 1;
  bool in_place = false;
  std::vector<ProgramRank> ranks;
};

// The program's number of GPUs. A program for another number of GPUs need not be read any further.
int ReadProgramRanks(const xml::XmlDocument& document);

// Throws tuttiInvalidArgument with file, line and reason. REQUIRES: document outlives the result.
ProgramText ReadProgramText(const xml::XmlDocument& document);

}  // namespace tutti::msccl
