// The ranks of a job as a grid with named axes, and the groups along them: PyTorch's DeviceMesh.
//
//   DeviceMesh mesh(world, {{"dp", 2}, {"tp", 4}});
//   mesh.group("tp").all_reduce(...);        // with the three others of this rank's row
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/parallel/mesh_layout.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

class TUTTI_API DeviceMesh {
 public:
  // Throws Error naming both values unless the axes' sizes multiply to the world's. `config`: how the groups'
  // communicators are made; `name` is the prefix of their names. `world` outlives this.
  DeviceMesh(ProcessGroup& world, MeshLayout layout, const tuttiConfig_t& config = TUTTI_CONFIG_INITIALIZER,
             std::string name = "");

  int size(const std::string& axis) const { return layout_.size(axis); }
  // The ranks that share all other coordinates with this rank. Lives as long as this.
  ProcessGroup& group(const std::string& axis) { return flattened({axis}); }
  // The group along several axes, as if they were one.
  ProcessGroup& flattened(const std::vector<std::string>& axes);

  // Closes all groups.
  void close();

  // Payload that this rank has sent by each group.
  std::map<std::string, std::uint64_t> bytes_sent() const;

 private:
  ProcessGroup& world_;
  MeshLayout layout_;
  tuttiConfig_t config_;
  std::string name_;
  std::map<std::string, std::unique_ptr<ProcessGroup>> groups_;
};

}  // namespace tutti::parallel
