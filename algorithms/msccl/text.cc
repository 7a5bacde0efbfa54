#include "algorithms/msccl/text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tutti::msccl {
namespace {

constexpr std::array<Instruction::Operation, 9> kOperations = {{
    {"s", false, true, false, true},      // send
    {"r", true, false, true, false},      // receive
    {"rcs", true, false, true, true},     // receive, copy, send
    {"rrs", true, true, false, true},     // receive, reduce, send
    {"rrc", true, true, true, false},     // receive, reduce, copy
    {"rrcs", true, true, true, true},     // receive, reduce, copy, send
    {"cpy", false, true, true, false},    // copy
    {"re", false, true, true, false},     // add to
    {"nop", false, false, false, false},  // wait only
}};

int Required(const xml::XmlElement& element, const char* attribute, int low, int high) {
  return static_cast<int>(element.RequiredInteger(attribute, low, high));
}

int Optional(const xml::XmlElement& element, const char* attribute, int low, int high, int fallback) {
  return static_cast<int>(element.Integer(attribute, low, high, fallback));
}

// The element's children, all named `name`, in the order of the numbers that they carry.
std::vector<xml::XmlElement> Numbered(const xml::XmlElement& parent, std::string_view name, const char* number,
                                      int most) {
  auto children = parent.children();
  if (std::ssize(children) > most)
    parent.Refuse("<{}> has {} <{}>; the limit is {}", parent.name(), children.size(), name, most);
  std::vector<const xml::XmlElement*> by_number(children.size());
  for (const xml::XmlElement& child : children) {
    if (child.name() != name)
      child.Refuse("<{}> in <{}>, where only <{}> is allowed", child.name(), parent.name(), name);
    auto& place = by_number[Required(child, number, 0, static_cast<int>(children.size()) - 1)];
    if (place != nullptr) child.Refuse("more than one <{}> with {}={}", name, number, child.Text(number));
    place = &child;
  }
  std::vector<xml::XmlElement> sorted;
  for (const xml::XmlElement* child : by_number) sorted.push_back(*child);
  return sorted;
}

int RanksIn(const xml::XmlElement& root) {
  if (root.name() != "algo") root.Refuse("<{}> where <algo> is expected", root.name());
  return Required(root, "ngpus", 1, kMaxProgramRanks);
}

class Reader {
 public:
  explicit Reader(const xml::XmlElement& root) {
    if (root.name() != "algo") root.Refuse("<{}> where <algo> is expected", root.name());
    text_.name = root.Text("name", "unnamed");
    const auto word = root.RequiredText("coll");
    const auto collective = ScheduledCollectiveNamed(word);
    if (!collective) {
      root.Refuse("coll must be allreduce, reducescatter, allgather, alltoall, broadcast, reduce, gather or scatter");
    }
    text_.collective = *collective;
    const int n = nranks_ = RanksIn(root);
    text_.root = Optional(root, "root", 0, n - 1, 0);
    text_.blocks = Required(root, "nchunksperloop", 1, kMaxProgramBlocks);
    CountChunks(root, 2 * n * text_.blocks);  // 16 Mi at most
    if (schedule::HasBlocksOfRanks(text_.collective) && text_.blocks % n != 0) {
      root.Refuse("nchunksperloop is {}, which is not a multiple of the {} GPUs", text_.blocks, n);
    }
    text_.in_place = Optional(root, "inplace", 0, 1, 0) == 1;
    const auto gpus = Numbered(root, "gpu", "id", kMaxProgramRanks);
    if (std::ssize(gpus) != n) root.Refuse("{} <gpu> elements, but ngpus is {}", gpus.size(), n);
    for (const xml::XmlElement& gpu : gpus) ReadRank(gpu);
  }

  ProgramText text() && { return std::move(text_); }

 private:
  void CountChunks(const xml::XmlElement& element, int more) {
    chunks_ += more;
    if (chunks_ <= kMaxProgramChunks) return;
    element.Refuse("the GPUs' buffers have at least {} chunks in total; the limit is {}", chunks_, kMaxProgramChunks);
  }

  int BlocksIn(Buffer buffer) const {
    if (buffer == Buffer::scratch) return text_.ranks.back().scratch;
    const Pattern& pattern = PatternOf(text_.collective);
    const Side& side = buffer == Buffer::input ? pattern.input : pattern.output;
    return side.part == Part::own ? text_.blocks / nranks_ : text_.blocks;
  }

  void ReadRank(const xml::XmlElement& gpu) {
    ProgramRank& rank = text_.ranks.emplace_back();
    rank.scratch = Optional(gpu, "s_chunks", 0, kMaxProgramBlocks, 0);
    CountChunks(gpu, rank.scratch);
    for (const auto& [attribute, buffer] :
         {std::pair{"i_chunks", Buffer::input}, std::pair{"o_chunks", Buffer::output}}) {
      Optional(gpu, attribute, 0, BlocksIn(buffer), 0);
    }
    const auto blocks = Numbered(gpu, "tb", "id", kMaxProgramLaneSteps);
    thread_blocks_ += static_cast<int>(blocks.size());
    if (thread_blocks_ > kMaxProgramThreadBlocks) {
      gpu.Refuse("at least {} thread blocks; the limit for all GPUs is {}", thread_blocks_, kMaxProgramThreadBlocks);
    }
    for (const xml::XmlElement& block : blocks) ReadThreadBlock(block, rank);
    for (const ThreadBlock& block : rank.thread_blocks) {
      for (const Instruction& step : block.steps) CheckAwaited(rank, block, step);
    }
  }

