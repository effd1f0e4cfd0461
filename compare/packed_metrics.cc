#include "compare/packed_metrics.h"

#include "compare/packer.h"

namespace tdump::compare {
namespace {

// All fields of each struct, so that a new one does not compile until it is added.
template <class Archive, class W>
void WalkWorst(Archive* archive, W* worst) {
  auto& [position, a, b] = *worst;
  (*archive)(position, a, b);
}

template <class Archive, class C>
void WalkChannel(Archive* archive, C* channel) {
  auto& [index, mean_error] = *channel;
  (*archive)(index, mean_error);
}

template <class Archive, class M>
void WalkMetrics(Archive* archive, M* metrics) {
  auto& [elements, bits_equal, within, compared, max_abs, max_abs_text, max_rel, mean_abs, mean_rel,
         mean_error, rmse, cosine, sqnr_db, max_ulp, ulp, p50, p90, p99, p999, worst_channel,
         channels, rms_in_common, rms_a, rms_b, bound_abs, nan_a, nan_b, inf_a, inf_b, nan_mismatch,
         inf_mismatch, sign_mismatch, zero_sign_mismatch, numeric, has_worst, worst,
         worst_relative] = *metrics;
  (*archive)(elements, bits_equal, within, compared, max_abs, max_abs_text, max_rel, mean_abs,
             mean_rel, mean_error, rmse, cosine, sqnr_db, max_ulp, ulp, p50, p90, p99, p999,
             channels, rms_in_common, rms_a, rms_b, bound_abs, nan_a, nan_b, inf_a, inf_b,
             nan_mismatch, inf_mismatch, sign_mismatch, zero_sign_mismatch, numeric, has_worst);
  archive->Optional(&worst_channel, [&](auto* set) { WalkChannel(archive, set); });
  WalkWorst(archive, &worst);
  archive->Optional(&worst_relative, [&](auto* set) { WalkWorst(archive, set); });
}

}  // namespace

std::string Packing<Metrics>::Pack(const Metrics& metrics) {
  Packer packer;
  WalkMetrics(&packer, &metrics);
  return packer.Bytes();
}

Metrics Packing<Metrics>::Unpack(std::string_view bytes) {
  Metrics metrics;
  if (bytes.empty()) return metrics;
  Unpacker unpacker(bytes);
  WalkMetrics(&unpacker, &metrics);
  return metrics;
}

}  // namespace tdump::compare
