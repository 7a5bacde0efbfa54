#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

namespace train_lm {

Text::Text(const std::string& folder, std::size_t sequence) : sequence_(sequence) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    text_.append(std::istreambuf_iterator<char>(stream), {});
  }
  if (text_.size() <= sequence) {
    throw std::runtime_error(
        fmt::format("the readable files in {} have {} bytes, but a sequence needs {}: name another folder with --text",
                    folder, text_.size(), sequence + 1));
  }
}

void Text::sample(std::size_t step, std::size_t sample, std::int32_t* ids, std::int32_t* targets,
                  std::size_t stride) const {
  std::seed_seq seed{step, sample};
  std::mt19937 random(seed);
  const std::size_t begin = random() % (text_.size() - sequence_);
  for (std::size_t i = 0; i < sequence_; ++i) {
    ids[i * stride] = static_cast<unsigned char>(text_[begin + i]);
    targets[i * stride] = static_cast<unsigned char>(text_[begin + i + 1]);
  }
}

}  // namespace train_lm
