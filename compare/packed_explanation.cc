#include "compare/packed_explanation.h"

#include "compare/packer.h"

namespace tdump::compare {
namespace {

template <class Archive, class Level>
void WalkLevel(Archive* archive, Level* level) {
  auto& [power, peak, gain, common] = *level;
  (*archive)(power, peak, gain, common);
}

// All fields, as in packed_metrics.cc.
template <class Archive, class E>
void WalkExplanation(Archive* archive, E* explanation) {
  auto& [in, in_known, bound, sum, within, follows] = *explanation;
  WalkLevel(archive, &in);
  WalkLevel(archive, &bound);
  (*archive)(in_known, within, follows, sum.terms, sum.rms, sum.error);
}

}  // namespace

std::string Packing<std::optional<Explanation>>::Pack(
    const std::optional<Explanation>& explanation) {
  if (!explanation) return "";
  Packer packer;
  WalkExplanation(&packer, &*explanation);
  return packer.Bytes();
}

std::optional<Explanation> Packing<std::optional<Explanation>>::Unpack(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  Explanation explanation;
  Unpacker unpacker(bytes);
  WalkExplanation(&unpacker, &explanation);
  return explanation;
}

}  // namespace tdump::compare
