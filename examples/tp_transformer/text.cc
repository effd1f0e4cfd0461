#include "text.h"

#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <vector>

namespace tp {

Text::Text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read the text " + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};

  const std::set<char> characters(text.begin(), text.end());
  vocabulary_size_ = static_cast<int64_t>(characters.size());
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (char c : text) ids.push_back(std::distance(characters.begin(), characters.find(c)));
  tokens_ = torch::tensor(ids, torch::kInt64);
}

Batch Text::Sample(int64_t batch, int64_t context) const {
  TORCH_CHECK(tokens_.numel() > context, "the text is shorter than ", context + 1, " characters");
  const auto starts = torch::randint(tokens_.numel() - context, {batch, 1}, torch::kInt64);
  const auto positions = starts + torch::arange(context);
  return {tokens_.index({positions}), tokens_.index({positions + 1})};
}

}  // namespace tp