  void ReadThreadBlock(const xml::XmlElement& element, ProgramRank& rank) {
    ThreadBlock& block = rank.thread_blocks.emplace_back();
    block.send = Optional(element, "send", -1, nranks_ - 1, -1);
    block.receive = Optional(element, "recv", -1, nranks_ - 1, -1);
    block.connection = Optional(element, "chan", 0, kMaxProgramConnections - 1, 0);
    text_.connections = std::max(text_.connections, block.connection + 1);
    if (nranks_ * nranks_ * text_.connections > kMaxProgramWays) {
      element.Refuse("chan is {}; with {} GPUs there can be {} channels", block.connection, nranks_,
                     kMaxProgramWays / (nranks_ * nranks_));
    }
    int lane_steps = 0;
    for (const xml::XmlElement& step : Numbered(element, "step", "s", kMaxProgramLaneSteps)) {
      block.steps.push_back(ReadStep(step, block));
      lane_steps += block.steps.back().count;
      steps_ += block.steps.back().count;
      if (lane_steps > kMaxProgramLaneSteps || steps_ > kMaxProgramSteps) {
        step.Refuse("too many steps: counted per chunk, a thread block can have {} and a program {}",
                    kMaxProgramLaneSteps, kMaxProgramSteps);
      }
    }
  }

  Instruction ReadStep(const xml::XmlElement& element, const ThreadBlock& block) const {
    const auto word = element.RequiredText("type");
    const auto known = std::ranges::find(kOperations, word, &Instruction::Operation::name);
    if (known == kOperations.end()) element.Refuse("type must be s, r, rcs, rrs, rrc, rrcs, cpy, re or nop");
    Instruction step{&*known, {}, {}, 1, -1, -1, false, element};
    if (step.operation->sends && block.send == -1)
      element.Refuse("\"{}\" in a thread block that has no rank to send to", word);
    if (step.operation->receives && block.receive == -1) {
      element.Refuse("\"{}\" in a thread block that has no rank to receive from", word);
    }
    step.count = Optional(element, "cnt", step.is_nop() ? 0 : 1, text_.blocks, 1);
    if (step.operation->reads) step.source = ReadRange(element, "srcbuf", "srcoff", step.count);
    if (step.operation->writes) step.destination = ReadRange(element, "dstbuf", "dstoff", step.count);
    step.awaited_block = Optional(element, "depid", -1, kMaxProgramLaneSteps, -1);
    step.awaited_step = Optional(element, "deps", -1, kMaxProgramLaneSteps, -1);
    step.is_awaited = Optional(element, "hasdep", 0, 1, 0) == 1;
    return step;
  }

  Instruction::Range ReadRange(const xml::XmlElement& element, const char* buffer, const char* offset,
                               int count) const {
    const auto word = element.RequiredText(buffer);
    if (word != "i" && word != "o" && word != "s") element.Refuse("{} must be i, o or s", buffer);
    Instruction::Range range{word == "i" ? Buffer::input : word == "o" ? Buffer::output : Buffer::scratch};
    const int blocks = BlocksIn(range.buffer);
    if (count > blocks) element.Refuse("the step uses {} chunks of a buffer that has {}", count, blocks);
    range.first = Required(element, offset, 0, blocks - count);
    return range;
  }

  static void CheckAwaited(const ProgramRank& rank, const ThreadBlock& block, const Instruction& step) {
    if (step.awaited_block == -1 || step.awaited_step == -1) return;
    if (step.awaited_block >= std::ssize(rank.thread_blocks) ||
        step.awaited_step >= std::ssize(rank.thread_blocks[step.awaited_block].steps)) {
      step.element.Refuse("a dependency on step {} of thread block {}, which does not exist", step.awaited_step,
                          step.awaited_block);
    }
    const ThreadBlock& awaited = rank.thread_blocks[step.awaited_block];
    const auto place = &step - block.steps.data();
    if (&awaited == &block && step.awaited_step >= place) {
      step.element.Refuse("a dependency on step {} of its own thread block, which is not an earlier step",
                          step.awaited_step);
    }
    if (!awaited.steps[step.awaited_step].is_awaited) {
      step.element.Refuse(
          "a dependency on step {} of thread block {}, which does not signal its completion (hasdep=\"0\")",
          step.awaited_step, step.awaited_block);
    }
  }

  ProgramText text_{};
  int nranks_ = 1;
  int steps_ = 0;
  int chunks_ = 0;
  int thread_blocks_ = 0;
};

}  // namespace

int ReadProgramRanks(const xml::XmlDocument& document) { return RanksIn(document.root()); }

ProgramText ReadProgramText(const xml::XmlDocument& document) { return Reader(document.root()).text(); }

}  // namespace tutti::msccl
