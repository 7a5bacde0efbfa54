// The commands and options of a program as data, from which completion and man pages are made. So these say what --help
// says.
//
// Thread-safety: value types.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::command_line {

struct OutlinedOption {
  std::vector<std::string> names;  // "-b", "--minbytes"; a positional's single name: "files"
  bool positional = false;
  bool required = false;
  bool takes_value = true;
  bool takes_several = false;
  std::vector<std::string> words = {};  // the values that it takes; empty: any
  std::string fallback = {};            // its value if it is not given, where --help tells
  std::string about = {};
};

struct OutlinedCommand {
  std::string name;  // "tutti", "tutti show"
  std::string about;
  std::vector<OutlinedOption> options;
  std::vector<OutlinedCommand> commands = {};

  // The last word of the name: "show".
  std::string word() const { return name.substr(name.rfind(' ') + 1); }
};

OutlinedCommand OutlineOf(const CLI::App& app);

}  // namespace tutti::command_line
