// Algorithms from a file: schedules that others wrote, in the XML format of MSCCL programs.
//
//   <algo name coll nchunksperloop ngpus inplace>     coll: allreduce, reducescatter, allgather, alltoall, broadcast,
//     <gpu id i_chunks o_chunks s_chunks>             reduce, gather, scatter (these may have a root)
//       <tb id send recv chan>                        send, recv: the peers, -1 for none
//         <step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep/>
//
// A thread block becomes a lane, (peer, chan) a connection, a chunk of the file a block; there is one channel. The
// steps `s r rcs rrs rrc rrcs cpy re` become the step they describe, cnt of them for cnt chunks; `nop` and the
// dependency (depid, deps) become after(). A program uses its buffers i, o and s freely, while a schedule only reads
// its input. So what a program writes to i, or to an o that the caller does not have, lies in scratch or, in a program
// for in-place calls (inplace="1"), in the output.
//
// Prove checks whether a program is right.
//
// Thread-safety: value types, pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "transports/ring/layout.h"

namespace tutti::msccl {

struct Program {
  std::string name;
  // Also works where input and output are the same memory. Read from the file, which must keep that promise; Prove also
  // sets it where the file makes none.
  bool in_place = false;
  std::vector<schedule::Schedule> ranks;
};

// Throws tuttiInvalidArgument with the file's line and the reason if this is no such program, is larger than can be
// checked, or a step adds a contribution that is there already. `name` stands in messages.
Program ParseProgram(std::string_view text, const std::string& name);
// The program's number of ranks; reads nothing else of it.
int RanksOfProgram(std::string_view text, const std::string& name);
// As ParseProgram, for a file; also throws if it cannot be read.
Program ReadProgram(const std::string& path);

// nullopt: the program does what its collective promises wherever connections have `slot_depth` slots or more. Marks
// whether it works in place and where its slots may refer to memory, and gives every chunk scratch of its own if less
// does not suffice. Otherwise the reason, which may be that the proof costs too much. REQUIRES: slot_depth >= 1.
std::optional<std::string> Prove(Program& program, int slot_depth = ring::kBulkDepth);

}  // namespace tutti::msccl
